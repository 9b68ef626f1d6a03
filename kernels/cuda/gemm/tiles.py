"""Choose the block tile of a product.

The choice includes the number of parts of its sums. A block of threads computes one tile of the
result. It holds slabs of `depth` terms of both operands in shared memory, two at a time: one is
multiplied while the next is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.registry import Unsupported

VECTOR_BYTES: Final = 16
PROCESSORS: Final = 132
"""Multiprocessors of the card that tiles are chosen for.

Results do not depend on the number.
"""
_SPLIT_DEPTH: Final = 256  # least terms of a part of a split sum
_MOST_SPLITS: Final = 64
_FIXED_TERMS: Final = 24  # time of a block's start and end, in terms of its sum

ACCUMULATORS: Final = {
    d.float32: d.float32, d.float64: d.float64, d.float16: d.float32, d.bfloat16: d.float32,
}  # fmt: skip
"""Map dtypes of operands to that of the sum.

Tensor cores are left to vendor libraries.
"""


@dataclass(frozen=True, slots=True)
class TileShape:
    """The tile of a block.

    It has rows x columns of the result, and slabs of `depth` terms. thread_rows, thread_columns:
    the products of one thread, multiples of 16 bytes. resident: blocks that a multiprocessor should
    hold at least.
    """

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int
    resident: int = 1

    @property
    def threads(self) -> int:
        """Return the threads of a block."""
        return (self.rows // self.thread_rows) * (self.columns // self.thread_columns)

    @property
    def name(self) -> str:
        """Return "128x128x8"."""
        return f"{self.rows}x{self.columns}x{self.depth}"


_LARGE: Final = TileShape(128, 128, 8, 8, 8, resident=2)
_MEDIUM: Final = TileShape(64, 64, 16, 4, 4)
_TALL: Final = TileShape(64, 16, 16, 4, 4)
_WIDE: Final = TileShape(16, 64, 16, 4, 4)
_SMALL: Final = TileShape(16, 32, 16, 4, 4)
# share of a multiprocessor's arithmetic that a tile reaches: wider threads read shared memory less
_RATES: Final = {_LARGE: 0.85, _MEDIUM: 0.6, _TALL: 0.45, _WIDE: 0.45, _SMALL: 0.4}
_DOUBLE_RATES: Final = {
    TileShape(64, 64, 8, 4, 4): 0.8, TileShape(64, 16, 16, 4, 2): 0.45,
    TileShape(16, 64, 16, 2, 4): 0.45, TileShape(16, 32, 8, 4, 4): 0.5,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The tile of a product.

    splits: parts of its sums.
    """

    tile: TileShape
    splits: int = 1


def accumulator(dtype: DType) -> DType:
    """Return the dtype of sums of products. Raises Unsupported."""
    found = ACCUMULATORS.get(dtype)
    if found is None:
        raise Unsupported(f"no product of {dtype.name} on GPUs")
    return found


def plans(dtype: DType) -> tuple[Plan, ...]:
    """Return a plan of each tile for products of a dtype."""
    rates = _DOUBLE_RATES if accumulator(dtype) is d.float64 else _RATES
    return tuple(Plan(tile) for tile in rates)


def choose(dtype: DType, matrices: int, m: int, n: int, k: int) -> Plan:
    """Return the plan with the least predicted time.

    It is for `matrices` products [m, k] x [k, n].
    """
    rates = _DOUBLE_RATES if accumulator(dtype) is d.float64 else _RATES
    best, least = Plan(_SMALL), float("inf")
    for tile, rate in rates.items():
        tiles = matrices * -(-m // tile.rows) * -(-n // tile.columns)
        for splits in _split_counts(tiles, k):
            blocks = tiles * splits
            terms = -(-k // splits)
            # a multiprocessor with few warps waits for memory between slabs
            warps = min(16, -(-blocks // PROCESSORS) * tile.threads / 32)
            busy = rate * min(1.0, (warps + 2) / 10)
            rounds = (
                max(1.0, blocks / PROCESSORS)
                if blocks > 8 * PROCESSORS
                else -(-blocks // PROCESSORS)
            )
            time = rounds * tile.rows * tile.columns * (terms + _FIXED_TERMS) / busy
            if splits > 1:  # the parts travel through memory, and a second kernel adds them
                time += 30.0 * splits * matrices * m * n / PROCESSORS + 400_000
            if time < least:
                best, least = Plan(tile, splits), time
    return best


def _split_counts(tiles: int, k: int) -> list[int]:
    """Return numbers of parts for a sum of k terms."""
    most = min(_MOST_SPLITS, k // _SPLIT_DEPTH, -(-4 * PROCESSORS // tiles))
    found = [1]
    while found[-1] * 2 <= most:
        found.append(found[-1] * 2)
    return found


__all__ = ["PROCESSORS", "VECTOR_BYTES", "Plan", "TileShape", "accumulator", "choose", "plans"]
