"""Reversed sequences and equal steps on simulated GPUs, against the references."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_call
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import TensorSpec, Unsupported

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex128", "uint8"])
def test_reversed_sequences(dtype: str, index: str) -> None:
    for shape, batch, sequence in (
        ((3, 4), 0, 1), ((4, 3), 1, 0), ((2, 3, 2, 5, 3), 1, 3), ((2, 5, 2, 3, 2), 3, 1),
        ((0, 4), 0, 1), ((2, 0), 0, 1), ((1, 1), 0, 1),
    ):  # fmt: skip
        x = (RNG.normal(size=shape) * 9 + 20).astype(dtype)
        lengths = RNG.integers(0, shape[sequence] + 1, shape[batch]).astype(index)
        check("ReverseSequence", x, lengths, batch_dim=batch, seq_dim=sequence)


def test_lengths_that_the_host_refuses_are_cut() -> None:
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    inputs, out = [x, np.int64([7, -2])], TensorSpec(d.float32, (2, 3))
    call = call_of("ReverseSequence", inputs, [out], batch_dim=0, seq_dim=1)
    (found,), _ = run_call(call, inputs, [out])
    np.testing.assert_array_equal(found, [[3, 2, 1], [4, 5, 6]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_steps(dtype: str) -> None:
    kind = np.dtype(dtype).type
    for start, stop, count in ((0, 1, 7), (-2.5, 3, 1), (5, -1, 2), (1, 1, 4)):
        check("LinSpace", kind(start), kind(stop), np.int32(count), near=1e-6)
    for start, limit, step in ((0, 1, 0.3), (5, -1, -0.7), (2, 2, 1)):
        check("Range", kind(start), kind(limit), kind(step), near=1e-6)
    check("Range", np.int64(5), np.int64(-70), np.int64(-3))


def test_forms_without_a_kernel() -> None:
    x = np.zeros((2, 3), np.float32)
    for lengths, attrs in ((np.int64([1, 1]), {"seq_dim": 0}), (np.int64([1]), {"seq_dim": 1})):
        with pytest.raises(Unsupported, match="the reference tells"):
            call_of("ReverseSequence", [x, lengths], [tensor(x)], **attrs)
    half = np.float16(1)
    with pytest.raises(Unsupported, match="float16"):
        call_of("Range", [half, half, half], [TensorSpec(d.float16, (1,))])
