"""The rendezvous of sends and receives of a step in one process.

Keys have TensorFlow's form.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfjit.framework import errors, settings
from tfjit.framework.types.device_spec import DeviceSpec


@dataclass(frozen=True, slots=True)
class RendezvousKey:
    """The five parts of a key.

    incarnation: of the sending device. frame: "frame:iteration".
    """

    src_device: str
    src_incarnation: int
    dst_device: str
    edge_name: str
    frame: str = "0:0"

    def __str__(self) -> str:
        return create_key(
            self.src_device, self.src_incarnation, self.dst_device, self.edge_name, self.frame
        )


def create_key(
    src_device: str, src_incarnation: int, dst_device: str, edge_name: str, frame: str = "0:0"
) -> str:
    """Return "src;incarnation as 16 hex digits;dst;edge;frame:iteration"."""
    return (
        f"{src_device};{src_incarnation & 0xFFFFFFFFFFFFFFFF:016x};{dst_device};{edge_name};{frame}"
    )


def parse_key(key: str) -> RendezvousKey:
    """Return the parts of a key.

    Raises InvalidArgumentError when it is not of that form.
    """
    parts = key.split(";")
    try:
        if len(parts) != 5 or len(parts[1]) != 16:
            raise ValueError
        incarnation = int(parts[1], 16)
        DeviceSpec.from_string(parts[0])
        DeviceSpec.from_string(parts[2])
    except ValueError:
        raise errors.InvalidArgumentError(None, None, f"Invalid  rendezvous key: {key}") from None
    return RendezvousKey(parts[0], incarnation, parts[2], parts[3], parts[4])


# (exception, None, False) or (None, value, is_dead)
Received = Callable[[BaseException | None, Any, bool], None]


class Rendezvous(ABC):
    """Values by key, each sent once and received once."""

    @abstractmethod
    def send(self, key: str, value: Any, is_dead: bool = False) -> None:
        """Leave a value; never waits.

        Raises the error that the rendezvous was aborted with.
        """

    @abstractmethod
    def receive(self, key: str, done: Received) -> None:
        """Call `done` with the value, now or when it comes; never waits."""

    @abstractmethod
    def abort(self, error: BaseException) -> None:
        """Fail every waiting and later receive."""


class LocalRendezvous(Rendezvous):
    """A step's rendezvous in this process.

    Values of one key arrive in the order they were sent.
    """

    def __init__(self, logs: bool = False) -> None:
        """Make an empty rendezvous. logs: log sent and received values."""
        self._lock = threading.Lock()
        self._values: dict[str, deque[tuple[Any, bool]]] = {}
        self._waiters: dict[str, deque[Received]] = {}
        self._error: BaseException | None = None
        self.logs = logs

    def send(self, key: str, value: Any, is_dead: bool = False) -> None:
        if self.logs:
            settings.tell("rendezvous", "send %s%s", key, " (dead)" if is_dead else "")
        with self._lock:
            if self._error is not None:
                raise self._error
            waiters = self._waiters.get(key)
            if waiters:
                done = waiters.popleft()
                if not waiters:
                    del self._waiters[key]
            else:
                self._values.setdefault(key, deque()).append((value, is_dead))
                return
        done(None, value, is_dead)

    def receive(self, key: str, done: Received) -> None:
        if self.logs:
            settings.tell("rendezvous", "receive %s", key)
        with self._lock:
            error = self._error
            values = self._values.get(key)
            if error is None and not values:
                self._waiters.setdefault(key, deque()).append(done)
                return
            if values:
                value, is_dead = values.popleft()
                if not values:
                    del self._values[key]
        if error is not None:
            done(error, None, False)
        else:
            done(None, value, is_dead)

    def abort(self, error: BaseException) -> None:
        if self.logs:
            settings.tell("rendezvous", "aborted: %s", error)
        with self._lock:
            if self._error is None:
                self._error = error
            waiters = [done for queue in self._waiters.values() for done in queue]
            self._waiters.clear()
            self._values.clear()
        for done in waiters:
            done(error, None, False)

    def close(self) -> None:
        """Drop unreceived values, since the step has ended."""
        with self._lock:
            self._values.clear()
            self._waiters.clear()
            self._error = None  # its traceback may hold the owner of this rendezvous
