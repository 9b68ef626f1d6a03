"""Tests of the op types that a GPU takes and the host computes."""

from __future__ import annotations

from tfjit.framework.op_defs.op_registry import registry
from tfjit.kernels.cuda.placed_ops import HOST_COMPUTED
from tfjit.kernels.cuda.template.registry import find_builder


def test_every_type_is_registered() -> None:
    assert [op for op in HOST_COMPUTED if registry.lookup(op) is None] == []


def test_no_type_has_a_kernel() -> None:
    assert [op for op in HOST_COMPUTED if find_builder(op) is not None] == []
