"""Fused loops of CUDA: every layout of operands in the simulator, vector accesses in PTX."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import VECTOR_LOAD, VECTOR_STORE, call_ptx, run_call, run_node
from tests.kernels.groups import GroupBuilder, floats
from tfjit.framework.scalar import elementwise
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.elementwise.loop import loop_call
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.ir.fused_group import Ref
from tfjit.kernels.registry import NativeCall, Unsupported


def text_of(call: NativeCall) -> str:
    return call.launches[-1].source.text


def check(b: GroupBuilder, *outputs: Ref, rtol: float = 0.0) -> NativeCall:
    group = b.group(*outputs)
    call = loop_call(group)
    results, _ = run_call(call, b.arrays, [group.tensor(r) for r in outputs])
    for ref, result in zip(outputs, results):
        np.testing.assert_allclose(result, b.values[ref], rtol=rtol, atol=1e-7 if rtol else 0)
    return call


@pytest.mark.parametrize("n", [1, 3, 4, 7, 8, 33])
def test_a_vector_with_its_tail(n: int) -> None:
    b = GroupBuilder(floats(n), floats(n, seed=1))
    call = check(b, b.op("Mul", b.op("AddV2", b.input(0), b.input(1)), b.input(1)))
    assert ("ld_ro_vec4" in text_of(call) or "ld_vec4" in text_of(call)) == (n >= 4)


def test_the_grid_strides_over_the_array() -> None:
    b = GroupBuilder(floats(300))
    group = b.group(b.op("Neg", b.input(0)))
    call = loop_call(group)
    (launch,) = call.launches
    small = type(launch)(launch.source, launch.words, grid=(2, 1, 1), block=(8, 1, 1))
    results, _ = run_call(NativeCall((small,)), b.arrays, [group.tensor(Ref(0))])
    np.testing.assert_array_equal(results[0], -b.arrays[0])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,), (3, 0, 2)])
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    b = GroupBuilder(floats(*shape))
    call = check(b, b.op("Neg", b.input(0)))
    assert len(call.launches) == (0 if 0 in shape else 1)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 8), (8,)),
        ((3, 8), (3, 1)),
        ((3, 8), ()),
        ((3, 5), (5,)),
        ((3, 5), (3, 1)),
        ((2, 3, 8), (3, 1)),
        ((2, 3, 8), (2, 1, 8)),
        ((2, 3, 4), (1, 3, 1)),
        ((2, 1, 4), (1, 3, 1)),
        ((2, 1, 3, 5), (4, 1, 1)),
        ((1, 8), (4, 1)),
    ],
)
def test_broadcast_operands(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    b = GroupBuilder(floats(*shapes[0]), floats(*shapes[1], seed=1))
    check(b, b.op("Sub", b.input(0), b.input(1)))


def test_row_vectors_and_column_values_beside_vectors() -> None:
    b = GroupBuilder(floats(5, 8), floats(8, seed=1), floats(5, 1, seed=2))
    product = b.op("Mul", b.input(0), b.input(1))
    call = check(b, b.op("AddV2", product, b.input(2)))
    text = text_of(call)
    assert text.count("_vec4(") == 3, text  # two loads and the store
    assert "x2 = ld_ro(x2_p" in text


def test_several_outputs_of_several_types() -> None:
    b = GroupBuilder(floats(2, 9), floats(9, seed=1))
    less = b.op("Less", b.input(0), b.input(1))
    chosen = b.op("SelectV2", less, b.input(0), b.input(1))
    half = b.op("Cast", chosen, DstT=d.float16, Truncate=False)
    wide = b.op("Cast", chosen, DstT=d.float64, Truncate=False)
    check(b, less, chosen, half, wide)


@pytest.mark.parametrize("dtype", ["float16", "uint8", "int64", "complex64", "float64", "bool"])
def test_widths_of_every_size(dtype: str) -> None:
    x = (np.arange(37) % 5).astype(dtype)
    b = GroupBuilder(x, x[::-1].copy())
    call = check(b, b.op("Equal", b.input(0), b.input(1)))
    sizes = {"float16": 8, "uint8": 16, "int64": 2, "float64": 2, "bool": 16}
    width = sizes.get(dtype)
    assert (f"ld_ro_vec{width}(" in text_of(call) or f"ld_vec{width}(" in text_of(call)) == (
        width is not None
    )


def test_slices_reversals_and_steps() -> None:
    x = floats(6, 10)
    b = GroupBuilder(x)
    cut = b.op(
        "Slice", b.input(0), b.constant(np.array([1, 2])), b.constant(np.array([4, 8])),
        value=x[1:5, 2:10],
    )  # fmt: skip
    turned = b.op("ReverseV2", b.input(0), b.constant(np.array([1])), value=x[:, ::-1])
    check(b, b.op("Neg", cut))
    check(b, b.op("Neg", turned))


@pytest.mark.parametrize("shape", [(3, 5), (9, 34), (33, 8)])
def test_transposes(shape: tuple[int, int]) -> None:
    x, y = floats(*shape), floats(*shape[::-1], seed=1)
    b = GroupBuilder(x, y, floats(shape[0], seed=2))
    turned = b.op("Transpose", b.input(0), b.constant(np.array([1, 0])), value=x.T.copy())
    call = check(b, b.op("AddV2", b.op("Mul", turned, b.input(1)), b.input(2)))
    assert ("shared_f32(1056)" in text_of(call)) == (min(shape) >= 8)


def test_transposes_of_more_dims() -> None:
    x = floats(2, 9, 3, 10)
    b = GroupBuilder(x)
    for order in ((0, 3, 2, 1), (1, 0, 3, 2), (3, 1, 0, 2), (2, 3, 0, 1)):
        value = x.transpose(order).copy()
        check(
            b, b.op("Neg", b.op("Transpose", b.input(0), b.constant(np.array(order)), value=value))
        )


def test_an_input_that_may_be_overwritten_is_no_read_only_memory() -> None:
    b = GroupBuilder(floats(8), floats(8, seed=1).astype(np.float64))
    cast = b.op("Cast", b.input(1), DstT=d.float32, Truncate=False)
    call = check(b, b.op("AddV2", b.input(0), cast))
    assert call.in_place == ((0, 0),)
    assert "ld_vec2(x0_p" in text_of(call) and "ld_ro_vec2(x1_p" in text_of(call)


def test_indices_past_32_bits_are_divided_in_64() -> None:
    from tfjit.kernels.registry import NodeSpec, TensorSpec

    def call(rows: int) -> NativeCall:
        x, y = TensorSpec(d.float32, (rows, 1024)), TensorSpec(d.float32, (1024,))
        builder = find_builder("AddV2")
        assert builder is not None
        return builder(NodeSpec("n", "AddV2", {}, (x, y), (x,)))

    assert "div_u32" in text_of(call(1 << 20))
    assert "div_u64" in text_of(call(1 << 21))
    assert text_of(call(7)) == text_of(call(1 << 20))


@pytest.mark.parametrize("op", ["BiasAdd", "BiasAddV1"])
def test_bias(op: str) -> None:
    x, bias = floats(2, 3, 8), floats(8, seed=1)
    attrs: dict[str, Any] = {"data_format": b"NHWC"} if op == "BiasAdd" else {}
    (found,) = run_node(find_builder(op), op, [x, bias], [x], **attrs)
    np.testing.assert_array_equal(found, x + bias)


def test_bias_of_channels_in_front() -> None:
    x, bias = floats(2, 3, 2, 4), floats(3, seed=1)
    (found,) = run_node(find_builder("BiasAdd"), "BiasAdd", [x, bias], [x], data_format=b"NCHW")
    np.testing.assert_array_equal(found, x + bias[:, None, None])


def test_integer_division_by_zero_reports_nothing() -> None:
    x, y = np.array([7, -7, 5], np.int32), np.array([2, 2, 0], np.int32)
    (found,) = run_node(find_builder("FloorDiv"), "FloorDiv", [x, y], [x])
    assert found[:2].tolist() == [3, -4]


def test_every_scalar_op_is_registered_but_the_series() -> None:
    for row in elementwise.TABLE:
        assert (find_builder(row.op) is None) == (row.op in element_kinds.HOST_ONLY)
    b = GroupBuilder(floats(3), floats(3))
    with pytest.raises(Unsupported, match="Igamma"):
        loop_call(b.group(b.op("Neg", b.op("Igamma", b.input(0), b.input(1)))))


def test_many_loops_compile_to_vector_accesses() -> None:
    b = GroupBuilder(floats(64, 8), floats(8, seed=1))
    group = b.group(b.op("Relu", b.op("AddV2", b.input(0), b.input(1))))
    for ptx in call_ptx(loop_call(group)).values():
        assert len(re.findall(VECTOR_LOAD, ptx)) == 2 and len(re.findall(VECTOR_STORE, ptx)) == 1
        assert not re.search(r"(ld|st)\.global(\.nc)?\.[fb]32", ptx)
        assert "rem.u32" in ptx and "div.u64" not in ptx


def test_the_tail_is_the_only_scalar_access() -> None:
    b = GroupBuilder(floats(67))
    for ptx in call_ptx(loop_call(b.group(b.op("Square", b.input(0))))).values():
        assert len(re.findall(VECTOR_LOAD, ptx)) == len(re.findall(VECTOR_STORE, ptx)) == 1
        assert len(re.findall(r"ld\.global(\.nc)?\.[fb]32", ptx)) == 1


def test_half_floats_move_as_words() -> None:
    b = GroupBuilder(floats(64).astype(np.float16))
    for ptx in call_ptx(loop_call(b.group(b.op("Square", b.input(0))))).values():
        assert re.search(r"ld\.global(\.nc)?\.v4\.[ub]32", ptx)
        assert re.search(r"st\.global\.v4\.[ub]32", ptx)


def test_tiles_go_through_shared_memory() -> None:
    x = floats(64, 40)
    b = GroupBuilder(x)
    turned = b.op("Transpose", b.input(0), b.constant(np.array([1, 0])), value=x.T.copy())
    for ptx in call_ptx(loop_call(b.group(b.op("Neg", turned)))).values():
        assert "ld.shared" in ptx and "st.shared" in ptx and "bar.sync" in ptx
