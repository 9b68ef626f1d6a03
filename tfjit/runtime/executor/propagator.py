"""Decide which nodes are ready.

The state consists of pending counts, dead inputs, loop frames and their iterations. The propagator
holds no lock, thread or kernel.

Source of the semantics: TensorFlow 2.5, common_runtime/propagator_state.cc and
immutable_executor_state.cc.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.framework.op_defs.op_traits import (
    CONTROL_FLOW,
    ENTER,
    EXIT,
    MERGE,
    NEXT_ITERATION,
    RECV,
    SWITCH,
    TRANSFER,
)
from tfjit.passes.analysis.frame_check import check_frames
from tfjit.runtime.kernel_api.op_kernel import DEAD

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

_MISSING: Final = object()


@dataclass(slots=True)
class Item:
    """Describe a node to the propagation.

    edges: (destination, its input or -1 for a control edge, source output or -1). pending: in-edges
    of a non-merge node. controls: control in-edges. frame: static name of the frame that holds the
    node's outputs ("" = outside loops).
    """

    index: int
    node: Node
    num_inputs: int
    controls: int = 0
    edges: list[tuple[int, int, int]] = field(default_factory=list)
    is_merge: bool = False
    is_enter: bool = False
    is_exit: bool = False
    is_next: bool = False
    is_constant_enter: bool = False
    is_control_trigger: bool = False
    is_transfer: bool = False
    frame: str = ""

    @property
    def pending(self) -> int:
        """Return the number of in-edges that a non-merge node awaits."""
        return self.num_inputs + self.controls


class FlowGraph:
    """Hold the immutable part of an executor.

    The parts are the items, the roots and the number of Enter nodes of each frame. Raises the
    errors of `check_frames`.
    """

    def __init__(self, graph: DataflowGraph) -> None:
        nodes = list(graph.op_nodes())
        index = {node.name: i for i, node in enumerate(nodes)}
        self.items: list[Item] = []
        for i, node in enumerate(nodes):
            item = Item(i, node, len(node.input_dtypes))
            if node.has_trait(CONTROL_FLOW | TRANSFER) or node.op == "ControlTrigger":
                item.is_merge = node.has_trait(MERGE)
                item.is_enter = node.has_trait(ENTER)
                item.is_exit = node.has_trait(EXIT)
                item.is_next = node.has_trait(NEXT_ITERATION)
                item.is_constant_enter = item.is_enter and bool(node.attrs.get("is_constant"))
                item.is_control_trigger = node.op == "ControlTrigger"
                # A transfer runs when dead too: its other end must learn of the deadness.
                item.is_transfer = node.has_trait(TRANSFER)
            self.items.append(item)
        items = self.items
        for item in items:
            target = item.index
            for dst_input, (source, output) in enumerate(graph.inputs(item.node.name)):
                items[index[source]].edges.append((target, dst_input, output))
            for source in graph.control_inputs(item.node.name):
                if source in index:
                    items[index[source]].edges.append((target, -1, -1))
                    item.controls += 1
        self.roots = [item for item in self.items if item.num_inputs == 0 and item.controls == 0]
        self.enter_counts: dict[str, int] = {}
        if any(item.is_enter or item.is_exit for item in self.items):
            check_frames(graph)
        self._name_frames()
        self._check_that_loops_end(graph)

    def _check_that_loops_end(self, graph: DataflowGraph) -> None:
        """Raise InvalidArgumentError for a NextIteration that never stops.

        Each of its iterations would start another one. Only a dead value stops a loop: the value of
        a Switch, or of a node on another device, among the ancestors of the NextIteration within
        its iteration.
        """
        nexts = [item for item in self.items if item.is_next]
        if not nexts:
            return
        frames = {item.node.name: item.frame for item in self.items}
        # Merges of loops
        loop_merges = {
            name
            for item in nexts
            for name in (self.items[target].node.name for target, _, _ in item.edges)
        }
        for item in nexts:
            seen = {item.node.name}
            stack = [source for source, _ in graph.inputs(item.node.name)]
            stack += [source for source in graph.control_inputs(item.node.name) if source in frames]
            while stack:
                name = stack.pop()
                node = graph.node(name)
                if node.has_trait(SWITCH | RECV) or node.op in ("_SwitchN", "_Arg"):
                    break  # its value may be dead
                frame = frames[name]
                if (
                    name in seen
                    or (frame == item.frame and name in loop_merges)
                    or (node.has_trait(ENTER) and frame != item.frame)
                ):
                    continue  # the start of the iteration
                seen.add(name)
                stack += [source for source, _ in graph.inputs(name)]
                stack += [source for source in graph.control_inputs(name) if source in frames]
            else:
                loop = item.frame.rpartition(";")[2]
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"The loop of {{{{node {item.node.name}}}}} in frame '{loop}' has no "
                    "condition: nothing that its next iteration is "
                    "computed from goes through a Switch, so it would never end.",
                )

    def _name_frames(self) -> None:
        """Give each node its static frame."""
        frames: list[str | None] = [None] * len(self.items)
        parents: dict[str, str] = {"": ""}
        ready = deque((item.index, "") for item in self.roots)
        for item in self.roots:
            frames[item.index] = ""
        while ready:
            i, frame = ready.popleft()
            item = self.items[i]
            item.frame = frame
            if item.is_enter:
                child = f"{frame};{item.node.attrs['frame_name'].decode()}"
                self.enter_counts[child] = self.enter_counts.get(child, 0) + 1
                parents[child] = frame
                out = child
            elif item.is_exit:
                out = parents[frame]
            else:
                out = frame
            for target, _, _ in item.edges:
                known = frames[target]
                if known is None:
                    frames[target] = out
                    ready.append((target, out))


def _frame_id(parent: int, iteration: int, name: str) -> int:
    """Return the number of a frame in rendezvous keys.

    All partitions that run the loop must compute the same number.
    """
    return int.from_bytes(
        hashlib.sha256(f"{parent};{iteration};{name}".encode()).digest()[:8], "big"
    )


@dataclass(slots=True)
class Tagged:
    """Describe a ready node in one iteration of one frame.

    inputs: values in order.
    """

    item: Item
    frame: Frame
    iteration: int
    is_dead: bool
    inputs: list[Any]

    @property
    def frame_iteration(self) -> str:
        """Return the last part of a rendezvous key."""
        return f"{self.frame.id}:{self.iteration}"


class _Iteration:
    """Hold the counts and inputs of one iteration.

    An entry appears when the first input of its node arrives.
    """

    __slots__ = (
        "dead_counts",
        "fired",
        "inputs",
        "live",
        "outstanding_frames",
        "outstanding_ops",
        "pending",
    )

    def __init__(self) -> None:
        self.pending: dict[int, int] = {}
        self.dead_counts: dict[int, int] = {}
        self.inputs: dict[int, list[Any]] = {}
        self.live: set[int] = set()
        self.fired: set[int] = set()
        self.outstanding_ops = 0
        self.outstanding_frames = 0


class Frame:
    """Hold one execution of a loop; frame 0 is the graph."""

    __slots__ = (
        "dead_exits",
        "id",
        "invariants",
        "iterations",
        "key",
        "latest",
        "name",
        "parallel_iterations",
        "parent",
        "parent_iteration",
        "pending_enters",
        "queued",
    )

    def __init__(
        self,
        name: str,
        key: Any,
        parent: Frame | None,
        parent_iteration: int,
        parallel_iterations: int,
        enters: int,
        id: int,
    ) -> None:
        self.name = name
        self.key = key
        self.parent = parent
        self.parent_iteration = parent_iteration
        self.parallel_iterations = parallel_iterations
        self.pending_enters = enters
        self.id = id
        self.iterations: dict[int, _Iteration] = {0: _Iteration()}
        self.latest = 0
        self.invariants: list[tuple[Item, Any]] = []
        # values of NextIteration that wait for the window of parallel iterations
        self.queued: list[tuple[Item, Any]] = []
        self.dead_exits: list[Item] = []


class Propagator:
    """Hold the state of one run over a FlowGraph.

    `start()` returns the first ready nodes. `finish(tagged, outputs)` takes a node's outputs and
    returns the nodes that become ready. `done` is set once nothing is outstanding. Finished
    iterations and frames are freed.
    """

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._frames: dict[Any, Frame] = {}
        self.root = Frame("", None, None, 0, 1, 0, 0)
        self.done = False

    def start(self) -> list[Tagged]:
        """Return the nodes without inputs."""
        ready = [Tagged(item, self.root, 0, False, []) for item in self._graph.roots]
        self.root.iterations[0].outstanding_ops = len(ready)
        self.done = not ready
        return ready

    def finish(self, tagged: Tagged, outputs: Sequence[Any]) -> list[Tagged]:
        """Return the nodes that become ready.

        outputs: values in order, DEAD for a missing one. The outputs of a dead node are ignored.
        """
        ready: list[Tagged] = []
        item, frame, iteration = tagged.item, tagged.frame, tagged.iteration
        dead = tagged.is_dead
        if item.is_enter:
            child = self._child(tagged)
            value = DEAD if dead else outputs[0]
            if item.is_constant_enter:
                child.invariants.append((item, value))
                for i in list(child.iterations):
                    self._activate(item, child, i, dead, [value], ready)
            else:
                self._activate(item, child, 0, dead, [value], ready)
            child.pending_enters -= 1
            if child.pending_enters == 0:
                # A dead loop may have no outstanding node left.
                self._settle(child, 0, ready)
        elif item.is_exit:
            if dead:
                # An earlier iteration's exit is dead because the loop continued.
                if iteration == frame.latest:
                    frame.dead_exits.append(item)
            else:
                assert frame.parent is not None
                self._activate(item, frame.parent, frame.parent_iteration, False, outputs, ready)
        elif item.is_next:
            if not dead:
                self._next_iteration(item, frame, iteration, outputs[0], ready)
        else:
            self._activate(item, frame, iteration, dead, outputs, ready)
        state = frame.iterations[iteration]
        state.outstanding_ops -= 1
        self._settle(frame, iteration, ready)
        return ready

    def _child(self, tagged: Tagged) -> Frame:
        name = f"{tagged.item.frame};{tagged.item.node.attrs['frame_name'].decode()}"
        key = (tagged.frame.id, tagged.iteration, name)
        found = self._frames.get(key)
        if found is None:
            found = Frame(
                name,
                key,
                tagged.frame,
                tagged.iteration,
                int(tagged.item.node.attrs.get("parallel_iterations", 10)),
                self._graph.enter_counts[name],
                _frame_id(tagged.frame.id, tagged.iteration, name),
            )
            self._frames[key] = found
            tagged.frame.iterations[tagged.iteration].outstanding_frames += 1
        return found

    def _next_iteration(
        self, item: Item, frame: Frame, iteration: int, value: Any, ready: list[Tagged]
    ) -> None:
        if iteration == frame.latest:
            if len(frame.iterations) >= max(1, frame.parallel_iterations):
                frame.queued.append((item, value))
                return
            self._open(frame, ready)
        self._activate(item, frame, iteration + 1, False, [value], ready)

    def _open(self, frame: Frame, ready: list[Tagged]) -> None:
        frame.latest += 1
        frame.dead_exits.clear()
        frame.iterations[frame.latest] = _Iteration()
        for item, value in frame.invariants:
            self._activate(item, frame, frame.latest, value is DEAD, [value], ready)

    def _activate(
        self,
        item: Item,
        frame: Frame,
        iteration: int,
        dead: bool,
        outputs: Sequence[Any],
        ready: list[Tagged],
    ) -> None:
        state = frame.iterations[iteration]
        items = self._graph.items
        for target, dst_input, output in item.edges:
            dst = items[target]
            value = DEAD if dead else outputs[output] if dst_input >= 0 else None
            if dst.is_merge:
                self._activate_merge(item, dst, dst_input, value, frame, iteration, state, ready)
                continue
            if dst_input >= 0:
                inputs = state.inputs.get(target)
                if inputs is None:
                    inputs = state.inputs[target] = [_MISSING] * dst.num_inputs
                inputs[dst_input] = value
            if (dead or value is DEAD) and not dst.is_control_trigger:
                state.dead_counts[target] = 1
            left = state.pending.get(target, dst.pending) - 1
            state.pending[target] = left
            if left == 0:
                del state.pending[target]
                is_dead = state.dead_counts.pop(target, 0) > 0
                ready.append(Tagged(dst, frame, iteration, is_dead, state.inputs.pop(target, [])))
                state.outstanding_ops += 1

    def _activate_merge(
        self,
        item: Item,
        dst: Item,
        dst_input: int,
        value: Any,
        frame: Frame,
        iteration: int,
        state: _Iteration,
        ready: list[Tagged],
    ) -> None:
        target = dst.index
        if target in state.fired:
            return
        if dst_input < 0:
            state.pending[target] = state.pending.get(target, dst.controls) - 1
        elif value is not DEAD:
            if target not in state.live:
                state.live.add(target)
                state.inputs[target] = [value, dst_input]
        else:
            # The loop is on the untaken side of a conditional: its Enter is dead, and no
            # NextIteration value will arrive.
            state.dead_counts[target] = (
                dst.num_inputs if item.is_enter else state.dead_counts.get(target, 0) + 1
            )
        if state.pending.get(target, dst.controls) > 0:
            return
        live = target in state.live
        if live or state.dead_counts.get(target, 0) >= dst.num_inputs:
            state.fired.add(target)
            ready.append(Tagged(dst, frame, iteration, not live, state.inputs.pop(target, [])))
            state.outstanding_ops += 1

    def _settle(self, frame: Frame, iteration: int, ready: list[Tagged]) -> None:
        """Drop finished iterations and end a frame that has none left.

        Iterations end from the oldest on; each ended iteration admits queued ones.
        """
        while True:
            state = frame.iterations.get(iteration)
            if state is None or state.outstanding_ops or state.outstanding_frames:
                return
            if iteration == 0 and frame.pending_enters > 0:
                return
            if iteration > 0 and iteration - 1 in frame.iterations:
                return
            del frame.iterations[iteration]
            if frame.queued:
                queued, frame.queued = frame.queued, []
                self._open(frame, ready)
                for item, value in queued:
                    self._activate(item, frame, frame.latest, False, [value], ready)
            if not frame.iterations:
                self._end(frame, ready)
                return
            iteration += 1

    def _end(self, frame: Frame, ready: list[Tagged]) -> None:
        parent = frame.parent
        if parent is None:
            self.done = True
            return
        for item in frame.dead_exits:
            self._activate(item, parent, frame.parent_iteration, True, [DEAD], ready)
        del self._frames[frame.key]
        parent.iterations[frame.parent_iteration].outstanding_frames -= 1
        self._settle(parent, frame.parent_iteration, ready)
