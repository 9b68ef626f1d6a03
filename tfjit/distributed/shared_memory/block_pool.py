"""Blocks of memory that a process shares with others of its host.

A block is in use while this process has an array over it or another process has a loan of it.
Behind that it is idle, and serves the next array of its size: the first writes to the pages of a
new block take several times as long as the copy of an array.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from tfjit.distributed.shared_memory.block_map import BlockMap, BlockName, owner_address

MIN_BYTES: Final = 1 << 18
"""Smaller arrays are sent through the socket, which then takes no longer."""
_PAGE: Final = mmap.PAGESIZE
_IDLE_BYTES: Final = 1 << 30
"""The most that a process keeps for later arrays."""
_MISSES: Final = 8
"""The unlent arrays of a size after which others are elsewhere."""
_MOST_SIZES: Final = 1 << 10
_MOST_BLOCKS: Final = 1 << 12
_FILES_OF_A_BLOCK: Final = 3
"""The files that a process may open for each block."""


class Block:
    """Memory of this process that others may read.

    loans: of other processes. has_array: this process has arrays over it. was_lent: since they
    were made. is_retired: it is never written again, since a reader keeps it.
    """

    __slots__ = (
        *("has_array", "in_use", "is_retired", "loans", "map", "name", "readers"),
        "was_lent",
    )

    def __init__(self, number: int, capacity: int) -> None:
        self.map = BlockMap.make(capacity)
        self.name = BlockName(self.map.file, number, capacity)
        self.loans = 0
        self.has_array = False
        self.was_lent = False
        self.in_use = True
        self.is_retired = False
        # told when it is freed, as they may have it mapped
        self.readers: weakref.WeakSet[Reader] = weakref.WeakSet()


class Reader:
    """A process that has loans of blocks.

    freed: called with the number of a block that exists no more; never waits.
    """

    def __init__(self, freed: Callable[[int], None]) -> None:
        self.freed = freed


class BlockPool:
    """Make and reuse the blocks of this process. Thread-safe.

    Arrays are made in blocks if those of their size are sent: a kernel writes to the small pages of
    shared memory at three quarters of the speed.

    name: tells this pool from those of other processes. Above a limit, idle blocks are freed, the
    oldest first. The number of blocks is limited too, as each is an open file.
    """

    def __init__(self) -> None:
        self._begin()
        # after the fork, the blocks are the parent's
        os.register_at_fork(before=self._before_fork, after_in_child=self._begin)

    def _begin(self) -> None:
        self.name = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._blocks: dict[int, Block] = {}  # by address
        self._idle: list[Block] = []  # oldest first
        self._number = 0
        self._readers: weakref.WeakSet[Reader] = weakref.WeakSet()
        self._sent: dict[int, int] = {}  # misses left, by size in bytes
        # (block, loans that have ended), until a thread has the lock: a finalizer never waits
        self._ended: deque[tuple[Block | None, int]] = deque()

    def _before_fork(self) -> None:
        """Retire the blocks of arrays.

        The child may have the arrays, and would see later writes. No lock is taken: a step may wait
        for it while the next hook waits for the step's.
        """
        for block in list(self._blocks.values()):
            block.is_retired |= block.has_array

    # readers

    def add(self, reader: Reader) -> None:
        """Note a process that may get loans."""
        self._readers.add(reader)

    def remove(self, reader: Reader) -> None:
        """Forget a process that is gone; never waits.

        Without a reader, no block is kept.
        """
        self._readers.discard(reader)
        if not self._readers:
            self._sent.clear()
            self._ended.append((None, 0))
            self._take_back()

    # blocks

    def is_sent(self, size: int) -> bool:
        """Return whether arrays of this size, in bytes, are sent elsewhere."""
        return size in self._sent

    def array(self, size: int) -> np.ndarray:
        """Return uninitialised bytes that can be lent. Raises OSError without memory."""
        block = self._take(size, None)
        return block.map.array(0, size, self._array_died, block, size)

    def copy(self, array: np.ndarray, reader: Reader) -> Block:
        """Copy bytes into a block for the reader, as its loan.

        Raises OSError without memory.
        """
        block = self._take(array.nbytes, reader)
        if len(self._sent) >= _MOST_SIZES:
            self._sent.clear()
        self._sent[array.nbytes] = _MISSES
        try:
            np.copyto(block.map.array(0, array.nbytes, _nothing), array)
        except BaseException:
            self.end(block, 1)
            raise
        return block

    def find(self, array: np.ndarray) -> Block | None:
        """Return the block that has the memory of an array."""
        return self._blocks.get(owner_address(array))

    def lend(self, block: Block, reader: Reader) -> None:
        """Note a loan of a block with an array of this process."""
        with self._lock:
            block.loans += 1
            block.was_lent = True
            block.readers.add(reader)
        self._take_back()

    @staticmethod
    def is_only_loan(block: Block) -> bool:
        """Return whether a loan is the only use of its block."""
        return not (block.has_array or block.is_retired) and block.loans == 1

    def end(self, block: Block, loans: int) -> None:
        """End loans of a block; never waits."""
        self._ended.append((block, loans))
        self._take_back()

    def _take(self, size: int, reader: Reader | None) -> Block:
        """Return a block that nothing uses.

        It is lent to the reader; without one, it is for an array.
        """
        freed: list[Block] = []
        try:
            with self._lock:
                fitting = [b for b in self._idle if size <= b.name.capacity <= 2 * size + _PAGE]
                if fitting:
                    block = min(reversed(fitting), key=lambda b: b.name.capacity)
                    self._idle.remove(block)
                else:
                    if len(self._blocks) >= _most_blocks():
                        if not self._idle:
                            raise OSError(errno.EMFILE, "too many blocks of shared memory")
                        freed.append(self._forget(self._idle.pop(0)))
                    self._number += 1
                    block = Block(self._number, max(_PAGE, -(-size // _PAGE) * _PAGE))
                    self._blocks[block.map.address] = block
                block.in_use, block.has_array, block.was_lent = True, reader is None, False
                if reader is not None:
                    block.loans = 1
                    block.readers.add(reader)
        finally:
            _tell(freed)
            self._take_back()
        return block

    def _array_died(self, block: Block, size: int) -> None:
        block.has_array = False
        left = self._sent.get(size)
        if left is not None:
            left = _MISSES if block.was_lent else left - 1
            if left:
                self._sent[size] = left
            else:
                self._sent.pop(size, None)
        self.end(block, 0)

    def _take_back(self) -> None:
        """Make blocks idle that nothing uses, unless another thread does it.

        Runs wherever an array dies, in a thread that may hold the lock, so it never waits.
        """
        while self._ended and self._lock.acquire(blocking=False):
            freed: list[Block] = []
            try:
                while self._ended:
                    block, loans = self._ended.popleft()
                    if block is None:
                        continue
                    block.loans -= loans
                    if block.has_array or block.loans or not block.in_use:
                        continue
                    if self._blocks.get(block.map.address) is not block:
                        continue  # the parent's, in a forked child
                    block.in_use = False
                    if block.is_retired:
                        freed.append(self._forget(block))
                    else:
                        self._idle.append(block)
                total = sum(block.name.capacity for block in self._idle)
                while total > (_IDLE_BYTES if self._readers else 0):
                    freed.append(self._forget(self._idle.pop(0)))
                    total -= freed[-1].name.capacity
            finally:
                self._lock.release()
            _tell(freed)

    def _forget(self, block: Block) -> Block:
        del self._blocks[block.map.address]
        return block


def _tell(freed: list[Block]) -> None:
    """Tell the readers of blocks that these exist no more."""
    while freed:
        block = freed.pop()
        for reader in list(block.readers):
            reader.freed(block.name.number)


def _nothing() -> None:
    """Let the array over a copy die: the block is lent."""


def _most_blocks() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_BLOCKS if files < 0 else min(_MOST_BLOCKS, files // _FILES_OF_A_BLOCK)


POOL: Final = BlockPool()

__all__ = ["MIN_BYTES", "POOL", "Block", "BlockPool", "Reader"]
