"""Generators of random numbers and of seeds, with TensorFlow's sequences."""

from __future__ import annotations

import os
import threading
from typing import Final

import numpy as np

from tfjit.kernels.random_stream import MASK64, blocks
from tfjit.runtime.host.fork_safety import release_lock

_BLOCKS: Final = 256
"""Blocks of four numbers that are computed at a time."""
_FIRST: Final = 8  # blocks at first, since many streams are short


class RandomNumbers:
    """The numbers of a stream, uint32, one at a time.

    Seeds (0, 0) are a stream like others.
    """

    __slots__ = ("_blocks", "_numbers", "_position", "_seeds")

    def __init__(self, seed: int, seed2: int) -> None:
        self._seeds = seed, seed2
        self._blocks = _FIRST
        self._position = 0
        self._numbers: list[int] = []

    def __call__(self) -> int:
        """Return the next number."""
        if not self._numbers:
            seed, seed2 = (seed & MASK64 for seed in self._seeds)
            state = np.array([0, seed2, seed], np.uint64)
            numbers = blocks(state, self._position, self._blocks).reshape(-1)
            self._numbers = numbers[::-1].tolist()
            self._position += self._blocks
            self._blocks = _BLOCKS
        return self._numbers.pop()


class SeedGenerator:
    """A resource that gives each epoch its seeds.

    reshuffles: epochs have different seeds.
    """

    def __init__(self, seed: int, seed2: int, reshuffles: bool) -> None:
        if seed == 0 and seed2 == 0:
            seed, seed2 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))
        self._seeds = seed, seed2
        self._numbers = RandomNumbers(seed, seed2) if reshuffles else None
        self._lock = threading.Lock()

    def seeds(self) -> tuple[int, int]:
        """Return the seeds of the next epoch."""
        if self._numbers is None:
            return self._seeds
        with self._lock:
            return self._numbers(), self._numbers()

    def after_fork(self) -> None:
        """Reset the lock in a forked child."""
        release_lock(self._lock)


__all__ = ["RandomNumbers", "SeedGenerator"]
