"""LRN and its gradient on simulated GPUs against the references."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.launching import tensor
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(4)
ATTRS = [
    {},
    {"depth_radius": 2, "bias": 2.0, "alpha": 1e-2, "beta": 0.75},
    {"depth_radius": 0, "bias": 0.5, "alpha": -0.01, "beta": 1.0},
]


@pytest.mark.parametrize("attrs", ATTRS, ids=["defaults", "narrow", "own"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_values_and_gradients(dtype: str, attrs: dict[str, float]) -> None:
    near = 2e-3 if dtype == "float16" else 2e-6
    for shape in ((2, 1, 3, 7), (1, 2, 2, 1), (1, 0, 3, 4), (1, 1, 1, 16)):
        x, y, dy = (RNG.normal(size=shape).astype(dtype) for _ in range(3))
        check("LRN", x, near=near, **attrs)
        check("LRNGrad", dy, x, y, near=near, **attrs)


def test_special_values() -> None:
    # the reference sums by differences of prefixes, which a NaN spreads over all of the row
    x = np.float32([-0.0, 0.0, 1e-30, 3.0]).reshape(1, 1, 1, 4)
    check("LRN", x, near=1e-6, depth_radius=1)


def test_forms_without_a_kernel() -> None:
    x = np.ones((1, 1, 1, 3))
    with pytest.raises(Unsupported, match="float64"):
        call_of("LRN", [x], [tensor(x)])
