"""Calls to a tfjit task of another host by frames over TCP.

A task listens at a second port of its interface. It tells that port and a token to clients that
reach it over gRPC (`invite`), and turns away those that do not know the token. Elements of arrays
go from the memory of one task into that of the other without a copy in between, and a message
changes threads once on its way. Where the port cannot be reached, gRPC serves on.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tfjit.distributed.channels.local_channel import (
    HELLO_S,
    VERSION,
    LocalChannel,
    NotLocal,
    read_greeting,
)
from tfjit.distributed.parcels.frames import HELLO, BrokenConnection, Connection
from tfjit.framework import errors

log: Final = logging.getLogger("tfjit.distributed")

LARGE: Final = 16 << 20
"""Arrays of as many bytes have their own connection.

Short messages do not wait for them.
"""
_ASK_AGAIN_S: Final = 30.0
# silent connections are probed: networks forget them, and hosts vanish without a word
_IDLE_S, _PROBE_S, _PROBES = 30, 10, 3


@dataclass(frozen=True, slots=True)
class Invitation:
    """The port of direct connections and the token to show there."""

    port: int
    token: str

    def encode(self) -> bytes:
        """Return the bytes of an answer."""
        return json.dumps({"port": self.port, "token": self.token}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Invitation:
        """Return the invitation in an answer. Raises ValueError for other bytes."""
        try:
            found = json.loads(data)
        except RecursionError as error:
            raise ValueError(str(error)) from None
        if not isinstance(found, dict):
            raise ValueError("no invitation")
        port, token = found.get("port"), found.get("token")
        if type(port) is not int or not 0 < port < 1 << 16 or type(token) is not str:
            raise ValueError("no invitation")
        return cls(port, token)


def prepare(made: socket.socket) -> None:
    """Set the options of a direct connection's socket. Raises OSError."""
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _IDLE_S),
        ("TCP_KEEPINTVL", _PROBE_S),
        ("TCP_KEEPCNT", _PROBES),
    ):
        if hasattr(socket, name):  # not on each system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def greet_client(connection: Connection, token: str) -> dict[str, Any]:
    """Return the greeting of a client that knows the token; answer it.

    Raises BrokenConnection for another one.
    """
    about = read_greeting(connection)
    shown = about.get("token")
    known = token.encode()
    if type(shown) is not str or not hmac.compare_digest(shown.encode(errors="replace"), known):
        raise BrokenConnection("the client does not know the token")
    connection.is_greeted = True
    connection.send(HELLO, VERSION, 0, b"{}")
    return about


class DirectChannel(LocalChannel):
    """Call the services of a tfjit task by frames over TCP. Thread-safe.

    broken: the task has gone. Raises NotLocal where it cannot be reached.
    """

    def __init__(self, address: str, invitation: Invitation) -> None:
        self._invitation = invitation
        self._large: DirectChannel | None = None
        super().__init__(address)

    def _open(self) -> Connection:
        made = socket.create_connection((self._host.strip("[]"), self._invitation.port), HELLO_S)
        try:
            prepare(made)
        except OSError:
            made.close()
            raise
        return Connection(made)

    def _greet(self, connection: Connection, about: dict[str, Any]) -> None:
        shown = {**about, "token": self._invitation.token}
        connection.send(HELLO, VERSION, 0, json.dumps(shown).encode())
        read_greeting(connection)
        connection.is_greeted = True

    def of_size(self, size: int) -> DirectChannel:
        """Return the channel for arrays of a size in bytes."""
        if size < LARGE:
            return self
        with self._lock:
            if self._closed:
                return self
            if self._large is None or self._large.is_lost:
                try:
                    self._large = DirectChannel(self.address, self._invitation)
                except NotLocal:
                    return self
            return self._large

    def retire(self) -> None:
        super().retire()
        if self._large is not None:
            self._large.retire()

    def close(self) -> None:
        super().close()
        if self._large is not None:
            self._large.close()


class DirectSearch:
    """Look for the direct channel to a task, in the background. Thread-safe.

    invite: asks the task, which is known to be tfjit's, for an invitation's bytes.
    """

    def __init__(self, address: str, invite: Callable[[], bytes]) -> None:
        self._address, self._invite = address, invite
        self._lock = threading.Lock()
        self._found: DirectChannel | None = None
        self._looks = self._closed = False
        self._again_s = 0.0

    def find(self) -> DirectChannel | None:
        """Return the channel, or None until there is one.

        A channel that is lost, or was not found a while ago, is looked for.
        """
        found = self._found
        if found is not None and not found.is_lost:
            return found
        if self._looks or time.monotonic() < self._again_s:
            return None
        with self._lock:
            if self._looks or self._closed or self._found is not found:
                return self._found  # another thread was faster
            self._found, self._looks = None, True
        if found is not None:
            found.retire()
        try:
            threading.Thread(target=self._look, name="tfjit-direct-channel", daemon=True).start()
        except RuntimeError:  # no thread is left
            self._end(None)
        return None

    def _look(self) -> None:
        made = None
        try:
            made = DirectChannel(self._address, Invitation.decode(self._invite()))
        except (ValueError, NotLocal, errors.OpError) as error:
            log.info("%s: calls go through gRPC: %s", self._address, error)
        self._end(made)

    def _end(self, made: DirectChannel | None) -> None:
        """End a search with its result."""
        with self._lock:
            self._looks = False
            self._again_s = 0.0 if made is not None else time.monotonic() + _ASK_AGAIN_S
            if not self._closed:
                self._found, made = made, None
        if made is not None:
            made.close()

    def close(self) -> None:
        """Disconnect, and look no more."""
        with self._lock:
            self._closed = True
            found, self._found = self._found, None
        if found is not None:
            found.close()


__all__ = ["LARGE", "DirectChannel", "DirectSearch", "Invitation", "greet_client", "prepare"]
