"""Loans of this process's arrays to another one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfjit.distributed.shared_memory.block_map import BlockName
from tfjit.distributed.shared_memory.block_pool import POOL, Block, BlockPool, Reader


@dataclass(slots=True)
class Loan:
    """The bytes of an array in a block, for another process.

    offset: of the array in the block, in bytes.
    """

    block: Block
    offset: int

    @property
    def name(self) -> BlockName:
        """The block's name."""
        return self.block.name

    @property
    def is_exclusive(self) -> bool:
        """Tell if the reader may write, as nothing else uses the block.

        This stays so until the loan ends. Ask when this process has dropped the array.
        """
        return BlockPool.is_only_loan(self.block)


class Exporter:
    """Lend arrays to one other process. Thread-safe.

    freed: called with the number of a block that exists no more; never waits.
    """

    def __init__(self, freed: Callable[[int], None], pool: BlockPool = POOL) -> None:
        self._pool = pool
        self._reader = Reader(freed)
        self._lock = threading.Lock()
        self._lent: dict[int, list[Block]] = {}  # by number, once for each loan
        self._closed = False
        pool.add(self._reader)

    def lend(self, array: np.ndarray) -> Loan:
        """Return a loan of a contiguous array of bytes.

        An array in a block is lent where it is, any other is copied into one. Raises OSError
        without memory, ValueError when the exporter is closed.
        """
        with self._lock:
            if self._closed:
                raise ValueError("the connection is closed")
        offset, block = 0, self._pool.find(array)
        if block is None:
            block = self._pool.copy(array, self._reader)
        else:
            self._pool.lend(block, self._reader)
            offset = array.ctypes.data - block.map.address
        with self._lock:
            closed = self._closed
            if not closed:
                self._lent.setdefault(block.name.number, []).append(block)
        if closed:
            self._pool.end(block, 1)
            raise ValueError("the connection is closed")
        return Loan(block, offset)

    def release(self, number: int) -> None:
        """End a loan of a block, if there is one."""
        with self._lock:
            lent = self._lent.get(number)
            block = lent.pop() if lent else None
            if not lent:
                self._lent.pop(number, None)
        if block is not None:
            self._pool.end(block, 1)

    def retire(self, number: int) -> None:
        """Never write a lent block again, which its reader keeps."""
        with self._lock:
            for block in self._lent.get(number, ()):
                block.is_retired = True

    def close(self) -> None:
        """End all loans; the other process keeps the arrays that it has."""
        with self._lock:
            self._closed = True
            lent, self._lent = self._lent, {}
        self._pool.remove(self._reader)
        for blocks in lent.values():
            blocks[0].is_retired = True
            self._pool.end(blocks[0], len(blocks))


__all__ = ["Exporter", "Loan"]
