"""Loops, reductions, rows and movement against TensorFlow's own kernels: special values, empty and
odd shapes, messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import NodeSpec, find_native

tf = pytest.importorskip("tensorflow")


def both(
    op: str, inputs: dict[str, Any], known: tuple[str, ...] = (), **attrs: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(ours, TensorFlow's) for every output of a raw op. known: inputs whose value a builder is
    told.
    """
    with tf.device("CPU"):
        wanted = getattr(tf.raw_ops, op)(**{k: tf.constant(v) for k, v in inputs.items()}, **attrs)
    flat = [w.numpy() for w in (wanted if isinstance(wanted, (list, tuple)) else [wanted])]
    arrays = [np.asarray(v) for v in inputs.values()]
    constants = {k: a for k, (name, a) in enumerate(zip(inputs, arrays)) if name in known}
    spec = NodeSpec(
        "node",
        op,
        attrs,
        tuple(tensor(a) for a in arrays),
        tuple(tensor(np.asarray(w)) for w in flat),
        constants,
    )
    builder = find_native(op)
    assert builder is not None
    return list(zip(run_native(builder(spec), arrays, spec.outputs), flat))


SPECIAL = np.array(
    [[1, np.nan, 3, -np.inf], [np.inf, 2, -0.0, 0.0], [-5, -np.inf, -np.inf, -1]], np.float32
)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min", "Prod"])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], []])
def test_reductions_of_special_values(op: str, axes: list[int]) -> None:
    for x in (
        SPECIAL,
        np.zeros((0, 3), np.float32),
        np.zeros((3, 0), np.float32),
        np.float32([[2]]),
    ):
        for ours, theirs in both(
            op, {"input": x, "axis": np.array(axes, np.int32)}, ("axis",), keep_dims=False
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_sums_are_as_exact_as_tensorflows() -> None:
    rng = np.random.default_rng(0)
    for shape, axis in [
        ((1 << 20,), 0),
        ((1 << 14, 8), 0),
        ((8, 1 << 14), 1),
        ((200, 300), 0),
        ((33, 1000), 1),
    ]:
        x = rng.random(shape).astype(np.float32)
        ((ours, theirs),) = both(
            "Sum", {"input": x, "axis": np.int32([axis])}, ("axis",), keep_dims=False
        )
        exact = x.astype(np.float64).sum(axis)
        rounding = np.spacing(np.float32(np.abs(exact).max())) / 2
        assert np.abs(ours - exact).mean() <= np.abs(theirs - exact).mean() * 1.05 + rounding


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_arg_reductions(op: str, axis: int) -> None:
    for x in (
        SPECIAL,
        np.random.default_rng(0).integers(0, 4, (7, 50)).astype(np.float32),
        np.arange(6, dtype=np.int32).reshape(2, 3) % 3,
    ):
        for ours, theirs in both(
            op, {"input": x, "dimension": np.int32(axis)}, ("dimension",), output_type=tf.int64
        ):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax(op: str) -> None:
    rng = np.random.default_rng(1)
    # rows with NaN or +inf are NaN throughout for us, as in Eigen's softmax; oneDNN's, which
    # TensorFlow uses, gives zeros beside them
    special = SPECIAL if op == "LogSoftmax" else SPECIAL[2:]
    for x in (
        special,
        rng.standard_normal((5, 300)).astype(np.float32) * 20,
        rng.standard_normal((4, 1)).astype(np.float32),
    ):
        for ours, theirs in both(op, {"logits": x}):
            np.testing.assert_allclose(ours, theirs, rtol=5e-6, atol=1e-6)


def test_cross_entropy() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((6, 11)).astype(np.float32)
    for ours, theirs in both(
        "SparseSoftmaxCrossEntropyWithLogits", {"features": x, "labels": rng.integers(0, 11, 6)}
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    for ours, theirs in both(
        "SoftmaxCrossEntropyWithLogits",
        {"features": x, "labels": rng.random((6, 11)).astype(np.float32)},
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_loops_of_special_values() -> None:
    x, y = (np.tile(a.reshape(-1), 12) for a in (SPECIAL, SPECIAL[::-1].copy()))
    for op in (
        "AddV2",
        "Sub",
        "Mul",
        "RealDiv",
        "Maximum",
        "Minimum",
        "SquaredDifference",
        "DivNoNan",
    ):
        for ours, theirs in both(op, {"x": x, "y": y}):
            np.testing.assert_array_equal(ours, theirs)
    for op in ("Neg", "Abs", "Square", "Sign", "Floor", "Sqrt"):
        for ours, theirs in both(op, {"x": x}):
            np.testing.assert_array_equal(ours, theirs)
    for op in ("Relu", "Relu6"):
        for ours, theirs in both(op, {"features": x}):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("a", "b"), [((3, 1, 5), (4, 1)), ((0, 3), (3,)), ((), (2, 2)), ((2, 3, 4, 5), (4, 1))]
)
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    for ours, theirs in both(
        "AddV2", {"x": rng.random(a).astype(np.float32), "y": rng.random(b).astype(np.float32)}
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_integer_division() -> None:
    x = np.array([7, -7, 7, -7, -(2**31)], np.int32)
    y = np.array([2, 2, -2, -2, -1], np.int32)
    for op in ("FloorDiv", "TruncateDiv", "FloorMod", "TruncateMod"):
        for ours, theirs in both(op, {"x": x[:4], "y": y[:4]}):
            np.testing.assert_array_equal(ours, theirs)


def test_movement() -> None:
    x = np.random.default_rng(0).random((4, 6, 5)).astype(np.float32)
    cases: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("Transpose", {"x": x, "perm": np.int32([2, 0, 1])}, {}),
        (
            "StridedSlice",
            {
                "input": x,
                "begin": np.int32([3, 1, 0]),
                "end": np.int32([0, 6, 1]),
                "strides": np.int32([-2, 2, 1]),
            },
            {"shrink_axis_mask": 4},
        ),
        (
            "MirrorPad",
            {"input": x, "paddings": np.int32([[1, 2], [0, 3], [4, 0]])},
            {"mode": "REFLECT"},
        ),
        ("Tile", {"input": x, "multiples": np.int32([2, 1, 3])}, {}),
        (
            "GatherV2",
            {"params": x, "indices": np.int64([[3, 0], [5, 5]]), "axis": np.int32(1)},
            {"batch_dims": 0},
        ),
        ("ReverseV2", {"tensor": x, "axis": np.int32([0, 2])}, {}),
        (
            "OneHot",
            {
                "indices": np.int32([[0, 2], [-1, 9]]),
                "depth": np.int32(4),
                "on_value": np.float32(1),
                "off_value": np.float32(0),
            },
            {"axis": 1},
        ),
    ]
    for op, inputs, attrs in cases:
        for ours, theirs in both(op, inputs, tuple(inputs), **attrs):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("indices", [np.array([[0, 1], [7, 9]]), np.array(-1)])
def test_message_of_an_index_out_of_range(indices: np.ndarray) -> None:
    params = np.zeros((5, 3), np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError) as wanted, tf.device("CPU"):
        tf.raw_ops.GatherV2(params=params, indices=indices, axis=0)
    inputs = [params, indices, np.array(0, np.int32)]
    out = tensor(np.zeros((*indices.shape, 3), np.float32))
    spec = NodeSpec(
        "node",
        "GatherV2",
        {"batch_dims": 0},
        tuple(tensor(a) for a in inputs),
        (out,),
        {2: inputs[2]},
    )
    builder = find_native("GatherV2")
    assert builder is not None
    with pytest.raises(KernelError) as caught:
        run_native(builder(spec), inputs, spec.outputs)
    assert caught.value.args[1] in wanted.value.message


def test_bfloat16_and_half() -> None:
    rng = np.random.default_rng(0)
    for dtype in (d.float16, d.bfloat16):
        x, y = (rng.standard_normal((3, 40)).astype(dtype.as_numpy_dtype) for _ in range(2))
        for op in ("AddV2", "Mul", "RealDiv"):
            for ours, theirs in both(op, {"x": x, "y": y}):
                np.testing.assert_array_equal(ours, theirs)
