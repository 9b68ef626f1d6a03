"""Measured costs of nodes, over the observed steps of a session.

They are given as TensorFlow's CostGraphDef.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfjit.framework.types import shape as shapes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.profiling.step_stats import NodeRecord, TensorRecord

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.pipeline import Partition


def is_due(step: int, every: int, after: int) -> bool:
    """Return whether a signature's step builds the cost model.

    step: the signature's step number, from 0. every, after: GraphOptions.build_cost_model and
    build_cost_model_after. The same steps as in TensorFlow 2.21.
    """
    return every > 0 and step >= after and (step - after + 1) % every == 0


@dataclass(slots=True)
class NodeCost:
    """A node's measured runs: number, total time, and last outputs."""

    runs: int = 0
    total_ns: int = 0
    outputs: tuple[TensorRecord | None, ...] = ()

    @property
    def mean_us(self) -> float:
        """Time of a run in microseconds."""
        return self.total_ns / self.runs / 1000 if self.runs else 0.0


class CostModel:
    """Costs of one session's nodes by device and name. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[tuple[str, str], NodeCost] = {}

    def update(self, records: Iterable[NodeRecord]) -> None:
        """Add the records of a step's collector.

        A node that ran several times in the step (in a loop) counts as one run.
        """
        with self._lock:
            seen: set[tuple[str, str]] = set()
            for record in records:
                key = record.device, record.node.name
                cost = self._nodes.setdefault(key, NodeCost())
                cost.runs += key not in seen
                cost.total_ns += record.elapsed_ns
                cost.outputs = record.outputs
                seen.add(key)

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)

    def cost(self, device: str, name: str) -> NodeCost:
        """Return the cost of a node, of no runs if never seen."""
        with self._lock:
            return self._nodes.get((device, name)) or NodeCost()

    def fill(self, cost_graph: Any, partitions: Sequence[Partition]) -> None:
        """Write a CostGraphDef of the partition graphs.

        `_SOURCE` and `_SINK` are included, and ids are unique over all graphs. compute_cost is the
        mean time in us, at least 1; sizes are of the last run, in bytes.
        """
        first = 0
        for partition in partitions:
            graph = partition.graph
            nodes = sorted((graph.node(name) for name in graph), key=lambda node: node.id)
            ids = {node.name: first + position for position, node in enumerate(nodes)}
            for node in nodes:
                self._fill_node(cost_graph.node.add(), partition.device, node, ids)
            first += len(nodes)

    def _fill_node(self, entry: Any, device: str, node: Node, ids: dict[str, int]) -> None:
        cost = self.cost(device, node.name)
        entry.name, entry.id = node.name, ids[node.name]
        if node.name not in (SOURCE, SINK):
            entry.device = device
        for edge in node.in_edges:
            if edge.is_control:
                entry.control_input.append(ids[edge.src])
            else:
                entry.input_info.add(preceding_node=ids[edge.src], preceding_port=edge.src_output)
        entry.compute_cost = 0 if node.op == "_Retval" else max(1, round(cost.mean_us))
        for index, dtype in enumerate(node.output_dtypes):
            tensor = cost.outputs[index] if index < len(cost.outputs) else None
            output = entry.output_info.add(alias_input_port=-1, dtype=dtype.as_datatype_enum)
            if tensor is None:
                shapes.fill_proto(output.shape, node.output_shapes[index])
                continue
            output.dtype = as_dtype(tensor.dtype).as_datatype_enum
            shapes.fill_proto(output.shape, tensor.shape)
            output.shape.SetInParent()
            if node.op == "Const":
                entry.persistent_memory_size += tensor.nbytes
            elif node.op != "_Arg":
                output.size = tensor.nbytes
