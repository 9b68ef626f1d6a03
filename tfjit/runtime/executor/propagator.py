"""Decide which nodes are ready.

The state consists of pending counts, dead inputs, loop frames and their iterations. The propagator
holds no lock, thread or kernel.

Source of the semantics: TensorFlow 2.5, common_runtime/propagator_state.cc and
immutable_executor_state.cc.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tfjit.framework import errors
from tfjit.framework.murmur_hash import combined, murmur64
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


@dataclass(slots=True)
class Item:
    """Describe a node to the propagation.

    edges: (destination, its input or -1 for a control edge, source output or -1). pending: in-edges
    of a non-merge node. controls: control in-edges. frame: static name of the frame that the node
    runs in ("" = outside loops). local: its number among the nodes of that frame. moves_frame: an
    Enter, Exit or NextIteration. known: the inputs that are the same in all runs, None for others.
    targets: the edges as (destination, its input, source output, whether the destination waits for
    nothing else).
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
    local: int = 0
    pending: int = 0
    known: list[Any] = field(default_factory=list)
    targets: list[tuple[Item, int, int, bool]] = field(default_factory=list)

    @property
    def moves_frame(self) -> bool:
        """Return whether the outputs go to another iteration or frame."""
        return self.is_enter or self.is_exit or self.is_next


class FlowGraph:
    """Hold the immutable part of an executor.

    The parts are the items, the roots, and the number of Enter nodes of each frame. counts: the
    pending counts at the start of an iteration, by static frame name and `Item.local`; of a merge,
    its control edges. Raises the errors of `check_frames`.
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
        self.counts: dict[str, list[int]] = {"": []}
        for item in self.items:
            item.pending = item.controls if item.is_merge else item.num_inputs + item.controls
            counts = self.counts.setdefault(item.frame, [])
            item.local = len(counts)
            counts.append(item.pending)
            item.known = [None] * item.num_inputs
        self._resolve()
        self.moving = frozenset(item.index for item in self.items if item.moves_frame)
        self._check_that_loops_end(graph)

    def _resolve(self) -> None:
        """Look up the destinations of edges."""
        for item in self.items:
            item.targets = [
                (dst, at, output, at >= 0 and dst.pending == 1 and not dst.is_merge)
                for dst, at, output in ((self.items[k], at, out) for k, at, out in item.edges)
            ]

    def set_constants(self, values: Mapping[int, Any]) -> None:
        """Give constants to their users once, not in each run.

        values: output 0 of roots by `Item.index`. A node that waits for nothing else keeps the
        edge, which starts it.
        """
        for number, value in values.items():
            source, kept = self.items[number], list[tuple[int, int, int]]()
            for edge in source.edges:
                target, at, _ = edge
                dst = self.items[target]
                if at < 0 or dst.is_merge or dst.pending == 1 or dst.frame != source.frame:
                    kept.append(edge)
                    continue
                dst.known[at] = value
                dst.pending -= 1
                self.counts[dst.frame][dst.local] = dst.pending
            source.edges = kept
        self._resolve()

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


def _frame_id(parent: int, iteration: int, name: bytes) -> int:
    """Return the number of a frame in rendezvous keys.

    name: attr of the Enter. All tasks that run the loop must compute the same number, TensorFlow's
    servers among them.
    """
    return combined(parent, combined(iteration, _hash_of(name)))


_hash_of = functools.lru_cache(1024)(murmur64)


class Iteration:
    """Hold the counts and inputs of one iteration of a frame.

    name: the last part of a rendezvous key. pending: by `Item.local`. inputs: the inputs that have
    arrived of nodes with several in-edges, by `Item.local`; None until the first one. dead: nodes
    with a dead input, by `Item.index`; for merges, `dead_counts` has their number.
    """

    __slots__ = (
        "dead",
        "dead_counts",
        "fired",
        "frame",
        "inputs",
        "live",
        "name",
        "number",
        "outstanding_frames",
        "outstanding_ops",
        "pending",
    )

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame = frame
        self.number = number
        self.name = f"{frame.id}:{number}"
        self.pending = frame.counts[:]
        self.inputs: list[list[Any] | None] = [None] * len(self.pending)
        self.dead: set[int] = set()
        self.dead_counts: dict[int, int] = {}
        self.live: set[int] = set()
        self.fired: set[int] = set()
        self.outstanding_ops = 0
        self.outstanding_frames = 0


# A ready node: item, iteration, whether it is dead, values of its inputs in order. A plain tuple,
# since each node of each run makes one.
Ready = tuple[Item, Iteration, bool, list[Any]]


class ReadyQueue(Protocol):
    """Take the nodes that become ready: a list or a deque."""

    def append(self, ready: Ready, /) -> None:
        """Add a node."""

    def __len__(self) -> int: ...


class Frame:
    """Hold one execution of a loop; frame 0 is the graph."""

    __slots__ = (
        "counts",
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
        counts: list[int],
    ) -> None:
        self.name = name
        self.key = key
        self.parent = parent
        self.parent_iteration = parent_iteration
        self.parallel_iterations = parallel_iterations
        self.pending_enters = enters
        self.id = id
        self.counts = counts  # the pending counts that an iteration starts with
        self.iterations: dict[int, Iteration] = {0: Iteration(self, 0)}
        self.latest = 0
        self.invariants: list[tuple[Item, Any]] = []
        # values of NextIteration that wait for the window of parallel iterations
        self.queued: list[tuple[Item, Any]] = []
        self.dead_exits: list[Item] = []


class Propagator:
    """Hold the state of one run over a FlowGraph.

    `start()` returns the first ready nodes. `finish(ready, outputs, queue)` takes a node's outputs
    and appends the nodes that become ready. `done` is set once nothing is outstanding. Finished
    iterations and frames are freed.
    """

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._moving = graph.moving
        self._frames: dict[Any, Frame] = {}
        self.root = Frame("", None, None, 0, 1, 0, 0, graph.counts[""])
        self.done = False

    def start(self) -> list[Ready]:
        """Return the nodes without inputs."""
        first = self.root.iterations[0]
        ready: list[Ready] = [(item, first, False, []) for item in self._graph.roots]
        first.outstanding_ops = len(ready)
        self.done = not ready
        return ready

    def abandon(self) -> None:
        """Drop the state of a failed run.

        Its frames and iterations refer to each other.
        """
        for frame in (self.root, *self._frames.values()):
            frame.iterations.clear()
        self._frames.clear()

    def finish(self, done: Ready, outputs: Sequence[Any], queue: ReadyQueue) -> None:
        """Append the nodes that become ready to `queue`.

        outputs: values in order, DEAD for a missing one. The outputs of a dead node are ignored.
        """
        item, state, dead, _ = done
        if item.index in self._moving:
            self._move(item, state, dead, outputs, queue)
        else:
            self._activate(item, state, dead, outputs, queue)
        state.outstanding_ops -= 1
        if not state.outstanding_ops:
            self._settle(state.frame, state.number, queue)

    def _move(
        self, item: Item, state: Iteration, dead: bool, outputs: Sequence[Any], queue: ReadyQueue
    ) -> None:
        """Pass the outputs of an Enter, Exit or NextIteration to their iteration."""
        frame = state.frame
        if item.is_enter:
            child = self._child(item, state)
            value = DEAD if dead else outputs[0]
            if item.is_constant_enter:
                child.invariants.append((item, value))
                for iteration in list(child.iterations.values()):
                    self._activate(item, iteration, dead, [value], queue)
            else:
                self._activate(item, child.iterations[0], dead, [value], queue)
            child.pending_enters -= 1
            if child.pending_enters == 0:
                # A dead loop may have no outstanding node left.
                self._settle(child, 0, queue)
        elif item.is_exit:
            if not dead:
                assert frame.parent is not None
                outer = frame.parent.iterations[frame.parent_iteration]
                self._activate(item, outer, False, outputs, queue)
            # An earlier iteration's exit is dead because the loop continued.
            elif state.number == frame.latest:
                frame.dead_exits.append(item)
        elif not dead:
            self._next_iteration(item, state, outputs[0], queue)

    def _child(self, item: Item, state: Iteration) -> Frame:
        name = f"{item.frame};{item.node.attrs['frame_name'].decode()}"
        key = (state.frame.id, state.number, name)
        found = self._frames.get(key)
        if found is None:
            found = Frame(
                name,
                key,
                state.frame,
                state.number,
                int(item.node.attrs.get("parallel_iterations", 10)),
                self._graph.enter_counts[name],
                _frame_id(state.frame.id, state.number, item.node.attrs["frame_name"]),
                self._graph.counts.get(name, []),
            )
            self._frames[key] = found
            state.outstanding_frames += 1
        return found

    def _next_iteration(self, item: Item, state: Iteration, value: Any, queue: ReadyQueue) -> None:
        frame = state.frame
        if state.number == frame.latest:
            if len(frame.iterations) >= max(1, frame.parallel_iterations):
                frame.queued.append((item, value))
                return
            self._open(frame, queue)
        self._activate(item, frame.iterations[state.number + 1], False, [value], queue)

    def _open(self, frame: Frame, queue: ReadyQueue) -> None:
        frame.latest += 1
        frame.dead_exits.clear()
        opened = frame.iterations[frame.latest] = Iteration(frame, frame.latest)
        for item, value in frame.invariants:
            self._activate(item, opened, value is DEAD, [value], queue)

    def _activate(
        self, item: Item, state: Iteration, dead: bool, outputs: Sequence[Any], queue: ReadyQueue
    ) -> None:
        before = len(queue)
        for dst, dst_input, output, is_alone in item.targets:
            if is_alone:
                value = DEAD if dead else outputs[output]
                inputs = dst.known[:]
                inputs[dst_input] = value
                queue.append((dst, state, value is DEAD, inputs))
                continue
            value = DEAD if dead else outputs[output] if dst_input >= 0 else None
            if dst.is_merge:
                self._activate_merge(item, dst, dst_input, value, state, queue)
                continue
            local = dst.local
            known = state.inputs[local]
            if dst_input >= 0:
                if known is None:
                    known = state.inputs[local] = dst.known[:]
                known[dst_input] = value
            if value is DEAD and not dst.is_control_trigger:
                state.dead.add(dst.index)
            left = state.pending[local] - 1
            state.pending[local] = left
            if left == 0:
                # The iteration must not keep the values of a node that has run.
                state.inputs[local] = None
                is_dead = bool(state.dead) and dst.index in state.dead
                queue.append((dst, state, is_dead, dst.known[:] if known is None else known))
        state.outstanding_ops += len(queue) - before

    def _activate_merge(
        self,
        item: Item,
        dst: Item,
        dst_input: int,
        value: Any,
        state: Iteration,
        queue: ReadyQueue,
    ) -> None:
        target, local = dst.index, dst.local
        if target in state.fired:
            return
        if dst_input < 0:
            state.pending[local] -= 1
        elif value is not DEAD:
            if target not in state.live:
                state.live.add(target)
                state.inputs[local] = [value, dst_input]
        else:
            # The loop is on the untaken side of a conditional: its Enter is dead, and no
            # NextIteration value will arrive.
            state.dead_counts[target] = (
                dst.num_inputs if item.is_enter else state.dead_counts.get(target, 0) + 1
            )
        if state.pending[local] > 0:
            return
        live = target in state.live
        if live or state.dead_counts.get(target, 0) >= dst.num_inputs:
            state.fired.add(target)
            inputs = state.inputs[local]
            state.inputs[local] = None
            queue.append((dst, state, not live, inputs or []))

    def _settle(self, frame: Frame, number: int, queue: ReadyQueue) -> None:
        """Drop finished iterations and end a frame that has none left.

        Iterations end from the oldest on; each ended iteration admits queued ones.
        """
        while True:
            state = frame.iterations.get(number)
            if state is None or state.outstanding_ops or state.outstanding_frames:
                return
            if number == 0 and frame.pending_enters > 0:
                return
            if number > 0 and number - 1 in frame.iterations:
                return
            del frame.iterations[number]
            if frame.queued:
                queued, frame.queued = frame.queued, []
                self._open(frame, queue)
                for item, value in queued:
                    self._activate(item, frame.iterations[frame.latest], False, [value], queue)
            if not frame.iterations:
                self._end(frame, queue)
                return
            number += 1

    def _end(self, frame: Frame, queue: ReadyQueue) -> None:
        parent = frame.parent
        if parent is None:
            self.done = True
            return
        outer = parent.iterations[frame.parent_iteration]
        for item in frame.dead_exits:
            self._activate(item, outer, True, [DEAD], queue)
        del self._frames[frame.key]
        outer.outstanding_frames -= 1
        self._settle(parent, frame.parent_iteration, queue)
