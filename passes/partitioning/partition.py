"""Split a graph into partitions, one for each device or task.

Edges between partitions become `_Send` and `_Recv` pairs with TensorFlow's names and keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.passes.analysis.host_memory import input_on_host, output_on_host
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Edge, Node
from tfjit.passes.manager.pass_context import PassContext


@dataclass(frozen=True, slots=True)
class Partition:
    """The part of a run that one device or task executes.

    device: its full name, or the result of the location function.
    """

    device: str
    graph: DataflowGraph

    def to_graph_def(self) -> Any:
        """Return the partition as a GraphDef message."""
        return self.graph.to_graph_def()


def partition(graph: DataflowGraph, ctx: PassContext) -> list[Partition]:
    """Split a placed graph by location into partitions.

    Each tensor gets one `_Send`/`_Recv` pair for each receiving partition.

    Before: x on CPU:0 -> y on CPU:1 (twice)
    After: x -> x/_0=_Send and x/_1=_Recv -> y (twice)
    Keeps: every node with its id and name in exactly one partition, and all orderings.

    A control edge is sent as an empty tensor, from a Const that waits for the edge's source to an
    Identity that the edge's destination waits for. A loop across devices gets a control loop on
    each of them (distribute_loops.py), so that its receives run once an iteration. The partitions
    are in order of location name; a graph of one location is returned unchanged. Nodes of
    accelerators stay in the client's partition (offload.py). Raises
    InvalidArgumentError for a loop across devices that has no LoopCond. Source: TensorFlow 2.5,
    graph/graph_partition.cc.
    """
    for node in graph.op_nodes():
        node.assigned_device = node.assigned_device or ctx.options.client_device
    new_name = _namer(ctx)
    loop_waits: dict[tuple[str, str], int] = {}
    where = ctx.options.partition_device
    if len({where(node.assigned_device) for node in graph.op_nodes()}) > 1 and graph.has_trait(
        CONTROL_FLOW
    ):
        from tfjit.passes.partitioning.distribute_loops import (
            add_control_loops,
            colocate_control_flow,
        )

        colocate_control_flow(graph)
        loop_waits = add_control_loops(graph, new_name)
    locate = ctx.options.location or (lambda node: where(node.assigned_device))
    locations = {node.name: locate(node) for node in graph.op_nodes()}
    names = sorted(set(locations.values()))
    if len(names) <= 1:
        return [Partition(names[0] if names else ctx.options.client_device, graph)]
    parts: dict[str, DataflowGraph] = {}
    for where in names:
        members = [name for name, location in locations.items() if location == where]
        parts[where] = graph.copy_subset(members)
    _Splitter(graph, ctx, locations, parts, new_name, loop_waits).run()
    return [Partition(where, parts[where]) for where in names]


def _namer(ctx: PassContext) -> Callable[[str], str]:
    """Return the function that names new nodes.

    Names are "x/_0" in direct sessions, "x_S0" in distributed ones.
    """
    counter = ctx.options.partition_counter or itertools.count()
    separator = "_S" if ctx.options.distributed_names else "/_"
    return lambda prefix: f"{prefix}{separator}{next(counter)}"


class _Splitter:
    """Adds the sends and receives of one split to the partitions."""

    def __init__(
        self,
        graph: DataflowGraph,
        ctx: PassContext,
        locations: dict[str, str],
        parts: dict[str, DataflowGraph],
        new_name: Callable[[str], str],
        loop_waits: dict[tuple[str, str], int],
    ) -> None:
        self.new_name = new_name
        # node -> (the Merge of a control loop that the node waits for, the number of its inputs
        # that the edge covers)
        self.loop_waits = {dst: (merge, count) for (merge, dst), count in loop_waits.items()}
        self.graph, self.locations, self.parts = graph, locations, parts
        self.incarnations = {device.name: device.incarnation for device in ctx.options.devices}
        # Keys name edges by dense ids. Pruned edges do not count, and TensorFlow's copies of a
        # graph have three edges from source to sink before all others.
        ids = sorted(
            edge.id for edge in graph.all_edges() if (edge.src, edge.dst) != (SOURCE, SINK)
        )
        self.edge_numbers = {id: number for number, id in enumerate(ids, 3)}
        # (source, output or -1, receiving partition) -> the node there with that value
        self.received: dict[tuple[str, int, str], str] = {}
        # Ids continue from one partition to the next, so that ids are unique over all partitions.
        self.next_id = graph.num_node_ids

    def run(self) -> None:
        for node in yielding(sorted(self.graph.op_nodes(), key=lambda node: node.id)):
            self.connect(node)
        for part in self.parts.values():
            part.tie_ends()

    def connect(self, node: Node) -> None:
        """Add the receives for a node's inputs from other partitions."""
        here = self.locations[node.name]
        # receives of references: they read when dst's other inputs are ready
        waits_for_readers: list[str] = []
        others: list[str] = []
        merge, unused = self.loop_waits.get(node.name, ("", 0))
        for edge in self.graph.edges_into(node.name):
            if edge.src == SOURCE or (edge.is_control and edge.src == merge):
                continue
            reference = (
                not edge.is_control
                and self.graph.node(edge.src).output_dtypes[edge.src_output].is_ref
            )
            if self.locations[edge.src] == here:
                if not reference:
                    others.append(edge.src)
                continue
            key = (edge.src, edge.src_output, here)
            known = self.received.get(key)
            if known is None:
                known = self.transfer(edge, node, here, merge)
                unused -= 1
                if reference:
                    waits_for_readers.append(known)
                else:
                    self.received[key] = known
                    others.append(known)
            else:
                others.append(known)
            if edge.is_control:
                self.parts[here].add_control_edge(known, node.name)
            else:
                self.parts[here].add_data_edge(known, 0, node.name, edge.dst_input)
        if merge and unused <= 0:  # a receive waits instead of the node
            self.parts[here].remove_control_edge(merge, node.name)
        for receive in waits_for_readers:
            for other in others:
                if other != receive:
                    self.parts[here].add_control_edge(other, receive)

    def transfer(self, edge: Edge, dst: Node, here: str, gate: str) -> str:
        """Add the pair for one edge; return its receiving node.

        gate: the node that the receive waits for in a loop, "" outside.
        """
        src = self.graph.node(edge.src)
        there = self.parts[self.locations[edge.src]]
        sent, output = src.name, edge.src_output
        if edge.is_control:
            empty = np.zeros(0, dtype=np.float32)
            empty.setflags(write=False)
            made = self.add(
                there,
                src,
                self.new_name(f"{src.name}/ctrl"),
                "Const",
                [],
                {"dtype": dtypes.float32, "value": empty},
            )
            there.add_control_edge(src.name, made.name)
            shape: Shape = (0,)
            made.output_shapes = (shape,)
            sent, output = made.name, 0
            dtype = dtypes.float32
        else:
            dtype, shape = src.output_dtypes[output].base_dtype, src.output_shapes[output]
        attrs = {
            "tensor_name": f"edge_{self.edge_numbers[edge.id]}_{src.name}".encode(),
            "send_device": src.assigned_device.encode(),
            "send_device_incarnation": self.incarnations.get(src.assigned_device, 1),
            "recv_device": dst.assigned_device.encode(),
            "client_terminated": False,
            "_src": src.name.encode(),
            "_dst": dst.name.encode(),
        }
        send_op = "_HostSend" if not edge.is_control and output_on_host(src, output) else "_Send"
        recv_op = (
            "_HostRecv" if not edge.is_control and input_on_host(dst, edge.dst_input) else "_Recv"
        )
        self.add(
            there, src, self.new_name(src.name), send_op, [(sent, output)], {"T": dtype, **attrs}
        )
        receive = self.add(
            self.parts[here],
            dst,
            self.new_name(src.name),
            recv_op,
            [],
            {"tensor_type": dtype, **attrs},
        )
        receive.origin = src.origin
        if gate:
            self.parts[here].add_control_edge(gate, receive.name)
        receive.output_shapes = (shape,)
        if not edge.is_control:
            if src.output_dtypes[output].is_ref:
                # TensorFlow marks the reads of references in this way
                receive.attrs["_start_time"] = 0
            return receive.name
        waited = self.add(
            self.parts[here],
            dst,
            self.new_name(src.name),
            "Identity",
            [(receive.name, 0)],
            {"T": dtype},
        )
        waited.origin = src.origin
        waited.output_shapes = (shape,)
        return waited.name

    def add(
        self,
        part: DataflowGraph,
        like: Node,
        name: str,
        op: str,
        inputs: list[tuple[str, int]],
        attrs: dict[str, Any],
    ) -> Node:
        """Add a node beside `like`, with an id that no partition has."""
        part._next_node_id = max(part._next_node_id, self.next_id)
        made = part.add_node_op(
            name,
            op,
            inputs,
            attrs,
            device=like.assigned_device,
            assigned_device=like.assigned_device,
            origin=like.origin,
        )
        self.next_id = part._next_node_id
        return made
