"""Gathers and scatters by index vectors, segments and inverse permutations: against their
references, and TensorFlow where NaNs meet.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.against_reference import check
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import NodeSpec, find_native, find_reference

RNG = np.random.default_rng(7)


def whole(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Small integers: sums of them are exact in any order."""
    return RNG.integers(0, 50, shape).astype(dtype)


def places(limits: tuple[int, ...], *shape: int, dtype: str = "int32") -> np.ndarray:
    return np.stack([RNG.integers(0, n, shape) for n in limits], -1).astype(dtype)


def fails(op: str, *inputs: np.ndarray, **attrs: Any) -> None:
    """The native kernel says what the reference says."""
    reference, builder = find_reference(op), find_native(op)
    assert reference is not None
    assert builder is not None
    specs = tuple(tensor(a) for a in inputs)
    with pytest.raises(InvalidArgumentError) as wanted:
        reference(NodeSpec("node", op, attrs, specs, (), dict(enumerate(inputs))), inputs)
    shape = inputs[0].shape
    if op == "GatherNd":
        shape = inputs[1].shape[:-1] + shape[inputs[1].shape[-1] :]
    elif op.startswith("Unsorted"):
        shape = (int(inputs[2]), *shape[inputs[1].ndim :])
    elif op == "ScatterNd":
        shape = tuple(int(n) for n in inputs[2])
    out = np.zeros(shape, inputs[1 if op == "ScatterNd" else 0].dtype)
    spec = NodeSpec("node", op, attrs, specs, (tensor(out),), dict(enumerate(inputs)))
    with pytest.raises(KernelError) as raised:
        run_native(builder(spec), inputs, spec.outputs)
    assert raised.value.args[1] == wanted.value.message


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("inner", [1, 5, 40])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_gather_nd(depth: int, inner: int, dtype: str) -> None:
    limits = (4, 3, 6)[:depth]
    check("GatherNd", whole(*limits, inner), places(limits, 7, 3, dtype=dtype), nchunks=3)
    check("GatherNd", whole(*limits), places(limits, 9))


@pytest.mark.parametrize(
    ("dtype", "inner"),
    [
        *(("float32", inner) for inner in ((), (7,), (200,))),
        *((dtype, ()) for dtype in ("float64", "int8", "complex64")),
        *((dtype, (200,)) for dtype in ("float16", "int64", "bool")),
    ],
)
def test_scatter_nd(dtype: str, inner: tuple[int, ...]) -> None:
    updates = (whole(30, *inner) % 2).astype(dtype)
    check("ScatterNd", places((5, 4), 30), updates, np.array([5, 4, *inner], np.int32), nchunks=3)


@pytest.mark.parametrize(
    "op",
    [
        "ScatterNdNonAliasingAdd",
        "TensorScatterAdd",
        "TensorScatterSub",
        "TensorScatterMax",
        "TensorScatterMin",
        "TensorScatterUpdate",
    ],
)
@pytest.mark.parametrize("inner", [(), (3,), (300,)])
def test_tensor_scatter(op: str, inner: tuple[int, ...]) -> None:
    index = (
        RNG.permutation(20)[:12, None].astype(np.int64)
        if op.endswith("Update")
        else places((20,), 50, dtype="int64")
    )
    for nchunks in (1, 3):
        check(op, whole(20, *inner), index, whole(len(index), *inner), nchunks=nchunks)


@pytest.mark.parametrize(
    "op", ["UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_unsorted_segments(op: str, dtype: str) -> None:
    data = RNG.integers(1, 3, (8, 6, 5)).astype(dtype)
    for ids in (RNG.integers(-1, 7, 8), RNG.integers(-1, 7, (8, 6))):
        check(op, data, ids.astype(np.int32), np.int32(7), nchunks=2)
    check(op, data[:0], np.zeros(0, np.int32), np.int32(3))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        ("UnsortedSegmentSum", "float32"),
        ("UnsortedSegmentProd", "uint8"),
        ("UnsortedSegmentMax", "float64"),
        ("UnsortedSegmentMin", "int32"),
    ],
)
def test_unsorted_segments_of_single_elements(op: str, dtype: str) -> None:
    """By int64, too: how ids are read has nothing to do with how elements are joined."""
    data = RNG.integers(1, 3, 240).astype(dtype)
    check(op, data, RNG.integers(0, 4, 240).astype(np.int64), np.int32(9))


def test_inverse_permutation() -> None:
    for n in (0, 1, 70):
        check("InvertPermutation", RNG.permutation(n).astype(np.int32))
        check("InvertPermutation", RNG.permutation(n).astype(np.int64))


def test_faulty_indices_are_named() -> None:
    fails("GatherNd", whole(3, 4), np.array([[[0, 1], [2, 4]], [[-1, 0], [0, 0]]], np.int32))
    fails("ScatterNd", np.array([[0], [9], [7]], np.int32), whole(3), np.array([5], np.int32))
    fails("TensorScatterAdd", whole(3, 4), np.array([[2], [-5]], np.int64), whole(2, 4))
    fails("UnsortedSegmentSum", whole(6), np.array([0, 1, -3, 8, 2, 9], np.int32), np.int32(5))
    fails(
        "UnsortedSegmentMax", whole(2, 3), np.array([[0, 1, 2], [3, 0, 1]], np.int64), np.int32(3)
    )
    fails("InvertPermutation", np.array([0, 1, 5], np.int32))
    fails("InvertPermutation", np.array([0, 1, 1], np.int32))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_scatters(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    inner = tuple(data.draw(st.lists(st.integers(1, 20), max_size=2)))
    many = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=2)))
    index = places(shape, *many, dtype=data.draw(st.sampled_from(["int32", "int64"])))
    op = data.draw(
        st.sampled_from(["TensorScatterAdd", "TensorScatterMax", "ScatterNd", "GatherNd"])
    )
    nchunks = data.draw(st.sampled_from([0, 1, 2, 5]))
    if op == "GatherNd":
        check(op, whole(*shape, *inner), index, nchunks=nchunks)
    elif op == "ScatterNd":
        check(
            op, index, whole(*many, *inner), np.array([*shape, *inner], np.int32), nchunks=nchunks
        )
    else:
        check(op, whole(*shape, *inner), index, whole(*many, *inner), nchunks=nchunks)


def test_extremes_of_nan_are_tensorflows() -> None:
    tf = pytest.importorskip("tensorflow")
    nan, inf = np.float32(np.nan), np.float32(np.inf)
    data = np.array([-inf, nan, 1, 1, nan, inf], np.float32)
    ids = np.array([0, 1, 1, 2, 2, 3], np.int32)
    for op, fn in (
        ("UnsortedSegmentMax", tf.math.unsorted_segment_max),
        ("UnsortedSegmentMin", tf.math.unsorted_segment_min),
    ):
        builder = find_native(op)
        assert builder is not None
        for values in (data, -data):
            want = fn(values, ids, 5).numpy()
            inputs = (values, ids, np.array(5, np.int32))
            spec = NodeSpec(
                "node", op, {}, tuple(tensor(a) for a in inputs), (tensor(want),), {2: inputs[2]}
            )
            np.testing.assert_array_equal(run_native(builder(spec), inputs, spec.outputs)[0], want)
    index, updates, x = (
        np.array([[0], [0], [1], [2]], np.int32),
        np.array([nan, 1, nan, 5], np.float32),
        np.array([0, 0, nan], np.float32),
    )
    for op, fn in (
        ("TensorScatterMax", tf.tensor_scatter_nd_max),
        ("TensorScatterMin", tf.tensor_scatter_nd_min),
    ):
        builder = find_native(op)
        assert builder is not None
        want = fn(x, index, updates).numpy()
        spec = NodeSpec(
            "node", op, {}, (tensor(x), tensor(index), tensor(updates)), (tensor(want),), {}
        )
        np.testing.assert_array_equal(
            run_native(builder(spec), (x, index, updates), spec.outputs)[0], want
        )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float32"])
def test_unique_values_in_order_of_appearance(dtype: str) -> None:
    reference = find_reference("UniqueWithCounts")
    assert reference is not None
    ends = np.iinfo(dtype) if dtype != "float32" else np.finfo(dtype)
    for x in (
        RNG.integers(0, 100, 700).astype(dtype),
        np.array([ends.min, ends.max, 0, ends.min, 1] * 30, dtype),
        np.zeros(0, dtype),
    ):
        seen: dict[Any, int] = {}
        numbers = [seen.setdefault(value, len(seen)) for value in x.tolist()]
        spec = NodeSpec("node", "UniqueWithCounts", {"out_idx": d.int32}, (tensor(x),), ())
        found, places, counts = (np.asarray(a) for a in reference(spec, [x]))
        assert found.dtype == x.dtype
        assert found.tolist() == list(seen)
        assert places.tolist() == numbers
        assert counts.tolist() == np.bincount(numbers, minlength=len(seen)).tolist()
