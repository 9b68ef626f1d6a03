"""Rows by integer keys: against NumPy's own slow forms."""

from __future__ import annotations

import numpy as np
import pytest

from tfjit.kernels.cpu.reference.rows import (
    outside,
    row_keys,
    run_starts,
    stable_order,
    update_rows,
)

RNG = np.random.default_rng(2)
LARGE = np.iinfo(np.int64)


@pytest.mark.parametrize("combine", [np.add, np.subtract, np.multiply, np.maximum])
@pytest.mark.parametrize("inner", [(), (1,), (3,), (2, 5), (700,), (1100,)])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_updates_are_made_in_order(combine: np.ufunc, inner: tuple[int, ...], dtype: str) -> None:
    target = RNG.integers(-9, 9, (6, *inner)).astype(dtype)
    rows = RNG.integers(0, 6, 40).astype(np.int32)
    updates = RNG.standard_normal((40, *inner)).astype(dtype)
    wanted = target.copy()
    combine.at(wanted, rows, updates)
    update_rows(combine, target, rows, updates)
    np.testing.assert_array_equal(target, wanted)


def test_updates_of_views_and_of_nothing() -> None:
    whole = np.zeros((4, 6), np.float32)
    update_rows(np.add, whole[:, ::2], np.array([1, 1]), np.ones((2, 3), np.float32))
    assert whole.sum() == 6
    assert whole[1, ::2].tolist() == [2, 2, 2]
    for shape in ((0, 3), (3, 0)):
        update_rows(np.add, np.zeros(shape), np.zeros(0, np.int64), np.zeros((0, *shape[1:])))


@pytest.mark.parametrize(
    "keys",
    [
        np.zeros(0, np.int64),
        np.array([3]),
        np.array([-128, 127, 0, 127, -128], np.int8),
        np.array([LARGE.max, LARGE.min, 0, LARGE.max]),
        np.array([2**64 - 1, 0, 2**63, 0], np.uint64),
        np.array([2**63 + 5, 2**63, 2**63 + 5], np.uint64),
        RNG.integers(0, 9, 300),
    ],
)
def test_orders_are_stable(keys: np.ndarray) -> None:
    np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, kind="stable"))


def test_keys_compare_as_rows_do() -> None:
    rows = RNG.integers(-4, 4, (200, 3))
    keys = row_keys(rows)
    assert keys is not None
    np.testing.assert_array_equal(np.argsort(keys, kind="stable"), np.lexsort(rows.T[::-1]))
    assert row_keys(np.array([[0, LARGE.min], [1, LARGE.max]])) is None
    assert row_keys(np.array([[0, 0], [2**40, 2**40]])) is None


def test_runs_and_places_outside() -> None:
    columns = [np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])]
    assert run_starts(columns, 4).tolist() == [0, 2, 3]
    assert run_starts([], 3).tolist() == [0]
    assert run_starts([np.zeros(0)], 0).tolist() == []
    places = np.array([[[0, 0], [2, 3]], [[-1, 0], [1, 4]]])
    assert outside(places, (3, 4)).tolist() == [[False, False], [True, True]]
    assert outside(np.zeros((2, 0), np.int64), (3,)).tolist() == [False, False]
