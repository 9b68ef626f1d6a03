"""Histograms and searches in sorted rows, against their references and TensorFlow's session."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow

import tfjit
import tfjit.kernels.cpu  # registers every kernel
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import NodeSpec, find_native, find_reference

tf1 = tensorflow.compat.v1
RNG = np.random.default_rng(12)


def histogram(values: np.ndarray, limits: np.ndarray, bins: int, chunks: int = 0) -> None:
    """Compare the compiled counts with the reference's."""
    inputs = [values, limits, np.array(bins, np.int32)]
    attrs = {"dtype": dtypes.int32}
    known = {1: inputs[1], 2: inputs[2]}
    builder, reference = find_native("HistogramFixedWidth"), find_reference("HistogramFixedWidth")
    assert builder is not None and reference is not None
    specs = tuple(map(tensor, inputs))
    (want,) = reference(NodeSpec("h", "HistogramFixedWidth", attrs, specs, (), known), inputs)
    spec = NodeSpec("h", "HistogramFixedWidth", attrs, specs, (tensor(want),), known)
    (found,) = run_native(builder(spec), inputs, spec.outputs, chunks)
    np.testing.assert_array_equal(found, want, strict=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_histograms(dtype: str) -> None:
    for count, bins in ((0, 3), (50, 1), (30_000, 17)):
        values = (RNG.standard_normal(count) * 20).astype(dtype)
        histogram(values, np.array([-10, 31], dtype), bins)
    edges = np.array([-np.inf, np.inf, 0, 1, 0.5, -0.0]).astype("float32")
    histogram(edges, np.float32([0, 1]), 4)


def test_nan_in_a_histogram() -> None:
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="must not contain NaN"):
        histogram(np.float32([0, np.nan]), np.float32([0, 1]), 4)
    builder = find_native("HistogramFixedWidth")
    assert builder is not None
    inputs = [np.float32([0, np.nan]), np.float32([0, 1]), np.array(4, np.int32)]
    out = tensor(np.zeros(4, np.int32))
    spec = NodeSpec(
        "h",
        "HistogramFixedWidth",
        {"dtype": dtypes.int32},
        tuple(map(tensor, inputs)),
        (out,),
        {1: inputs[1], 2: inputs[2]},
    )
    with pytest.raises(KernelError, match="must not contain NaN"):
        run_native(builder(spec), inputs, (out,))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
def test_searches(dtype: str) -> None:
    """Rows with equal elements; NaN and infinities among the values."""
    rows = np.sort(RNG.integers(0, 40, (3, 33)), axis=1).astype(dtype)
    values = RNG.integers(0, 45, (3, 50)).astype(dtype)
    if dtype.startswith("float"):
        rows[0, -1] = np.inf
        values[:, :3] = [np.nan, np.inf, -np.inf]
    fetches, sessions = [], []
    for lib in (tf1, tfjit):
        with lib.Graph().as_default() as graph:
            s, x = (lib.placeholder(dtype, one.shape) for one in (rows, values))
            more = {"sorted_inputs": s, "values": x}
            fetches.append(
                [
                    getattr(lib.raw_ops, op)(**more, out_type=out)
                    for op in ("LowerBound", "UpperBound")
                    for out in (lib.int32, lib.int64)
                ]
            )
            sessions.append((lib.Session(graph=graph), {s: rows, x: values}))
    (theirs, wanted), (ours, feeds) = sessions
    expected = theirs.run(fetches[0], wanted)
    for _ in range(2):  # by the reference, and compiled
        for found, want in zip(ours.run(fetches[1], feeds), expected, strict=True):
            np.testing.assert_array_equal(found, want, strict=True)
        assert ours.wait_until_compiled(300)
