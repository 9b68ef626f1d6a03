"""Reductions of sorted segments: against their references, which are compared with TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.against_reference import check
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_native, find_reference

RNG = np.random.default_rng(6)
IDS = np.array([0, 0, 0, 2, 2, 5, 6, 6], np.int32)
KINDS = ("Sum", "Mean", "Prod", "Max", "Min")
SPARSE = ("Sum", "Mean", "SqrtN")


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.integers(1, 5, shape).astype(dtype)


def places(limit: int, count: int) -> np.ndarray:
    return RNG.integers(0, limit, count).astype(np.int32)


def fails(op: str, segments: int, *inputs: np.ndarray) -> None:
    """The native kernel says what the reference says."""
    reference, builder = find_reference(op), find_native(op)
    assert reference is not None and builder is not None
    specs = tuple(tensor(a) for a in inputs)
    with pytest.raises(InvalidArgumentError) as wanted:
        reference(NodeSpec("node", op, {}, specs, ()), inputs)
    outputs = (TensorSpec(d.float32, (segments, *inputs[0].shape[1:])),)
    call = builder(NodeSpec("node", op, {}, specs, outputs))
    with pytest.raises(KernelError) as raised:
        run_native(call, inputs, outputs)
    assert raised.value.args == ("InvalidArgumentError", wanted.value.message)


@pytest.mark.parametrize("kind", KINDS)
def test_segments(kind: str) -> None:
    for inner in ((), (5,), (3, 70)):
        check(f"Segment{kind}", numbers(8, *inner), IDS, nchunks=3)
    check(f"Segment{kind}", numbers(8, 5), IDS.astype(np.int64))


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8"])
def test_dtypes(dtype: str) -> None:
    for kind in ("Sum", "Mean", "Max"):
        check(f"Segment{kind}", numbers(8, 5, dtype=dtype), IDS)


def test_no_rows() -> None:
    check("SegmentSum", numbers(0, 3), np.zeros(0, np.int32))
    none = np.zeros(0, np.int32)
    check("SparseSegmentMeanWithNumSegments", numbers(4, 3), none, none, np.int32(2))
    check("SparseSegmentMeanGrad", numbers(2, 3), none, none, np.int32(4))


@pytest.mark.parametrize("kind", SPARSE)
def test_rows_at_indices(kind: str) -> None:
    for inner in ((), (5,), (3, 70)):
        data, index = numbers(9, *inner), places(9, 8)
        if kind == "SqrtN":
            data = np.ones_like(data)  # roots are rounded once
        check(f"SparseSegment{kind}", data, index, IDS, nchunks=2)
        check(f"SparseSegment{kind}WithNumSegments", data, index, IDS, np.int32(9))


@pytest.mark.parametrize("kind", SPARSE)
def test_gradients(kind: str) -> None:
    reference, builder = (
        find(f"SparseSegment{kind}Grad") for find in (find_reference, find_native)
    )
    assert reference is not None and builder is not None
    for inner, dtype in (((), "float32"), ((5,), "float64"), ((3, 70), "float32")):
        inputs = (numbers(7, *inner, dtype=dtype), places(9, 8).astype(np.int64), IDS, np.int32(9))
        specs = tuple(tensor(np.asarray(a)) for a in inputs)
        op = f"SparseSegment{kind}Grad"
        (wanted,) = reference(NodeSpec("node", op, {}, specs, ()), inputs)
        spec = NodeSpec("node", op, {}, specs, (tensor(wanted),))
        for nchunks in (1, 3):
            (found,) = run_native(builder(spec), inputs, spec.outputs, nchunks)
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_faulty_numbers_are_named() -> None:
    data, rows = numbers(3, 2), np.arange(3, dtype=np.int32)
    for ids in ([0, 2, 1], [-3, -2, -2], [-1, 0, 1], [-1, -1, -1]):
        fails("SegmentSum", 3, data, np.array(ids, np.int32))
        fails("SparseSegmentSum", 3, data, rows, np.array(ids, np.int32))
    ids = np.array([0, 0, 2], np.int32)
    fails("SparseSegmentMean", 3, data, np.array([0, 3, -1]), ids)
    fails("SparseSegmentMeanWithNumSegments", 2, data, rows, ids, np.int32(2))
    fails("SparseSegmentSumGrad", 5, data, rows, np.array([0, 3, 9], np.int32), np.int32(5))
    fails("SparseSegmentSumGrad", 5, data, np.array([0, 5, 9], np.int32), ids, np.int32(5))


def test_narrow_floats_are_left_to_the_reference() -> None:
    builder = find_native("SegmentSum")
    assert builder is not None
    inputs = (tensor(numbers(8, 2, dtype="float16")), tensor(IDS))
    with pytest.raises(Unsupported):
        builder(NodeSpec("node", "SegmentSum", {}, inputs, (TensorSpec(d.float16, (7, 2)),)))
