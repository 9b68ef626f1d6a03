"""Find the frame of each node of a graph with v1 loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.op_traits import ENTER, EXIT
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph

_CONTEXT: Final = "while_context"
"""Suffix of frame names that tf.while_loop adds."""


@dataclass(slots=True)
class Frames:
    """The frame of each node, and the nodes that delimit each frame.

    of: node -> frame name, "" outside of loops. enter, condition: frame -> one of its Enter nodes,
    its LoopCond. outer: frame -> enclosing frame.
    """

    of: dict[str, str] = field(default_factory=dict)
    enter: dict[str, str] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=lambda: {"": ""})
    condition: dict[str, str] = field(default_factory=dict)


def outermost(frames: Frames, name: str) -> str:
    """Return the outermost frame of a node, or ""."""
    frame = frames.of.get(name, "")
    while frames.outer[frame]:
        frame = frames.outer[frame]
    return frame


def loop_name(frame: str) -> str:
    """Return the name of the While made of a frame."""
    return frame.removesuffix(_CONTEXT).rstrip("/") or frame


def find_frames(graph: DataflowGraph) -> Frames:
    """Find the frames of a graph by its Enter and Exit nodes."""
    frames = Frames()
    for name in yielding(graph.topological_order()):
        node = graph.node(name)
        inside = ""
        for src in graph._pred[name]:
            if src == SOURCE or graph.is_back_edge(src, name):
                continue
            frame = frames.of[src]
            inside = inside or (
                frames.outer.get(frame, "") if graph.node(src).has_trait(EXIT) else frame
            )
        if node.has_trait(ENTER):
            frame = node.attrs["frame_name"].decode()
            frames.outer.setdefault(frame, inside)
            frames.enter.setdefault(frame, name)
            inside = frame
        elif node.op == "LoopCond":
            frames.condition[inside] = name
        frames.of[name] = inside
    return frames
