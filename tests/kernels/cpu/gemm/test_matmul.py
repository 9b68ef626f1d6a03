"""Compiled matrix products: values against TensorFlow, epilogues, chunks, packing,
special values.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import native_nn, nn_cases
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.gemm import matmul, micro_kernels, packing
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_native


@pytest.mark.parametrize("constants", [(), (1,)], ids=["packed at run time", "constant b"])
@pytest.mark.parametrize("case", nn_cases.matmul_cases(), ids=str)
def test_matmul_equals_tensorflow(case: Case, constants: tuple[int, ...]) -> None:
    native_nn.check(case, constants)


@pytest.mark.parametrize("name", native_nn.EPILOGUES)
@pytest.mark.parametrize(
    "size", [(1, 40, 10), (70, 9, 8), (301, 40, 48), (3, 500, 900), (150, 70, 300)], ids=str
)
def test_matmul_with_epilogue(name: str, size: tuple[int, int, int]) -> None:
    m, k, n = size
    rng = np.random.default_rng(3)
    epilogue = native_nn.EPILOGUES[name]
    a, b = (
        rng.standard_normal((m, k)).astype(np.float32),
        rng.standard_normal((k, n)).astype(np.float32),
    )
    operands = native_nn.operands_of(epilogue, (m, n), rng)
    inputs = [a, b, *operands]
    wanted = native_nn.expected(epilogue, a.astype(np.float64) @ b, operands)
    for constants in ({}, {i: v for i, v in enumerate(inputs) if i and v.shape != (m, n)}):
        call = matmul.matmul_call(native_nn.specs(*inputs), epilogue=epilogue, constants=constants)
        native_nn.check_epilogue(name, call, inputs, wanted)


@pytest.mark.parametrize("name", native_nn.EPILOGUES)
def test_one_row_by_a_transposed_matrix_with_epilogue(name: str) -> None:
    rng = np.random.default_rng(6)
    epilogue = native_nn.EPILOGUES[name]
    a, b = (
        rng.standard_normal((1, 70)).astype(np.float32),
        rng.standard_normal((43, 70)).astype(np.float32),
    )
    operands = native_nn.operands_of(epilogue, (1, 43), rng)
    inputs = [a, b, *operands]
    call = matmul.matmul_call(native_nn.specs(*inputs), transpose_b=True, epilogue=epilogue)
    assert len(call.launches) == 1  # nothing is packed
    native_nn.check_epilogue(
        name, call, inputs, native_nn.expected(epilogue, a.astype(np.float64) @ b.T, operands)
    )


def test_a_transposed_column_by_a_matrix_packs_nothing() -> None:
    rng = np.random.default_rng(7)
    a, b = (
        rng.standard_normal((70, 1)).astype(np.float32),
        rng.standard_normal((70, 43)).astype(np.float32),
    )
    call = matmul.matmul_call(native_nn.specs(a, b), transpose_a=True)
    assert len(call.launches) == 1
    wanted = a.astype(np.float64).T @ b
    (found,) = NativeRunner(call, [a, b], native_nn.specs(wanted.astype(np.float32))).run()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_batch_matmul_with_epilogue() -> None:
    rng = np.random.default_rng(4)
    a, b = (
        rng.standard_normal((3, 2, 17, 8)).astype(np.float32),
        rng.standard_normal((2, 8, 33)).astype(np.float32),
    )
    (bias,) = native_nn.operands_of(native_nn.BIAS_RELU, (3, 2, 17, 33), rng)
    call = matmul.batch_matmul_call(native_nn.specs(a, b, bias), epilogue=native_nn.BIAS_RELU)
    wanted = native_nn.expected(native_nn.BIAS_RELU, np.matmul(a.astype(np.float64), b), [bias])
    native_nn.check_epilogue("bias+relu", call, [a, b, bias], wanted)


def test_nan_and_infinity_reach_their_rows_and_columns_only() -> None:
    a = np.ones((14, 35), np.float32)
    b = np.ones((35, 37), np.float32)
    a[3, 5], a[9, 0], b[7, 20] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    (found,) = NativeRunner(
        matmul.matmul_call(native_nn.specs(a, b)), [a, b], native_nn.specs(wanted)
    ).run()
    np.testing.assert_array_equal(found, wanted)
    zero = np.zeros((35, 37), np.float32)
    (found,) = NativeRunner(
        matmul.matmul_call(native_nn.specs(a, zero)), [a, zero], native_nn.specs(wanted)
    ).run()
    assert np.isnan(found[[3, 9]]).all()
    assert not found[[0, 4, 13]].any()


def test_long_sums_are_as_exact_as_blocked_ones() -> None:
    rng = np.random.default_rng(5)
    a, b = (
        rng.standard_normal((24, 4096)).astype(np.float32),
        rng.standard_normal((4096, 64)).astype(np.float32),
    )
    exact = a.astype(np.float64) @ b
    (found,) = NativeRunner(
        matmul.matmul_call(native_nn.specs(a, b)), [a, b], native_nn.specs(a @ b)
    ).run()
    assert np.abs(found - exact).max() <= 1.5 * np.abs(a @ b - exact).max()


def test_kernels_do_not_depend_on_sizes() -> None:
    def sources(m: int, k: int, n: int) -> set[str]:
        call = matmul.matmul_call(
            (TensorSpec(dtypes.float32, (m, k)), TensorSpec(dtypes.float32, (k, n)))
        )
        return {s.digest for s in call.sources()}

    # these also have full panels, whose tiles are a table of their own
    assert sources(4, 2, 3) < sources(700, 800, 900)
    assert sources(4, 20, 130) == sources(700, 800, 900)


def test_big_products_are_cut_and_small_ones_are_not() -> None:
    def chunks(m: int, k: int, n: int) -> int:
        spec = (TensorSpec(dtypes.float32, (m, k)), TensorSpec(dtypes.float32, (k, n)))
        return (
            matmul.matmul_call(spec, constants={1: np.zeros((k, n), np.float32)})
            .launches[-1]
            .chunks
        )

    assert chunks(1, 64, 10) == 1
    assert chunks(1024, 1024, 1024) >= 16
    assert chunks(2, 2048, 2048) >= 4  # by columns: there is one row of tiles only


@pytest.mark.parametrize("rows", range(1, 40))
def test_row_cover_is_exact(rows: int) -> None:
    found = micro_kernels.cover(rows, 12)
    assert found.tall * found.height + (found.count - found.tall) * (found.height - 1) == rows
    assert found.height <= 12


@pytest.mark.parametrize(
    ("segments", "k"), [(1, 0), (1, 5), (1, 1000), (3, 9), (3, 768), (49, 64), (25, 1)]
)
def test_depth_blocks_cover_the_sum(segments: int, k: int) -> None:
    seen = [(s, q) for first, n, start, terms in packing.depth_blocks(segments, k) for s in range(first, first + n)
            for q in range(start, start + terms)]  # fmt: skip
    assert seen == [(s, q) for s in range(segments) for q in range(k)]


def test_types_that_kernels_do_not_hold_are_unsupported() -> None:
    spec = TensorSpec(dtypes.string, (2, 2))
    builder = find_native("MatMul")
    assert builder is not None
    with pytest.raises(Unsupported, match="string"):
        builder(NodeSpec("m", "MatMul", {}, (spec, spec), (spec,)))
