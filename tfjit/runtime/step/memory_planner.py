"""Plan a step's memory: arena offsets by liveness, recycled fetched arrays."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.runtime.host.fork_safety import release_lock

ALIGNMENT = 64
# From this size on, the recycler provides a fetched array's memory: a fresh mapping costs more than
# the kernel.
RECYCLE_BYTES = 1 << 18
_RECYCLED_BYTES_LIMIT = 1 << 30


def align(n: int) -> int:
    """Return n rounded up to the arena's alignment."""
    return (n + ALIGNMENT - 1) & -ALIGNMENT


@dataclass(slots=True)
class Interval:
    """Hold a buffer's size and live interval.

    first and last: positions of the defining instruction and of the last use (inclusive).
    """

    nbytes: int
    first: int
    last: int
    offset: int = -1


def lay_out(intervals: Sequence[Interval]) -> int:
    """Assign arena offsets to intervals; return the arena's size in bytes.

    Buffers alive at the same time do not overlap. The method is best fit over a free list, in order
    of definition; freed neighbours merge. O(n log n) for n intervals.
    """
    starts = sorted(
        range(len(intervals)), key=lambda i: (intervals[i].first, -intervals[i].nbytes, i)
    )
    ends = sorted(range(len(intervals)), key=lambda i: intervals[i].last)
    free: list[tuple[int, int]] = []  # (offset, size), by offset, never adjacent
    top = 0
    done = 0
    for i in starts:
        interval = intervals[i]
        while done < len(ends) and intervals[ends[done]].last < interval.first:
            ended = intervals[ends[done]]
            _give_back(free, ended.offset, align(ended.nbytes))
            done += 1
        size = align(interval.nbytes)
        if size == 0:
            interval.offset = 0
            continue
        best = -1
        for j, (_, gap) in enumerate(free):
            if gap >= size and (best < 0 or gap < free[best][1]):
                best = j
        if best >= 0:
            offset, gap = free[best]
            interval.offset = offset
            if gap == size:
                del free[best]
            else:
                free[best] = (offset + size, gap - size)
        else:
            # Grow the block at the end instead of leaving it behind.
            if free and free[-1][0] + free[-1][1] == top:
                offset, _ = free.pop()
                interval.offset = offset
                top = offset + size
            else:
                interval.offset = top
                top += size
    return top


def _give_back(free: list[tuple[int, int]], offset: int, size: int) -> None:
    if size == 0:
        return
    lo, hi = 0, len(free)
    while lo < hi:
        mid = (lo + hi) // 2
        if free[mid][0] < offset:
            lo = mid + 1
        else:
            hi = mid
    free.insert(lo, (offset, size))
    if lo + 1 < len(free) and offset + size == free[lo + 1][0]:
        free[lo] = (offset, size + free[lo + 1][1])
        del free[lo + 1]
    if lo > 0 and free[lo - 1][0] + free[lo - 1][1] == free[lo][0]:
        free[lo - 1] = (free[lo - 1][0], free[lo - 1][1] + free[lo][1])
        del free[lo]


def aligned_bytes(nbytes: int) -> np.ndarray:
    """Return an uninitialised uint8 array of nbytes with 64-byte alignment."""
    check_fits_in_memory((nbytes,), np.uint8)
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


class OutputRecycler:
    """Reuse the memory of big fetched arrays once their views have died.

    A ctypes object over the block is the base of all views, and its finalizer returns the block: a
    weak reference on the array itself would fire while a slice of the array is alive.
    """

    def __init__(self, limit_bytes: int = _RECYCLED_BYTES_LIMIT) -> None:
        # by size; the block returned longest ago comes first
        self._free: dict[int, deque[np.ndarray]] = {}
        self._held_bytes = 0
        self._limit_bytes = limit_bytes
        self._lock = threading.RLock()  # a finalizer may run inside `empty` on the same thread

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return an uninitialised C-contiguous array."""
        count = 1
        for d in shape:
            count *= d
        nbytes = count * dtype.itemsize
        with self._lock:
            blocks = self._free.get(nbytes)
            if blocks:
                block = blocks.pop()
                self._held_bytes -= nbytes
            else:
                block = None
        if block is None:
            block = aligned_bytes(nbytes)
        owner = (ctypes.c_char * nbytes).from_buffer(block.data)
        weakref.finalize(owner, self._give_back, block).atexit = False
        return np.frombuffer(memoryview(owner), dtype, count).reshape(shape)

    def copy(self, array: np.ndarray) -> np.ndarray:
        """Return a C-contiguous copy of an array of numbers."""
        made = self.empty(array.shape, array.dtype)
        np.copyto(made, array)
        return made

    def _give_back(self, block: np.ndarray) -> None:
        """Keep a returned block; free the oldest ones above the limit."""
        with self._lock:
            blocks = self._free.pop(block.nbytes, None) or deque()
            blocks.append(block)
            self._free[block.nbytes] = blocks
            self._held_bytes += block.nbytes
            while self._held_bytes > self._limit_bytes:
                size, oldest = next(iter(self._free.items()))
                oldest.popleft()
                self._held_bytes -= size
                if not oldest:
                    del self._free[size]

    def after_fork(self) -> None:
        """Reset the lock in a forked child."""
        release_lock(self._lock)

    def clear(self) -> None:
        """Free all kept blocks."""
        with self._lock:
            self._free.clear()
            self._held_bytes = 0
