"""Frames of a connection: a message and arrays beside it.

A frame is a header, a descriptor for each array, the message, and the arrays that are not in shared
memory. A local connection is a Unix socket, a direct one TCP.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.distributed.parcels.frame_writer import BrokenConnection, Buffers, FrameWriter
from tfjit.distributed.parcels.received_arrays import empty_bytes
from tfjit.distributed.shared_memory.block_map import BlockName, is_supported
from tfjit.distributed.shared_memory.block_pool import MIN_BYTES
from tfjit.distributed.shared_memory.exporter import Exporter, Loan
from tfjit.distributed.shared_memory.importer import Importer

HELLO, REQUEST, ANSWER, FAILURE, CANCEL, RELEASE, FREED, PART, RETIRE = range(9)
_MAGIC: Final = 0x7F17
_HEADER: Final = struct.Struct(
    "<HBBIQQQ"
)  # magic, kind, method, arrays, call, message bytes, limit in us
_ARRAY: Final = struct.Struct(
    "<QqQQQ?"
)  # bytes, block or -1, the block's file and capacity, offset in it, whether nothing else uses it
_PEER: Final = struct.Struct("3i")  # pid, uid, gid
_MAX_ARRAYS: Final = 1 << 16
_MAX_BYTES: Final = 1 << 40
_MAX_GREETING: Final = 512
_MAX_LIMIT_US: Final = 1 << 60


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
        self._writer = FrameWriter(made)
        self.peer_uid: int | None = None
        self._peer_pid: int | None = None
        self.shares_memory = False
        self._exporter: Exporter | None = None
        self._importer: Importer | None = None
        self.is_greeted = made.family == socket.AF_UNIX
        if self.is_greeted:
            self._peer_pid, self.peer_uid, _ = _PEER.unpack(
                made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            )
        self._buffer = bytearray(1 << 16)
        self._begin = self._end = 0

    # the probe of shared memory, in both directions

    def offer_block(self) -> BlockName | None:
        """Return a block for the other end to try, or None."""
        if not is_supported():
            return None
        try:
            if self._exporter is None:
                self._exporter = Exporter(self._freed)
            return self._exporter.lend(np.frombuffer(b"tfjit", np.uint8)).name
        except OSError:
            return None

    def share_memory(self) -> None:
        """Send large arrays in blocks, which the other end can read."""
        self.shares_memory = True

    def withdraw_block(self) -> None:
        """Send all arrays through the socket."""
        if self._exporter is not None:
            self._exporter.close()
            self._exporter = None

    def can_read(self, pool: str, name: BlockName) -> bool:
        """Return whether this process can read the other's blocks.

        pool: the name of the other's pool.
        """
        if self._peer_pid is None:
            return False
        importer = Importer(self._peer_pid, pool, self._release, self._retire)
        try:
            found = importer.get(name, 5).tobytes() == b"tfjit"
        except (OSError, ValueError):
            found = False
        if found:
            self._importer = importer
        return found

    # sending

    def send(
        self,
        kind: int,
        method: int,
        call: int,
        message: bytes = b"",
        arrays: list[np.ndarray] | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Send a frame. Raises BrokenConnection.

        arrays: contiguous, of any dtype. The list is emptied: the memory of an array in a block
        that nothing else has becomes the other end's own.
        """
        self._writer.write(self._frame(kind, method, call, message, arrays, limit_s))

    def send_soon(
        self,
        kind: int,
        method: int,
        call: int,
        message: bytes = b"",
        arrays: list[np.ndarray] | None = None,
        limit_s: float | None = None,
    ) -> None:
        """Send a frame as `send` does, but never wait.

        For threads that read: two processes whose reading threads wait for the other one to read
        would wait for ever. Raises BrokenConnection if the connection is known to be broken.
        """
        self._writer.write_soon(self._frame(kind, method, call, message, arrays, limit_s))

    def _frame(
        self,
        kind: int,
        method: int,
        call: int,
        message: bytes,
        arrays: list[np.ndarray] | None,
        limit_s: float | None,
    ) -> Buffers:
        buffers: Buffers = []
        loans: list[tuple[int, Loan | None]] = []
        if arrays:
            arrays.reverse()
            while arrays:
                flat = arrays.pop().reshape(-1).view(np.uint8)
                loan = self._lend(flat)
                loans.append((flat.nbytes, loan))
                if loan is None:
                    buffers.append(flat.data)
                del flat
        # behind all: two arrays may be in one block
        described = [_descriptor(size, loan) for size, loan in loans]
        limit = 0 if limit_s is None else min(max(1, int(limit_s * 1e6)), _MAX_LIMIT_US)
        header = _HEADER.pack(_MAGIC, kind, method, len(described), call, len(message), limit)
        return [b"".join((header, *described, message)), *buffers]

    def _lend(self, flat: np.ndarray) -> Loan | None:
        """Return a loan of the bytes; None to send them."""
        if not self.shares_memory or flat.nbytes < MIN_BYTES or self._exporter is None:
            return None
        try:
            return self._exporter.lend(flat)
        except (OSError, ValueError):  # no memory for one more block
            return None

    def _release(self, number: int) -> None:
        """Tell the owner of a block that a loan has ended."""
        self._tell(RELEASE, number)

    def _retire(self, number: int) -> None:
        """Tell the owner of a block to write it no more."""
        self._tell(RETIRE, number)

    def _freed(self, number: int) -> None:
        """Tell the other end that a block exists no more."""
        self._tell(FREED, number)

    def _tell(self, kind: int, number: int) -> None:
        self._writer.tell(_HEADER.pack(_MAGIC, kind, 0, 0, number, 0, 0))

    # receiving

    def receive(self) -> Frame:
        """Return the next frame that is none of the connection's own.

        Raises BrokenConnection at the end, and for what is no frame.
        """
        while True:
            frame = self._receive()
            if frame.kind in (RELEASE, RETIRE):
                self._end_loan(frame.kind, frame.call)
            elif frame.kind == FREED:
                if self._importer is not None:
                    self._importer.forget(frame.call)
            else:
                return frame

    def _end_loan(self, kind: int, number: int) -> None:
        if self._exporter is None:
            return
        if kind == RETIRE:
            self._exporter.retire(number)
        else:
            self._exporter.release(number)

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
        for length, block, file, capacity, offset, is_exclusive in described:
            if length > _MAX_BYTES:
                raise BrokenConnection("an array of impossible size")
            if block < 0:
                arrays.append(self._array(length))
                continue
            if self._importer is None:
                raise BrokenConnection("a block of a process that cannot be read")
            try:
                name = BlockName(file, block, capacity)
                arrays.append(self._importer.get(name, length, offset, is_exclusive))
            except (OSError, ValueError) as error:
                raise BrokenConnection(f"a block cannot be read: {error}") from None
        return Frame(kind, method, call, message, arrays, limit / 1e6 if limit else None)

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
            array = empty_bytes(size)
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
        if self._importer is not None:  # its maps have open files, and it is part of a cycle
            self._importer.close()


def _descriptor(size: int, loan: Loan | None) -> bytes:
    if loan is None:
        return _ARRAY.pack(size, -1, 0, 0, 0, False)
    name = loan.name
    return _ARRAY.pack(size, name.number, name.file, name.capacity, loan.offset, loan.is_exclusive)


__all__ = [
    "ANSWER",
    "CANCEL",
    "FAILURE",
    "FREED",
    "HELLO",
    "PART",
    "RELEASE",
    "REQUEST",
    "RETIRE",
    "BrokenConnection",
    "Connection",
    "Frame",
]
