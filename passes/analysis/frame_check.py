"""Check that the frames of a graph form well-structured loops.

Later analyses of v1 loops rely on that structure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from tfjit.framework.errors import InternalError, InvalidArgumentError
from tfjit.framework.op_defs.op_traits import ENTER, EXIT
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph

_ADVICE: Final = (
    "This is an internal bug, please file a bug report with instructions on how to "
    "reproduce the error."
)


@dataclass(eq=False, slots=True)
class _Frame:
    """A frame of an Enter node; the root is its own parent."""

    name: str
    parent: _Frame | None = None

    @property
    def outer(self) -> _Frame:
        return self.parent or self


def check_frames(graph: DataflowGraph) -> None:
    """Raise an error for a graph with inconsistent frames.

    Raises InvalidArgumentError when a node has inputs from different frames, when an Enter names no
    frame, when an Exit leaves none, or when a loop has two LoopCond nodes. Raises InternalError
    when one name is used for frames with different parents. The graph is only read.

    A plan is checked before loops are rewritten, since a rewritten loop would hide the fault. Most
    such graphs come from feeding a tensor inside a loop: a fed tensor is outside of all frames.
    Source: TensorFlow 2.5, graph/control_flow.cc; the order of the walk decides which of several
    faults is reported.
    """
    frames: dict[str, _Frame] = {SOURCE: _Frame("")}
    reached_from: dict[str, str] = {}
    ready = deque([SOURCE])
    while ready:
        name = ready.popleft()
        frame = frames[name]
        if name != SOURCE and graph.node(name).has_trait(EXIT):
            if frame.parent is None:
                raise InvalidArgumentError(
                    None, None, "Invalid Exit op: Cannot find a corresponding Enter op."
                )
            frame = frame.parent
        for target in graph._succ[name]:
            if target == SINK:
                continue
            known = frames.get(target)
            node = graph.node(target)
            enters = node.has_trait(ENTER)
            if known is not None:
                there = known.outer if enters else known
                if there.name != frame.name:
                    raise InvalidArgumentError(
                        None,
                        None,
                        f"{_text(target)} has inputs from different frames. The input "
                        f"{_text(name)} is in frame '{frame.name}'. "
                        f"The input {_text(reached_from[target])} is in frame '{there.name}'.",
                    )
                continue
            reached_from[target] = name
            frames[target] = frame
            if enters:
                opened = node.attrs["frame_name"].decode()
                if not opened:
                    raise InvalidArgumentError(
                        None, None, f"The Enter {_text(target)} must have a frame name."
                    )
                frames[target] = _Frame(opened, frame)
            ready.append(target)
    _check_names(graph, frames)


def _check_names(graph: DataflowGraph, frames: dict[str, _Frame]) -> None:
    parents: dict[str, str] = {}
    conditions: dict[str, str] = {}
    for node in sorted(graph.op_nodes(), key=lambda node: node.id):
        frame = frames.get(node.name)
        if frame is None:
            continue
        parent = frame.outer.name
        if parents.setdefault(frame.name, parent) != parent:
            raise InternalError(
                None,
                None,
                f'Invalid loop structure: Mismatched parent frames for "{frame.name}": "{parent}" '
                f'vs "{parents[frame.name]}". '
                f"The node giving this error: {_text(node.name)}. {_ADVICE}",
            )
        if node.op != "LoopCond":
            continue
        other = conditions.setdefault(frame.name, node.name)
        if other != node.name and "LoopCounter" not in node.name and "LoopCounter" not in other:
            raise InvalidArgumentError(
                None,
                None,
                f'Invalid loop structure: Loop "{frame.name}" has more than one LoopCond node: '
                f"{_text(node.name)} and {_text(other)}. "
                f"{_ADVICE}",
            )


def _text(name: str) -> str:
    return "{{node _SOURCE}}" if name == SOURCE else f"{{{{node {name}}}}}"
