"""Hold the part of a partition that an accelerator runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.framework.types.dtypes import variant
from tfjit.passes.ir.node import SINK, SOURCE

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.ir.function_library import Function
    from tfjit.passes.ir.node import Node


@dataclass(frozen=True, eq=False)
class OffloadedGraph:
    """The nodes of an `_Offload` node, as a function.

    device: the accelerator's full name. taken, kept: arguments and results that are tensors in the
    device's memory, on edges of dtype variant.
    """

    function: Function
    device: str
    taken: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()

    @property
    def types(self) -> tuple[tuple[DType, ...], tuple[DType, ...]]:
        """Return the dtypes of the node's inputs and outputs."""
        inputs = [variant if i in self.taken else d for i, d in enumerate(self.function.inputs)]
        outputs = [variant if i in self.kept else d for i, d in enumerate(self.function.outputs)]
        return tuple(inputs), tuple(outputs)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the nodes in an order of execution."""
        graph = self.function.graph
        return tuple(
            name
            for name in graph.topological_order()
            if name not in (SOURCE, SINK) and graph.node(name).op not in ("_Arg", "_Retval")
        )

    def explain(self) -> str:
        """Return one line on the device and the nodes."""
        counts = Counter(self.function.graph.node(name).op for name in self.names)
        ops = ", ".join(f"{op} {count}" for op, count in counts.most_common())
        found = f"{sum(counts.values())} nodes on {self.device}: {ops}"
        if self.taken or self.kept:
            found += f"; {len(self.taken)} arguments and {len(self.kept)} results stay there"
        return found


def returns_device_tensor(graph: DataflowGraph, result: Node) -> bool:
    """Return whether the value of a `_Retval` node stays on its device."""
    source, output = graph.inputs(result.name)[0]
    offloaded = graph.node(source).attrs.get("offloaded")
    return isinstance(offloaded, OffloadedGraph) and output in offloaded.kept
