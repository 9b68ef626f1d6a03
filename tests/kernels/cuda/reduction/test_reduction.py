"""Reductions of CUDA over any axes, in one launch and in parts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import VECTOR_LOAD, call_ptx, run_call, run_node
from tests.kernels.groups import NUMPY, ReduceBuilder, floats
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.reduction import reduction
from tfjit.kernels.cuda.reduction.reduction import reduce_call
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec


def run(g: ReduceBuilder, *outputs: Any, rtol: float = 2e-6, atol: float = 1e-6) -> NativeCall:
    plain = g.group(*outputs)
    group = FusedGroup("reduce", plain.members, plain.inputs, plain.outputs, plain.constants)
    call = reduce_call(group)
    results, _ = run_call(call, g.arrays, [group.tensor(r) for r in outputs])
    for ref, result in zip(outputs, results):
        np.testing.assert_allclose(result, g.values[ref], rtol=rtol, atol=atol)
    return call


CASES = [
    ((7,), (0,)), ((64,), (0,)), ((3, 5), (0,)), ((3, 5), (1,)), ((3, 5), (0, 1)),
    ((9, 40), (0,)), ((2, 3, 4, 5), (0, 2)), ((2, 3, 4, 5), (1, 3)), ((2, 3, 4, 5), (1, 2)),
    ((2, 1, 8), (1, 2)), ((3, 5), ()), ((1, 1), (0, 1)), ((4, 3, 8), (0, 2)), ((50, 3), (0,)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), CASES, ids=str)
def test_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    g = ReduceBuilder(floats(*shape))
    run(g, g.reduce("Sum", g.input(0), axes))


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min", "Prod"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8", "int64"])
def test_ops_and_types(op: str, dtype: str) -> None:
    x = (floats(5, 6) * 3).astype(dtype)
    if op == "Mean" and dtype.startswith("int"):
        wanted = np.trunc(x.astype(np.int64).sum(0) / 5).astype(dtype)
    else:
        wanted = NUMPY[op](x.astype(np.float64 if dtype[0] == "f" else dtype), axis=0).astype(dtype)
    axes = np.array([0], np.int32)
    (found,) = run_node(find_builder(op), op, [x, axes], [wanted], {1: axes}, keep_dims=False)
    rtol = {"float16": 2e-3, "float32": 1e-5}.get(dtype, 1e-12)
    np.testing.assert_allclose(found, wanted, rtol=rtol)


@pytest.mark.parametrize("op", ["All", "Any"])
def test_of_booleans(op: str) -> None:
    x = np.array([[True, True, False], [True, False, False]])
    axes = np.array([0], np.int32)
    wanted = NUMPY[op](x, axis=0)
    (found,) = run_node(find_builder(op), op, [x, axes], [wanted], {1: axes}, keep_dims=False)
    np.testing.assert_array_equal(found, wanted)


def test_empty_ranges() -> None:
    axes = np.array([0], np.int32)
    x = np.zeros((0, 3), np.float32)
    for op, value in (("Sum", 0), ("Prod", 1), ("Max", -np.inf), ("Mean", np.nan)):
        out = np.zeros(3, np.float32)
        (found,) = run_node(find_builder(op), op, [x, axes], [out], {1: axes}, keep_dims=False)
        np.testing.assert_array_equal(found, np.full(3, value, np.float32))
    out = np.ones(3, np.complex64)
    given = [x.astype(np.complex64), axes]
    (found,) = run_node(find_builder("Mean"), "Mean", given, [out], {1: axes}, keep_dims=False)
    np.testing.assert_array_equal(found, np.zeros(3, np.complex64))
    none = np.zeros((3, 0), np.float32)
    (found,) = run_node(find_builder("Sum"), "Sum", [none, axes], [none[0]], {1: axes})
    assert found.shape == (0,)


def test_max_of_nan_is_nan() -> None:
    x = np.array([1, np.nan, 2, 0, 5], np.float32)
    axes = np.array([0], np.int32)
    (found,) = run_node(find_builder("Max"), "Max", [x, axes], [x[0]], {1: axes}, keep_dims=False)
    assert np.isnan(found)


@pytest.mark.parametrize(("shape", "axes"), [((4, 64), (0, 1)), ((40, 6), (0,)), ((3, 33), (1,))])
def test_blocks_share_a_result(
    shape: tuple[int, ...], axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "_LEAST_SHARE", 1)
    monkeypatch.setattr(reduction, "_BLOCKS", 5)
    monkeypatch.setattr(reduction, "THREADS", 32)
    g = ReduceBuilder(floats(*shape))
    total = g.reduce("Mean", g.op("Square", g.input(0)), axes)
    call = run(g, g.op("Sqrt", total))
    assert len(call.launches) == (1 if axes == (1,) else 2)


def test_members_before_beside_and_after() -> None:
    x, scale = floats(6, 8), floats(8, seed=1)
    g = ReduceBuilder(x, scale)
    doubled = g.op("Mul", g.input(0), g.input(1))
    total, top = g.reduce("Sum", doubled, (0,)), g.reduce("Max", doubled, (0,))
    run(g, doubled, g.op("AddV2", total, g.op("Abs", top)), top)


def test_other_heads() -> None:
    x = floats(3, 8)
    (found,) = run_node(find_builder("L2Loss"), "L2Loss", [x], [np.float32(0)])
    np.testing.assert_allclose(found, (x**2).sum() / 2, rtol=1e-6)
    axes = np.array([0], np.int32)
    (norm,) = run_node(find_builder("EuclideanNorm"), "EuclideanNorm", [x, axes], [x[0]], {1: axes})
    np.testing.assert_allclose(norm, np.sqrt((x**2).sum(0)), rtol=1e-6)
    (grad,) = run_node(find_builder("BiasAddGrad"), "BiasAddGrad", [x], [x[0]], data_format=b"NHWC")
    np.testing.assert_allclose(grad, x.sum(0), rtol=1e-6)


def test_complex_products() -> None:
    x = (floats(5, 3) + 1j * floats(5, 3, seed=1)).astype(np.complex64)
    axes = np.array([0], np.int32)
    (found,) = run_node(find_builder("Prod"), "Prod", [x, axes], [x[0]], {1: axes})
    np.testing.assert_allclose(found, x.prod(0), rtol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axes"), [((6, 8), (0,)), ((37, 3), (0,)), ((5, 30), (1,)), ((4, 3, 8), (0, 2))]
)
@pytest.mark.parametrize("parts", [1, 5])
def test_variances_in_one_pass(
    shape: tuple[int, ...], axes: tuple[int, ...], parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts > 1:
        monkeypatch.setattr(reduction, "_LEAST_SHARE", 1)
        monkeypatch.setattr(reduction, "_BLOCKS", parts)
        monkeypatch.setattr(reduction, "THREADS", 32)
    # far from zero: a difference of squares would lose all digits
    g = ReduceBuilder(floats(*shape) + 1000)
    mean = g.reduce("Mean", g.input(0), axes, keep=True)
    variance = g.reduce("Mean", g.op("SquaredDifference", g.input(0), mean), axes)
    run(g, variance, mean, rtol=1e-4)


def call_of(shape: tuple[int, ...], axes: tuple[int, ...]) -> NativeCall:
    x, known = TensorSpec(d.float32, shape), np.array(axes, np.int32)
    rest = tuple(n for k, n in enumerate(shape) if k not in axes)
    builder = find_builder("Sum")
    assert builder is not None
    out = (TensorSpec(d.float32, rest),)
    return builder(NodeSpec("n", "Sum", {}, (x, tensor(known)), out, {1: known}))


def test_ptx_of_a_full_reduction_and_of_columns() -> None:
    call = call_of((1 << 20,), (0,))
    assert len(call.launches) == 2
    for ptx in call_ptx(call, 0).values():
        assert re.search(VECTOR_LOAD, ptx) and "shfl.sync.bfly" in ptx and "bar.sync" in ptx
    for ptx in call_ptx(call, 1).values():
        assert "bar.sync" in ptx
    for ptx in call_ptx(call_of((4096, 512), (0,)), 0).values():
        assert "ld.global.nc.f32" in ptx or "ld.global.nc.b32" in ptx


def test_ptx_of_a_variance() -> None:
    g = ReduceBuilder(floats(64, 8192))
    mean = g.reduce("Mean", g.input(0), (0,), keep=True)
    plain = g.group(g.reduce("Mean", g.op("SquaredDifference", g.input(0), mean), (0,)), mean)
    group = FusedGroup("reduce", plain.members, plain.inputs, plain.outputs, plain.constants)
    for number in range(2):
        for ptx in call_ptx(reduce_call(group), number).values():
            assert "div.rn.f32" in ptx and "bar.sync" in ptx


def test_many_results_have_a_thread_each() -> None:
    (launch,) = call_of((1000, 8, 640), (1,)).launches
    assert launch.block == (256, 1, 1) and launch.grid == (2500, 1, 1)  # type: ignore[attr-defined]


def test_threads_without_neighbours_reduce_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "_THREADS_OF_GPU", 16)
    g = ReduceBuilder(floats(2, 5, 9))
    run(g, g.reduce("Sum", g.input(0), (1,)))


def test_a_text_serves_many_sizes() -> None:
    a, b = call_of((1 << 20,), (0,)), call_of((1 << 24,), (0,))
    assert [x.source for x in a.launches] == [x.source for x in b.launches]
