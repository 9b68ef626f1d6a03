"""Note the changes of working graphs while passes rewrite them.

A graph under record changes its class, so that other graphs cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from tfjit.passes.ir.dataflow_graph import CONTROL, SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.graph_def import signature

if TYPE_CHECKING:
    from tfjit.framework.op_defs.op_def import OpDef
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.function_library import FunctionLibrary

_ENDS: Final = (SOURCE, SINK)


class NodeState(NamedTuple):
    """One node at one time. is_end: it is a fetch or target."""

    id: int
    name: str
    op: str
    op_def: OpDef | None
    attrs: Mapping[str, object]
    inputs: tuple[tuple[str, int], ...]
    control_inputs: tuple[str, ...]
    device: str
    assigned_device: str
    origin: tuple[str, ...]
    output_shapes: tuple[Shape, ...]
    is_end: bool


States = Mapping[str, NodeState]
Changed = dict[str, tuple["NodeState | None", "NodeState | None"]]
"""Node -> its states before and after, None for no node."""


class RecordingGraph(DataflowGraph):
    """A working graph that notes the names of changed nodes."""

    _touched: set[str]

    def _insert(self, node: Node) -> None:
        self._touched.add(node.name)
        super()._insert(node)

    def _retype(self, node: Node, op: str) -> None:
        self._touched.add(node.name)
        super()._retype(node, op)

    def _connect(self, src: str, src_output: int, dst: str, dst_input: int) -> int:
        self._touched.add(src if dst == SINK else dst)
        return super()._connect(src, src_output, dst, dst_input)

    def _disconnect(self, src: str, dst: str, id: int) -> None:
        self._touched.add(src if dst == SINK else dst)
        super()._disconnect(src, dst, id)

    def remove_node(self, n: str) -> None:
        """Remove a node and its edges, by networkx's interface."""
        if n in self._succ:
            self._touched.add(n)
            self._touched.update(self._succ[n])
        super().remove_node(n)


def state_of(graph: DataflowGraph, name: str) -> NodeState:
    """Return the present state of a node."""
    node = graph.node(name)
    inputs, control_inputs = graph._sources.get(name) or graph._look_behind(name)
    return NodeState(
        node.id,
        name,
        node.op,
        node.op_def,
        node.attrs.copy(),
        inputs,
        control_inputs,
        node.device,
        node.assigned_device,
        node.origin,
        node.output_shapes,
        SINK in graph._succ[name],
    )


def is_same(state: NodeState, graph: DataflowGraph) -> bool:
    """Return whether a node is in this state still."""
    name, node = state.name, graph.node(state.name)
    return (
        node.id == state.id
        and node.op == state.op
        and (graph._sources.get(name) or graph._look_behind(name))
        == (state.inputs, state.control_inputs)
        and (SINK in graph._succ[name]) == state.is_end
        and _is_alike(node, state)
    )


def _is_alike(node: Node, state: NodeState) -> bool:
    """Return whether the fields of a node, without edges, are the same."""
    try:
        return (
            node.output_shapes == state.output_shapes
            and node.assigned_device == state.assigned_device
            and node.origin == state.origin
            and node.attrs == state.attrs
        )
    except ValueError:  # other arrays, of more than one element
        return False


class GraphRecord:
    """The states of one graph from its first pass on.

    region: the path of the region that the graph is, "" for a plan's own. purpose: the pass that
    made the copy of the region. device: of the partition that the graph is. plan: the number of
    the plan. born: the number of the first event after the graph was made. is_scope: a body that is
    rewritten together with the graph around it.
    """

    def __init__(
        self,
        graph: DataflowGraph,
        plan: int,
        born: int,
        region: str,
        purpose: str,
        device: str,
        is_scope: bool,
    ) -> None:
        library = graph.functions
        self.plan, self.born, self.is_scope = plan, born, is_scope
        self.region, self.purpose, self.device = region, purpose, device
        self.get_functions: Callable[[], FunctionLibrary] = lambda: library
        self.start: dict[str, NodeState] = {
            name: state_of(graph, name) for name in graph._node if name not in _ENDS
        }
        self.log: list[tuple[int, Changed]] = []
        self._now = dict(self.start)
        self._graph: DataflowGraph | None = graph
        graph.__class__ = RecordingGraph
        assert isinstance(graph, RecordingGraph)
        graph._touched = self._touched = set()

    @property
    def count(self) -> int:
        """Return the number of nodes at the last event."""
        return len(self._now)

    @property
    def functions(self) -> FunctionLibrary:
        """Return the functions that nodes of the graph may name."""
        return self.get_functions()

    @property
    def is_touched(self) -> bool:
        """Return whether nodes have changed since the last event."""
        return bool(self._touched)

    def compare(self) -> None:
        """Note nodes with attrs, shapes or devices changed in place."""
        graph = self._graph
        if graph is None:
            return
        touched = self._touched
        nodes = graph._node
        for name, state in self._now.items():
            if name in nodes and not _is_alike(nodes[name]["node"], state):
                touched.add(name)

    def take(self, event: int) -> Changed:
        """Return the changes since the last event, as changes of this event."""
        graph, now = self._graph, self._now
        changed: Changed = {}
        if graph is None:
            return changed
        for name in sorted(self._touched):
            if name in _ENDS:
                continue
            before = now.get(name)
            if name not in graph._node:
                if before is not None:
                    changed[name] = before, None
                    del now[name]
            elif before is None or not is_same(before, graph):
                after = now[name] = state_of(graph, name)
                changed[name] = before, after
                # a node that takes another's place may have got its origin or shape
                for src, _ in after.inputs:
                    known = now.get(src)
                    if known is None or src in changed or _is_alike(graph.node(src), known):
                        continue
                    now[src] = state_of(graph, src)
                    changed[src] = known, now[src]
        self._touched.clear()
        if changed:
            self.log.append((event, changed))
        return changed

    def close(self) -> None:
        """Stop the recording; the graph is as any other again."""
        if self._graph is not None:
            self._graph.__class__ = DataflowGraph
            del self._graph._touched  # type: ignore[attr-defined]
            self._graph = None

    def states(self, event: int) -> dict[str, NodeState]:
        """Return the nodes after an event."""
        found = dict(self.start)
        for number, changed in self.log:
            if number > event:
                continue
            for name, (_, after) in changed.items():
                if after is None:
                    found.pop(name, None)
                else:
                    found[name] = after
        return found


def insert_state(graph: DataflowGraph, state: NodeState) -> None:
    """Insert a node in a state, without edges."""
    inputs, outputs = signature(state.op, state.op_def, state.attrs, state.name)
    graph._insert(
        Node(
            graph,
            state.name,
            state.id,
            state.op,
            dict(state.attrs),
            state.op_def,
            inputs,
            outputs,
            state.device,
            state.assigned_device,
            state.origin,
            state.output_shapes,
        )
    )


def rebuilt(
    states: States, names: Iterable[str] | None = None, functions: FunctionLibrary | None = None
) -> DataflowGraph:
    """Return a working graph of nodes in these states.

    names: the nodes, all by default; other nodes that they read are there without inputs.
    """
    graph = DataflowGraph()
    if functions is not None:
        graph.functions = functions.child()
    chosen = set(states) if names is None else {name for name in names if name in states}
    sources = {
        src
        for name in chosen
        for src in (*(src for src, _ in states[name].inputs), *states[name].control_inputs)
    }
    highest = 1
    for state in sorted((states[n] for n in chosen | (sources & set(states))), key=lambda s: s.id):
        insert_state(graph, state)
        highest = max(highest, state.id)
    for missing in sorted(sources - set(states)):
        highest += 1
        graph._insert(Node(graph, missing, highest, "NoOp", {}, None))
    graph._next_node_id = highest + 1
    for name in sorted(chosen, key=lambda name: states[name].id):
        state = states[name]
        for index, (src, output) in enumerate(state.inputs):
            graph._connect(src, output, name, index)
        for src in state.control_inputs:
            graph._connect(src, CONTROL, name, CONTROL)
        if state.is_end:
            graph._connect(name, CONTROL, SINK, CONTROL)
    for name in graph._node:
        if name not in _ENDS and not graph._pred[name]:
            graph._connect(SOURCE, CONTROL, name, CONTROL)
    return graph


__all__ = [
    "Changed",
    "GraphRecord",
    "NodeState",
    "RecordingGraph",
    "States",
    "insert_state",
    "is_same",
    "rebuilt",
    "state_of",
]
