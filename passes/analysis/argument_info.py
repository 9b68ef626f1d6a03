"""Describe arguments of functions by static facts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfjit.framework.types import shape as shape_rules
from tfjit.passes.ir.function_library import Function, indexed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from tfjit.framework.types.shape import Shape
    from tfjit.passes.analysis.list_shapes import ListShape
    from tfjit.passes.ir.dataflow_graph import DataflowGraph


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """Static facts about an argument or a result of a body.

    variable: the shape of the variable behind a resource; None is an unknown shape. items: of a
    tensor list.
    """

    shape: Shape
    variable: Shape = None
    value: np.ndarray | None = None
    items: ListShape | None = None

    def relax(self, other: ArgumentInfo) -> ArgumentInfo:
        """Return the facts that hold for both; the value stays."""
        items = self.items.relax(other.items) if self.items is not None else None
        variable = shape_rules.relax(self.variable, other.variable)
        return replace(
            self, shape=shape_rules.relax(self.shape, other.shape), variable=variable, items=items
        )


def copy_with_arguments(function: Function, given: Sequence[ArgumentInfo]) -> DataflowGraph:
    """Return a copy of a function's graph with known arguments.

    `infer_shapes` starts from them. given: in the order of the arguments.
    """
    graph = function.graph.copy()
    graph.functions = function.graph.functions.child()
    graph.graph["given"] = {
        node.name: given[index] for index, node in indexed(graph, "_Arg").items()
    }
    return graph
