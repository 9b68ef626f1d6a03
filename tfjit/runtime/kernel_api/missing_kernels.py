"""Errors for ops that are declared but have no kernel.

They are declared so that graphs with them can be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework import errors
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node


def missing_kernel(node: Node) -> errors.UnimplementedError:
    """Return the error of a run with a node without kernel."""
    family = registry.family(node.op)
    of = f" (op family '{family.name}': {family.subject})" if family is not None else ""
    types = ", ".join(dtype.name for dtype in node.input_dtypes)
    return errors.UnimplementedError(
        None,
        None,
        f"tfjit does not implement op '{node.op}' yet{of}, which {{{{node {node.name}}}}} needs "
        f"with inputs [{types}]. "
        f"{family.instead if family is not None and family.instead else _instead(node)}. Runs that "
        "do not need the node work.",
    )


def _instead(node: Node) -> str:
    own_kernel = "give the session a kernel for it (SessionOptions.custom_kernel_creator)"
    fed = node.output_dtypes and not any(
        dtype in (dtypes.resource, dtypes.variant) for dtype in node.output_dtypes
    )
    return (
        f"Feed its outputs in feed_dict, or {own_kernel}"
        if fed
        else own_kernel[0].upper() + own_kernel[1:]
    )
