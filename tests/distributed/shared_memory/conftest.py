"""Give tests a pool of blocks of their own, and the two ends of loans."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np
import pytest

from tfjit.distributed.shared_memory.block_pool import BlockPool
from tfjit.distributed.shared_memory.exporter import Exporter, Loan
from tfjit.distributed.shared_memory.importer import Importer


@dataclass
class Ends:
    """An exporter and an importer in one process; `pass_on` takes the importer's notices back."""

    pool: BlockPool
    notices: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.exporter = Exporter(self._freed, self.pool)
        self.importer = Importer(
            os.getpid(),
            self.pool.name,
            lambda number: self.notices.append(("release", number)),
            lambda number: self.notices.append(("retire", number)),
        )

    def _freed(self, number: int) -> None:
        self.importer.forget(number)

    def get(self, loan: Loan, size: int) -> np.ndarray:
        """Return the array of a loan, as a reader has it."""
        return self.importer.get(loan.name, size, loan.offset, loan.is_exclusive)

    def pass_on(self) -> None:
        """Give the exporter the notices of the importer."""
        while self.notices:
            kind, number = self.notices.pop(0)
            (self.exporter.release if kind == "release" else self.exporter.retire)(number)


@pytest.fixture
def pool() -> BlockPool:
    return BlockPool()


@pytest.fixture
def ends(pool: BlockPool) -> Ends:
    return Ends(pool)
