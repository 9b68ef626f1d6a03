"""Differences of outputs: tolerance by dtype, NaN, shapes, strings."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tfjit.lab.measure.agreement import Mismatch, mismatches


def differences(value: object, wanted: object, tolerance: float | None = None) -> list[Mismatch]:
    return mismatches(["y:0"], {"base": [wanted], "other": [value]}, "before timing", tolerance)


@pytest.mark.parametrize(
    ("dtype", "near", "far"),
    [
        (np.float64, 1e-10, 1e-8),
        (np.float32, 1e-5, 1e-3),
        (np.complex64, 1e-5, 1e-3),
        (np.float16, 1e-3, 0.1),
        (ml_dtypes.bfloat16, 1e-2, 0.2),
    ],
)
def test_tolerance_follows_the_dtype(dtype: type, near: float, far: float) -> None:
    wanted = np.array([1.0, 0.5, 0.0]).astype(dtype)
    assert not differences((wanted + np.array(near, dtype)).astype(dtype), wanted)
    (found,) = differences((wanted + np.array(far, dtype)).astype(dtype), wanted)
    assert (found.index, found.count, found.size) == ((0,), 3, 3)
    assert found.largest == pytest.approx(far, rel=0.2)


def test_a_tolerance_is_over_the_largest_element() -> None:
    wanted = np.array([100.0, 1.0], np.float32)
    value = wanted + np.array([0.0, 0.5], np.float32)
    assert differences(value, wanted) and not differences(value, wanted, 0.01)


def test_nan_agrees_with_nan_alone() -> None:
    wanted = np.array([np.nan, np.inf, 1.0], np.float32)
    assert not differences(wanted.copy(), wanted)
    (found,) = differences(np.array([0.0, np.inf, 1.0], np.float32), wanted)
    assert found.index == (0,) and found.largest is None
    assert str(found) == (
        "y:0 before timing at [0]: other has 0.0, base has nan; 1 of 3 elements differ"
    )


def test_other_values_are_equal_or_differ() -> None:
    assert not differences(np.array([b"a", b"b"], object), np.array([b"a", b"b"], object))
    assert differences(np.array([b"a", b"c"], object), np.array([b"a", b"b"], object))[0].index == (
        1,
    )
    assert differences(np.array([1, 2]), np.array([1, 3]))[0].largest == 1.0
    (found,) = differences(np.zeros((2, 3)), np.zeros((3, 2)))
    assert found.value == "float64[2, 3]" and found.base_value == "float64[3, 2]"
