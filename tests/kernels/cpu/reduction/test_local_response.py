"""Local response normalization and its gradient, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_native, find_reference

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(("radius", "beta"), [(5, 0.5), (2, 0.75), (0, 1.0), (3, 0.3), (1, -0.5)])
@pytest.mark.parametrize("depth", [1, 3, 40])
def test_windows(radius: int, beta: float, depth: int) -> None:
    """Windows reach over one end or both; each chunk has scratch memory of its own."""
    shape = (2, 30, 20, depth)
    dy, x, y = (RNG.standard_normal(shape).astype(np.float32) for _ in range(3))
    attrs = {"depth_radius": radius, "bias": 1.5, "alpha": 0.4, "beta": beta}
    for op, inputs in (("LRN", [x]), ("LRNGrad", [dy, x, y])):
        outputs = (TensorSpec(dtypes.float32, shape),)
        spec = NodeSpec("lrn", op, attrs, tuple(map(tensor, inputs)), outputs)
        builder, reference = find_native(op), find_reference(op)
        assert builder is not None and reference is not None
        call = builder(spec)
        expected = reference(spec, inputs)[0]
        for chunks in range(1, min(call.launches[0].chunks, 3) + 1):
            (found,) = run_native(call, inputs, outputs, nchunks=chunks)
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
