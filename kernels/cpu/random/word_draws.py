"""Draw numbers from the next words of a Philox stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tfjit.kernels.cpu.random import philox

_DRAWN_AT_ONCE: Final = 1024  # words


class WordDraws:
    """Read the stream's words, one after the other."""

    def __init__(self, state: np.ndarray) -> None:
        self._words = self._drawn(state.copy())

    @staticmethod
    def _drawn(state: np.ndarray) -> Iterator[int]:
        at = 0
        while True:
            yield from philox.blocks(state, at, _DRAWN_AT_ONCE // 4).reshape(-1).tolist()
            at += _DRAWN_AT_ONCE // 4

    def below(self, n: int) -> int:
        """Return an integer of [0, n) from 32 random bits."""
        return next(self._words) % n

    def below_64(self, n: int) -> int:
        """Return an integer of [0, n) from 64 random bits."""
        low = next(self._words)
        return (next(self._words) << 32 | low) % n

    def unit(self) -> float:
        """Return a float32 of [0, 1)."""
        return float(philox._unit32(np.array([next(self._words)], np.uint32))[0])

    def unit_64(self) -> float:
        """Return a float64 of [0, 1)."""
        high, low = (np.array([next(self._words)], np.uint32) for _ in range(2))
        return float(philox._unit64(high, low)[0])
