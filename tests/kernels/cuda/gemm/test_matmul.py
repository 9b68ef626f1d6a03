"""Matrix products of GPUs: every form in the simulator, loads and registers in compiled code."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.cuda.harness import VECTOR_LOAD, VECTOR_STORE, call_ptx, run_call, run_node
from tests.kernels.cuda.linked import resources
from tests.kernels.cuda.tiny_tiles import TINY, floats
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cuda.gemm.matmul import batch_matmul_call
from tfjit.kernels.cuda.gemm.tiles import Plan, TileShape, plans
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NativeCall, TensorSpec, Unsupported

FORMS = [(False, False), (True, False), (False, True), (True, True)]


def turned(x: np.ndarray, swap: bool) -> np.ndarray:
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)) if swap else x


def check(
    x: np.ndarray, y: np.ndarray, plan: Plan | None, form: tuple[bool, bool] = (False, False),
    tolerance: float = 1e-5,
) -> NativeCall:  # fmt: skip
    wide = np.float64
    expected = np.matmul(x.astype(wide), y.astype(wide))
    arrays = turned(x, form[0]), turned(y, form[1])
    call = batch_matmul_call([tensor(a) for a in arrays], adj_x=form[0], adj_y=form[1], plan=plan)
    (result,), _ = run_call(call, arrays, [TensorSpec(tensor(x).dtype, expected.shape)])
    np.testing.assert_allclose(result.astype(wide), expected, rtol=tolerance, atol=tolerance)
    return call


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("m", "n", "k"), [(8, 8, 8), (12, 20, 4), (5, 7, 3), (9, 3, 13)])
def test_all_forms(m: int, n: int, k: int, form: tuple[bool, bool]) -> None:
    check(floats(m, k), floats(k, n, seed=1), TINY, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_dtypes(dtype: Any, form: tuple[bool, bool]) -> None:
    tolerance = {2: 2e-2, 8: 1e-12}[np.dtype(dtype).itemsize]
    for m, n, k in ((12, 8, 8), (5, 7, 3)):
        x, y = floats(m, k, dtype=dtype), floats(k, n, seed=1, dtype=dtype)
        check(x, y, TINY, form, tolerance)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((2, 3, 5, 4), (2, 3, 4, 6)),
        ((3, 5, 4), (4, 6)),
        ((2, 1, 5, 4), (1, 3, 4, 6)),
        ((1, 5, 4), (3, 4, 6)),
    ],
)
def test_batches_broadcast(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    call = check(floats(*x), floats(*y, seed=1), TINY)
    assert len(call.constants) == (2 if x == (2, 1, 5, 4) else 0)
    assert np.prod(call.launches[0].grid) < 12  # type: ignore[attr-defined]


def test_a_batch_with_one_matrix_is_one_product() -> None:
    call = batch_matmul_call([TensorSpec(d.float32, (7, 64, 64)), TensorSpec(d.float32, (64, 64))])
    assert call.launches[0].words[0] == 7 * 64


def test_swapped_batches() -> None:
    for form in FORMS:
        check(floats(3, 5, 4), floats(3, 4, 6, seed=1), TINY, form)


@pytest.mark.parametrize(("m", "n", "k"), [(9, 8, 40), (3, 5, 37)])
def test_split_sums(m: int, n: int, k: int) -> None:
    call = check(floats(m, k), floats(k, n, seed=1), Plan(TINY.tile, 3))
    assert len(call.launches) == 2
    assert call.temp_bytes == (3 * m * n * 4,)
    check(floats(2, m, k), floats(2, k, n, seed=1), Plan(TINY.tile, 2))


def test_no_terms_and_no_results() -> None:
    check(floats(3, 0), floats(0, 5), TINY)
    assert batch_matmul_call([tensor(floats(0, 4)), tensor(floats(4, 5))]).launches == ()


@pytest.mark.parametrize("form", FORMS)
def test_a_tile_of_256_threads(form: tuple[bool, bool]) -> None:
    for tile in (TileShape(128, 128, 8, 8, 8), TileShape(64, 64, 16, 4, 4)):
        check(floats(65, 12), floats(12, 71, seed=1), Plan(tile), form)


@pytest.mark.parametrize("form", FORMS)
def test_a_tile_of_one_warp(form: tuple[bool, bool]) -> None:
    check(floats(17, 21), floats(21, 34, seed=1), Plan(TileShape(16, 32, 16, 4, 4)), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 9, 13), (9, 1, 13), (1, 8, 16), (1, 1, 5)])
def test_a_vector(m: int, n: int, k: int, form: tuple[bool, bool]) -> None:
    check(floats(m, k), floats(k, n, seed=1), None, form)
    check(floats(2, m, k), floats(2, k, n, seed=1), None, form)


def test_a_vector_with_a_long_sum() -> None:
    call = check(floats(1, 700), floats(700, 6, seed=1), None)
    assert len(call.launches) == 2
    call = check(floats(2, 2100), floats(2100, 1, seed=1), None)
    assert call.launches[0].grid[0] == 2  # type: ignore[attr-defined]


def test_ops_are_registered() -> None:
    x, y = floats(3, 4), floats(4, 5, seed=1)
    out = TensorSpec(d.float32, (3, 5))
    (result,) = run_node(find_builder("MatMul"), "MatMul", (x.T.copy(), y), [out], transpose_a=True)
    np.testing.assert_allclose(result, x @ y, rtol=1e-5, atol=1e-6)
    for op in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"):
        (result,) = run_node(find_builder(op), op, (x, y.T.copy()), [out], adj_y=True)
        np.testing.assert_allclose(result, x @ y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [d.int32, d.int64, d.complex64])
def test_dtypes_left_to_the_host(dtype: DType) -> None:
    with pytest.raises(Unsupported, match="no product of"):
        batch_matmul_call([TensorSpec(dtype, (3, 4)), TensorSpec(dtype, (4, 5))])


def test_axes_beyond_32_bits() -> None:
    with pytest.raises(Unsupported, match="a product"):
        batch_matmul_call([TensorSpec(d.float32, (2**31, 8)), TensorSpec(d.float32, (8, 8))])


def test_sizes_that_differ() -> None:
    with pytest.raises(ValueError, match="inner sizes differ"):
        batch_matmul_call([TensorSpec(d.float32, (3, 4)), TensorSpec(d.float32, (5, 5))])


def test_code_of_the_large_tile() -> None:
    big = TensorSpec(d.float32, (4096, 4096))
    call = batch_matmul_call([big, big])
    assert "128x128x8" in call.launches[0].source.title
    for ptx in call_ptx(call).values():
        # a slab of 8 terms, 64 products of a thread
        assert ptx.count("fma.rn.f32 ") + 2 * ptx.count("fma.rn.f32x2") == 8 * 64
        assert ptx.count("ld.shared.v4") == 8 * 4
        assert len(re.findall(VECTOR_LOAD, ptx)) == 4
        assert re.search(VECTOR_STORE, ptx)
        assert ".local" not in ptx


def test_no_registers_are_spilled() -> None:
    chosen = [(d.float32, plan, FORMS[0], 4096) for plan in plans(d.float32)]
    chosen += [(dtype, plans(dtype)[0], FORMS[2], 4095) for dtype in (d.float64, d.bfloat16)]
    sources = []
    for dtype, plan, (adj_x, adj_y), n in chosen:
        square = TensorSpec(dtype, (n, n))
        call = batch_matmul_call([square, square], adj_x=adj_x, adj_y=adj_y, plan=plan)
        sources.append(call.launches[0].source)
    for source, found in zip(sources, resources(sources), strict=True):
        assert found.local_bytes == 0, source.text
        assert found.registers < 255
        # two blocks of 256 threads have 128 registers a thread
        assert found.registers <= 128 or "launch_bounds" not in source.text
        assert found.shared_bytes < 48 * 1024


def test_texts_do_not_depend_on_sizes() -> None:
    def text(m: int, n: int, k: int) -> str:
        a, b = TensorSpec(d.float32, (m, k)), TensorSpec(d.float32, (k, n))
        return batch_matmul_call([a, b]).launches[0].source.text

    assert text(1024, 1024, 1024) == text(2048, 4096, 512)
