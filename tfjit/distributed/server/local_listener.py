"""Answer calls of this host's processes through a Unix socket.

The client's end is `channels/local_channel.py`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from tfjit.distributed.channels.local_channel import (
    HELLO_S,
    method_numbers,
    shake_hands,
    socket_name,
)
from tfjit.distributed.parcels.answer_frames import failure_message
from tfjit.distributed.parcels.frames import (
    ANSWER,
    CANCEL,
    FAILURE,
    PART,
    REQUEST,
    BrokenConnection,
    Connection,
    Frame,
)
from tfjit.distributed.parcels.parcel_bytes import encode as encode_bytes
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol import methods
from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.distributed.server.calls import (
    Call,
    Method,
    Reply,
    WaitingMethod,
    parsed,
    public,
)
from tfjit.distributed.server.client_watcher import ClientWatcher
from tfjit.distributed.server.thread_pool import ThreadPool

_BACKLOG: Final = 128
_NO_FILE_S: Final = 0.05
_MOST_STRANGERS: Final = 64
"""Connections without a greeting; each has a thread."""


class LocalListener:
    """Listen at the abstract socket of a port.

    Clients of other users are turned away.
    """

    def __init__(self, port: int, bound: str, pool: ThreadPool) -> None:
        """Bind the socket.

        bound: the address of the interface that the port is at. Raises OSError where the name is in
        use or the system has no such sockets.
        """
        self._bound = bound
        self._pool = pool
        self._socket = self._bind(port)
        self._lock = threading.Lock()
        self._clients: set[_Client] = set()
        self._strangers = threading.Semaphore(_MOST_STRANGERS)
        self._watcher = ClientWatcher()
        self._closed = False
        self.blocking: dict[int, tuple[Method, Any]] = {}
        self.waiting: dict[int, tuple[WaitingMethod, Any]] = {}

    def _bind(self, port: int) -> socket.socket:
        """Return a listening socket. Raises OSError."""
        return listening(socket.AF_UNIX, socket_name(port))

    def start(
        self,
        blocking: Mapping[str, Mapping[str, Method]],
        waiting: Mapping[str, Mapping[str, WaitingMethod]],
    ) -> None:
        """Answer calls from now on.

        blocking, waiting: the methods by service and name.
        """
        numbers = method_numbers()
        for service, found in blocking.items():
            for name, method in found.items():
                self.blocking[numbers[service, name]] = method, methods.request_class(name)
        for service, kept in waiting.items():
            for name, start in kept.items():
                self.waiting[numbers[service, name]] = start, methods.request_class(name)
        threading.Thread(target=self._accept, name="tfjit-local-clients", daemon=True).start()

    def _accept(self) -> None:
        while True:
            self._strangers.acquire()
            try:
                made, _ = self._socket.accept()
            except OSError:
                self._strangers.release()
                if self._closed:
                    return
                time.sleep(_NO_FILE_S)  # no file is left for one more client
                continue
            serving = threading.Thread(
                target=self._serve, args=(made,), name="tfjit-local-client", daemon=True
            )
            try:
                serving.start()
            except RuntimeError:  # no thread is left
                made.close()
                self._strangers.release()

    def _greet(self, connection: Connection, made: socket.socket) -> dict[str, Any]:
        """Return a client's greeting.

        Raises BrokenConnection for a stranger, OSError for a client that has gone.
        """
        return shake_hands(connection, {"bound": self._bound, "pid": os.getpid()})

    def _serve(self, made: socket.socket) -> None:
        """Greet a client and answer its calls until it goes."""
        connection = None
        try:
            made.settimeout(HELLO_S)
            connection = Connection(made)
            about = self._greet(connection, made)
            made.settimeout(None)
        except (OSError, BrokenConnection):
            made.close()
            if connection is not None:
                connection.close()  # with its block
            return
        finally:
            self._strangers.release()
        client = _Client(self, connection, made, about.get("shares_calls") is True)
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._clients.add(client)
        try:
            client.serve()
        finally:
            with self._lock:
                self._clients.discard(client)
            client.end()

    def close(self) -> None:
        """Turn new clients away and disconnect the others; their calls are cancelled."""
        with self._lock:
            self._closed = True
            clients = list(self._clients)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._strangers.release()  # for the thread that accepts
        for client in clients:
            client.connection.close()
        self._watcher.close()

    @property
    def pool(self) -> ThreadPool:
        """The threads for calls that block."""
        return self._pool

    @property
    def watcher(self) -> ClientWatcher:
        """The thread that sees clients go."""
        return self._watcher


def listening(family: int, address: Any) -> socket.socket:
    """Return a socket that listens.

    Raises OSError where the address cannot be bound.
    """
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


class _Client:
    """One connection.

    shares_calls: it has several calls at once, so that none may keep its reading thread.
    """

    def __init__(
        self,
        listener: LocalListener,
        connection: Connection,
        made: socket.socket,
        shares_calls: bool,
    ) -> None:
        self.listener, self.connection, self.socket = listener, connection, made
        self.shares_calls = shares_calls
        self.lock = threading.Lock()
        self.running: dict[int, LocalCall] = {}
        # the client of a single call reads until it has the answer
        self.send = connection.send_soon if shares_calls else connection.send

    def serve(self) -> None:
        """Answer calls until the client goes."""
        while True:
            try:
                frame = self.connection.receive()
            except BrokenConnection:
                return
            if frame.kind == CANCEL:
                with self.lock:
                    call = self.running.get(frame.call)
                if call is not None:
                    call.leave()
            elif frame.kind == REQUEST:
                self._begin(frame)
            else:
                return
            del frame

    def _begin(self, frame: Frame) -> None:
        known = self.listener.waiting.get(frame.method)
        if known is not None:
            self._start(known, frame)
            return
        answering = self.listener.blocking.get(frame.method)
        if answering is None:
            self.connection.close()
            return
        call = LocalCall(self, frame)
        with self.lock:
            self.running[frame.call] = call
        if self.shares_calls:
            self.listener.pool.submit(self._answer, answering, frame.message, call)
        else:
            self._answer(answering, frame.message, call)

    def _answer(self, answering: tuple[Method, Any], data: bytes, call: LocalCall) -> None:
        method, request_class = answering
        try:
            call.finish(method(_message(request_class, data), call))
        except BaseException as raised:
            call.refuse(raised)
        finally:
            call.end()

    def _start(self, known: tuple[WaitingMethod, Any], frame: Frame) -> None:
        method, request_class = known
        reply = LocalReply(self, frame)
        with self.lock:
            self.running[frame.call] = reply
        try:
            reply.started(method(_message(request_class, frame.message), reply))
        except BaseException as error:
            reply.fail(error)

    def end(self) -> None:
        """Cancel the calls of a client that has gone."""
        self.connection.close()
        with self.lock:
            calls = list(self.running.values())
        for call in calls:
            call.leave()


def _message(request_class: Any, data: bytes) -> Any:
    """Return the message of a request. Raises InvalidArgumentError for other bytes."""
    return parsed(request_class, data, lambda wanted, found: wanted.FromString(found))


class LocalCall(Call):
    """A call of a client on this host."""

    def __init__(self, client: _Client, frame: Frame) -> None:
        self._client, self._number = client, frame.call
        self._request = Parcel(None, list(frame.arrays))
        self._end_s = None if frame.limit_s is None else time.monotonic() + frame.limit_s
        self._parcel = Parcel(None)
        self._functions: list[Callable[[], None]] = []
        self._last = []
        self._gone = False
        self.is_over = False

    @property
    def deadline_s(self) -> float | None:
        """The seconds that the client still waits, or None for no limit."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())

    def is_active(self) -> bool:
        """Return whether the client still waits."""
        return not self._gone

    def when_gone(self, function: Callable[[], None]) -> None:
        """Run a function once the client has gone during the call."""
        client = self._client
        with client.lock:
            gone = self._gone
            if not gone and not self.is_over:
                self._functions.append(function)
        if gone:
            client.listener.pool.submit(function)
        elif not (client.shares_calls or self.is_over):  # its thread is busy with this call
            client.listener.watcher.add(client.socket, self.leave)

    def received(self, value: Any, is_dead: bool) -> Any:
        """Return the answer to RecvTensor."""
        from tfjit.protos import RecvTensorResponse

        answer = RecvTensorResponse(is_dead=is_dead)
        if not is_dead:
            self.fill(answer.tensor, value)
        return answer

    def leave(self) -> None:
        """Run the functions for a client that has gone."""
        with self._client.lock:
            self._gone = True
            functions, self._functions = self._functions, []
        if not self.is_over:
            for function in functions:
                self._client.listener.pool.submit(function)

    def _end(self) -> None:
        self.is_over = True
        client = self._client
        with client.lock:
            client.running.pop(self._number, None)
            watched = bool(self._functions) and not client.shares_calls
            self._functions = []  # they know this call: arrays would live until a collection
        if watched:
            client.listener.watcher.remove(client.socket)

    def finish(self, answer: Any) -> None:
        """Send the answer's message."""
        data, arrays = encode_bytes(Parcel(answer)), self._parcel.arrays
        self._parcel = self._request = Parcel(None)
        self._end()
        with contextlib.suppress(BrokenConnection):  # the client has gone
            self._client.send(ANSWER, 0, self._number, data, arrays)

    def refuse(self, raised: BaseException) -> None:
        """Send an error."""
        self._end()
        error = public(raised)
        with contextlib.suppress(BrokenConnection):  # the client has gone
            self._client.send(
                FAILURE, error.error_code & 0xFF, self._number, failure_message(error)
            )


class LocalReply(LocalCall, Reply):
    """The answer to a local call, given once, from any thread."""

    def __init__(self, client: _Client, frame: Frame) -> None:
        LocalCall.__init__(self, client, frame)
        self._given = threading.Lock()

    def give(self, encode: Callable[[], Any]) -> None:
        """Send a function's message, or the error that it raises."""
        with self._given:
            if self.is_over:
                return
            self.is_over = True
        try:
            answer = encode()
        except BaseException as error:
            self.refuse(error)
        else:
            self.finish(answer)

    def give_part(self, encode: Callable[[], Any]) -> None:
        """Send a function's message as a part; one part at a time."""
        with self._given:
            if self.is_over:
                return
        try:
            data, arrays = encode_bytes(Parcel(encode())), self._parcel.arrays
            self._parcel = Parcel(None)
            with contextlib.suppress(BrokenConnection):  # the client has gone
                self._client.send(PART, 0, self._number, data, arrays)
        except BaseException as error:
            self.fail(error)

    def buffer(self, value: np.ndarray) -> Any:
        """Return the answer to RecvBuf, with the elements beside it."""
        return self._beside(value)

    def started(self, cancel: Cancel) -> None:
        """Cancel the work once the client has gone."""
        if not self.is_over:
            self.when_gone(cancel)


__all__ = ["LocalCall", "LocalListener", "LocalReply", "listening"]
