"""Turn v1 Switch and Merge into structured If."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.op_traits import ENTER, MERGE, SWITCH
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.passes.analysis.frames import find_frames
from tfjit.passes.control_flow.outline import BodyBuilder, check_members, free_name
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph, Edge
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.function_library import SCALAR_PREDICATE
from tfjit.passes.manager.pass_context import PassContext

Tensor = tuple[str, int]
# (predicate, 1 or 0 as the predicate must be): a node with a set of these is alive when all of them
# hold
Condition = tuple[Tensor, int]
State = frozenset[Condition]

_ALWAYS: Final[State] = frozenset()
# a branch has no tensor of these dtypes for a value that was not computed
_NEVER_MADE_UP: Final = frozenset({"resource", "variant"})


def functionalize_conds(graph: DataflowGraph, ctx: PassContext) -> None:
    """Turn the Merges that one predicate decides into an If, innermost first.

    This is the part of `functionalize` for conditionals. The Switches before a node determine when
    the node is alive. A branch is the nodes that are alive only where the predicate holds, or only
    where the predicate does not hold. A later part of the same conditional may use tensors of a
    branch, as gradients do; these become outputs too.
    """
    if not graph.has_trait(MERGE):
        return
    # stable: by first Merge among equals
    for group in sorted(_find_groups(graph, ctx), key=lambda group: -len(group.state)):
        if not ctx.may_rewrite():
            break
        try:
            made = _Rewriter(graph, group, ctx).run()
        except Declined as why:
            ctx.log(group.merges[0], f"conditional stays: {why}")
        else:
            ctx.rewrote(made[0], f"is the conditional of {', '.join(group.merges)}")


class _States:
    """The conditions for each node to be alive; None for unknown."""

    def __init__(self) -> None:
        self._of: dict[str, State | None] = {SOURCE: _ALWAYS}
        self._nodes: dict[State, list[str]] = {}

    def __getitem__(self, name: str) -> State | None:
        return self._of[name]

    def set(self, name: str, state: State | None) -> None:
        """Record the state of a node, in topological order or on creation."""
        self._of[name] = state
        if state:
            self._nodes.setdefault(state, []).append(name)

    def nodes(self, state: State) -> list[str]:
        """Return the nodes that are alive in exactly this state.

        Nodes that have left the graph are included.
        """
        return self._nodes.get(state, [])

    def of_edge(self, graph: DataflowGraph, edge: Edge) -> State | None:
        """Return the state in which a value comes along an edge."""
        state = self._of[edge.src]
        if state is not None and not edge.is_control and graph.node(edge.src).has_trait(SWITCH):
            return _union([state, frozenset({(_predicate(graph, edge.src), edge.src_output)})])
        return state


def _predicate(graph: DataflowGraph, switch: str) -> Tensor:
    """Return the predicate of a Switch, behind Identity nodes.

    Each part of a conditional has an Identity for itself.
    """
    name, output = graph.inputs(switch)[1]
    while graph.node(name).op == "Identity" and not graph.node(name).input_dtypes[0].is_ref:
        name, output = graph.inputs(name)[0]
    return name, output


@dataclass(slots=True)
class _Group:
    """The Merges and Switches that one predicate decides in `state`.

    merges: Merge -> its input for a false predicate (0 or 1).
    """

    state: State
    predicate: Tensor
    states: _States
    sides: dict[str, int] = field(default_factory=dict)
    switches: list[str] = field(default_factory=list)

    @property
    def merges(self) -> list[str]:
        """Return the Merges, in the graph's order."""
        return list(self.sides)

    def branch(self, graph: DataflowGraph, side: int) -> list[str]:
        """Return the nodes that are alive for this predicate value only."""
        return [
            name
            for name in self.states.nodes(self.state | {(self.predicate, side)})
            if name in graph
        ]


def _find_groups(graph: DataflowGraph, ctx: PassContext) -> list[_Group]:
    """Return the groups, by the state of each node.

    Nodes in loops that stay, or behind odd Merges, have no known state.
    """
    frames = find_frames(graph).of if graph.has_trait(ENTER) else {}
    states = _States()
    groups: dict[tuple[State, Tensor], _Group] = {}
    switches: list[str] = []
    for name in yielding(graph.topological_order()):
        node = graph.node(name)
        if frames.get(name):
            states.set(name, None)
            continue
        edges = graph.edges_into(name)
        if node.op == "ControlTrigger":
            states.set(name, _ALWAYS)
            continue
        if not node.has_trait(MERGE):
            states.set(name, _union([states.of_edge(graph, edge) for edge in edges]))
            if node.has_trait(SWITCH):
                switches.append(name)
            continue
        decided = _decided([states.of_edge(graph, edge) for edge in edges if not edge.is_control])
        if decided is None:
            ctx.log(name, "stays: its inputs are not the two sides of one condition")
            states.set(name, None)
            continue
        state, predicate, off = decided
        if (
            _union([state, *(states.of_edge(graph, edge) for edge in edges if edge.is_control)])
            != state
        ):
            ctx.log(name, "stays: it waits for nodes of other branches")
            states.set(name, None)
            continue
        states.set(name, state)
        groups.setdefault((state, predicate), _Group(state, predicate, states)).sides[name] = off
    by_predicate: dict[Tensor, list[_Group]] = {}
    for group in groups.values():
        by_predicate.setdefault(group.predicate, []).append(group)
    for name in switches:
        known = states[name]
        for group in by_predicate.get(_predicate(graph, name), ()):
            if known is not None and known <= group.state:
                group.switches.append(name)
    return list(groups.values())


def _union(states: list[State | None]) -> State | None:
    """Return the union of conditions; None if unknown or contradictory."""
    found: set[Condition] = set()
    for state in states:
        if state is None:
            return None
        found |= state
    return (
        None
        if any((predicate, 1 - side) in found for predicate, side in found)
        else frozenset(found)
    )


def _decided(states: list[State | None]) -> tuple[State, Tensor, int] | None:
    """Return (state, predicate, input for a false predicate) of a Merge.

    The two inputs of the Merge must differ in one predicate only. An input that comes for either
    value of the predicate, such as a shape in gradients of sparse reads, counts for the other side:
    a Merge that has both may forward either.
    """
    if len(states) != 2 or states[0] is None or states[1] is None:
        return None
    alone = [states[0] - states[1], states[1] - states[0]]
    if not any(alone) or any(len(conditions) > 1 for conditions in alone):
        return None
    decided = {predicate for conditions in alone for predicate, _ in conditions}
    if len(decided) > 1:
        return None
    on = next(i if side else 1 - i for i, conditions in enumerate(alone) for _, side in conditions)
    return states[0] & states[1], decided.pop(), 1 - on


@dataclass(slots=True)
class _Output:
    """One output of an If.

    values: the result of each branch: a tensor of the graph, a constant, or None for a value that
    is never read. replaces: the replaced tensor of the graph.
    """

    replaces: Tensor
    dtype: DType
    values: tuple[Tensor | np.ndarray | None, Tensor | np.ndarray | None]


@dataclass(slots=True)
class _Plan:
    """One If: its Merges, its outputs, and the nodes of its branches.

    members: by branch, else before then.
    """

    merges: list[str]
    members: tuple[list[str], list[str]]
    outputs: list[_Output]


class _Rewriter:
    """Makes the Ifs of one group, one for each level.

    The level of a node is the number of the group's own Merges before the node.
    """

    def __init__(self, graph: DataflowGraph, group: _Group, ctx: PassContext) -> None:
        self.graph = graph
        self.group = group
        self.ctx = ctx
        self.switches = set(group.switches)
        self.side = {name: side for side in (0, 1) for name in group.branch(graph, side)}
        self.level: dict[str, int] = {}
        self.given: dict[Tensor, Tensor] = {}  # tensor that a branch returns -> output of its If
        self.ifs: dict[int, str] = {}  # level -> its If

    def run(self) -> list[str]:
        """Make the Ifs; return their names.

        Raises Declined before anything changes.
        """
        graph, group = self.graph, self.group
        self._check()
        self._find_levels()
        levels = sorted({self.level.get(name, 0) for name in (*group.merges, *self.side)})
        # may raise; the graph changes only after this
        plans = [(level, self._plan(level)) for level in levels]
        for level, plan in plans:
            self._build(level, plan)
        graph.remove_nodes_from([*group.merges, *self.side])
        graph.remove_nodes_from(
            [
                name
                for name in group.switches
                if all(edge.dst == SINK for edge in graph.edges_out_of(name))
            ]
        )
        graph.tie_ends()
        return list(self.ifs.values())

    def _check(self) -> None:
        """Raise Declined unless the branches are closed.

        Values must come in by Switch or be alive anyway, and leave by Merge.
        """
        graph, group = self.graph, self.group
        predicate = graph.inputs(group.switches[0])[1]
        if graph.node(predicate[0]).output_dtypes[predicate[1]] is not dtypes.bool:
            raise Declined(f"its predicate '{predicate[0]}' is a reference")
        for name in (*group.merges, *group.switches):
            if graph.node(name).output_dtypes[0].is_ref:
                raise Declined(f"{graph.node(name).op} '{name}' passes a reference variable on")
        check_members(graph, [*group.merges, *self.side], self.ctx.options)
        for name, side in self.side.items():
            node = graph.node(name)
            if node.op == "_Retval" or node.has_trait(ENTER | SWITCH | MERGE):
                raise Declined(f"{node.op} '{name}' is in a branch")
            for edge in graph.edges_into(name):
                if self.side.get(edge.src) == side or (
                    edge.src in self.switches and not edge.is_control
                ):
                    continue
                state = group.states[edge.src]
                if state is None or not state <= group.state:
                    raise Declined(f"'{name}' reads '{edge.src}' of another branch")
            for edge in graph.edges_out_of(name):
                if not (
                    edge.is_control or edge.dst in group.sides or self.side.get(edge.dst) == side
                ):
                    raise Declined(f"'{edge.dst}' outside the branch reads '{name}'")

    def _find_levels(self) -> None:
        """Find the levels of nodes behind Merges; others have 0."""
        graph, group = self.graph, self.group
        behind: set[str] = set()
        waiting = deque(group.merges)
        while waiting:
            for dst in graph._succ[waiting.popleft()]:
                if dst != SINK and dst not in behind:
                    behind.add(dst)
                    waiting.append(dst)
        # A control edge may also wait for a branch; the If then has that edge.
        waited = any(
            edge.is_control
            for name in self.side
            for edge in graph.edges_out_of(name)
            if edge.dst not in self.side
        )
        if not waited and not any(name in behind for name in (*group.merges, *self.side)):
            return
        for name in yielding(graph.topological_order()):
            level = 0
            for edge in graph.edges_into(name):
                if edge.src == SOURCE or graph.is_back_edge(edge.src, name):
                    continue
                leaves = edge.src in group.sides or (
                    edge.src in self.side and name not in self.side and name not in group.sides
                )
                level = max(level, self.level.get(edge.src, 0) + leaves)
            self.level[name] = level

    def _plan(self, level: int) -> _Plan:
        graph, group = self.graph, self.group
        merges = [name for name in group.merges if self.level.get(name, 0) == level]
        members: tuple[list[str], list[str]] = ([], [])
        for name, side in self.side.items():
            if self.level.get(name, 0) == level:
                members[side].append(name)
        outputs: list[_Output] = []
        for name in merges:
            off = group.sides[name]
            sources = graph.inputs(name)
            dtype = graph.node(name).output_dtypes[0]
            outputs.append(_Output((name, 0), dtype, (sources[off], sources[1 - off])))
            if graph.consumers(name, 1):
                outputs.append(_Output((name, 1), dtypes.int32, (_index(off), _index(1 - off))))
        for side in (0, 1):
            for name in members[side]:
                for tensor in self._outputs_of(name, level):
                    dtype = graph.node(name).output_dtypes[tensor[1]].base_dtype
                    if dtype.name in _NEVER_MADE_UP:
                        raise Declined(
                            f"a later part of it reads '{name}:{tensor[1]}', a {dtype.name}, "
                            "outside one branch"
                        )
                    outputs.append(
                        _Output(tensor, dtype, (tensor, None) if side == 0 else (None, tensor))
                    )
        return _Plan(merges, members, outputs)

    def _outputs_of(self, name: str, level: int) -> Iterator[Tensor]:
        """Return the tensors of a branch's node that later levels use."""
        outputs = {
            edge.src_output
            for edge in self.graph.edges_out_of(name)
            if not edge.is_control and self.level.get(edge.dst, 0) > level and edge.dst != SINK
        }
        return ((name, output) for output in sorted(outputs))

    def _build(self, level: int, plan: _Plan) -> None:
        graph, group = self.graph, self.group
        inside = {*plan.members[0], *plan.members[1]}
        inputs: dict[Tensor, int] = {}
        # a branch's tensor of the graph -> the If's input
        arguments: tuple[dict[Tensor, int], dict[Tensor, int]] = ({}, {})
        waits: dict[str, None] = {}
        for side in (0, 1):
            taken = [tensor for name in plan.members[side] for tensor in graph.inputs(name)]
            taken += [
                value
                for output in plan.outputs
                for value in [output.values[side]]
                if isinstance(value, tuple)
            ]
            for tensor in taken:
                if tensor[0] not in inside:
                    arguments[side][tensor] = inputs.setdefault(self._source(tensor), len(inputs))
            for name in plan.members[side]:
                for src in graph.control_inputs(name):
                    if src not in inside and src not in self.switches:
                        waits[self.ifs[self.level.get(src, 0)] if src in self.side else src] = None
        for name in plan.merges:
            waits.update(dict.fromkeys(graph.control_inputs(name)))
        predicate = graph.inputs(group.switches[0])[1]
        like = graph.node(next(iter((*plan.merges, *plan.members[0], *plan.members[1]))))
        base = like.name.rpartition("/")[0] or f"{like.name}_cond"
        types = tuple(
            graph.node(src).output_dtypes[output_index].base_dtype for src, output_index in inputs
        )
        shapes = [graph.node(src).output_shapes[output_index] for src, output_index in inputs]
        bodies = []
        for side, suffix in ((0, "else"), (1, "then")):
            body = BodyBuilder(graph, f"{base}_{suffix}", plan.members[side], types, shapes, like)
            for tensor, index in arguments[side].items():
                body.replace(tensor, index)
            body.connect()
            for index, output in enumerate(plan.outputs):
                body.result(index, self._result(body, output, side))
            waited = [name for name in plan.members[side] if self._waiting(name)]
            bodies.append(body.finish(waited))
        attrs = {
            "Tcond": dtypes.bool,
            SCALAR_PREDICATE: group.switches[0].encode(),
            "Tin": types,
            "Tout": tuple(output.dtype for output in plan.outputs),
            "else_branch": graph.functions.add(bodies[0]),
            "then_branch": graph.functions.add(bodies[1]),
            "output_shapes": (),
        }
        name = free_name(graph, base)
        op = "If" if any(body.is_stateful for body in bodies) else "StatelessIf"
        graph.add_node_op(name, op, [predicate, *inputs], attrs, control_inputs=waits, like=like)
        self.ifs[level] = name
        group.states.set(name, group.state)
        for index, output in enumerate(plan.outputs):
            if output.replaces[0] in group.sides:
                graph.redirect_output(*output.replaces, name, index)
            else:
                self.given[output.replaces] = (name, index)
        for gone in (*plan.merges, *inside):
            for dst in self._waiting(gone):
                graph.add_control_edge(name, dst)
        self.ctx.log(name, f"{op} of {len(inputs)} inputs and {len(plan.outputs)} outputs")

    def _source(self, tensor: Tensor) -> Tensor:
        """Return the If's input for a tensor that enters a branch."""
        if tensor[0] in self.switches:
            return self.graph.inputs(tensor[0])[0]
        return self.given.get(tensor, tensor)

    def _result(self, body: BodyBuilder, output: _Output, side: int) -> Tensor:
        value = output.values[side]
        if isinstance(value, tuple):
            return body.moved(value)
        if value is not None:
            return body.constant(value)
        name, index = output.replaces
        return body.absent(output.dtype, self.graph.node(name).output_shapes[index])

    def _waiting(self, name: str) -> list[str]:
        """Return the outside nodes that wait for a node of the conditional."""
        edges = self.graph.edges_out_of(name)
        return [
            e.dst
            for e in edges
            if e.is_control and e.dst not in self.side and e.dst not in self.group.sides
        ]


def _index(branch: int) -> np.ndarray:
    """Return Merge's second output as a constant."""
    value = np.array(branch, np.int32)
    value.setflags(write=False)
    return value
