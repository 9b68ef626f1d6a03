"""The end of clients whose threads are busy with their calls."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable


class ClientWatcher:
    """See clients go whose threads are busy with their calls."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._lock = threading.Lock()
        self._functions: dict[int, Callable[[], None]] = {}
        self._started = False
        self._wake_read, self._wake_write = os.pipe()
        self._poll.register(self._wake_read, select.EPOLLIN)

    def add(self, made: socket.socket, function: Callable[[], None]) -> None:
        """Call a function once when the other end closes a socket."""
        number = made.fileno()
        with self._lock:
            if number < 0:
                function()
                return
            fresh = number not in self._functions
            self._functions[number] = function
            flags = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLONESHOT
            with contextlib.suppress(FileExistsError):
                if fresh:
                    self._poll.register(number, flags)
            if not self._started:
                self._started = True
                threading.Thread(target=self._watch, name="tfjit-watcher", daemon=True).start()

    def remove(self, made: socket.socket) -> None:
        """Stop watching a socket."""
        with self._lock:
            number = made.fileno()
            if self._functions.pop(number, None) is not None:
                with contextlib.suppress(OSError):  # closed meanwhile
                    self._poll.unregister(number)

    def _watch(self) -> None:
        while True:
            for number, _ in self._poll.poll():
                if number == self._wake_read:
                    self._poll.close()
                    os.close(self._wake_read)
                    return
                with self._lock:
                    function = self._functions.pop(number, None)
                    with contextlib.suppress(OSError):
                        self._poll.unregister(number)
                if function is not None:
                    function()

    def close(self) -> None:
        """End the thread."""
        os.close(self._wake_write)  # the poll sees the end of the pipe
        if not self._started:
            self._poll.close()
            os.close(self._wake_read)


__all__ = ["ClientWatcher"]
