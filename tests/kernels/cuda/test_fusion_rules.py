"""Groups that the templates of GPUs take, and those they leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.groups import GroupBuilder, ReduceBuilder, floats
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.fusion_rules import RULES
from tfjit.kernels.registry import Unsupported


def test_loops_are_taken() -> None:
    b = GroupBuilder(floats(3, 5))
    template = RULES.template_of("loop")
    assert template is not None
    template.accepts(b.group(b.op("Exp", b.op("Neg", b.input(0)))))


def test_series_are_left_to_the_host() -> None:
    b = GroupBuilder(floats(3), floats(3))
    template = RULES.template_of("loop")
    assert template is not None
    with pytest.raises(Unsupported, match="Zeta is a sum in a loop"):
        template.accepts(b.group(b.op("Neg", b.op("Zeta", b.input(0), b.input(1)))))


def test_rows_and_reductions_are_taken() -> None:
    b = ReduceBuilder(floats(4, 6))
    total = b.reduce("Sum", b.op("Exp", b.input(0)), (1,))
    for kind in ("rows", "reduce"):
        template = RULES.template_of(kind)
        assert template is not None
        template.accepts(replace(b.group(total), kind=kind))
    assert RULES.reduces_by_rows((4, 6), (1,)) and not RULES.reduces_by_rows((4, 6), (0,))


def test_types_and_costs() -> None:
    assert RULES.holds(d.bfloat16) and not RULES.holds(d.string)
    assert RULES.is_cheap("Tanh") and not RULES.is_cheap("Lgamma")
    assert RULES.template_of("pool_gradient") is None
    assert set(RULES.anchors.values()) <= {"matmul", "conv2d", "depthwise"}
