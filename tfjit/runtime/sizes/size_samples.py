"""Choose the sizes for which the passes of a generic variant run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

from tfjit.runtime.sizes.size_formulas import NotGeneric

LEAST: Final = 3
"""Least sample of a symbol.

Sizes of 0 and 1 broadcast in other ways, and empty arrays have no launches.
"""

WIDER: Final = 4
"""Factor by which a range goes beyond the sizes seen."""
_COMMON: Final = 128
"""Greatest size that most ranges include.

Lengths of texts and histories grow to it.
"""
_NARROWER: Final = 2

Sizes = tuple[int, ...]
Shapes = tuple[tuple[int, ...], ...]


class SymbolicShapes:
    """Name the sizes that vary among feed shapes.

    Dimensions that had one size in each of the tuples share a symbol. An argument that is no array
    has another type than a tuple, and the same one in all of the tuples.
    """

    def __init__(self, seen: Sequence[Shapes], shifted: bool = False) -> None:
        """Compare tuples of feed shapes. Raises NotGeneric where ranks differ.

        shifted: dimensions with a constant difference share a symbol, too.
        """
        first = seen[0]
        if any(list(map(_rank, shapes)) != list(map(_rank, first)) for shapes in seen):
            raise NotGeneric("feeds of several ranks")
        self.first = first
        self.symbols: dict[tuple[int, int], int] = {}  # (feed, axis) -> its symbol
        # (feed, axis) -> difference of its size and its symbol's
        self._shifts: dict[tuple[int, int], int] = {}
        columns: dict[Sizes, int] = {}
        least: list[int] = []  # of the first sizes of each symbol
        for feed, shape in enumerate(first):
            for axis in range(len(shape) if isinstance(shape, tuple) else 0):
                column = tuple(shapes[feed][axis] for shapes in seen)
                if len(set(column)) > 1:
                    key = tuple(n - column[0] for n in column) if shifted else column
                    symbol = self.symbols[feed, axis] = columns.setdefault(key, len(columns))
                    if symbol == len(least):
                        least.append(column[0])
                    least[symbol] = min(least[symbol], column[0])
        for (feed, axis), symbol in self.symbols.items():
            self._shifts[feed, axis] = first[feed][axis] - least[symbol]
        self.count = len(columns)
        self.seen: list[Sizes] = [sizes for shapes in seen if (sizes := self.sizes(shapes))]

    def sizes(self, shapes: Shapes) -> Sizes | None:
        """Return the symbols' sizes in feed shapes; None without the pattern."""
        found: dict[int, int] = {}
        for feed, (shape, known) in enumerate(zip(shapes, self.first)):
            if not isinstance(known, tuple):
                if shape != known:
                    return None
                continue
            if not isinstance(shape, tuple) or len(shape) != len(known):
                return None
            for axis, (size, same) in enumerate(zip(shape, known)):
                symbol = self.symbols.get((feed, axis))
                if symbol is None:
                    if size != same:
                        return None
                else:
                    size -= self._shifts[feed, axis]
                    if found.setdefault(symbol, size) != size:
                        return None
        return tuple(found[k] for k in range(self.count))

    def shapes(self, sizes: Sizes) -> Shapes:
        """Return the feed shapes for these sizes."""
        return tuple(
            tuple(
                sizes[self.symbols[feed, axis]] + self._shifts[feed, axis]
                if (feed, axis) in self.symbols
                else size
                for axis, size in enumerate(shape)
            )
            if isinstance(shape, tuple)
            else shape
            for feed, shape in enumerate(self.first)
        )

    def ranges(self) -> list[tuple[Sizes, Sizes]]:
        """Return (low, high) ends of ranges, the preferred range first.

        The preferred one goes down to LEAST, as the last batch of an epoch may. The next ones are
        wider than the sizes seen by a factor at either end. The last ones are halves of theirs, on
        a scale of factors.
        """
        seen = list(zip(*self.seen))
        low = tuple(odd(min(column), 0) for column in seen)
        high = distinct([max(max(column), n + 8) for column, n in zip(seen, low)], 1)
        wide_low = tuple(odd(n // WIDER, 0) for n in low)
        wide_high = distinct([max(n * WIDER, _COMMON) for n in high], 1)
        lows = dict.fromkeys([(LEAST,) * self.count, wide_low, low])
        found = [(a, b) for b in (wide_high, high) for a in lows]
        for _ in range(_NARROWER):
            low = tuple(odd(math.isqrt(a * b), 0) for a, b in zip(low, high))
            found.append((low, high))
        return list(dict.fromkeys(found))

    def between(self, corners: Sequence[Sizes], avoided: set[int], wanted: int) -> list[Sizes]:
        """Return samples between the corners.

        They tell all formulas apart (size_formulas.fit): each symbol has neighbouring sizes, of all
        remainders, and no symbol follows another one. avoided: the graph's own sizes.
        """
        found: list[Sizes] = []
        for j in range(wanted):
            sample: list[int] = []
            for k, column in enumerate(zip(*corners)):
                middle = (min(column) + max(column)) // 2
                n = max(middle + (j * (2 * k + 1) + k) % wanted - wanted // 2, LEAST)
                n += (n % 2) * (wanted == 1)  # the corners are odd
                while n in avoided or n in sample:
                    n += 4
                sample.append(n)
            found.append(tuple(sample))
        return found

    def between_counts(self, made: int) -> list[int]:
        """Return numbers of further samples to try in turn.

        The first suffices for sums, the second for products, the third for rounded quotients.
        made: the number of samples so far.
        """
        return [max(1, self.count + 2 - made), max(1, self.formulas + 1 - made), 17]

    @property
    def formulas(self) -> int:
        """Return the number of coefficients of a formula of sums and products."""
        return 1 + self.count + self.count * (self.count + 1) // 2

    def sizes_in(self, shapes: Sequence[Shapes]) -> list[Sizes]:
        """Return the sizes in those feed shapes that have the pattern."""
        return [sizes for one in shapes if (sizes := self.sizes(one)) is not None]


def _rank(shape: object) -> object:
    return len(shape) if isinstance(shape, tuple) else shape


def odd(n: int, up: int) -> int:
    """Return an odd size near n, from LEAST on.

    Sizes of layers are even. A sample that equals a size of the graph may show facts about that
    size only.
    """
    return max(n | 1 if up else (n - 1) | 1, LEAST)


def distinct(sizes: Sequence[int], up: int) -> Sizes:
    """Return odd sizes near these, all different."""
    found: list[int] = []
    for size in sizes:
        near = odd(size, up)
        smaller = () if up else range(near, LEAST - 1, -2)
        found.append(
            next(n for n in itertools.chain(smaller, itertools.count(near, 2)) if n not in found)
        )
    return tuple(found)


def corners(low: Sizes, high: Sizes) -> list[Sizes]:
    """Return samples at the ends of a range.

    The sizes of a sample differ. Each symbol is once small and once large alone.
    """
    apart = distinct(low, 0)
    found = [high, apart]
    if len(low) > 1:
        for k in range(len(low)):
            found.append((*high[:k], low[k], *high[k + 1 :]))
            found.append((*apart[:k], high[k], *apart[k + 1 :]))
    return list(dict.fromkeys(found))


__all__ = ["LEAST", "Shapes", "Sizes", "SymbolicShapes", "corners", "distinct", "odd"]
