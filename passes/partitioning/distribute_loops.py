"""Give each device of a distributed loop a control loop.

A control loop runs as often as the loop and carries no value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.op_traits import ENTER, EXIT, NEXT_ITERATION, SWITCH
from tfjit.framework.types import dtypes
from tfjit.passes.analysis.frames import Frames, find_frames
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Edge, Node


def colocate_control_flow(graph: DataflowGraph) -> None:
    """Colocate control-flow nodes with the nodes around them.

    Switch and Exit move to the device of their data input, Enter and NextIteration to the device
    of their first reader.

    Before: m=Merge on CPU:1 -> s=Switch on CPU:0
    After: s on CPU:1
    Keeps: everything but the assigned devices of those nodes.

    Source: TensorFlow 2.5, graph/graph_partition.cc.
    """
    # TensorFlow walks depth first from the source, so a node that follows another may be moved
    # before or after that node.
    stack, seen = [SOURCE], set()
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in (SOURCE, SINK):
            _follow(graph, graph.node(name))
        stack += [edge.dst for edge in graph.edges_out_of(name) if edge.dst not in seen]


def _follow(graph: DataflowGraph, node: Node) -> None:
    if node.has_trait(SWITCH) or node.has_trait(EXIT):
        node.assigned_device = graph.node(graph.inputs(node.name)[0][0]).assigned_device
    elif (node.has_trait(ENTER) and not node.input_dtypes[0].is_ref) or node.has_trait(
        NEXT_ITERATION
    ):
        readers = graph.consumers(node.name)
        if readers:
            node.assigned_device = graph.node(readers[0][0]).assigned_device


@dataclass(frozen=True, slots=True)
class ControlLoop:
    """The nodes of a control loop that other nodes connect to."""

    enter: str
    merge: str


def add_control_loops(
    graph: DataflowGraph, new_name: Callable[[str], str]
) -> dict[tuple[str, str], int]:
    """Add a control loop to each device that loop edges enter.

    A control loop is Enter, Merge, Switch by the loop's own condition, and NextIteration.

    The destination of each such edge waits for the Merge of its device's control loop. Partitioning
    then makes the receive wait instead, so that a receive happens once an iteration. Control loops
    of nested loops are nested too.
    Returns (Merge, destination) -> number of edges between devices for that pair.
    Raises InvalidArgumentError for a loop without LoopCond.
    Source: TensorFlow 2.5, graph/graph_partition.cc.
    """
    if not graph.has_trait(ENTER):
        return {}
    frames = find_frames(graph)
    loops: dict[tuple[str, str], ControlLoop] = {}
    for edge in sorted(graph.all_edges()):
        frame = _crossed_frame(graph, frames, edge)
        if frame:
            _add_loops(graph, frames, frame, edge, loops, new_name)
    waits: dict[tuple[str, str], int] = {}
    for edge in sorted(graph.all_edges()):
        frame = _crossed_frame(graph, frames, edge)
        if frame:
            merge = loops[frame, graph.node(edge.dst).assigned_device].merge
            waits[merge, edge.dst] = waits.get((merge, edge.dst), 0) + 1
    for merge, dst in waits:
        graph.add_control_edge(merge, dst)
    return waits


def _crossed_frame(graph: DataflowGraph, frames: Frames, edge: Edge) -> str:
    """Return the frame in which an edge leads between devices.

    The result is "" for edges on one device and outside of loops. An Exit outputs to the frame
    around its own, and an Enter gets its input from there.
    """
    if edge.src == SOURCE or edge.dst == SINK:
        return ""
    src, dst = graph.node(edge.src), graph.node(edge.dst)
    if src.assigned_device == dst.assigned_device:
        return ""
    given, taken = frames.of[edge.src], frames.of[edge.dst]
    given = frames.outer[given] if src.has_trait(EXIT) else given
    taken = frames.outer[taken] if dst.has_trait(ENTER) else taken
    return given if given == taken else ""


def _add_loops(
    graph: DataflowGraph,
    frames: Frames,
    frame: str,
    edge: Edge,
    loops: dict[tuple[str, str], ControlLoop],
    new_name: Callable[[str], str],
) -> None:
    """Add control loops for an edge that crosses devices.

    These are the loops of the frame and of the frames around it, on the device of the edge's
    destination.
    """
    dst = graph.node(edge.dst)
    device = dst.assigned_device
    inner: ControlLoop | None = None
    while frame:
        known = loops.get((frame, device))
        made = known or _add_loop(graph, frames, frame, dst, new_name)
        loops[frame, device] = made
        if inner is not None:
            graph.add_data_edge(made.merge, 0, inner.enter, 0)
        if known is not None:
            return
        frame, inner = frames.outer[frame], made
    if inner is not None:
        start = np.zeros(0, dtype=np.float32)
        start.setflags(write=False)
        made_const = _add(
            graph,
            frames,
            dst,
            new_name(dst.name),
            "Const",
            {"dtype": dtypes.float32, "value": start},
            "",
        )
        graph.add_data_edge(made_const.name, 0, inner.enter, 0)


def _add_loop(
    graph: DataflowGraph, frames: Frames, frame: str, dst: Node, new_name: Callable[[str], str]
) -> ControlLoop:
    """Add the nodes of a control loop on the device of `dst`."""
    condition = frames.condition.get(frame)
    if condition is None:
        raise InvalidArgumentError(
            None, None, f"A cross-device loop must have a pivot predicate: {frame}"
        )
    enter_name, merge_name, switch_name, next_name = (
        f"_cloop{new_name(dst.name)}" for _ in range(4)
    )
    iterations = graph.node(frames.enter[frame]).attrs["parallel_iterations"]
    attrs = {
        "T": dtypes.float32,
        "frame_name": frame.encode(),
        "parallel_iterations": iterations,
        "is_constant": False,
    }
    _add(graph, frames, dst, enter_name, "Enter", attrs, frame)
    _add(graph, frames, dst, merge_name, "Merge", {"T": dtypes.float32, "N": 2}, frame)
    _add(graph, frames, dst, switch_name, "Switch", {"T": dtypes.float32}, frame)
    _add(graph, frames, dst, next_name, "NextIteration", {"T": dtypes.float32}, frame)
    graph.add_data_edge(merge_name, 0, switch_name, 0)
    graph.add_data_edge(condition, 0, switch_name, 1)
    graph.add_data_edge(switch_name, 1, next_name, 0)
    graph.add_data_edge(enter_name, 0, merge_name, 0)
    graph.add_data_edge(next_name, 0, merge_name, 1)
    return ControlLoop(enter_name, merge_name)


def _add(
    graph: DataflowGraph,
    frames: Frames,
    like: Node,
    name: str,
    op: str,
    attrs: dict[str, object],
    frame: str,
) -> Node:
    """Add a node without edges.

    In a loop each node needs another first.
    """
    node = graph.add_loose_node(name, op, attrs, like)
    node.output_shapes = tuple(
        (0,) if dtype is dtypes.float32 else () for dtype in node.output_dtypes
    )
    frames.of[name] = frame
    return node
