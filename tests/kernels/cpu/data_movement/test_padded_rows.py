"""Distinct indices with padding: compiled and by reference, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.registry import NodeSpec, Unsupported, find_native, find_reference

RNG = np.random.default_rng(7)


def distinct(x: np.ndarray, out_idx: str, limit: int = 0) -> list[np.ndarray]:
    """What both kernels say: rows, and places in these."""
    attrs = {"T": as_dtype(x.dtype), "out_idx": as_dtype(out_idx), "limit": limit}
    outputs = (tensor(x[:limit] if limit else x), tensor(x.astype(out_idx)))
    spec = NodeSpec("node", "_PaddedUnique", attrs, (tensor(x),), outputs)
    builder, kernel = find_native(spec.op), find_reference(spec.op)
    assert builder is not None and kernel is not None
    found = run_native(builder(spec), [x], outputs)
    for one, other in zip(found, kernel(spec, [x]), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    return found


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("out_idx", ["int32", "int64"])
@pytest.mark.parametrize(("count", "limit"), [(0, 1), (1, 1), (7, 1), (40, 9), (600, 10**6)])
def test_rows_come_in_order_of_arrival(dtype: str, out_idx: str, count: int, limit: int) -> None:
    x = RNG.integers(-3, limit, count).astype(dtype)
    rows, places = distinct(x, out_idx)
    number = len(set(x.tolist()))
    assert rows[:number].tolist() == list(dict.fromkeys(x.tolist()))
    assert (rows[number:] == np.iinfo(x.dtype).min).all()
    np.testing.assert_array_equal(rows[places], x)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_value_is_no_padding(dtype: str) -> None:
    """The least number becomes the next one, which is no index either."""
    least = np.iinfo(dtype).min
    rows, places = distinct(np.array([5, least, least + 1, 5], dtype), "int32")
    assert rows.tolist() == [5, least + 1, least, least] and places.tolist() == [0, 1, 1, 0]


def test_values_that_meet_in_the_table() -> None:
    x = (np.arange(300, dtype=np.int64) << 40)[RNG.permutation(300)]
    rows, _ = distinct(np.concatenate([x, x]), "int32")
    np.testing.assert_array_equal(rows[:300], x)


def test_rows_beyond_the_limit_are_left_out() -> None:
    """The places of such values are those of the first row."""
    x = np.array([3, 3, 1, 0, 2, 1, 2])
    rows, places = distinct(x, "int32", limit=3)
    assert rows.tolist() == [3, 1, 0] and places.tolist() == [0, 0, 1, 2, 0, 1, 0]
    rows, _ = distinct(x, "int32", limit=6)
    assert rows.tolist() == [3, 1, 0, 2, *[np.iinfo(np.int64).min] * 2]
    assert len(distinct(x, "int32", limit=9)[0]) == 7


def test_a_matrix_has_no_compiled_form() -> None:
    builder = find_native("_PaddedUnique")
    assert builder is not None
    x = tensor(np.zeros([2, 3], np.int32))
    with pytest.raises(Unsupported, match="no vector"):
        builder(NodeSpec("node", "_PaddedUnique", {}, (x,), (x, x)))
