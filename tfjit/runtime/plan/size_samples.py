"""Choose the sizes for which the passes of a generic variant run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tfjit.runtime.plan.size_formulas import NotGeneric

LEAST: Final = (3, 5, 7, 11)
"""Least sample of each symbol.

Sizes of 0 and 1 broadcast in other ways, and empty arrays have no launches.
"""

Sizes = tuple[int, ...]
Shapes = tuple[tuple[int, ...], ...]


class SymbolicShapes:
    """Name the sizes that vary among feed shapes.

    Dimensions that had one size in each of the tuples share a symbol.
    """

    def __init__(self, seen: Sequence[Shapes]) -> None:
        """Compare tuples of feed shapes. Raises NotGeneric where ranks differ."""
        first = seen[0]
        if any([len(s) for s in shapes] != [len(s) for s in first] for shapes in seen):
            raise NotGeneric("feeds of several ranks")
        self.first = first
        self.symbols: dict[tuple[int, int], int] = {}  # (feed, axis) -> its symbol
        columns: dict[Sizes, int] = {}
        for feed, shape in enumerate(first):
            for axis in range(len(shape)):
                column = tuple(shapes[feed][axis] for shapes in seen)
                if len(set(column)) > 1:
                    symbol = columns.setdefault(column, len(columns))
                    self.symbols[feed, axis] = symbol
        self.count = len(columns)
        self.seen: list[Sizes] = [sizes for shapes in seen if (sizes := self.sizes(shapes))]

    def sizes(self, shapes: Shapes) -> Sizes | None:
        """Return the symbols' sizes in feed shapes; None without the pattern."""
        found: dict[int, int] = {}
        for feed, (shape, known) in enumerate(zip(shapes, self.first)):
            if len(shape) != len(known):
                return None
            for axis, (size, same) in enumerate(zip(shape, known)):
                symbol = self.symbols.get((feed, axis))
                if symbol is None:
                    if size != same:
                        return None
                elif found.setdefault(symbol, size) != size:
                    return None
        return tuple(found[k] for k in range(self.count))

    def shapes(self, sizes: Sizes) -> Shapes:
        """Return the feed shapes for these sizes."""
        return tuple(
            tuple(
                sizes[self.symbols[feed, axis]] if (feed, axis) in self.symbols else size
                for axis, size in enumerate(shape)
            )
            for feed, shape in enumerate(self.first)
        )

    def corners(self, narrower: int) -> list[Sizes]:
        """Return samples at the ends of the range of the sizes seen.

        narrower: the number of times that the range is halved, on a scale of factors, from below.
        """
        ends = []
        for k in range(self.count):
            seen = [sizes[k] for sizes in self.seen]
            least, greatest = max(min(seen), LEAST[k]), max(seen)
            for _ in range(narrower):
                least = math.isqrt(least * greatest)
            ends.append((least, max(greatest, least + 8)))
        low, high = (odd([end[j] for end in ends], j) for j in (0, 1))
        return [low, high, *mixed(low, high)]

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
                n = max(middle + (j * (2 * k + 1) + k) % wanted - wanted // 2, LEAST[k])
                while n in avoided or n in sample:
                    n += 4
                sample.append(n)
            found.append(tuple(sample))
        return found

    @property
    def formulas(self) -> int:
        """Return the number of coefficients of a formula of sums and products."""
        return 1 + self.count + self.count * (self.count + 1) // 2

    def sizes_in(self, shapes: Sequence[Shapes]) -> list[Sizes]:
        """Return the sizes in those feed shapes that have the pattern."""
        return [sizes for one in shapes if (sizes := self.sizes(one)) is not None]


def odd(sizes: Sequence[int], up: int) -> Sizes:
    """Return odd sizes near these, all different: sizes of layers are even.

    A sample that equals a size of the graph may show facts about that size only.
    """
    found: list[int] = []
    for k, n in enumerate(sizes):
        n = max(n | 1 if up else (n - 1) | 1, LEAST[k])
        while n in found:
            n += 2 if up or n - 2 < LEAST[k] else -2
        found.append(n)
    return tuple(found)


def mixed(low: Sizes, high: Sizes) -> list[Sizes]:
    """Return the corners at which one symbol is small or large alone."""
    if len(low) == 1:
        return []
    found = []
    for k in range(len(low)):
        found.append((*low[:k], high[k], *low[k + 1 :]))
        found.append((*high[:k], low[k], *high[k + 1 :]))
    return list(dict.fromkeys(found))


__all__ = ["LEAST", "Shapes", "Sizes", "SymbolicShapes", "mixed", "odd"]
