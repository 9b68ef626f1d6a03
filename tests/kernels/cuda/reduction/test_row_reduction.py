"""Row kernels of CUDA: parts of a warp, warps, blocks and rows too long for registers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import VECTOR_LOAD, VECTOR_STORE, call_ptx, run_call, run_node
from tests.kernels.groups import ReduceBuilder, floats
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.reduction.row_reduction import rows_call
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec


def softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(-1, keepdims=True))
    result: np.ndarray = e / e.sum(-1, keepdims=True)
    return result


def run(g: ReduceBuilder, *outputs: Any, rtol: float = 2e-6, atol: float = 1e-6) -> NativeCall:
    plain = g.group(*outputs)
    group = FusedGroup("rows", plain.members, plain.inputs, plain.outputs, plain.constants)
    call = rows_call(group)
    results, _ = run_call(call, g.arrays, [group.tensor(r) for r in outputs])
    for ref, result in zip(outputs, results):
        np.testing.assert_allclose(result, g.values[ref], rtol=rtol, atol=atol)
    return call


def head(call: NativeCall) -> str:
    return call.launches[0].source.text.splitlines()[0]


@pytest.mark.parametrize(
    ("shape", "threads"),
    [
        ((4, 7), 8),
        ((3, 5, 12), 4),
        ((9, 1), 1),
        ((3, 130), 32),
        ((2, 260), 32),
        ((2, 1030), 256),
        ((1, 3), 4),
        ((12,), 4),
    ],
)
def test_softmax(shape: tuple[int, ...], threads: int) -> None:
    x = floats(*shape) * 3
    for op, wanted in (("Softmax", softmax(x)), ("LogSoftmax", np.log(softmax(x)))):
        (found,) = run_node(find_builder(op), op, [x], [x])
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)
    spec = NodeSpec("n", "Softmax", {}, (tensor(x),), (tensor(x),))
    builder = find_builder("Softmax")
    assert builder is not None
    assert head(builder(spec)).startswith(f"# rows of {threads} threads")


def test_rows_too_long_for_registers() -> None:
    x = np.zeros((2, 2049), np.float32)
    x[:, -1] = 7
    (found,) = run_node(find_builder("Softmax"), "Softmax", [x], [x])
    np.testing.assert_allclose(found, softmax(x), rtol=2e-6)


def test_softmax_of_extremes() -> None:
    inf, nan = np.inf, np.nan
    x = np.array(
        [[1e30, 0, -1e30], [inf, 0, 0], [nan, 0, 1], [-inf, 0, 0], [-inf, -inf, -inf]], np.float32
    )
    (found,) = run_node(find_builder("Softmax"), "Softmax", [x], [x])
    np.testing.assert_array_equal(found[0], [1, 0, 0])
    assert np.isnan(found[[1, 2, 4]]).all()
    np.testing.assert_allclose(found[3], [0, 0.5, 0.5])


@pytest.mark.parametrize("dtype", [d.float16, d.bfloat16, d.float64])
def test_softmax_of_other_types(dtype: Any) -> None:
    x = floats(3, 10).astype(dtype.as_numpy_dtype)
    (found,) = run_node(find_builder("Softmax"), "Softmax", [x], [x])
    rtol = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12}[dtype.name]
    np.testing.assert_allclose(found.astype(np.float64), softmax(x), rtol=rtol)


def test_cross_entropy() -> None:
    x, labels = floats(5, 7) * 3, np.array([0, 6, 3, 3, 1], np.int64)
    one_hot = (np.arange(7) == labels[:, None]).astype(np.float32)
    wanted = -np.log(softmax(x)[np.arange(5), labels])
    for op, given in (
        ("SparseSoftmaxCrossEntropyWithLogits", labels),
        ("SoftmaxCrossEntropyWithLogits", one_hot),
    ):
        specs = (TensorSpec(d.float32, (5,)), tensor(x))
        loss, backprop = run_node(find_builder(op), op, [x, given], specs)
        np.testing.assert_allclose(loss, wanted, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(backprop, softmax(x) - one_hot, rtol=1e-5, atol=1e-6)


def test_the_loss_of_an_unknown_label_is_nan() -> None:
    x, labels = floats(3, 4), np.array([0, 9, -1], np.int32)
    op = "SparseSoftmaxCrossEntropyWithLogits"
    specs = (TensorSpec(d.float32, (3,)), tensor(x))
    loss, _ = run_node(find_builder(op), op, [x, labels], specs)
    assert np.isnan(loss).tolist() == [False, True, True]


@pytest.mark.parametrize("shape", [(5, 40), (2, 3, 9), (3, 200)])
def test_layer_norm(shape: tuple[int, ...]) -> None:
    x, scale = floats(*shape), floats(shape[-1], seed=1)
    g = ReduceBuilder(x, scale)
    axis = (len(shape) - 1,)
    mean = g.reduce("Mean", g.input(0), axis, keep=True)
    centred = g.op("Sub", g.input(0), mean)
    variance = g.reduce("Mean", g.op("Square", centred), axis, keep=True)
    normal = g.op("Mul", centred, g.op("Rsqrt", variance))
    out = g.op("Mul", normal, g.input(1))
    run(g, out, mean, rtol=1e-5)


def test_a_strided_operand_and_a_value_of_each_row() -> None:
    x, per_row = floats(6, 10), floats(10, 1, seed=1)
    g = ReduceBuilder(x, per_row)
    turned = g.op("Transpose", g.input(0), g.constant(np.array([1, 0])), value=x.T.copy())
    shifted = g.op("Sub", turned, g.input(1))
    total = g.reduce("Sum", shifted, (1,))
    run(g, total, g.op("Exp", shifted))


@pytest.mark.parametrize("op", ["Max", "Min", "Prod"])
def test_other_reductions_of_integers(op: str) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (5, 9)).astype(np.int32)
    g = ReduceBuilder(x)
    run(g, g.reduce(op, g.input(0), (1,)))


def test_few_rows_have_small_blocks_and_many_have_large_ones() -> None:
    def call(rows: int) -> NativeCall:
        spec = TensorSpec(d.float32, (rows, 64))
        builder = find_builder("Softmax")
        assert builder is not None
        return builder(NodeSpec("n", "Softmax", {}, (spec,), (spec,)))

    few, many = call(100).launches[0], call(100000).launches[0]
    assert few.source == many.source
    assert few.block == (32, 1, 1) and many.block == (256, 1, 1)  # type: ignore[attr-defined]


def test_ptx_of_a_warp_and_of_a_block() -> None:
    for width, vectors in ((256, 2), (4096, 4)):
        spec = TensorSpec(d.float32, (8, width))
        builder = find_builder("Softmax")
        assert builder is not None
        call = builder(NodeSpec("n", "Softmax", {}, (spec,), (spec,)))
        for ptx in call_ptx(call).values():
            assert len(re.findall(VECTOR_LOAD, ptx)) == vectors  # the row is read once
            assert len(re.findall(VECTOR_STORE, ptx)) == vectors
            assert "shfl.sync.bfly" in ptx and ("bar.sync" in ptx) == (width > 512)


def test_group_kind_is_served() -> None:
    from tfjit.kernels.cuda.fused import group_call

    g = ReduceBuilder(floats(4, 6))
    group = replace(g.group(g.reduce("Sum", g.op("Exp", g.input(0)), (1,))), kind="rows")
    assert len(group_call(group, {}).launches) == 1
