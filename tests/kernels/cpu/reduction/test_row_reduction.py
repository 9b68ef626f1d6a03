"""Row kernels: softmax, cross entropy, layer norm and their like, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.groups import ReduceBuilder, floats
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.reduction.row_reduction import BLOCK, rows_call
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_native

SHAPES = [(4, 7), (3, 5, 70), (100, 1), (9, 5000), (256, 10), (1, 3), (12,)]


def softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(-1, keepdims=True))
    result: np.ndarray = e / e.sum(-1, keepdims=True)
    return result


def run_node(
    op: str, inputs: list[np.ndarray], shapes: list[tuple[int, ...]], **kwargs: Any
) -> list[np.ndarray]:
    outputs = tuple(TensorSpec(tensor(inputs[0]).dtype, shape) for shape in shapes)
    builder = find_native(op)
    assert builder is not None
    return run_native(
        builder(NodeSpec("node", op, {}, tuple(tensor(a) for a in inputs), outputs)),
        inputs,
        outputs,
        **kwargs,
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(shape: tuple[int, ...]) -> None:
    x = floats(*shape) * 3
    np.testing.assert_allclose(run_node("Softmax", [x], [shape])[0], softmax(x), rtol=2e-6)
    np.testing.assert_allclose(
        run_node("LogSoftmax", [x], [shape], nchunks=2)[0], np.log(softmax(x)), rtol=2e-6, atol=2e-6
    )


@pytest.mark.parametrize("width", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK + 3])
def test_every_column_of_a_partial_block_counts(width: int) -> None:
    # the largest element, the weight of a sum and an output are all in the last column
    x = np.zeros((2, width), np.float32)
    x[:, -1] = 7
    (result,) = run_node("Softmax", [x], [x.shape])
    np.testing.assert_allclose(result, softmax(x), rtol=2e-6)


def test_softmax_of_extremes() -> None:
    x = np.array(
        [
            [1e30, 0, -1e30],
            [np.inf, 0, 0],
            [np.nan, 0, 1],
            [-np.inf, 0, 0],
            [-np.inf, -np.inf, -np.inf],
        ],
        np.float32,
    )
    (result,) = run_node("Softmax", [x], [x.shape])
    np.testing.assert_array_equal(result[0], [1, 0, 0])
    assert np.isnan(result[1]).all()
    assert np.isnan(result[2]).all()
    np.testing.assert_allclose(result[3], [0, 0.5, 0.5])
    assert np.isnan(result[4]).all()


@pytest.mark.parametrize("shape", [(4, 7), (100, 1), (9, 5000), (256, 10)], ids=str)
@pytest.mark.parametrize("label_dtype", [np.int32, np.int64])
def test_cross_entropy(shape: tuple[int, int], label_dtype: type) -> None:
    x = floats(*shape) * 3
    labels = np.random.default_rng(0).integers(0, shape[1], shape[0]).astype(label_dtype)
    one_hot = (np.arange(shape[1]) == labels[:, None]).astype(np.float32)
    wanted_loss = -np.log(softmax(x)[np.arange(shape[0]), labels])
    for op, given in (
        ("SparseSoftmaxCrossEntropyWithLogits", labels),
        ("SoftmaxCrossEntropyWithLogits", one_hot),
    ):
        loss, backprop = run_node(op, [x, given], [shape[:1], shape], nchunks=3)
        np.testing.assert_allclose(loss, wanted_loss, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(backprop, softmax(x) - one_hot, rtol=1e-5, atol=1e-6)


def test_label_out_of_range() -> None:
    x = floats(5, 4)
    with pytest.raises(KernelError) as caught:
        run_node(
            "SparseSoftmaxCrossEntropyWithLogits",
            [x, np.array([0, 1, 9, 3, 3], np.int32)],
            [(5,), (5, 4)],
        )
    name, message = caught.value.args
    assert name == "InvalidArgumentError"
    assert message.startswith(
        "Received a label value of 9 which is outside the valid range of [0, 4)."
    )


def test_dense_labels_may_broadcast() -> None:
    x, labels = floats(6, 5), np.full((1, 5), 0.2, np.float32)
    loss, _ = run_node("SoftmaxCrossEntropyWithLogits", [x, labels], [(6,), (6, 5)])
    np.testing.assert_allclose(loss, -(0.2 * np.log(softmax(x))).sum(-1), rtol=1e-5)


def rows_group(g: ReduceBuilder, *outputs: Any, **kwargs: Any) -> Any:
    return g.run("rows", rows_call, *outputs, **kwargs)


@pytest.mark.parametrize("shape", [(8, 40), (3, 4, 100), (50, 9000)], ids=str)
def test_layer_norm(shape: tuple[int, ...]) -> None:
    n = shape[-1]
    last = (len(shape) - 1,)
    g = ReduceBuilder(
        floats(*shape), floats(n, seed=1), floats(n, seed=2), np.float32(1e-3).reshape(())
    )
    x, gamma, beta, epsilon = (g.input(k) for k in range(4))
    mean = g.reduce("Mean", x, last, keep=True)
    centred = g.op("Sub", x, mean)
    variance = g.reduce("Mean", g.op("Square", centred), last, keep=True)
    scale = g.op("Rsqrt", g.op("AddV2", variance, epsilon))
    out = g.op("AddV2", g.op("Mul", g.op("Mul", centred, scale), gamma), beta)
    call = rows_group(g, out, mean, variance, rtol=1e-4, atol=1e-5)
    assert len(call.launches) == 1


def test_softmax_written_with_primitives() -> None:
    g = ReduceBuilder(floats(6, 50))
    shifted = g.op("Sub", g.input(0), g.reduce("Max", g.input(0), (1,), keep=True))
    e = g.op("Exp", shifted)
    rows_group(g, g.op("RealDiv", e, g.reduce("Sum", e, (1,), keep=True)), rtol=1e-5)


def test_logsumexp_with_a_scale_and_no_kept_dims() -> None:
    g = ReduceBuilder(floats(6, 50), np.float32(2).reshape(()))
    x = g.op("Mul", g.input(0), g.input(1))
    top = g.reduce("Max", x, (1,), keep=True)
    total = g.reduce("Sum", g.op("Exp", g.op("Sub", x, top)), (1,))
    flat = g.op("Squeeze", top, value=g.values[top][:, 0], squeeze_dims=[1])
    rows_group(g, g.op("AddV2", g.op("Log", total), flat), rtol=1e-5)


def test_masked_columns_get_nothing() -> None:
    x = floats(5, 70)
    x[:, ::3] = [[-np.inf], [-1e9], [-200], [-103.5], [-88.5]]
    (result,) = run_node("Softmax", [x], [x.shape])
    np.testing.assert_allclose(result, softmax(x), rtol=2e-6, atol=1e-37)
    assert not result[:, ::3].any()


def test_logsumexp_of_infinities() -> None:
    x = floats(6, 50) * 100
    x[0, 3] = np.inf
    x[1] = -np.inf
    x[2, 7] = -np.inf
    x[3, :2] = np.inf, -np.inf
    x[4, 5] = np.nan
    g = ReduceBuilder(x, np.zeros((), np.float32))
    top = g.reduce("Max", g.input(0), (1,), keep=True)
    shift = g.op("SelectV2", g.op("IsFinite", top), top, g.input(1))
    total = g.reduce("Sum", g.op("Exp", g.op("Sub", g.input(0), shift)), (1,), keep=True)
    with np.errstate(divide="ignore", over="ignore"):
        rows_group(g, g.op("AddV2", g.op("Log", total), shift), rtol=1e-5)


def test_two_dims_a_row() -> None:
    g = ReduceBuilder(floats(5, 6, 7))
    norm = g.reduce("Sum", g.op("Square", g.input(0)), (1, 2), keep=True)
    rows_group(g, g.op("Mul", g.input(0), g.op("Rsqrt", norm)), rtol=1e-5)


def test_a_value_used_across_rows_is_refused() -> None:
    g = ReduceBuilder(floats(6, 6))
    total = g.reduce("Sum", g.input(0), (1,))
    with pytest.raises(Unsupported, match="across rows"):
        rows_group(g, g.op("Mul", g.input(0), total))


def test_half_types() -> None:
    x = floats(6, 50).astype(d.bfloat16.as_numpy_dtype)
    (result,) = run_node("Softmax", [x], [x.shape])
    np.testing.assert_allclose(result.astype(np.float64), softmax(x.astype(np.float64)), rtol=2e-2)
