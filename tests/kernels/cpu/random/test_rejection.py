"""Compiled gamma and Poisson samplers, against their reference kernels over several runs (which are
compared with TensorFlow in `reference/random_values`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.registry import (
    NodeSpec,
    Unsupported,
    find_initial_state,
    find_native,
    find_reference,
)

SEEDS = {"seed": 3, "seed2": 2**31 - 1}
ALPHAS = np.array([0.1, 0.7, 1, 1.5, 30, 0, -2, np.nan])
RATES = np.array([0, 0.3, 1, 4.5, 9.99, 10, 37.2, 1000, 1e9, np.inf, np.nan, -1])


def check(op: str, parameter: np.ndarray, shape: list[int], nchunks: int = 0, **attrs: Any) -> None:
    """Run the op twice by both kernels; streams and values stay equal."""
    inputs = [np.array(shape, np.int32), parameter]
    specs = tuple(tensor(a) for a in inputs)
    make, reference, builder = find_initial_state(op), find_reference(op), find_native(op)
    assert make is not None and reference is not None and builder is not None
    attrs = {**SEEDS, **attrs}
    states = [make(NodeSpec("node", op, attrs, specs, ())).copy() for _ in range(2)]
    for _ in range(2):
        with np.errstate(invalid="ignore", divide="ignore"):
            want = np.asarray(
                reference(NodeSpec("node", op, attrs, specs, (), {}, states[0]), inputs)[0]
            )
        spec = NodeSpec("node", op, attrs, specs, (tensor(want),), {}, states[1])
        (found,) = run_native(builder(spec), inputs, spec.outputs, nchunks, state=states[1])
        np.testing.assert_allclose(found, want, rtol=1e-6 if want.dtype.itemsize == 4 else 1e-12)
        np.testing.assert_array_equal(states[0].view(np.uint64), states[1].view(np.uint64))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma(dtype: str) -> None:
    for shape, chunks in (([], 0), ([3], 2), ([20, 5], 3)):
        check("RandomGamma", ALPHAS.astype(dtype), shape, chunks)
    check("RandomGamma", ALPHAS.astype(dtype).reshape(2, 4), [4])


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_poisson(dtype: str) -> None:
    rates = RATES if dtype.startswith("float") else RATES[:9]
    for shape, chunks in (([], 0), ([30, 2], 3)):
        check("RandomPoissonV2", rates.astype(np.float32), shape, chunks, dtype=as_dtype(dtype))


def test_halves_are_left_to_the_reference() -> None:
    with pytest.raises(Unsupported):
        check("RandomGamma", ALPHAS.astype(np.float16), [3])
