"""Fused elementwise loops against the members' reference kernels and NumPy: shapes, broadcasts,
dtypes, several outputs, chunks.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.groups import GroupBuilder, floats
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.scalar import elementwise
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.elementwise.loop import loop_call
from tfjit.kernels.cpu.template.iteration_space import collapse, reshape_map, split_shape
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec, Unsupported, find_native


def standalone(op: str, *arrays: np.ndarray, out: np.ndarray, **attrs: object) -> list[np.ndarray]:
    builder = find_native(op)
    assert builder is not None
    spec = NodeSpec("node", op, attrs, tuple(tensor(a) for a in arrays), (tensor(out),))
    return run_native(builder(spec), arrays, spec.outputs)


BROADCASTS = [
    ((), ()),
    ((1,), ()),
    ((7,), (7,)),
    ((0, 3), (3,)),
    ((5, 0), ()),
    ((2, 3, 5), (5,)),
    ((2, 3, 5), (3, 1)),
    ((2, 1, 5), (3, 1)),
    ((2, 3, 1, 5), (1, 4, 1)),
    ((3, 1), (1, 200)),
    ((2, 1, 2, 1, 2), (1, 3, 1, 3, 1)),
    ((1000, 3), (3,)),
    ((17, 300), (17, 1)),
]


@pytest.mark.parametrize(("a", "b"), BROADCASTS)
@pytest.mark.parametrize("nchunks", [0, 3])
def test_broadcast_patterns(a: tuple[int, ...], b: tuple[int, ...], nchunks: int) -> None:
    g = GroupBuilder(floats(*a), floats(*b, seed=1))
    total = g.op("AddV2", g.input(0), g.input(1))
    g.check(total, g.op("Mul", total, g.input(1)), nchunks=nchunks)


def test_chunks_cover_everything_once() -> None:
    for shapes in [((100_003,), ()), ((3, 40_001), (3, 1)), ((70_001, 3), (3,))]:
        g = GroupBuilder(floats(*shapes[0]), floats(*shapes[1], seed=1))
        out = g.op("Sub", g.input(0), g.input(1))
        call = loop_call(g.group(out))
        assert call.launches[0].chunks >= 1
        for n in (1, 2, 7, 64):
            launch = call.launches[0]
            call = NativeCall(
                (
                    type(launch)(
                        launch.source, launch.words, launch.entry, n, launch.cost_ns, launch.errors
                    ),
                )
            )
            (result,) = run_native(call, g.arrays, [g.group(out).tensor(out)])
            np.testing.assert_array_equal(result, g.values[out])


@pytest.mark.parametrize("shape", [(40, 50, 3), (1024, 10), (1021, 7)])
def test_narrow_rows_are_taken_several_at_a_time(shape: tuple[int, ...]) -> None:
    g = GroupBuilder(
        floats(*shape),
        floats(shape[-1], seed=1),
        floats(shape[-1], seed=2),
        np.float32(2).reshape(()),
    )
    out = g.op("Mul", g.op("Mul", g.op("Sub", g.input(0), g.input(1)), g.input(2)), g.input(3))
    call = g.check(out, nchunks=3)
    assert len(call.launches) == (1 if shape[0] == 1021 else 3)


def test_text_is_free_of_sizes_and_names() -> None:
    sources = []
    for n in (5, 70):
        g = GroupBuilder(floats(n, 3), floats(3))
        sources.append(
            loop_call(g.group(g.op("Relu", g.op("AddV2", g.input(0), g.input(1)))))
            .launches[0]
            .source
        )
    assert sources[0].digest == sources[1].digest


def test_no_contraction_across_ops() -> None:
    rng = np.random.default_rng(3)
    g = GroupBuilder(*(rng.standard_normal(4096).astype(np.float32) for _ in range(3)))
    g.check(g.op("AddV2", g.op("Mul", g.input(0), g.input(1)), g.input(2)))


@pytest.mark.parametrize(
    "dtype",
    [
        d.float64,
        d.float16,
        d.bfloat16,
        d.int8,
        d.int32,
        d.int64,
        d.uint8,
        d.uint32,
        d.bool,
        d.complex64,
    ],
)
def test_dtypes(dtype: d.DType) -> None:
    rng = np.random.default_rng(5)
    np_type = np.dtype(dtype.as_numpy_dtype)
    x, y = (rng.integers(0, 2 if dtype is d.bool else 9, (3, 50)).astype(np_type) for _ in range(2))
    g = GroupBuilder(x, y[:, :1])
    first, second = ("LogicalAnd", "LogicalOr") if dtype is d.bool else ("AddV2", "Mul")
    out = g.op(second, g.op(first, g.input(0), g.input(1)), g.input(0))
    g.check(out, g.op("Equal", out, g.input(1)))


def test_special_values() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5], np.float32)
    g = GroupBuilder(np.repeat(x, 40), np.tile(x, 40))
    product = g.op("Mul", g.input(0), g.input(1))
    g.check(
        g.op("Relu", product),
        g.op("Maximum", g.input(0), g.input(1)),
        g.op("IsNan", product),
        g.op("RealDiv", g.input(0), g.input(1)),
    )


def test_every_row_has_a_builder() -> None:
    assert not [row.op for row in elementwise.TABLE if find_native(row.op) is None]


def test_bias_add() -> None:
    x = floats(2, 3, 4, 5)
    (result,) = standalone("BiasAdd", x, floats(5), out=x, data_format=b"NHWC")
    np.testing.assert_array_equal(result, x + floats(5))
    (result,) = standalone("BiasAdd", x, floats(3), out=x, data_format=b"NCHW")
    np.testing.assert_array_equal(result, x + floats(3)[:, None, None])


def test_add_n() -> None:
    xs = [floats(3, 40, seed=k) for k in range(5)]
    (result,) = standalone("AddN", *xs, out=xs[0], N=5)
    np.testing.assert_array_equal(result, ((((xs[0] + xs[1]) + xs[2]) + xs[3]) + xs[4]))


def test_select_with_vector_condition() -> None:
    x, y = floats(4, 3), floats(4, 3, seed=1)
    condition = np.array([True, False, False, True])
    (result,) = standalone("Select", condition, x, y, out=x)
    np.testing.assert_array_equal(result, np.where(condition[:, None], x, y))


def test_integer_division_by_zero_is_reported() -> None:
    x = np.arange(100, dtype=np.int32)
    with pytest.raises(KernelError) as caught:
        standalone("FloorDiv", x, x - 50, out=x)
    assert caught.value.args == ("InvalidArgumentError", "Integer division by zero")
    (result,) = standalone("FloorDiv", x - 50, np.int32(7), out=x)
    np.testing.assert_array_equal(result, (x - 50) // 7)


def test_an_error_in_a_group_names_the_member() -> None:
    g = GroupBuilder(np.arange(5, dtype=np.int32))
    out = g.op(
        "Neg", g.op("FloorDiv", g.input(0), g.input(0), value=g.arrays[0]), value=g.arrays[0]
    )
    group = g.group(out)
    with pytest.raises(KernelError) as caught:
        run_native(loop_call(group), g.arrays, [group.tensor(out)])
    assert caught.value.args[1] == "Integer division by zero\n\t [[{{node n0}}]]"
    with pytest.raises(InvalidArgumentError, match="Integer division by zero") as raised:
        group.run_reference(g.arrays)
    assert "{{node n0}}" in raised.value.message


def test_reshape_and_transpose_inside_a_loop() -> None:
    x, y = floats(4, 6), floats(3, 8, seed=1)
    g = GroupBuilder(x, y)
    square = g.op("Square", g.input(0))
    flat = g.op(
        "Reshape", square, g.constant(np.array([2, 2, 6])), value=g.values[square].reshape(2, 2, 6)
    )
    out = g.op("Neg", flat)
    g.check(out, square)
    g = GroupBuilder(floats(5, 70), floats(70, 5, seed=1))
    turned = g.op(
        "Transpose",
        g.input(1),
        g.constant(np.array([1, 0])),
        value=np.ascontiguousarray(g.arrays[1].T),
    )
    call = g.check(g.op("Mul", g.input(0), turned))
    assert call.in_place == ((0, 0),)
    g = GroupBuilder(floats(5), floats(3, 5, 4))
    column = g.op("ExpandDims", g.input(0), g.constant(np.array(1)), value=g.arrays[0][:, None])
    g.check(g.op("Mul", g.input(1), column))


def test_in_place_writes_over_a_dying_input() -> None:
    g = GroupBuilder(floats(1000), floats(1000, seed=1))
    out = g.op("Mul", g.op("AddV2", g.input(0), g.input(1)), g.input(1))
    call = loop_call(g.group(out))
    assert set(call.in_place) == {(0, 0), (0, 1)}
    for pair in call.in_place:
        (result,) = run_native(call, g.arrays, [g.group(out).tensor(out)], in_place=[pair])
        np.testing.assert_array_equal(result, g.values[out])


def test_in_place_only_where_the_output_needs_the_input() -> None:
    g = GroupBuilder(floats(64), floats(64, seed=1))
    first, second = g.op("Neg", g.input(0)), g.op("Neg", g.input(1))
    assert set(loop_call(g.group(first, second)).in_place) == {(0, 0), (1, 1)}
    g = GroupBuilder(floats(8, 8))
    turned = g.op(
        "Transpose",
        g.input(0),
        g.constant(np.array([1, 0])),
        value=np.ascontiguousarray(g.arrays[0].T),
    )
    assert loop_call(g.group(g.op("AddV2", g.input(0), turned))).in_place == ()


def test_collapse() -> None:
    assert collapse((2, 3, 4), [(48, 16, 4), (48, 16, 4)]) == ((24,), [(4,), (4,)])
    assert collapse((2, 3, 4), [(48, 16, 4), (0, 0, 4)]) == ((6, 4), [(16, 4), (0, 4)])
    assert collapse((1, 1), [(0, 0)]) == ((), [()])
    assert collapse((2, 1, 4), [(16, 0, 4), (0, 0, 0)]) == ((8,), [(4,), (0,)])


def test_reshape_map_refuses_straddling_dims() -> None:
    assert split_shape((4, 6), [(2, 2, 6)]) == (2, 2, 6)
    assert split_shape((4, 6), [(3, 8)]) == (4, 6)
    space = (4, 6)
    assert reshape_map(((0, ((0, 1),)), (0, ((1, 1),))), (24,), (4, 6), space) == (
        (0, ((0, 6), (1, 1))),
    )
    assert reshape_map(((0, ((0, 1),)), (0, ((1, 1),))), (3, 8), (4, 6), space) is None


UNARY = ["Neg", "Relu", "Square", "Abs", "Floor", "Relu6"]
BINARY = ["AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 4))
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=rank, max_size=rank)))
    arrays = []
    for k in range(data.draw(st.integers(1, 3))):
        drop = data.draw(st.integers(0, rank)) if k else 0
        ones = [data.draw(st.booleans()) if k else False for _ in range(rank)]
        sizes = [1 if one else n for n, one in zip(shape, ones)]
        arrays.append(floats(*sizes[drop:], seed=k))
    g = GroupBuilder(*arrays)
    full = [g.input(0)]
    for _ in range(data.draw(st.integers(1, 8))):
        left = data.draw(st.sampled_from(full))
        if data.draw(st.booleans()):
            full.append(g.op(data.draw(st.sampled_from(UNARY)), left))
        else:
            right = data.draw(st.sampled_from([*full, *(g.input(k) for k in range(len(arrays)))]))
            full.append(g.op(data.draw(st.sampled_from(BINARY)), left, right))
    outputs = data.draw(st.lists(st.sampled_from(full[1:]), min_size=1, max_size=3, unique=True))
    g.check(*outputs, nchunks=data.draw(st.sampled_from([0, 2])))


def test_with_input_shapes() -> None:
    g = GroupBuilder(floats(4, 3), floats(3))
    out = g.op("Relu", g.op("AddV2", g.input(0), g.input(1)))
    other = g.group(out).with_input_shapes([(7, 2), (2,)])
    assert other.tensor(out) == TensorSpec(d.float32, (7, 2))
    x, y = floats(7, 2), floats(2)
    (result,) = run_native(loop_call(other), [x, y], [other.tensor(out)])
    np.testing.assert_array_equal(result, np.maximum(x + y, 0))


@pytest.mark.parametrize("name", ["string", "resource", "variant"])
@pytest.mark.parametrize(
    "op", ["Add", "Equal", "NotEqual", "SelectV2", "Identity", "Transpose", "Pack", "ConcatV2"]
)
def test_values_without_a_size_are_refused(op: str, name: str) -> None:
    """Elements of 0 bytes have no strides: builders say that they do not serve them, they do not
    divide by their size.
    """
    dtype = d.as_dtype(name)
    inputs = {
        "SelectV2": (TensorSpec(d.bool, (2, 3)), *[TensorSpec(dtype, (2, 3))] * 2),
        "Identity": (TensorSpec(dtype, (2, 3)),),
    }
    operands = inputs.get(op, (TensorSpec(dtype, (2, 3)),) * 2)
    result = TensorSpec(
        d.bool if op in ("Equal", "NotEqual") else dtype, (2, 2, 3) if op == "Pack" else (2, 3)
    )
    spec = NodeSpec("n", op, {"T": dtype, "N": 2, "axis": 0}, operands, (result,), {})
    build = find_native(op)
    assert build is not None
    with pytest.raises(Unsupported):
        build(spec)
