"""Compiled quantisation of one range against the references bit for bit, and TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.against_reference import check
from tests.kernels.kernel_cases import Case, native_differences
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType

RNG = np.random.default_rng(4)
ENDS = ((-1.5, 1), (0, 2), (-3, -1), (0.5, 0.5), (0, 0))
f32 = np.float32


def values(strange: bool = True) -> np.ndarray:
    x = (RNG.standard_normal((6, 33)) * 2).astype(f32)
    x[2] = 0.5
    if strange:
        x[0, ::3], x[1, ::4], x[1, 1] = np.nan, np.inf, -np.inf
    return x


def levels(dtype: DType) -> np.ndarray:
    kind: Any = np.dtype(dtype.as_numpy_dtype)
    limits = np.iinfo(kind[0])
    return RNG.integers(limits.min, limits.max, (5, 9), kind[0], True).view(kind)


def test_rounding_to_levels() -> None:
    for x in (values(), values(False)):
        for given in (True, False):
            for mode in (b"HALF_TO_EVEN", b"HALF_UP"):
                for low, high in ENDS:
                    attrs = {"range_given": given, "num_bits": 8, "round_mode": mode, "axis": -1}
                    for signed, narrow in ((True, False), (True, True), (False, False)):
                        more = {"signed_input": signed, "narrow_range": narrow}
                        inputs = (x, f32(low), f32(high))
                        check("QuantizeAndDequantizeV2", *inputs, nchunks=3, **attrs, **more)
        attrs = {"range_given": True, "signed_input": True, "narrow_range": False, "axis": -1}
        check("QuantizeAndDequantizeV3", x, f32(-1), f32(1), np.int32(6), **attrs)
        check("QuantizeAndDequantizeV4Grad", values(False), x, f32(-1), f32(0.5), axis=-1)


def test_range_in_the_wrong_order() -> None:
    attrs = {"range_given": True, "num_bits": 8, "signed_input": True, "narrow_range": False}
    inputs = [values(False), f32(2.5), f32(-1)]
    case = Case("QuantizeAndDequantizeV2", inputs, {**attrs, "axis": -1}, failed_shape=(6, 33))
    assert not native_differences([case])


@pytest.mark.parametrize("dtype", [d.qint8, d.quint8, d.quint16])
def test_integers(dtype: DType) -> None:
    for mode in (b"MIN_COMBINED", b"MIN_FIRST", b"SCALED"):
        scaled = mode == b"SCALED"
        for low, high in ENDS:
            ends = f32(low), f32(high)
            attrs = {"mode": mode, "narrow_range": scaled, "axis": -1}
            for rounding in (b"HALF_AWAY_FROM_ZERO", *([b"HALF_TO_EVEN"] * scaled)):
                more = {"T": dtype, "round_mode": rounding, "ensure_minimum_range": 0.01}
                check("QuantizeV2", values(), *ends, nchunks=2, **attrs, **more)
            check("Dequantize", levels(dtype), *ends, dtype=d.float32, **attrs)


def test_integers_of_a_range_in_the_wrong_order() -> None:
    attrs = {"mode": b"SCALED", "narrow_range": False, "axis": -1, "T": d.qint8}
    rounding = {"round_mode": b"HALF_AWAY_FROM_ZERO", "ensure_minimum_range": 0.01}
    wrong = [values(False), f32(1), f32(-1)]
    case = Case("QuantizeV2", wrong, {**attrs, **rounding}, failed_shape=(6, 33))
    assert not native_differences([case])
