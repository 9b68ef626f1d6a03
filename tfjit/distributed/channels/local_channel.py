"""Calls to a task on the same host through a Unix socket.

A task that listens at a port also listens at an abstract Unix socket named after the port. A caller
of the same user that finds it there need not go through gRPC. `call` takes a connection for itself,
so that the answer arrives on the caller's thread; calls that are started share one connection with
a thread that reads. Arrays travel beside the messages (`parcels.py`, `frames.py`).
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tfjit.distributed.channels.shared_connection import Answered, Once, SharedConnection
from tfjit.distributed.parcels.answer_frames import answer
from tfjit.distributed.parcels.frames import (
    HELLO,
    REQUEST,
    BrokenConnection,
    Connection,
)
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol import methods
from tfjit.distributed.protocol.deadlines import Deadlines
from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.distributed.shared_memory.block_map import BlockName
from tfjit.distributed.shared_memory.block_pool import POOL
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager

VERSION: Final = 4
HELLO_S: Final = 2.0
"""The seconds that a greeting may take."""
_IDLE_CONNECTIONS: Final = 8


def socket_name(port: int) -> str:
    """Return the abstract name at which a task listens beside its port."""
    return f"\0tfjit/task/{port}"


def method_numbers() -> dict[tuple[str, str], int]:
    """Return the numbers of methods in frames, by service and name."""
    pairs = [
        (service, name)
        for service in (methods.MASTER, methods.WORKER, methods.PARCELS)
        for name in methods.method_names(service)
    ]
    return {pair: number for number, pair in enumerate(pairs)}


_NUMBERS: Final = method_numbers()


def shake_hands(connection: Connection, about: dict[str, Any]) -> dict[str, Any]:
    """Exchange greetings; find out whether the ends share memory.

    Raises BrokenConnection where the other end is none of tfjit's of this version and user.
    """
    if connection.peer_uid != os.getuid():
        raise BrokenConnection("the other end is another user's")
    block = connection.offer_block()
    greeting = {
        **about,
        "pool": POOL.name,
        "block": None if block is None else [block.file, block.number, block.capacity],
    }
    connection.send(HELLO, VERSION, 0, json.dumps(greeting).encode())
    theirs = read_greeting(connection)
    offered = theirs.get("block")
    reads = False
    if isinstance(offered, list) and len(offered) == 3 and all(type(n) is int for n in offered):
        reads = connection.can_read(str(theirs.get("pool")), BlockName(*offered))
    connection.send(HELLO, VERSION, 0, json.dumps({"reads": reads}).encode())
    if read_greeting(connection).get("reads") is True:
        connection.share_memory()
    else:
        connection.withdraw_block()
    return theirs


def read_greeting(connection: Connection) -> dict[str, Any]:
    """Return the other end's greeting. Raises BrokenConnection for another frame."""
    frame = connection.receive()
    if frame.kind != HELLO or frame.method != VERSION:
        raise BrokenConnection("no greeting of this version")
    try:
        found = json.loads(frame.message)
    except (ValueError, RecursionError):
        raise BrokenConnection("no greeting") from None
    if not isinstance(found, dict):
        raise BrokenConnection("no greeting")
    return found


def is_local(host: str, bound: str) -> bool:
    """Return whether a host's name leads to a server here.

    bound: the address of the server's interface, or "" or "0.0.0.0" for all.
    """
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host.strip("[]"), None)}
    except OSError:
        return False
    everywhere = bound.strip("[]") in ("", "0.0.0.0", "::")
    for address in found:
        if not everywhere and address != bound.strip("[]"):
            continue
        family = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))  # only an address of this host can be bound
            except OSError:
                continue
            return True
    return False


class NotLocal(Exception):
    """No task of this user listens at that port of this host."""


class LocalChannel:
    """Call the services of a task on this host by frames. Thread-safe.

    broken: the task has gone. Raises NotLocal where there is none.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._shared: SharedConnection | None = None
        self._calls = itertools.count(1)
        self._deadlines = Deadlines()
        self._closed = False
        self.broken = False
        try:
            self._idle.append(self._connect())
        except BrokenConnection as error:
            raise NotLocal(str(error)) from None

    def _connect(self, shares_calls: bool = False) -> Connection:
        """Return a new connection. Raises BrokenConnection.

        shares_calls: it will have several calls at once.
        """
        connection = None
        try:
            connection = self._open()
            self._greet(connection, {"shares_calls": shares_calls})
            connection.set_timeout(None)
        except (OSError, BrokenConnection) as error:
            if connection is not None:
                connection.close()  # with its block
            raise BrokenConnection(str(error)) from None
        return connection

    def _open(self) -> Connection:
        """Return a connection with a time limit, without a greeting.

        Raises OSError.
        """
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(HELLO_S)
            made.connect(socket_name(self._port))
        except OSError:
            made.close()
            raise
        return Connection(made)

    def _greet(self, connection: Connection, about: dict[str, Any]) -> None:
        """Greet the task. Raises BrokenConnection where another one answers."""
        theirs = shake_hands(connection, about)
        if not is_local(self._host, str(theirs.get("bound", ""))):
            raise BrokenConnection("the task at this port of the host is another one")

    @property
    def is_lost(self) -> bool:
        """Return whether a call or a connection says the task has gone."""
        if self.broken:
            return True
        with self._lock:
            shared = self._shared
            if shared is not None and shared.broken:
                return True
            return bool(self._idle) and self._idle[-1].has_ended

    def _take(self) -> Connection:
        with self._lock:
            if self._closed:
                raise BrokenConnection("the channel is closed")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def call(
        self,
        service: str,
        method: str,
        request: Parcel,
        timeout_s: float | None = None,
        cancellation: CancellationManager | None = None,
    ) -> Parcel:
        """Return the answer to a request, as `Channel.call` does."""
        number, call = _NUMBERS[service, method], next(self._calls)
        data = request.message.SerializeToString()
        try:
            connection = self._take()
        except BrokenConnection as error:
            raise self._unavailable(error) from None
        token = None
        ended_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            if cancellation is not None:
                # the other end sees that its client has gone
                token = cancellation.register(connection.interrupt)
                if token is None:
                    raise BrokenConnection("cancelled")
            connection.send(REQUEST, number, call, data, request.arrays, timeout_s)
            if timeout_s is not None:
                connection.set_timeout(timeout_s)
            frame = connection.receive()
            if timeout_s is not None:
                connection.set_timeout(None)
        except BrokenConnection as error:
            connection.close()
            if cancellation is not None and cancellation.cancelled:
                raise errors.CancelledError(None, None, f"{method} was cancelled.") from None
            if ended_s is not None and time.monotonic() >= ended_s:
                raise errors.DeadlineExceededError(None, None, "Deadline Exceeded") from None
            raise self._unavailable(error) from None
        except BaseException:  # an interrupt
            connection.close()
            raise
        finally:
            if cancellation is not None:
                cancellation.deregister(token)
        self._give_back(connection)
        return answer(method, frame)

    def start(
        self,
        service: str,
        method: str,
        request: Parcel,
        done: Answered,
        timeout_s: float | None = None,
        part: Callable[[Parcel], None] | None = None,
    ) -> Cancel:
        """Send a request.

        `done` gets the answer on a thread of the channel, `part` each part before the last.
        """
        number, call = _NUMBERS[service, method], next(self._calls)
        answered = Once(done, method, timeout_s, part)
        try:
            shared = self._share()
            shared.start(number, call, request, answered, timeout_s)
        except BrokenConnection as error:
            answered(self._unavailable(error), None)
            return _nothing

        def cancel() -> None:
            shared.cancel(number, call)
            answered(errors.CancelledError(None, None, f"{method} was cancelled."), None)

        answered.when_late(self._deadlines, lambda: shared.cancel(number, call))
        return cancel

    def _share(self) -> SharedConnection:
        with self._lock:
            if self._closed:
                raise BrokenConnection("the channel is closed")
            if self._shared is None or self._shared.broken:
                self._shared = SharedConnection(self._connect(shares_calls=True), self._unavailable)
            return self._shared

    def _unavailable(self, error: BaseException) -> errors.OpError:
        self.broken = True
        return errors.UnavailableError(
            None, None, f"{error}\nThe task at {self.address} cannot be reached."
        )

    def retire(self) -> None:
        """Disconnect when the waiting calls are over.

        Another channel takes the place.
        """
        shared = self._end()
        if shared is not None:
            shared.retire()

    def close(self) -> None:
        """Cancel all calls and disconnect."""
        shared = self._end()
        if shared is not None:
            shared.close()

    def _end(self) -> SharedConnection | None:
        """Close idle connections; return that of many calls.

        The channel takes no more calls.
        """
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            shared = self._shared
        for connection in idle:
            connection.close()
        return shared


def _nothing() -> None:
    """Cancel a call that is over."""


__all__ = [
    "HELLO_S",
    "VERSION",
    "LocalChannel",
    "NotLocal",
    "is_local",
    "method_numbers",
    "read_greeting",
    "shake_hands",
    "socket_name",
]
