"""Find the feeds that decide shapes by their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.errors import InvalidGraphError
from tfjit.framework.op_defs.op_registry import infer_shapes, registry
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.passes.ir.dataflow_graph import CONTROL

if TYPE_CHECKING:
    import numpy as np

    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

MAX_ELEMENTS: Final = 16
"""Largest number of elements of a feed of sizes."""


def find_size_feeds(graph: DataflowGraph) -> list[int]:
    """Return the numbers of the feeds that decide shapes.

    graph: of a run, behind the passes; some shapes are unknown. A feed decides a shape if the
    shape function of a node with an unknown output shape reads it, or small integers that
    are computed from it.
    """
    decided_by: dict[str, frozenset[int]] = {}
    found: set[int] = set()
    for name in graph.topological_order():
        node = graph.node(name)
        if node.op == "_Arg":
            if _are_sizes(node, 0):
                decided_by[name] = frozenset([int(node.attrs["index"])])
            continue
        sources = [
            decided_by.get(source, frozenset()) if output != CONTROL else frozenset()
            for source, output in graph.inputs(name)
        ]
        if not any(sources):
            continue
        if all(_are_sizes(node, k) for k in range(len(node.output_dtypes))):
            decided_by[name] = frozenset().union(*sources)
        else:
            found.update(*(sources[k] for k in _shape_inputs(graph, node) if k < len(sources)))
    return sorted(found)


def _are_sizes(node: Node, output: int) -> bool:
    """Return whether an output is a few integers."""
    shape = node.output_shapes[output]
    return (
        node.output_dtypes[output].base_dtype.name in ("int32", "int64")
        and shape is not None
        and len(shape) <= 1
        and all(size is not None and size <= MAX_ELEMENTS for size in shape)
    )


def _shape_inputs(graph: DataflowGraph, node: Node) -> set[int]:
    """Return the inputs that decide an unknown output shape by their values."""
    if node.op_def is None or registry.shape_fn(node.op_def.name) is None:
        return set()
    if all(shape is not None and None not in shape for shape in node.output_shapes):
        return set()
    inputs = [(source, output) for source, output in graph.inputs(node.name) if output != CONTROL]
    read: set[int] = set()

    def constant(index: int) -> np.ndarray | None:
        source = graph.node(inputs[index][0])
        if source.op == "Const":
            value: np.ndarray = source.attrs["value"]
            return value
        read.add(index)
        return None

    context = ShapeContext(
        node.op,
        node.name,
        node.attrs,
        [graph.node(source).output_shapes[output] for source, output in inputs],
        node.input_dtypes,
        len(node.output_dtypes),
        constant,
    )
    try:
        infer_shapes(context, node.op_def)
    except InvalidGraphError:  # the run reports it
        return set()
    return read
