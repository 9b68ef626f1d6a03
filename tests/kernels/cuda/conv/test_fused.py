"""Convolutions with epilogues on GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.tiny_tiles import TINY, floats
from tests.kernels.groups import GroupBuilder
from tests.kernels.nn_cases import conv_attrs, run_tensorflow
from tfjit.kernels.cuda.conv import conv
from tfjit.kernels.cuda.fused import group_call
from tfjit.kernels.cuda.fusion_rules import RULES
from tfjit.kernels.cuda.gemm import matmul
from tfjit.kernels.cuda.gemm.tiles import Plan


@pytest.fixture(autouse=True)
def tiny_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (conv, matmul):
        monkeypatch.setattr(module, "choose", lambda *sizes: TINY)


def check(op: str, x: np.ndarray, w: np.ndarray, strides: tuple[int, int] = (1, 1)) -> None:
    """Bias, residual and activation behind a convolution."""
    attrs = conv_attrs(strides, "SAME")
    y = run_tensorflow(op, [x, w], attrs)
    channels = y.shape[-1]
    b = GroupBuilder(x, w, floats(channels, seed=2), floats(*y.shape, seed=3))
    held = {k: v.encode() if isinstance(v, str) else tuple(v) for k, v in attrs.items()}
    product = b.op(op, b.input(0), b.input(1), value=y, **held)
    biased = b.op("BiasAdd", product, b.input(2), value=y + b.arrays[2])
    relu = b.op("Relu", b.op("AddV2", biased, b.input(3)))
    kind = RULES.anchors[op]
    group = replace(b.group(relu, biased), kind=kind)
    template = RULES.template_of(kind)
    assert template is not None
    template.accepts(group)
    results, _ = run_call(group_call(group, {}), b.arrays, [group.tensor(r) for r in group.outputs])
    for ref, result in zip((relu, biased), results):
        np.testing.assert_allclose(result, b.values[ref], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("in_c", "out_c"), [(3, 8), (4, 7), (8, 4)])
def test_convolution(in_c: int, out_c: int) -> None:
    check("Conv2D", floats(2, 6, 5, in_c), floats(3, 3, in_c, out_c, seed=1))
    check("Conv2D", floats(2, 6, 5, in_c), floats(3, 3, in_c, out_c, seed=1), (2, 2))


def test_pointwise_convolution() -> None:
    check("Conv2D", floats(2, 6, 5, 4), floats(1, 1, 4, 8, seed=1))


def test_split_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "choose", lambda *sizes: Plan(TINY.tile, 3))
    check("Conv2D", floats(1, 6, 5, 4), floats(3, 3, 4, 8, seed=1))


@pytest.mark.parametrize(("channels", "multiplier"), [(4, 1), (3, 1), (2, 3)])
def test_depthwise(channels: int, multiplier: int) -> None:
    check(
        "DepthwiseConv2dNative",
        floats(2, 6, 5, channels),
        floats(3, 3, channels, multiplier, seed=1),
    )
