"""Products with epilogues on GPUs: patterns of operands, dtypes, several results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import call_ptx, run_call
from tests.kernels.cuda.tiny_tiles import TINY, floats
from tests.kernels.groups import GroupBuilder
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.fused import group_call
from tfjit.kernels.cuda.fusion_rules import RULES
from tfjit.kernels.cuda.gemm import matmul, tiles
from tfjit.kernels.cuda.gemm.fused import matmul_group_call
from tfjit.kernels.cuda.gemm.tiles import Plan
from tfjit.kernels.ir.fused_group import FusedGroup, Ref
from tfjit.kernels.registry import NativeCall, Unsupported


@pytest.fixture(autouse=True)
def tiny_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "choose", lambda *sizes: TINY)


def check_group(group: FusedGroup) -> None:
    template = RULES.template_of(group.kind)
    assert template is not None
    template.accepts(group)


def product_group(b: GroupBuilder, *outputs: Ref) -> FusedGroup:
    return replace(b.group(*outputs), kind="matmul")


def with_product(*arrays: np.ndarray, op: str = "MatMul", **attrs: Any) -> tuple[GroupBuilder, Ref]:
    """A group that begins with the product of the first two arrays."""
    b = GroupBuilder(*arrays)
    x, y = arrays[:2]
    names = ("transpose_a", "transpose_b") if op == "MatMul" else ("adj_x", "adj_y")
    left = np.swapaxes(x, -1, -2) if attrs.get(names[0]) else x
    right = np.swapaxes(y, -1, -2) if attrs.get(names[1]) else y
    value = np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(x.dtype)
    return b, b.op(op, b.input(0), b.input(1), value=value, **attrs)


def check(b: GroupBuilder, *outputs: Ref, tolerance: float = 1e-5) -> NativeCall:
    group = product_group(b, *outputs)
    check_group(group)
    call = matmul_group_call(group)
    results, _ = run_call(call, b.arrays, [group.tensor(r) for r in outputs])
    for ref, result in zip(outputs, results):
        np.testing.assert_allclose(
            result.astype(np.float64), b.values[ref].astype(np.float64), rtol=tolerance,
            atol=tolerance,
        )  # fmt: skip
    return call


@pytest.mark.parametrize(("m", "n", "k"), [(5, 7, 3), (12, 8, 8), (1, 9, 5), (9, 1, 5), (1, 8, 16)])
def test_bias_and_activation(m: int, n: int, k: int) -> None:
    b, product = with_product(floats(m, k), floats(k, n, seed=1), floats(n, seed=2))
    check(
        b, b.op("Relu", b.op("BiasAdd", product, b.input(2), value=b.values[product] + b.arrays[2]))
    )


@pytest.mark.parametrize("n", [7, 8])
def test_operands_of_each_pattern(n: int) -> None:
    shapes = ((), (n,), (5, 1), (5, n))
    operands = [np.asarray(floats(*s, seed=3), np.float32) for s in shapes]
    b, value = with_product(floats(5, 6), floats(6, n, seed=1), *operands)
    for k in range(len(operands)):
        value = b.op("AddV2", value, b.input(2 + k))
    check(b, b.op("Sigmoid", value))


def test_rows_of_a_batch() -> None:
    b, product = with_product(
        floats(2, 5, 4), floats(2, 4, 7, seed=1), floats(2, 5, 1, seed=2), op="BatchMatMulV2"
    )
    check(b, b.op("Mul", product, b.input(2)))


def test_several_results() -> None:
    b, product = with_product(floats(5, 4), floats(7, 4, seed=1), transpose_b=True)
    relu = b.op("Relu", product)
    check(b, product, relu, b.op("Greater", relu, product))


@pytest.mark.parametrize("splits", [2, 3])
def test_epilogue_behind_a_split_sum(splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "choose", lambda *sizes: Plan(TINY.tile, splits))
    for n in (7, 8):
        b, product = with_product(floats(5, 24), floats(24, n, seed=1), floats(n, seed=2))
        call = check(b, b.op("Tanh", b.op("AddV2", product, b.input(2))))
        assert len(call.launches) == 2


def test_half_floats_round_before_the_epilogue() -> None:
    b, product = with_product(
        floats(5, 4, dtype=np.float16), floats(4, 8, seed=1, dtype=np.float16),
        floats(5, 8, seed=2, dtype=np.float16),
    )  # fmt: skip
    check(b, b.op("Mul", product, b.input(2)), tolerance=2e-3)


def test_a_cast_changes_the_result_dtype() -> None:
    b, product = with_product(floats(5, 4), floats(4, 8, seed=1))
    value = b.values[product].astype(np.float64)
    check(b, b.op("Cast", product, value=value, SrcT=d.float32, DstT=d.float64))


def test_inputs_in_another_order() -> None:
    b = GroupBuilder(floats(8, seed=2), floats(4, 8, seed=1), floats(5, 4))
    product = b.op("MatMul", b.input(2), b.input(1), value=b.arrays[2] @ b.arrays[1])
    check(b, b.op("AddV2", product, b.input(0)))


def test_groups_reach_the_template_by_kind() -> None:
    b, product = with_product(floats(5, 4), floats(4, 8, seed=1))
    group = product_group(b, b.op("Neg", product))
    assert group_call(group, {}).launches == matmul_group_call(group).launches


def test_functions_of_the_host_only() -> None:
    b, product = with_product(floats(5, 4), floats(4, 8, seed=1), floats(5, 8, seed=2))
    group = product_group(b, b.op("Igamma", product, b.input(2), value=b.arrays[2]))
    with pytest.raises(Unsupported, match="Igamma"):
        check_group(group)


def test_compiled_epilogue_of_the_large_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "choose", lambda *sizes: tiles.plans(d.float32)[0])
    b, product = with_product(floats(4, 4), floats(4, 8, seed=1), floats(8, seed=2))
    value = b.op("Relu", b.op("AddV2", product, b.input(2)))
    for ptx in call_ptx(matmul_group_call(product_group(b, value))).values():
        assert "max" in ptx or "setp" in ptx
        assert ".local" not in ptx
