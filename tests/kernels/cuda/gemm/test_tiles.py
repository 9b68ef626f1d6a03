"""Tiles of products: their threads share slabs evenly, and sizes choose them."""

from __future__ import annotations

import pytest

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cuda.gemm.slabs import Along, MatrixOperand, widest
from tfjit.kernels.cuda.gemm.tiles import accumulator, choose, plans
from tfjit.kernels.registry import Unsupported


@pytest.mark.parametrize("dtype", [d.float32, d.float64, d.float16, d.bfloat16])
@pytest.mark.parametrize("along", ["depth", "extent"])
@pytest.mark.parametrize("length", [64, 63])
def test_threads_load_each_element_of_a_slab_once(dtype: DType, along: Along, length: int) -> None:
    size = accumulator(dtype).size
    for plan in plans(dtype):
        tile = plan.tile
        for side, lines in (("a", tile.rows), ("b", tile.columns)):
            operand = MatrixOperand(dtype, along, widest(tile, lines, dtype, length))
            slab = operand.slab(side, tile, size)
            found = set()
            for t in range(tile.threads):
                across, lane = t // slab.lanes, t % slab.lanes * slab.vector
                for load in range(slab.loads):
                    for k in range(slab.vector):
                        found.add((lane + k, across + load * slab.step))
            contiguous, other = (tile.depth, lines) if along == "depth" else (lines, tile.depth)
            assert found == {(i, j) for i in range(contiguous) for j in range(other)}
            assert slab.loads * tile.threads * slab.vector == contiguous * other
            assert slab.pitch * size % 16 == 0


def test_loads_are_wide_where_sizes_allow() -> None:
    tile = plans(d.float32)[0].tile
    assert widest(tile, 128, d.float32, 64) == 4
    assert widest(tile, 128, d.float32, 64, 66) == 1
    assert widest(plans(d.float64)[0].tile, 64, d.float64, 6) == 2


def test_big_products_take_the_large_tile() -> None:
    plan = choose(d.float32, 1, 4096, 4096, 4096)
    assert (plan.tile.rows, plan.tile.columns, plan.splits) == (128, 128, 1)


@pytest.mark.parametrize(("m", "n"), [(8, 4096), (4096, 8)])
def test_few_lines_take_a_narrow_tile(m: int, n: int) -> None:
    tile = choose(d.float32, 1, m, n, 4096).tile
    assert (tile.rows if m == 8 else tile.columns) == 16


def test_long_sums_of_few_results_are_split() -> None:
    assert choose(d.float32, 1, 64, 64, 1 << 20).splits > 8
    assert choose(d.float32, 1, 64, 64, 256).splits == 1


def test_no_products_of_integers() -> None:
    with pytest.raises(Unsupported):
        accumulator(d.int32)
