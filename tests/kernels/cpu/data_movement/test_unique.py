"""Distinct values by a hash table against the reference, which has TensorFlow's order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.bounded import bounded_call, check_bounded
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("place", [d.int32, d.int64])
def test_random_values(dtype: str, place: d.DType) -> None:
    info = np.iinfo(dtype)
    for total in (0, 1, 2, 3, 700, 5000):
        for low, high in ((0, 3), (-40, 40), (info.min, info.max)):
            x = RNG.integers(low, high, total, dtype)
            check_bounded("UniqueWithCounts", x, out_idx=place)
            check_bounded("Unique", x, out_idx=place)


def test_values_of_equal_low_bits() -> None:
    for shift in (20, 32, 48):
        x = RNG.permutation(np.arange(3000) % 2000) << shift
        (distinct, *_) = check_bounded("Unique", x, out_idx=d.int32)
        assert distinct.size == len(set(x.tolist()))
    ends = np.array([-1, 0, -1, 2**63 - 1, -(2**63), 0, -1])
    check_bounded("UniqueWithCounts", ends, out_idx=d.int32)


def test_axes() -> None:
    x = RNG.integers(0, 5, 20)
    check_bounded("UniqueV2", x, np.zeros(0, np.int64), out_idx=d.int32)
    for axis in (0, -1):
        check_bounded("UniqueWithCountsV2", x, np.array([axis]), known=(1,), out_idx=d.int32)


def test_refused() -> None:
    x = np.zeros(4, np.int32)
    bounded_call("Unique", [x], out_idx=d.int32)
    for inputs in ([np.zeros((2, 2), np.int32)], [x.astype(np.float32)], [x.astype(np.int8)]):
        with pytest.raises(Unsupported):
            bounded_call("Unique", inputs, out_idx=d.int32)
    for axis, known in ((np.array([0]), ()), (np.array([1]), (1,)), (np.array([0, 0]), (1,))):
        with pytest.raises(Unsupported):
            bounded_call("UniqueV2", [x, axis], known, out_idx=d.int32)
