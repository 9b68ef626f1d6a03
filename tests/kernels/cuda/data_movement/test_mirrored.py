"""Gradients of mirrored padding on simulated GPUs, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import TensorSpec, Unsupported

RNG = np.random.default_rng(4)
OP = "MirrorPadGrad"


@pytest.mark.parametrize("mode", [b"REFLECT", b"SYMMETRIC"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "complex64"])
def test_gradients(dtype: str, mode: bytes) -> None:
    for shape, pads in (
        ((4,), [(3, 2)]), ((3, 5), [(0, 0), (4, 1)]), ((2, 3, 4), [(1, 1), (0, 2), (0, 0)]),
        ((1, 2), [(0, 0), (1, 0)]), ((3, 0), [(1, 1), (0, 0)]), ((2, 2), [(0, 0), (0, 0)]),
    ):  # fmt: skip
        padded = tuple(n + b + a for n, (b, a) in zip(shape, pads))
        dy = (RNG.normal(size=padded) * 9).astype(dtype)
        near = {"float16": 5e-2, "float32": 1e-6, "complex64": 1e-6, "float64": 1e-12}.get(dtype, 0)
        check(OP, dy, np.int32(pads).reshape(-1, 2), near=near, mode=mode)


def test_forms_without_a_kernel() -> None:
    dy, pads = np.zeros(5, np.float32), np.int32([[2, 1]])
    with pytest.raises(Unsupported, match="more padding"):
        call_of(OP, [dy, pads], [TensorSpec(d.float32, (2,))], mode=b"REFLECT")
    with pytest.raises(Unsupported, match="do not fit"):
        call_of(OP, [dy, pads], [TensorSpec(d.float32, (3,))], mode=b"REFLECT")
