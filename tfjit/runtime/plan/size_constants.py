"""Compute again the constants of a plan that depend on sizes.

Folding has made them of nodes that ask for shapes: a mean's gradient is divided by the number of
rows. `SizeGraph` keeps those nodes of the run's graph, with formulas for the shapes they ask for.
It also refuses graphs in which sizes decide more than numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import CONTROL_FLOW, RUNS_FUNCTIONS
from tfjit.passes.analysis.constant_evaluation import NotEvaluated, can_evaluate, evaluate
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.runtime.plan.size_formulas import Made, NotGeneric, merged

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

Tensor = tuple[str, int]

QUERIES: Final = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops that return facts about the shapes of their inputs."""

DECIDES: Final = frozenset({"Select", "SelectV2", "Assert", "Where"})
"""Ops that choose by their first input."""
ARITHMETIC: Final = frozenset(
    [
        "Add",
        "AddV2",
        "BroadcastGradientArgs",
        "BroadcastTo",
        "Cast",
        "Concat",
        "ConcatOffset",
        "ConcatV2",
        "Div",
        "DynamicStitch",
        "ExpandDims",
        "Fill",
        "FloorDiv",
        "Gather",
        "GatherV2",
        "Identity",
        "InvertPermutation",
        "Maximum",
        "Minimum",
        "Mul",
        "Neg",
        "OnesLike",
        "Pack",
        "Pow",
        "Prod",
        "Range",
        "RealDiv",
        "Reciprocal",
        "Reshape",
        "Rsqrt",
        "Slice",
        "Split",
        "Sqrt",
        "Square",
        "Squeeze",
        "StridedSlice",
        "Sub",
        "Sum",
        "Tile",
        "Transpose",
        "Unpack",
        "ZerosLike",
    ]
)
"""Ops that only compute numbers from sizes.

Their results have one form over a range of sizes if they have it at both ends: none of them asks
whether a size is even, or equal to another one.
"""


class SizeGraph:
    """The nodes of a run with values that follow from sizes alone."""

    def __init__(self, graphs: Sequence[DataflowGraph], samples: Sequence[tuple[int, ...]]) -> None:
        """Take the graph of a run with the shapes of each sample.

        graphs: unoptimised, with inferred shapes. They are dissolved. Raises NotGeneric.
        """
        first = graphs[0]
        self._shapes: dict[Tensor, Made | tuple[int, ...]] = {}  # of the inputs of QUERIES
        self._nodes: dict[str, tuple[Node, list[Tensor]]] = {}
        static: set[str] = set()
        by_size: set[str] = set()
        for name in first.topological_order():
            if name in (SOURCE, SINK):
                continue
            node, inputs = first.node(name), first.inputs(name)
            asks = node.op in QUERIES
            sized = [src for src, _ in inputs if src in by_size]
            if sized and node.has_trait(CONTROL_FLOW | RUNS_FUNCTIONS):
                raise NotGeneric(f"a size decides in {name} ({node.op})")
            if asks:
                shapes = [self._shape(graphs, tensor, samples) for tensor in inputs]
                varying = any(callable(shape) for shape in shapes)
            elif node.op == "Const":
                varying = False
            elif inputs and can_evaluate(node) and all(src in static for src, _ in inputs):
                varying = bool(sized)
                if varying and node.op not in ARITHMETIC:
                    raise NotGeneric(f"a size decides in {name} ({node.op})")
            else:
                if node.op in DECIDES and inputs and inputs[0][0] in by_size:
                    raise NotGeneric(f"a size decides in {name} ({node.op})")
                continue
            static.add(name)
            if varying:
                by_size.add(name)
            self._nodes[name] = node, inputs
        for node, _ in self._nodes.values():
            node.output_shapes = (None,) * len(node.output_shapes)  # those of one sample
        for graph in graphs:
            graph.dissolve()

    def _shape(
        self,
        graphs: Sequence[DataflowGraph],
        tensor: Tensor,
        samples: Sequence[tuple[int, ...]],
    ) -> Made | tuple[int, ...]:
        name, slot = tensor
        shapes = []
        for graph in graphs:
            shape = graph.node(name).output_shapes[slot]
            if shape is None or None in shape:
                raise NotGeneric(f"the shape of {name}:{slot} is not known before it runs")
            shapes.append(tuple([n for n in shape if n is not None]))
        found = merged(shapes, samples, name) or shapes[0]
        self._shapes[tensor] = found
        return found

    def has(self, name: str) -> bool:
        """Return whether a node's value follows from sizes."""
        return name in self._nodes

    def value(self, name: str, sizes: Sequence[int]) -> np.ndarray:
        """Return output 0 of a node for these sizes.

        Raises NotGeneric where a kernel fails.
        """
        return self._outputs(name, sizes, {})[0]

    def _outputs(
        self, name: str, sizes: Sequence[int], known: dict[str, list[np.ndarray]]
    ) -> list[np.ndarray]:
        found = known.get(name)
        if found is not None:
            return found
        node, inputs = self._nodes[name]
        if node.op == "Const":
            found = [np.asarray(node.attrs["value"])]
        elif node.op in QUERIES:
            found = [
                _queried(node, self._shape_at(tensor, sizes), slot)
                for slot, tensor in enumerate(inputs)
            ]
        else:
            arguments = [self._outputs(src, sizes, known)[slot] for src, slot in inputs]
            try:
                found = evaluate(node, arguments)
            except NotEvaluated as why:
                raise NotGeneric(f"{name}: {why}") from None
        known[name] = found
        return found

    def _shape_at(self, tensor: Tensor, sizes: Sequence[int]) -> tuple[int, ...]:
        shape = self._shapes[tensor]
        return shape(sizes) if callable(shape) else shape


def _queried(node: Node, shape: tuple[int, ...], slot: int) -> np.ndarray:
    """Return the answer of a node that asks for a shape."""
    dtype = node.output_dtypes[slot].as_numpy_dtype
    if node.op in ("Shape", "ShapeN"):
        return np.array(shape, dtype)
    if node.op == "Rank":
        return np.array(len(shape), dtype)
    return np.array(np.prod(shape, dtype=np.int64), dtype)  # Size


__all__ = ["ARITHMETIC", "SizeGraph"]
