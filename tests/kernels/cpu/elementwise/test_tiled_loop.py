"""Loops whose operands are contiguous along different dims, and how their tiles are chosen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.groups import GroupBuilder, floats
from tests.kernels.launching import run_native
from tfjit.kernels.codegen.transpose_text import block_side
from tfjit.kernels.cpu.elementwise.loop import loop_call
from tfjit.kernels.cpu.elementwise.tiled_loop import Tiling, find_tiling, tile_pitch, tile_sides
from tfjit.kernels.ir.fused_group import Ref


def turned(g: GroupBuilder, ref: Ref, order: tuple[int, ...]) -> Ref:
    """A Transpose member."""
    return g.op(
        "Transpose",
        ref,
        g.constant(np.array(order)),
        value=np.ascontiguousarray(g.values[ref].transpose(order)),
    )


def is_tiled(g: GroupBuilder, *outputs: Ref) -> bool:
    return "in tiles" in loop_call(g.group(*outputs)).launches[-1].source.text


@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 3), (16, 16), (17, 64), (65, 130), (3, 500), (500, 3), (129, 257)]
)
@pytest.mark.parametrize("nchunks", [0, 3])
def test_turned_operand(shape: tuple[int, int], nchunks: int) -> None:
    g = GroupBuilder(
        floats(*shape), floats(*shape[::-1], seed=1), floats(shape[0], 1), floats(shape[1])
    )
    out = g.op("Mul", g.op("AddV2", g.input(0), turned(g, g.input(1), (1, 0))), g.input(2))
    g.check(g.op("Sub", out, g.input(3)), out, nchunks=nchunks)


def test_turned_result() -> None:
    g = GroupBuilder(floats(70, 90), floats(70, 90, seed=1))
    total = g.op("AddV2", g.input(0), g.op("Square", g.input(1)))
    out = turned(g, total, (1, 0))
    g.check(out)
    text = loop_call(g.group(out)).launches[-1].source.text
    assert text.count("turn(") == 1, "the result is turned rather than both operands"


@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "float64", "complex128", "bool"])
def test_turned_operands_of_every_size(dtype: str) -> None:
    values = (
        np.random.default_rng(1)
        .integers(0, 2 if dtype == "bool" else 50, (2, 37, 75))
        .astype(dtype)
    )
    g = GroupBuilder(values[0], np.ascontiguousarray(values[1].T))
    other = turned(g, g.input(1), (1, 0))
    g.check(
        g.op("LogicalOr", g.input(0), other)
        if dtype == "bool"
        else g.op("AddV2", g.input(0), other)
    )


@pytest.mark.parametrize("order", [o for o in itertools.permutations(range(3)) if o != (0, 1, 2)])
def test_every_order_of_three_dims(order: tuple[int, ...]) -> None:
    g = GroupBuilder(
        floats(18, 35, 20), floats(*(floats(18, 35, 20).transpose(order).shape), seed=2)
    )
    g.check(g.op("AddV2", turned(g, g.input(0), order), g.input(1)), nchunks=2)


def test_operands_turned_along_different_dims() -> None:
    g = GroupBuilder(floats(20, 30, 40), floats(40, 30, 20, seed=1), floats(30, 40, 20, seed=2))
    out = g.op(
        "AddN", g.input(0), turned(g, g.input(1), (2, 1, 0)), turned(g, g.input(2), (2, 0, 1)), N=3
    )
    g.check(out)


def test_sum_with_its_own_transpose() -> None:
    g = GroupBuilder(floats(67, 67))
    g.check(g.op("AddV2", g.input(0), turned(g, g.input(0), (1, 0))))


def test_turned_operand_and_result_may_share_a_buffer() -> None:
    g = GroupBuilder(floats(50, 100), floats(100, 50, seed=1))
    out = turned(g, g.op("Mul", g.input(0), turned(g, g.input(1), (1, 0))), (1, 0))
    call = loop_call(g.group(out))
    assert call.in_place == ((0, 1),)
    (result,) = run_native(call, g.arrays, [g.group(out).tensor(out)], in_place=call.in_place)
    np.testing.assert_array_equal(result, g.values[out])


def test_a_failing_element_is_reported() -> None:
    values = np.full((40, 30), 7, np.int32)
    divisor = np.ones((30, 40), np.int32)
    g = GroupBuilder(values, divisor)
    g.check(g.op("FloorDiv", g.input(0), turned(g, g.input(1), (1, 0))))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_orders_and_sizes(data: st.DataObject) -> None:
    rank = data.draw(st.integers(2, 4))
    shape = tuple(
        data.draw(st.lists(st.integers(1, 34 if rank < 4 else 9), min_size=rank, max_size=rank))
    )
    orders = [tuple(data.draw(st.permutations(range(rank)))) for _ in range(2)]
    arrays = [
        floats(*(shape[order.index(d)] for d in range(rank)), seed=k)
        for k, order in enumerate(orders)
    ]
    g = GroupBuilder(*arrays, floats(*shape, seed=5))
    total = g.op("AddV2", turned(g, g.input(0), orders[0]), turned(g, g.input(1), orders[1]))
    g.check(g.op("Mul", total, g.input(2)), total, nchunks=data.draw(st.sampled_from([0, 1, 3])))


def test_find_tiling() -> None:
    plain = (400, 4)
    across = (4, 400)
    assert find_tiling((100, 100), [plain, plain], [4, 4]) is None
    assert find_tiling((100, 100), [plain, (0, 4), (4, 0)], [4, 4, 4]) is None, (
        "a column is read once a row"
    )
    assert find_tiling((100, 100), [plain, across, plain], [4, 4, 4]) == Tiling(
        (0, 1), frozenset({1})
    )
    assert find_tiling((100, 100), [across, across, plain], [4, 4, 4]) == Tiling(
        (1, 0), frozenset({2})
    )
    assert find_tiling((100, 3), [(4, 400), (12, 4)], [4, 4]) == Tiling((1, 0), frozenset({1})), (
        "rows of three are too short"
    )
    assert find_tiling((100, 100), [(800, 8), plain], [4, 4]) is None, "every second element"
    assert find_tiling((7,), [(4,)], [4]) is None


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("area", [(1, 1), (3, 5000), (5000, 3), (100, 100), (4096, 4096)])
def test_tiles_are_whole_blocks(size: int, area: tuple[int, int]) -> None:
    height, width = tile_sides(*area, size)
    assert height % block_side(size) == width % block_side(size) == 0
    assert height * width * size <= 1 << 15
    assert height < area[0] + block_side(size)
    assert width < area[1] + block_side(size)
    assert tile_pitch(width, size) >= width * size


def test_tiles_only_where_operands_differ() -> None:
    g = GroupBuilder(floats(64, 64), floats(64, 64, seed=1))
    assert not is_tiled(g, g.op("AddV2", g.input(0), g.input(1)))
    assert is_tiled(g, g.op("AddV2", g.input(0), turned(g, g.input(1), (1, 0))))
