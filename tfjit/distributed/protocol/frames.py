"""Frames of a connection: a message and arrays beside it.

A frame is a header, a descriptor for each array, the message, and the arrays that are not in shared
memory. A local connection is a Unix socket, a direct one TCP.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.distributed.protocol.shared_memory import (
    MIN_BYTES,
    BlockName,
    Exporter,
    Importer,
    is_supported,
)

HELLO, REQUEST, ANSWER, FAILURE, CANCEL, RELEASE, FREED, PART = range(8)
_MAGIC: Final = 0x7F17
_HEADER: Final = struct.Struct(
    "<HBBIQQQ"
)  # magic, kind, method, arrays, call, message bytes, limit in us
_ARRAY: Final = struct.Struct("<QqQQ")  # bytes, block or -1, the block's file and capacity
_PEER: Final = struct.Struct("3i")  # pid, uid, gid
_MAX_ARRAYS: Final = 1 << 16
_MAX_BYTES: Final = 1 << 40
_MAX_GREETING: Final = 512
_MAX_LIMIT_US: Final = 1 << 60
_MAX_BUFFERS: Final = 1000  # of one system call


class BrokenConnection(Exception):
    """The other end is gone, or sent what is no frame."""


@dataclass(slots=True)
class Frame:
    """A message with arrays of bytes.

    kind: HELLO and so on. method: the number of a method. call: the caller's number of the call.
    limit_s: the time that the caller waits for an answer, in seconds, or None.
    """

    kind: int
    method: int
    call: int
    message: bytes
    arrays: Sequence[np.ndarray] = ()
    limit_s: float | None = None


class Connection:
    """Send and receive frames over a socket.

    Any thread may send; one at a time may receive. Arrays of 256 kB or more go through shared
    memory if both ends of a Unix socket have seen that it works. peer_uid: the user at the other
    end, None through TCP. is_greeted: longer frames than greetings are read.
    """

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._writing = threading.Lock()
        self.peer_uid: int | None = None
        self.shares_memory = False
        self._exporter: Exporter | None = None
        self._importer: Importer | None = None
        self.is_greeted = made.family == socket.AF_UNIX
        if self.is_greeted:
            peer_pid, self.peer_uid, _ = _PEER.unpack(
                made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            )
            self._importer = Importer(peer_pid, self._release)
        self._queued: deque[list[bytes | memoryview]] = deque()
        self._broken = False
        self._notices: deque[tuple[int, int]] = deque()  # (RELEASE or FREED, number of a block)
        self._buffer = bytearray(1 << 16)
        self._begin = self._end = 0

    # the probe of shared memory, in both directions

    def offer_block(self) -> BlockName | None:
        """Return a block for the other end to try, or None."""
        if not is_supported():
            return None
        try:
            if self._exporter is None:
                self._exporter = Exporter()
            return self._exporter.put(np.frombuffer(b"tfjit", np.uint8))
        except OSError:
            return None

    def can_read(self, name: BlockName) -> bool:
        """Return whether this process can read the other's blocks."""
        try:
            return self._imported(name, 5).tobytes() == b"tfjit"
        except (OSError, ValueError):
            return False

    # sending

    def send(
        self,
        kind: int,
        method: int,
        call: int,
        message: bytes = b"",
        arrays: Sequence[np.ndarray] = (),
        limit_s: float | None = None,
    ) -> None:
        """Send a frame; arrays are contiguous. Raises BrokenConnection."""
        buffers = self._frame(kind, method, call, message, arrays, limit_s)
        with self._writing:
            self._write_queued()
            self._write(buffers)
        self._send_queued()

    def send_soon(
        self,
        kind: int,
        method: int,
        call: int,
        message: bytes = b"",
        arrays: Sequence[np.ndarray] = (),
        limit_s: float | None = None,
    ) -> None:
        """Send a frame behind those before it, and never wait.

        For threads that read: two processes whose reading threads wait for the other one to read
        would wait for ever. Raises BrokenConnection if the connection is known to be broken.
        """
        if self._broken:
            raise BrokenConnection("the connection is broken")
        self._queued.append(self._frame(kind, method, call, message, arrays, limit_s))
        self._send_queued()

    def _write_queued(self) -> None:
        """Send the queued frames, with the lock held."""
        while self._queued:
            self._write(self._queued.popleft())

    def _send_queued(self) -> None:
        """Send queued frames and notices.

        A thread that sends already does it.

        A frame that would have to wait goes to a thread, and the lock with it.
        """
        while self._queued and self._writing.acquire(blocking=False):
            left: list[bytes | memoryview] = []
            try:
                while self._queued and not left:
                    left = self._write(self._queued.popleft(), socket.MSG_DONTWAIT)
            except BrokenConnection:
                self._break()
            finally:
                if not left:
                    self._writing.release()
            if left:
                threading.Thread(target=self._send_rest, args=(left,), daemon=True).start()
                return
        if self._notices:
            self._send_notices()

    def _send_rest(self, left: list[bytes | memoryview]) -> None:
        """Send the rest of a frame and the queue; release the lock."""
        try:
            self._write(left)
            self._write_queued()
        except BrokenConnection:
            self._break()
        finally:
            self._writing.release()
        self._send_queued()

    def _break(self) -> None:
        """Give the queue up; the reading thread tells those that wait."""
        self._broken = True
        self._queued.clear()
        self.interrupt()

    def _frame(
        self,
        kind: int,
        method: int,
        call: int,
        message: bytes,
        arrays: Sequence[np.ndarray],
        limit_s: float | None,
    ) -> list[bytes | memoryview]:
        buffers: list[bytes | memoryview] = []
        described = []
        for array in arrays:
            flat = array.reshape(-1).view(np.uint8)
            name = self._share(flat)
            if name is None:
                described.append(_ARRAY.pack(flat.nbytes, -1, 0, 0))
                buffers.append(flat.data)
            else:
                described.append(_ARRAY.pack(flat.nbytes, name.number, name.file, name.capacity))
        limit = 0 if limit_s is None else min(max(1, int(limit_s * 1e6)), _MAX_LIMIT_US)
        header = _HEADER.pack(_MAGIC, kind, method, len(described), call, len(message), limit)
        return [b"".join((header, *described, message)), *buffers]

    def _share(self, flat: np.ndarray) -> BlockName | None:
        """Return a block with the bytes; None to send them."""
        if not self.shares_memory or flat.nbytes < MIN_BYTES or self._exporter is None:
            return None
        try:
            return self._exporter.put(flat)
        except (OSError, ValueError):  # no memory for one more block
            return None

    def _write(self, buffers: list[bytes | memoryview], flags: int = 0) -> list[bytes | memoryview]:
        """Send buffers; return what would have to wait, which only flags allow."""
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

    def _release(self, number: int) -> None:
        """Tell the owner of a block that it may write it again."""
        self._notices.append((RELEASE, number))
        self._send_notices()

    def _send_notices(self) -> None:
        """Send what is due on blocks.

        A thread that sends already does it.

        Runs wherever an array dies, in a thread that may hold the lock, so it never waits.
        """
        while self._notices and self._writing.acquire(blocking=False):
            try:
                while self._notices:
                    kind, number = self._notices[0]
                    frame = _HEADER.pack(_MAGIC, kind, 0, 0, number, 0, 0)
                    if self._socket.send(frame, socket.MSG_DONTWAIT) != len(frame):
                        raise BrokenConnection("a frame was cut")
                    self._notices.popleft()
            except BlockingIOError:
                break  # the next frame is followed by them
            except (OSError, BrokenConnection):
                self._notices.clear()
            finally:
                self._writing.release()
        if self._queued:  # a frame that came while this thread had the lock
            self._send_queued()

    # receiving

    def receive(self) -> Frame:
        """Return the next frame that is none of the connection's own.

        Raises BrokenConnection at the end, and for what is no frame.
        """
        while True:
            frame = self._receive()
            if frame.kind == RELEASE:
                if self._exporter is not None:
                    freed = self._exporter.release([frame.call])
                    self._notices.extend((FREED, number) for number in freed)
                    self._send_notices()
            elif frame.kind == FREED:
                if self._importer is not None:
                    self._importer.forget([frame.call])
            else:
                return frame

    def _receive(self) -> Frame:
        head = _HEADER.unpack(self._exactly(_HEADER.size))
        magic, kind, method, count, call, size, limit = head
        if magic != _MAGIC or count > _MAX_ARRAYS or size > _MAX_BYTES:
            raise BrokenConnection("no frame")
        if not self.is_greeted and (kind != HELLO or count or size > _MAX_GREETING):
            raise BrokenConnection("no greeting")
        described = [_ARRAY.unpack(self._exactly(_ARRAY.size)) for _ in range(count)]
        message = bytes(self._exactly(size))
        arrays = []
        for length, block, file, capacity in described:
            if length > _MAX_BYTES:
                raise BrokenConnection("an array of impossible size")
            if block < 0:
                arrays.append(self._array(length))
                continue
            try:
                arrays.append(self._imported(BlockName(file, block, capacity), length))
            except (OSError, ValueError) as error:
                raise BrokenConnection(f"a block cannot be read: {error}") from None
        return Frame(kind, method, call, message, arrays, limit / 1e6 if limit else None)

    def _imported(self, name: BlockName, size: int) -> np.ndarray:
        """Return the first bytes of a block.

        Raises OSError and ValueError, as `Importer.get`.
        """
        if self._importer is None:
            raise ValueError("the ends share no memory")
        return self._importer.get(name, size)

    def _exactly(self, size: int) -> memoryview:
        """Return the next bytes; they are valid until the next call."""
        if self._end - self._begin >= size:
            self._begin += size
            return memoryview(self._buffer)[self._begin - size : self._begin]
        if size > len(self._buffer):
            return self._array(size).data
        rest = self._end - self._begin
        self._buffer[:rest] = self._buffer[self._begin : self._end]
        self._begin, self._end = 0, rest
        view = memoryview(self._buffer)
        while self._end < size:
            self._end += self._read(view[self._end :])
        self._begin = size
        return view[:size]

    def _array(self, size: int) -> np.ndarray:
        try:
            array = np.empty(size, np.uint8)
        except MemoryError:
            raise BrokenConnection(f"no memory for an array of {size} bytes") from None
        self._fill(array.data)
        return array

    def _fill(self, to: memoryview) -> None:
        """Fill a buffer with the next bytes."""
        have = min(self._end - self._begin, len(to))
        to[:have] = memoryview(self._buffer)[self._begin : self._begin + have]
        self._begin += have
        while have < len(to):
            have += self._read(to[have:], socket.MSG_WAITALL)

    def _read(self, to: memoryview, flags: int = 0) -> int:
        try:
            count = self._socket.recv_into(to, 0, flags)
        except OSError as error:
            raise BrokenConnection(str(error)) from None
        if not count:
            raise BrokenConnection("the other end has closed the connection")
        return count

    @property
    def has_ended(self) -> bool:
        """Return whether the other end has closed an idle connection."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def set_timeout(self, seconds: float | None) -> None:
        """Limit the time that the connection may be silent."""
        with contextlib.suppress(OSError):  # closed meanwhile, which the next call tells
            self._socket.settimeout(seconds)

    def interrupt(self) -> None:
        """End both directions; a thread that receives gets BrokenConnection."""
        with contextlib.suppress(OSError):  # the other end was faster
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End both directions; a thread that receives gets BrokenConnection."""
        self.interrupt()
        self._socket.close()
        if self._exporter is not None:
            self._exporter.close()
        if self._importer is not None:
            self._importer.close()  # its maps have open files, and it is part of a reference cycle


__all__ = [
    "ANSWER",
    "CANCEL",
    "FAILURE",
    "FREED",
    "HELLO",
    "PART",
    "RELEASE",
    "REQUEST",
    "BrokenConnection",
    "Connection",
    "Frame",
]
