"""Compiled shuffles and draws of classes, against their reference kernels over several runs (which
other tests compare with TensorFlow).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
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

RNG = np.random.default_rng(4)


def check(op: str, inputs: list[np.ndarray], nchunks: int = 0, **attrs: Any) -> None:
    """Run the op twice by both kernels; streams and values stay equal."""
    specs = tuple(tensor(a) for a in inputs)
    make, reference, builder = find_initial_state(op), find_reference(op), find_native(op)
    assert make is not None and reference is not None and builder is not None
    attrs = {"seed": 5, "seed2": 11, **attrs}
    states = [make(NodeSpec("node", op, attrs, specs, ())).copy() for _ in range(2)]
    for _ in range(2):
        spec = NodeSpec("node", op, attrs, specs, (), {}, states[0])
        want = np.asarray(reference(spec, inputs)[0])
        spec = NodeSpec("node", op, attrs, specs, (tensor(want),), {}, states[1])
        (found,) = run_native(builder(spec), inputs, spec.outputs, nchunks, state=states[1])
        np.testing.assert_array_equal(found, want, strict=True)
        np.testing.assert_array_equal(states[0].view(np.uint64), states[1].view(np.uint64))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", ml_dtypes.bfloat16, "complex128"])
def test_shuffles(dtype: Any) -> None:
    for shape in ((2,), (5, 3), (64, 2, 7), (3001, 4)):
        check("RandomShuffle", [RNG.integers(0, 100, shape).astype(dtype)], 3)


def test_nothing_to_shuffle() -> None:
    for shape in ((), (1, 4), (0, 3), (3, 0)):
        with pytest.raises(Unsupported):
            check("RandomShuffle", [np.zeros(shape)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_classes(dtype: str) -> None:
    logits = RNG.standard_normal((6, 9)) * 5
    logits[1, 3], logits[2], logits[3, 4] = -np.inf, -np.inf, np.nan
    for samples, out in ((1, "int32"), (4, "int64"), (333, "int64")):
        check(
            "Multinomial",
            [logits.astype(dtype), np.array(samples, np.int32)],
            2,
            output_dtype=as_dtype(out),
        )
