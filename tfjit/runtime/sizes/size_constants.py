"""Compute again the constants of a plan that depend on sizes.

Folding has made them of nodes that ask for shapes: a mean's gradient is divided by the number of
rows. `SizeGraph` keeps those nodes of the run's graph, with formulas for the shapes they ask for.
It also refuses graphs in which sizes decide more than numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import CONTROL_FLOW, MERGE, RUNS_FUNCTIONS, SWITCH
from tfjit.passes.analysis.constant_evaluation import NotEvaluated, can_evaluate, evaluate
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.runtime.sizes.size_formulas import Made, NotGeneric, merged

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
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

COMPARES: Final = frozenset(
    [
        "Equal",
        "Greater",
        "GreaterEqual",
        "Less",
        "LessEqual",
        "LogicalAnd",
        "LogicalNot",
        "LogicalOr",
        "NotEqual",
    ]
)
"""Ops that ask for a relation of sizes.

A constant that follows from such a result is computed again for each size if its own shape depends
on a size. Else its value has to be that of the samples: `SizeGraph.require_alike` computes it.
"""


class SizeGraph:
    """The nodes of a run with values that follow from sizes alone."""

    def __init__(
        self,
        first: DataflowGraph,
        shapes: Sequence[Mapping[str, tuple[Shape, ...]]],
        samples: Sequence[tuple[int, ...]],
    ) -> None:
        """Take the unoptimised graph of a run, which is dissolved.

        shapes: node -> shapes of its outputs, one mapping a sample. Raises NotGeneric.
        """
        self._shapes: dict[Tensor, Made | tuple[int, ...]] = {}  # of the inputs of QUERIES
        self._nodes: dict[str, tuple[Node, list[Tensor]]] = {}
        self._pinned: dict[str, list[np.ndarray]] = {}  # the outputs for all sizes
        static: set[str] = set()
        by_size: set[str] = set()
        compared: set[str] = set()
        pinned: list[str] = []
        for name in first.topological_order():
            if name in (SOURCE, SINK):
                continue
            node, inputs = first.node(name), first.inputs(name)
            sized = [src for src, _ in inputs if src in by_size]
            if sized and node.has_trait(CONTROL_FLOW | RUNS_FUNCTIONS):
                chosen = node.has_trait(SWITCH) and inputs[1][0] in static - by_size
                if not chosen and not node.has_trait(MERGE):
                    raise NotGeneric(f"a size decides in {name} ({node.op})")
                by_size.add(name)
                continue
            if node.op in QUERIES:
                asked = {tensor: self._shape(shapes, tensor, samples) for tensor in inputs}
                self._shapes.update(asked)
                varying = any(map(callable, asked.values()))
            elif node.op == "Const":
                varying = False
            elif inputs and can_evaluate(node) and all(src in static for src, _ in inputs):
                varying = bool(sized)
            else:
                # a mask with an element a size is data, which is computed for each size
                decides = node.op in DECIDES and inputs and inputs[0][0] in by_size - compared
                behind_branch = not static.issuperset(sized) and can_evaluate(node)
                if decides or (behind_branch and node.op not in ARITHMETIC):
                    raise NotGeneric(f"a size decides in {name} ({node.op})")
                if behind_branch:
                    by_size.add(name)
                continue
            static.add(name)
            self._nodes[name] = node, inputs
            if sized and (node.op not in ARITHMETIC or not compared.isdisjoint(sized)):
                if callable(self._shape(shapes, (name, 0), samples)):
                    if node.op not in ARITHMETIC | COMPARES:
                        raise NotGeneric(f"a size decides in {name} ({node.op})")
                    compared.add(name)
                else:
                    pinned.append(name)
                    varying = False
            if varying:
                by_size.add(name)
        for node, _ in self._nodes.values():
            node.output_shapes = (None,) * len(node.output_shapes)
        first.dissolve()
        for name in pinned:
            self._pin(name, samples)

    def _shape(
        self,
        shapes: Sequence[Mapping[str, tuple[Shape, ...]]],
        tensor: Tensor,
        samples: Sequence[tuple[int, ...]],
    ) -> Made | tuple[int, ...]:
        name, slot = tensor
        known = []
        for by_name in shapes:
            shape = by_name[name][slot]
            if shape is None or None in shape:
                raise NotGeneric(f"the shape of {name}:{slot} is not known before it runs")
            known.append(tuple([n for n in shape if n is not None]))
        return merged(known, samples, name) or known[0]

    def _pin(self, name: str, samples: Sequence[tuple[int, ...]]) -> None:
        """Take a node's outputs for those of all sizes.

        Raises NotGeneric where they vary.
        """
        first, *others = (self._outputs(name, sizes, {}) for sizes in samples)
        if any(not _all_same(outputs, first) for outputs in others):
            raise NotGeneric(f"a size decides in {name} ({self._nodes[name][0].op})")
        self._pinned[name] = first

    def require_alike(self, sizes: Sequence[int]) -> None:
        """Raise NotGeneric where a decision differs from that of the samples."""
        known: dict[str, list[np.ndarray]] = {}
        for name, outputs in self._pinned.items():
            if not _all_same(self._outputs(name, sizes, known), outputs):
                raise NotGeneric(f"{name} decides otherwise")

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


def _all_same(arrays: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(arrays, others))


def _queried(node: Node, shape: tuple[int, ...], slot: int) -> np.ndarray:
    """Return the answer of a node that asks for a shape."""
    dtype = node.output_dtypes[slot].as_numpy_dtype
    if node.op in ("Shape", "ShapeN"):
        return np.array(shape, dtype)
    if node.op == "Rank":
        return np.array(len(shape), dtype)
    return np.array(np.prod(shape, dtype=np.int64), dtype)  # Size


__all__ = ["ARITHMETIC", "SizeGraph"]
