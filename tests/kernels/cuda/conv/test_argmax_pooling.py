"""Pooling with the places of maxima on simulated GPUs, against the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.reference.layers import pooling  # noqa: F401  (registers the references)
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(4)


def attrs(padding: bytes, whole: bool, dtype: d.DType = d.int64) -> dict[str, Any]:
    return {"ksize": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "padding": padding,
            "include_batch_in_index": whole, "Targmax": dtype}  # fmt: skip


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("padding", [b"SAME", b"VALID"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_maxima_and_places(dtype: str, padding: bytes, whole: bool) -> None:
    for shape in ((2, 5, 4, 3), (1, 3, 2, 1), (0, 5, 4, 2)):
        x = RNG.integers(-9, 9, shape).astype(dtype)  # ties go to the first
        check("MaxPoolWithArgmax", x, **attrs(padding, whole))
        check("MaxPoolWithArgmax", x, **attrs(padding, whole, d.int32))


def test_special_values() -> None:
    x = np.full((1, 5, 4, 1), -np.inf, np.float32)
    x[0, 1, 1], x[0, 3, :] = np.nan, [[0.0], [-0.0], [np.inf], [np.nan]]
    check("MaxPoolWithArgmax", x, **attrs(b"SAME", False))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("op", ["MaxPoolGradWithArgmax", "MaxPoolGradGradWithArgmax"])
def test_gradients(op: str, whole: bool) -> None:
    x, places = np.zeros((2, 4, 3, 2), np.float32), RNG.integers(0, 24, (2, 2, 3, 2))
    if whole:
        places[1] += 24
    grad = RNG.normal(size=x.shape if "GradGrad" in op else places.shape).astype("f4")
    check(op, x, grad, places, near=1e-6, **attrs(b"SAME", whole))
    none = np.zeros((0, 2, 3, 2), np.int64)
    empty = np.zeros(x.shape if "GradGrad" in op else none.shape, np.float32)
    if "GradGrad" not in op:
        check(op, x, empty, none, **attrs(b"SAME", whole))


def test_forms_without_a_kernel() -> None:
    x, places = np.zeros((1, 2, 2, 1), np.float16), np.zeros((1, 1, 1, 1), np.int64)
    with pytest.raises(Unsupported, match="float16"):
        call_of("MaxPoolGradWithArgmax", [x, x[:, :1, :1], places], [tensor(x)])
    ints = x.astype(np.int32)
    with pytest.raises(Unsupported, match="int32"):
        call_of("MaxPoolWithArgmax", [ints], [tensor(ints), tensor(ints)], **attrs(b"SAME", False))
