"""Frames to a socket: whole, in order, from threads that never wait."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from typing import Final

_MAX_BUFFERS: Final = 1000  # of one system call

Buffers = list[bytes | memoryview]


class BrokenConnection(Exception):
    """The other end is gone, or sent what is no frame."""


class FrameWriter:
    """Write frames to a socket. Thread-safe."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._writing = threading.Lock()
        self._queued: deque[Buffers] = deque()
        self._notices: deque[bytes] = deque()
        self._broken = False

    def write(self, frame: Buffers) -> None:
        """Write a frame. Raises BrokenConnection."""
        with self._writing:
            self._write_queued()
            self._write(frame)
        self._go_on()

    def write_soon(self, frame: Buffers) -> None:
        """Write a frame behind those before it, and never wait.

        Raises BrokenConnection if the connection is known to be broken.
        """
        if self._broken:
            raise BrokenConnection("the connection is broken")
        self._queued.append(frame)
        self._go_on()

    def tell(self, notice: bytes) -> None:
        """Write a short frame at any place between the others.

        Callable wherever an array dies, in a thread that may hold the lock: it never waits.
        """
        self._notices.append(notice)
        self._go_on()

    def _write_queued(self) -> None:
        """Write the queued frames, with the lock held."""
        while self._queued:
            self._write(self._queued.popleft())

    def _go_on(self) -> None:
        """Write queued frames and notices.

        A thread that writes already does it. A frame that would have to wait goes to a thread, and
        the lock with it.
        """
        while (self._queued or self._notices) and self._writing.acquire(blocking=False):
            left: Buffers = []
            is_full = False
            try:
                while self._queued and not left:
                    left = self._write(self._queued.popleft(), socket.MSG_DONTWAIT)
                is_full = not left and not self._write_notices()
            except BrokenConnection:
                self._break()
            finally:
                if not left:
                    self._writing.release()
            if left:
                threading.Thread(target=self._write_rest, args=(left,), daemon=True).start()
                return
            if is_full and not self._queued:
                return  # the next frame is followed by the notices

    def _write_rest(self, left: Buffers) -> None:
        """Write the rest of a frame and the queue; release the lock."""
        try:
            self._write(left)
            self._write_queued()
        except BrokenConnection:
            self._break()
        finally:
            self._writing.release()
        self._go_on()

    def _break(self) -> None:
        """Give the queue up; the reading thread tells those that wait."""
        self._broken = True
        self._queued.clear()
        with contextlib.suppress(OSError):  # the other end was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def _write(self, buffers: Buffers, flags: int = 0) -> Buffers:
        """Write buffers; return what would have to wait, which only flags allow."""
        left = [memoryview(b) for b in buffers if len(b)]
        try:
            while left:
                sent = self._socket.sendmsg(left[:_MAX_BUFFERS], (), flags)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]
        except BlockingIOError:
            if not flags:  # the time limit of a socket
                raise BrokenConnection("the other end does not read") from None
        except OSError as error:
            raise BrokenConnection(str(error)) from None
        return list(left)

    def _write_notices(self) -> bool:
        """Write the notices, with the lock held; return whether all went."""
        try:
            while self._notices:
                notice = self._notices[0]
                if self._socket.send(notice, socket.MSG_DONTWAIT) != len(notice):
                    raise BrokenConnection("a frame was cut")
                self._notices.popleft()
        except BlockingIOError:
            return False
        except (OSError, BrokenConnection):
            self._notices.clear()
        return True


__all__ = ["BrokenConnection", "Buffers", "FrameWriter"]
