"""Blocks of memory that two processes of one host share.

The owner of a block copies an array into it; the other process maps the block once, through the
owner's open files in /proc, and reads the array where it is. So a tensor is copied once on its way,
into pages that are in use already. A block vanishes with its owner: no name is left behind.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

MIN_BYTES: Final = 1 << 18
"""Smaller arrays are sent through the socket, which then takes no longer."""
_PAGE: Final = mmap.PAGESIZE
_ADD_SEALS, _GET_SEALS, _SEAL_SHRINK = 1033, 1034, 2  # of Linux's fcntl, which Python 3.10 lacks
_IDLE_BYTES: Final = 512 << 20
"""The most that all exporters of a process keep for later arrays."""


@dataclass(frozen=True, slots=True)
class BlockName:
    """A block's open file, number and size in bytes."""

    file: int
    number: int
    capacity: int


def is_supported() -> bool:
    """Return whether this system has anonymous files in memory and /proc."""
    return hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


class _Block:
    """Anonymous memory with an open file."""

    def __init__(self, number: int, capacity: int) -> None:
        file = os.memfd_create("tfjit", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(file, capacity)
            fcntl.fcntl(file, _ADD_SEALS, _SEAL_SHRINK)
            self.memory = mmap.mmap(file, capacity)
        except OSError:
            os.close(file)
            raise
        self.name = BlockName(file, number, capacity)

    def close(self) -> None:
        """Close the file; the memory goes with its last view."""
        os.close(self.name.file)


class Exporter:
    """Own the blocks that one other process reads. Thread-safe.

    Above a limit of the process, idle blocks are freed, the oldest first.
    """

    _idle_bytes = 0  # of all exporters
    _counting = threading.Lock()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Block] = []  # oldest first
        self._lent: dict[int, _Block] = {}
        self._number = 0
        self._closed = False

    def put(self, array: np.ndarray) -> BlockName:
        """Copy an array into a block for the other process.

        Raises OSError without memory, ValueError when the exporter is closed.
        """
        block = self._take(array.nbytes)
        to = np.frombuffer(block.memory, array.dtype, array.size).reshape(array.shape)
        np.copyto(to, array)
        return block.name

    def _take(self, size: int) -> _Block:
        with self._lock:
            if self._closed:
                raise ValueError("the connection is closed")
            fitting = [b for b in self._idle if size <= b.name.capacity <= 2 * size + _PAGE]
            if fitting:
                block = min(fitting, key=lambda b: b.name.capacity)
                self._idle.remove(block)
                self._count(-block.name.capacity)
            else:
                self._number += 1
                block = _Block(self._number, max(_PAGE, -(-size // _PAGE) * _PAGE))
            self._lent[block.name.number] = block
            return block

    def release(self, numbers: Sequence[int]) -> list[int]:
        """Take blocks back; return the numbers of those that exist no more."""
        freed = []
        with self._lock:
            for number in numbers:
                block = self._lent.pop(number, None)
                if block is not None:
                    self._idle.append(block)
                    total = self._count(block.name.capacity)
                    while total > _IDLE_BYTES and self._idle:
                        freed.append(self._idle.pop(0))
                        total = self._count(-freed[-1].name.capacity)
        for block in freed:
            block.close()
        return [block.name.number for block in freed]

    @classmethod
    def _count(cls, change: int) -> int:
        """Return the bytes of the process's idle blocks after a change."""
        with cls._counting:
            cls._idle_bytes += change
            return cls._idle_bytes

    def close(self) -> None:
        """Free all blocks; the other process keeps those that it has mapped."""
        with self._lock:
            self._closed = True
            self._count(-sum(block.name.capacity for block in self._idle))
            blocks = [*self._idle, *self._lent.values()]
            self._idle, self._lent = [], {}
        for block in blocks:
            block.close()


class Importer:
    """Read the blocks of another process. Thread-safe.

    pid: of the process. release: called with the number of a block when no array of it is left.
    """

    def __init__(self, pid: int, release: Callable[[int], None]) -> None:
        self._pid = pid
        self._release = release
        self._lock = threading.Lock()
        self._maps: dict[int, mmap.mmap] = {}
        self._closed = False

    def get(self, name: BlockName, size: int) -> np.ndarray:
        """Return the first bytes of a block as a writable array.

        Raises OSError where the block cannot be mapped, ValueError for a size beyond it, and when
        the importer is closed.
        """
        if not 0 <= size <= name.capacity:
            raise ValueError(f"{size} bytes in a block of {name.capacity}")
        with self._lock:
            if self._closed:
                raise ValueError("the connection is closed")
            memory = self._maps.get(name.number)
            if memory is None:
                file = os.open(f"/proc/{self._pid}/fd/{name.file}", os.O_RDWR | os.O_CLOEXEC)
                try:
                    # an access beyond the end of a file that shrank would end the process
                    if not fcntl.fcntl(file, _GET_SEALS) & _SEAL_SHRINK:
                        raise ValueError("a block whose size may change")
                    if os.fstat(file).st_size < name.capacity:
                        raise ValueError("the block is smaller than its name says")
                    memory = self._maps[name.number] = mmap.mmap(file, name.capacity)
                finally:
                    os.close(file)
        array = np.frombuffer(memory, np.uint8, size)
        weakref.finalize(array, self._release, name.number).atexit = False
        return array

    def forget(self, numbers: Sequence[int]) -> None:
        """Unmap blocks that exist no more, once their arrays are gone."""
        with self._lock:
            for number in numbers:
                self._maps.pop(number, None)

    def close(self) -> None:
        """Unmap all blocks, each once its arrays are gone."""
        with self._lock:
            self._closed = True
            self._maps.clear()


__all__ = ["MIN_BYTES", "BlockName", "Exporter", "Importer", "is_supported"]
