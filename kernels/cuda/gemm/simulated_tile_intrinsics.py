"""Stand in for `tile_intrinsics` when kernels run as Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from tfjit.kernels.cuda.device.simulator import use_shared
from tfjit.kernels.cuda.gemm.tile_intrinsic_names import NAMES
from tfjit.kernels.cuda.template.simulated_intrinsics import ld, st_shared

__all__ = list(NAMES)

# pointers, tuples and numbers of simulated kernels
Numba: TypeAlias = Any

_VECTOR_BYTES: Final = 16


def zeros(like: Numba, count: int) -> tuple[Numba, ...]:
    return (type(like)(0),) * count


def run_of(products: tuple[Numba, ...], number: int, count: int) -> tuple[Numba, ...]:
    return products[number * count : (number + 1) * count]


def scale_rows(products: tuple[Numba, ...], *factors: Numba) -> tuple[Numba, ...]:
    columns = len(products) // len(factors)
    return tuple(value * factors[k // columns] for k, value in enumerate(products))


def _runs(p: Numba, at: int, count: int, spread: int) -> np.ndarray:
    """Return the elements of a thread along one axis."""
    size = _VECTOR_BYTES // p.dtype.itemsize
    starts = [at + k * spread for k in range(count // size)]
    for start in starts:
        if (p.address + start * p.dtype.itemsize) % _VECTOR_BYTES:
            raise AssertionError(f"a shared load at element {start} is not aligned")
        for k in range(size):
            use_shared(p.address + (start + k) * p.dtype.itemsize, False)
    return np.concatenate([p.view(start, size) for start in starts])


def multiply_slab(
    products: tuple[Numba, ...], a: Numba, a_at: int, b: Numba, b_at: int, depth: int, rows: int,
    columns: int, a_pitch: int, b_pitch: int, a_spread: int, b_spread: int,
) -> tuple[Numba, ...]:  # fmt: skip
    sums = np.array(products).reshape(rows, columns)
    for term in range(depth):
        left = _runs(a, a_at + term * a_pitch, rows, a_spread)
        right = _runs(b, b_at + term * b_pitch, columns, b_spread)
        sums = sums + left[:, None] * right
    return tuple(sums.reshape(-1))


def ld_below(p: Numba, i: int, at: int, limit: int) -> Numba:
    return ld(p, i) if at < limit else p.dtype.type(0)


def _guarded(count: int) -> Callable[..., tuple[Numba, ...]]:
    def load(p: Numba, i: int, at: int, limit: int) -> tuple[Numba, ...]:
        if at >= limit:
            return (p.dtype.type(0),) * count
        if (p.address + i * p.dtype.itemsize) % (count * p.dtype.itemsize):
            raise AssertionError(f"a load of {count} elements at element {i} is not aligned")
        return tuple(p.view(i, count))

    return load


ld_below2, ld_below4 = _guarded(2), _guarded(4)


def _inside(load: Callable[..., Numba]) -> Callable[..., Numba]:
    def check(
        p: Numba, i: int, at: int, limit: int, row: int, rows: int, column: int, columns: int
    ) -> Numba:
        held = 0 <= row < rows and 0 <= column < columns
        return load(p, i, at, limit if held else at)

    return check


ld_inside, ld_inside2, ld_inside4 = _inside(ld_below), _inside(ld_below2), _inside(ld_below4)


def _stored(p: Numba, i: int, *values: Numba) -> None:
    if (p.address + i * p.dtype.itemsize) % min(_VECTOR_BYTES, len(values) * p.dtype.itemsize):
        raise AssertionError(f"a shared store at element {i} is not aligned")
    for k, value in enumerate(values):
        st_shared(p, i + k, value)


st_shared2 = st_shared4 = _stored
