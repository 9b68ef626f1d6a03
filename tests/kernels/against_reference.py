"""Run a compiled kernel and compare with its reference bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.kernels.registry import NodeSpec, find_native, find_reference

RNG = np.random.default_rng(11)


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


def check(
    op: str, *inputs: np.ndarray, nchunks: int = 0, late: tuple[int, ...] = (), **attrs: Any
) -> list[np.ndarray]:
    """Run the node natively, every input but the `late` ones known while planning, and compare with
    the reference bit for bit.
    """
    specs = tuple(tensor(a) for a in inputs)
    known = {k: value for k, value in enumerate(inputs) if k not in late}
    reference, builder = find_reference(op), find_native(op)
    assert reference is not None
    assert builder is not None
    wanted = [
        np.asarray(a) for a in reference(NodeSpec("node", op, attrs, specs, (), known), inputs)
    ]
    spec = NodeSpec("node", op, attrs, specs, tuple(tensor(a) for a in wanted), known)
    results = run_native(builder(spec), inputs, spec.outputs, nchunks)
    for result, want in zip(results, wanted):
        assert result.dtype == want.dtype
        np.testing.assert_array_equal(result, want)
    return results
