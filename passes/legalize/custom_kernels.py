"""Replace built-in kernels by a session's own kernels.

SessionOptions.custom_kernel_creator makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW, TRANSFER
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.graph_def import CUSTOM
from tfjit.passes.manager.pass_context import PassContext

_NOT_ASKED: Final = frozenset({"_Arg", "_Retval", "ControlTrigger", CUSTOM})


@dataclass(frozen=True, slots=True)
class CustomOpDef(OpDef):
    """The contract of a node with a custom kernel.

    The contract is the op type's contract, with the kernel. The op is stateful and without traits,
    since the effects of the kernel are unknown.
    """

    kernel: Callable[[Any, Sequence[Any]], Sequence[Any]] | None = None

    def __hash__(self) -> int:
        return hash(self.name)


def custom_kernels(graph: DataflowGraph, ctx: PassContext) -> None:
    """Ask the session's kernel creator for a kernel of each node.

    Nodes with such a kernel become opaque to the other passes.

    Before: x -> Tanh -> y
    After: x -> _CustomKernel -> y, its op_def a CustomOpDef named Tanh, its attrs and shape rule
    Tanh's
    Keeps: everything when there is no creator.
    Needs: `prune`, so that no kernel is requested for nodes that do not run, and devices.
    """
    create = ctx.options.kernel_creator
    if create is None:
        return
    for node in list(graph.op_nodes()):
        if node.op in _NOT_ASKED or node.has_trait(CONTROL_FLOW | TRANSFER) or node.op_def is None:
            continue
        kernel = create(node)
        if kernel is None:
            continue
        op = node.op
        contract = {
            field.name: getattr(node.op_def, field.name) for field in fields(OpDef) if field.init
        }
        node.op_def = CustomOpDef(**{**contract, "is_stateful": True, "traits": 0}, kernel=kernel)
        graph._retype(node, CUSTOM)
        ctx.rewrote(node.name, f"{op} runs a custom kernel")
