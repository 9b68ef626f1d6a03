"""Blocks of memory in the address space of a process.

A block is an anonymous file in memory. Its owner and its readers map it; nothing of it is left when
the last of them is gone.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import mmap
import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_ADD_SEALS, _GET_SEALS, _SEAL_SHRINK = 1033, 1034, 2  # of Linux's fcntl, which Python 3.10 lacks
_MAP_FIXED: Final = 0x10
_FAILED: Final = ctypes.c_void_p(-1).value


@dataclass(frozen=True, slots=True)
class BlockName:
    """A block's open file, number and size in bytes."""

    file: int
    number: int
    capacity: int


def is_supported() -> bool:
    """Return whether this system has anonymous files in memory and /proc."""
    return hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


@functools.cache
def _c_library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    size, number = ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = [ctypes.c_void_p, size, number, number, number, ctypes.c_long]
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = [ctypes.c_void_p, size]
    return library


class BlockMap:
    """A block in this process's memory, with its open file.

    Unlike `mmap.mmap`, it has one file descriptor, and can be made private where it is.
    """

    def __init__(self, file: int, capacity: int) -> None:
        """Map an open file, which is the map's from now on.

        Raises OSError.
        """
        self.file, self.capacity = file, capacity
        self.address = 0
        self.address = self._map(None, mmap.MAP_SHARED)

    @classmethod
    def make(cls, capacity: int) -> BlockMap:
        """Return a new block of zeros. Raises OSError."""
        file = os.memfd_create("tfjit", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(file, capacity)
            fcntl.fcntl(file, _ADD_SEALS, _SEAL_SHRINK)
        except OSError:
            os.close(file)
            raise
        return cls(file, capacity)

    @classmethod
    def open(cls, pid: int, name: BlockName) -> BlockMap:
        """Return a map of another process's block.

        Raises OSError without one, ValueError for another file.
        """
        file = os.open(f"/proc/{pid}/fd/{name.file}", os.O_RDWR | os.O_CLOEXEC)
        try:
            # an access beyond the end of a file that shrank would end the process
            if not fcntl.fcntl(file, _GET_SEALS) & _SEAL_SHRINK:
                raise ValueError("a block whose size may change")
            if os.fstat(file).st_size < name.capacity:
                raise ValueError("the block is smaller than its name says")
        except BaseException:
            os.close(file)
            raise
        return cls(file, name.capacity)

    def _map(self, address: int | None, flags: int) -> int:
        access = mmap.PROT_READ | mmap.PROT_WRITE
        found = _c_library().mmap(address, self.capacity, access, flags, self.file, 0)
        if found == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(found)

    def make_private(self) -> None:
        """Keep the contents, apart from other processes from now on.

        Others must not write the block any more: pages that this process has not written stay the
        file's. No write of another thread is lost. Raises OSError.
        """
        self._map(self.address, mmap.MAP_PRIVATE | _MAP_FIXED)

    def array(self, offset: int, size: int, died: Callable[..., None], *about: Any) -> np.ndarray:
        """Return bytes of the block as an array, which keeps the map.

        died: called with `about` when no view of the array is left.
        """
        owner: Any = (ctypes.c_char * size).from_address(self.address + offset)
        owner.map = self
        # a weak reference on the array itself would fire while a slice of the array is alive
        weakref.finalize(owner, died, *about).atexit = False
        return np.frombuffer(memoryview(owner), np.uint8, size)

    def __del__(self) -> None:
        if sys.is_finalizing():  # the library may be gone, and the memory goes with the process
            return
        if self.address:
            _c_library().munmap(self.address, self.capacity)
        os.close(self.file)


def owner_address(array: np.ndarray) -> int:
    """Return the address of the array that `BlockMap.array` gave.

    array: a view of it. 0 for other arrays.
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    owner = base.obj if isinstance(base, memoryview) else None
    return ctypes.addressof(owner) if isinstance(owner, ctypes.Array) else 0


__all__ = ["BlockMap", "BlockName", "is_supported", "owner_address"]
