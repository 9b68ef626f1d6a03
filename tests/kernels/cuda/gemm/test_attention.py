"""Attention of GPUs in one kernel, against NumPy in the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.linked import resources
from tests.kernels.cuda.tiny_tiles import floats
from tests.kernels.groups import GroupBuilder
from tfjit.kernels.cuda.fused import group_call
from tfjit.kernels.cuda.fusion_rules import RULES
from tfjit.kernels.cuda.gemm.attention import attention_group_call
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.registry import Unsupported


def softmax(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None,
    scale: float | None = None,
) -> tuple[FusedGroup, GroupBuilder, np.ndarray]:  # fmt: skip
    """A group of attention, its builder and its value in float64."""
    arrays = [q, k, v]
    if scale is not None:
        arrays.append(np.array(scale, q.dtype))
    if mask is not None:
        arrays.append(mask)
    b = GroupBuilder(*arrays)
    wide = [a.astype(np.float64) for a in arrays]
    product = wide[0] @ np.swapaxes(wide[1], -1, -2)
    value = b.op("BatchMatMulV2", b.input(0), b.input(1), value=product.astype(q.dtype), adj_y=True)
    scores, at = product, 3
    if scale is not None:
        value, at = b.op("Mul", value, b.input(3)), 4
        scores = scores * wide[3]
    if mask is not None:
        value = b.op("AddV2", value, b.input(at))
        scores = scores + wide[at]
    weights = softmax(scores)
    probabilities = b.op("Softmax", value, value=weights.astype(q.dtype))
    result = weights @ wide[2]
    out = b.op("BatchMatMulV2", probabilities, b.input(2), value=result.astype(q.dtype))
    return replace(b.group(out), kind="attention", _anchor=out.member), b, result


def check(*arrays: np.ndarray, tolerance: float = 2e-5, **more: Any) -> None:
    group, b, wanted = attention(*arrays, **more)
    (found,), _ = run_call(attention_group_call(group), b.arrays, [group.tensor(group.outputs[0])])
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("queries", "keys", "depth", "width"), [(9, 5, 6, 7), (8, 33, 16, 32), (11, 70, 8, 4)]
)
def test_sizes(queries: int, keys: int, depth: int, width: int) -> None:
    check(
        floats(2, queries, depth), floats(2, keys, depth, seed=1), floats(2, keys, width, seed=2),
        scale=0.3,
    )  # fmt: skip


@pytest.mark.parametrize("mask", [(1, 1, 1, 40), (2, 1, 9, 40), (2, 2, 9, 40), (9, 1)])
def test_masks(mask: tuple[int, ...]) -> None:
    q, k, v = (floats(2, 2, n, 8, seed=s) for s, n in enumerate((9, 40, 40)))
    check(q, k, v, mask=3 * floats(*mask, seed=4))


def test_masked_keys() -> None:
    q, k, v = (floats(1, n, 8, seed=s) for s, n in enumerate((9, 40, 40)))
    mask = np.zeros((9, 40), np.float32)
    mask[0, :35] = -np.inf  # the whole first slab
    mask[1, 3:] = -np.inf
    mask[2, ::2] = -1e9
    check(q, k, v, mask=mask)


def test_all_keys_masked_and_nan_give_nan() -> None:
    q, k, v = (floats(1, n, 8, seed=s) for s, n in enumerate((8, 5, 5)))
    mask = np.zeros((8, 5), np.float32)
    mask[0] = -np.inf
    mask[1, 2] = np.nan
    group, b, _ = attention(q, k, v, mask)
    (found,), _ = run_call(attention_group_call(group), b.arrays, [group.tensor(group.outputs[0])])
    assert np.isnan(found[0, :2]).all() and not np.isnan(found[0, 2:]).any()


def test_large_scores_do_not_overflow() -> None:
    q, k, v = (floats(1, n, 8, seed=s) for s, n in enumerate((8, 40, 40)))
    check(40 * q, 40 * k, v, tolerance=2e-3)


def test_wide_heads_share_a_buffer() -> None:
    check(floats(1, 9, 80), floats(1, 35, 80, seed=1), floats(1, 35, 96, seed=2), scale=0.1)


def test_half_floats() -> None:
    q, k, v = (floats(1, n, 8, seed=s, dtype=np.float16) for s, n in enumerate((9, 12, 12)))
    check(q, k, v, tolerance=4e-3)


def test_groups_left_alone() -> None:
    few, *_ = attention(floats(1, 4, 8), floats(1, 9, 8), floats(1, 9, 8))
    with pytest.raises(Unsupported, match="4 queries"):
        attention_group_call(few)
    deep, *_ = attention(floats(1, 9, 130), floats(1, 9, 130), floats(1, 9, 8))
    with pytest.raises(Unsupported, match="130"):
        attention_group_call(deep)
    double, *_ = attention(*(floats(1, 9, 8, dtype=np.float64),) * 3)
    with pytest.raises(Unsupported, match="float64"):
        attention_group_call(double)


def test_compiled_code() -> None:
    sources = []
    for terms in (64, 128):
        group, *_ = attention(*(floats(1, 9, terms),) * 3, scale=0.1, mask=floats(9, 9))
        sources.append(group_call(group, {}).launches[0].source)
    for source, found in zip(sources, resources(sources), strict=True):
        assert found.local_bytes == 0 and found.registers < 255
        assert found.shared_bytes <= 48 * 1024
        assert all(f"ld_below4({name}_p" in source.text for name in "qkv")
        assert "st_vec4(o_p" in source.text


def test_fusion_takes_what_the_kernel_serves() -> None:
    template = RULES.template_of("attention")
    assert template is not None
    group, *_ = attention(*(floats(1, 9, 8),) * 3)
    template.accepts(group)
    few, *_ = attention(floats(1, 4, 8), floats(1, 9, 8), floats(1, 9, 8))
    with pytest.raises(Unsupported):
        template.accepts(few)
