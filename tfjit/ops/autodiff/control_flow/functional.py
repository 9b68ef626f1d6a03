"""Define gradients of If, Case, While and calls of functions."""

from __future__ import annotations

from tfjit.framework.op_defs.gradient_registry import register
from tfjit.ops.autodiff.branches import branches_gradient
from tfjit.ops.autodiff.calls import call_gradient
from tfjit.ops.autodiff.while_loop import while_gradient

for _op_type in ("If", "StatelessIf", "Case", "StatelessCase"):
    register(_op_type, branches_gradient)
for _op_type in ("While", "StatelessWhile"):
    register(_op_type, while_gradient)
for _op_type in ("PartitionedCall", "StatefulPartitionedCall"):
    register(_op_type, call_gradient)
