"""Literals of patterns against constants of graphs, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfjit.framework.types import dtypes
from tfjit.passes.patterns.literals import equals

BF16 = dtypes.bfloat16.as_numpy_dtype
NAN = float("nan")


@pytest.mark.parametrize(
    ("found", "literal", "equal"),
    [
        (np.float32(1), 1, True),
        (np.ones((2, 3), np.float32), 1, True),
        (np.array([1, 2], np.float32), 1, False),
        (np.zeros(0, np.float32), 1, False),
        (np.float32(0), 0, True),
        (np.float32(0), -0.0, False),
        (np.float32(-0.0), -0.0, True),
        (np.float32(-0.0), 0, False),
        (np.array([0.0, -0.0], np.float32), 0.0, False),
        (np.int32(0), -0.0, True),
        (np.float32(np.nan), NAN, True),
        (np.array([np.nan, 1], np.float32), NAN, False),
        (np.float32(1), NAN, False),
        (np.float32(0.1), 0.1, True),
        (np.float64(np.float32(0.1)), 0.1, False),
        (np.float32(np.inf), float("inf"), True),
        (np.int32(1), 1.0, True),
        (np.int32(1), 1.5, False),
        (np.int8(44), 300, False),
        (np.uint8(255), -1, False),
        (np.int32(1), float("inf"), False),
        (np.bool_(True), True, True),
        (np.bool_(True), 1, False),
        (np.float32(1), True, False),
        (np.complex64(1), 1, True),
        (np.complex64(1 + 1j), 1, False),
        (np.float32(1), 1j, False),
        (np.array(1, BF16), 1, True),
        (np.array(-0.0, BF16), 0.0, False),
        (np.array(np.nan, BF16), NAN, True),
        (np.array(b"a", object), b"a", True),
        (np.array(b"a", object), 1, False),
        (np.array([1, 0], np.int32), np.array([1, 0]), True),
        (np.array([1, 0], np.int32), np.array([1]), False),
        (np.array([1.0, np.nan], np.float32), np.array([1.0, np.nan]), True),
        (np.zeros(0, np.int32), np.zeros(0, np.int64), True),
    ],
)
def test_equals(found: Any, literal: Any, equal: bool) -> None:
    assert equals(np.asarray(found), literal) is equal
