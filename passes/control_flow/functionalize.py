"""Turn v1 loops and conditionals into structured While and If.

The v1 forms are Enter, Merge, Switch, Exit and NextIteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tfjit.framework.op_defs.op_traits import ENTER, EXIT, MERGE, NEXT_ITERATION, SWITCH
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape
from tfjit.passes.analysis.frame_check import check_frames
from tfjit.passes.analysis.frames import Frames, find_frames, loop_name
from tfjit.passes.control_flow.functionalize_conds import functionalize_conds
from tfjit.passes.control_flow.outline import BodyBuilder, check_members, free_name
from tfjit.passes.ir.dataflow_graph import (
    SINK,
    SOURCE,
    DataflowGraph,
    Node,
)
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext


def functionalize(graph: DataflowGraph, ctx: PassContext) -> None:
    """Turn v1 loops and conditionals into While and If nodes with bodies.

    The bodies are in the function library.

    Before: x -> Enter -> Merge -> Switch -> body -> NextIteration -> Merge, Switch -> Exit -> y;
            cond of Merge -> LoopCond -> Switch
    After:  x -> While(cond=..., body=...) -> y
    Before: x -> Switch by p -> two branches -> Merge -> y
    After:  p, x -> If(then_branch=..., else_branch=...) -> y
    Keeps: names, ids and devices of the nodes that move into bodies; control edges; every value and
    the order of side effects.
    Needs: `place`, since a body is on one device.

    Loops go first, from the inside out, so that a conditional around a loop contains one node. Then
    come conditionals, also in the bodies of the loops. A constant Enter is a value that a loop
    reads and does not change; the value becomes a variable that the loop passes on.

    These stay, with a logged reason: frames of another structure, loop-carried reference variables,
    bodies on several devices, and bodies with blocking operations (queues, barriers, receives). The
    dataflow executor lets other nodes run while those block.
    """
    if graph.has_trait(ENTER | EXIT):
        check_frames(graph)
        _functionalize_loops(graph, ctx)
    if graph.has_trait(MERGE):
        functionalize_conds(graph, ctx)


def _functionalize_loops(graph: DataflowGraph, ctx: PassContext) -> None:
    frames = find_frames(graph)
    members: dict[str, list[str]] = {}
    for name, frame in frames.of.items():
        members.setdefault(frame, []).append(name)
    left: set[str] = set()  # frames that stay, and the frames around them
    for frame in sorted(frames.enter, key=lambda frame: -_depth(frames, frame)):
        outer = frames.outer[frame]
        try:
            if frame in left:
                raise Declined("a loop in it stays")
            begun = ctx.begin_rewrite(frames.enter[frame])
            if not begun:
                raise Declined("the event limit is reached")
            loop = _read_loop(graph, frames, frame, members[frame], ctx)
            made = _Rewriter(graph, ctx, loop).run()
        except Declined as why:
            left.add(outer)
            ctx.log(frames.enter[frame], f"loop '{frame}' stays: {why}")
            continue
        frames.of[made.name] = outer
        members.setdefault(outer, []).append(made.name)
        ctx.rewrote(
            made.name,
            f"{made.op} of {len(loop.variables)} variables and {len(loop.invariants)} invariants",
            begun=begun,
        )


def _depth(frames: Frames, frame: str) -> int:
    depth = 0
    while frame:
        frame, depth = frames.outer[frame], depth + 1
    return depth


@dataclass(slots=True)
class _Variable:
    """One loop variable: Enter -> Merge -> Switch -> ... -> NextIteration.

    NextIteration leads back to Merge, and Switch to the Exits. A Switch may be missing.
    """

    enter: str
    merge: str
    next_iteration: str
    switches: list[str] = field(default_factory=list)
    exits: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Loop:
    """A frame as a loop.

    condition, body: their nodes; a pure node may belong to both.
    """

    name: str
    members: list[str]
    variables: list[_Variable]
    invariants: list[str]  # constant Enter nodes
    loop_cond: str
    parallel_iterations: int
    condition: set[str]
    body: set[str]

    @property
    def enters(self) -> list[str]:
        """Return the Enter nodes, in the order of the loop's variables."""
        return [variable.enter for variable in self.variables] + self.invariants


def _read_loop(
    graph: DataflowGraph, frames: Frames, frame: str, members: list[str], ctx: PassContext
) -> _Loop:
    """Return the parts of a frame.

    Raises Declined.
    """
    members = [name for name in members if name in graph]
    inside = set(members)
    by_op: dict[str, list[str]] = {}
    for name in sorted(members, key=lambda name: graph.node(name).id):
        by_op.setdefault(graph.node(name).op, []).append(name)
    reference = next(
        (
            op
            for op in ("RefEnter", "RefMerge", "RefSwitch", "RefNextIteration", "RefExit")
            if op in by_op
        ),
        None,
    )
    if reference is not None:
        raise Declined(f"{reference} '{by_op[reference][0]}' carries a reference variable")
    conditions = by_op.get("LoopCond", [])
    if len(conditions) != 1:
        raise Declined(f"it has {len(conditions)} LoopCond nodes")
    loop_cond = conditions[0]
    enters = by_op.get("Enter", [])
    check_members(graph, members, ctx.options)
    _check_borders(graph, frames, frame, members, enters)
    variables = [
        _read_variable(graph, enter, loop_cond)
        for enter in enters
        if not graph.node(enter).attrs.get("is_constant")
    ]
    invariants = [enter for enter in enters if graph.node(enter).attrs.get("is_constant")]
    borders = {loop_cond, *enters}
    for variable in variables:
        borders.update(
            (variable.merge, variable.next_iteration, *variable.switches, *variable.exits)
        )
    stray = next(
        (
            n
            for op in ("Merge", "NextIteration", "Exit")
            for n in by_op.get(op, ())
            if n not in borders and op != "Merge"
        ),
        None,
    )
    if stray is not None:
        raise Declined(f"{graph.node(stray).op} '{stray}' belongs to no variable")
    switches = {name for variable in variables for name in variable.switches}
    for consumer, _ in graph.consumers(loop_cond):
        if consumer not in switches:
            raise Declined(f"'{consumer}' reads the condition '{loop_cond}' and is not a Switch")
    condition = _behind(graph, [(loop_cond, False)], inside, borders, barred=switches)
    body = _behind(
        graph,
        [(variable.next_iteration, True) for variable in variables],
        inside,
        borders,
        barred=set(),
    )
    rest = inside - borders - condition - body
    if rest:
        raise Declined(
            f"'{min(rest)}' is in the loop but neither its condition nor its body needs it"
        )
    for name in condition & body:
        if graph.node(name).is_stateful:
            raise Declined(f"condition and body share '{name}', which has side effects")
    parallel = int(graph.node(enters[0]).attrs.get("parallel_iterations", 10))
    return _Loop(frame, members, variables, invariants, loop_cond, parallel, condition, body)


def _check_borders(
    graph: DataflowGraph, frames: Frames, frame: str, members: Sequence[str], enters: Iterable[str]
) -> None:
    """Raise Declined unless Enter and Exit nodes are the only borders.

    All Enter nodes must come from the enclosing frame.
    """
    outer = frames.outer[frame]
    inside, entering = set(members), set(enters)
    for name in members:
        for edge in graph.edges_into(name):
            if edge.src == SOURCE or (edge.src in inside and name not in entering):
                continue
            if name not in entering:
                raise Declined(
                    f"'{name}' reads '{edge.src}' from outside the loop without an Enter"
                )
            source_frame = frames.of[edge.src]
            if graph.node(edge.src).has_trait(EXIT):
                source_frame = frames.outer[source_frame]
            if source_frame != outer:
                raise Declined(f"Enter '{name}' comes from another frame than the loop's first one")
        if graph.node(name).has_trait(EXIT):
            continue
        for edge in graph.edges_out_of(name):
            if edge.dst not in inside:
                raise Declined(f"'{name}' is used outside of the loop without an Exit")


def _read_variable(graph: DataflowGraph, enter: str, loop_cond: str) -> _Variable:
    edges = graph.edges_out_of(enter)
    if len(edges) != 1 or not graph.node(edges[0].dst).has_trait(MERGE):
        raise Declined(f"Enter '{enter}' does not lead to one Merge and nothing else")
    merge = edges[0].dst
    sources = [src for src, _ in graph.inputs(merge)]
    others = [src for src in sources if src != enter]
    if len(sources) != 2 or len(others) != 1 or not graph.node(others[0]).has_trait(NEXT_ITERATION):
        raise Declined(f"Merge '{merge}' does not merge one Enter and one NextIteration")
    if graph.control_inputs(merge):
        raise Declined(f"Merge '{merge}' waits for other nodes")
    if graph.consumers(merge, 1):
        raise Declined(f"'{merge}:1', which input came, is used")
    variable = _Variable(enter, merge, others[0])
    if [edge.dst for edge in graph.edges_out_of(others[0])] != [merge]:
        raise Declined(f"NextIteration '{others[0]}' does not lead to its Merge alone")
    for consumer, dst_input in graph.consumers(merge):
        node = graph.node(consumer)
        if (
            not node.has_trait(SWITCH)
            or dst_input != 0
            or graph.inputs(consumer)[1] != (loop_cond, 0)
        ):
            continue
        variable.switches.append(consumer)
        if graph.control_inputs(consumer):
            raise Declined(f"Switch '{consumer}' waits for other nodes")
        for taker, _ in graph.consumers(consumer, 0):
            if not graph.node(taker).has_trait(EXIT):
                raise Declined(f"'{consumer}:0' leads to '{taker}', which is not an Exit")
            if graph.control_inputs(taker):
                raise Declined(f"Exit '{taker}' waits for other nodes")
            variable.exits.append(taker)
    return variable


def _behind(
    graph: DataflowGraph,
    roots: Iterable[tuple[str, bool]],
    inside: set[str],
    borders: set[str],
    barred: set[str],
) -> set[str]:
    """Return the loop nodes that the roots depend on.

    The borders of the loop end the search. roots: (node, whether its control inputs count).
    """
    found: set[str] = set()
    stack: list[str] = []

    def visit(name: str, controls: bool) -> None:
        for edge in graph.edges_into(name):
            src = edge.src
            if src not in inside or src in found or (edge.is_control and not controls):
                continue
            if src in barred and not edge.is_control:
                raise Declined(f"its condition depends on '{src}', which depends on the condition")
            if src not in borders:
                found.add(src)
                stack.append(src)

    for name, controls in roots:
        visit(name, controls)
    while stack:
        visit(stack.pop(), True)
    return found


class _Rewriter:
    """Makes the While of one loop.

    The bodies are made before anything is changed.
    """

    def __init__(self, graph: DataflowGraph, ctx: PassContext, loop: _Loop) -> None:
        self.graph = graph
        self.ctx = ctx
        self.loop = loop

    def run(self) -> Node:
        graph, loop = self.graph, self.loop
        enters = [graph.node(name) for name in loop.enters]
        types = tuple(node.output_dtypes[0].base_dtype for node in enters)
        shapes = [node.output_shapes[0] for node in enters]
        base = loop_name(loop.name)
        builders = (
            self._condition(f"{base}_cond", types, shapes),
            self._body(f"{base}_body", types, shapes),
        )
        for builder in builders:
            functionalize_conds(builder.graph, self.ctx)
        condition, body = (builder.finish() for builder in builders)
        stateful = condition.is_stateful or body.is_stateful
        waited_for = list(
            dict.fromkeys(src for node in enters for src in graph.control_inputs(node.name))
        )
        like = graph.node(loop.loop_cond)
        made = graph.add_node_op(
            free_name(graph, base),
            "While" if stateful else "StatelessWhile",
            [graph.inputs(node.name)[0] for node in enters],
            {
                "T": types,
                "cond": graph.functions.add(condition),
                "body": graph.functions.add(body),
                "output_shapes": (),
                "parallel_iterations": loop.parallel_iterations,
            },
            control_inputs=waited_for,
            like=like,
        )
        for index, variable in enumerate(loop.variables):
            for exit_name in variable.exits:
                graph.redirect_output(exit_name, 0, made.name, index)
                graph.redirect_control(exit_name, made.name)
                if any(edge.dst == SINK for edge in graph.edges_out_of(exit_name)):
                    graph.add_control_edge(made.name, SINK)
        graph.remove_nodes_from(loop.members)
        graph.tie_ends()
        return made

    def _condition(self, name: str, types: tuple[DType, ...], shapes: list[Shape]) -> BodyBuilder:
        loop = self.loop
        builder = BodyBuilder(
            self.graph, name, loop.condition, types, shapes, self.graph.node(loop.loop_cond)
        )
        self._take_arguments(builder)
        builder.rename(loop.condition & loop.body)
        builder.result(0, builder.moved(self.graph.inputs(loop.loop_cond)[0]))
        return builder

    def _body(self, name: str, types: tuple[DType, ...], shapes: list[Shape]) -> BodyBuilder:
        graph, loop = self.graph, self.loop
        builder = BodyBuilder(graph, name, loop.body, types, shapes, graph.node(loop.loop_cond))
        self._take_arguments(builder)
        for index, variable in enumerate(loop.variables):
            source = builder.moved(graph.inputs(variable.next_iteration)[0])
            waits = [
                src for src in graph.control_inputs(variable.next_iteration) if src in loop.body
            ]
            builder.result(index, source, waits)
        for index in range(len(loop.variables), len(types)):
            builder.result(index, builder.argument(index))
        return builder

    def _take_arguments(self, builder: BodyBuilder) -> None:
        """Replace the loop's borders by the arguments of a body."""
        for index, variable in enumerate(self.loop.variables):
            builder.replace((variable.merge, 0), index)
            for switch in variable.switches:
                builder.replace((switch, 1), index)
        for index, enter in enumerate(self.loop.invariants, len(self.loop.variables)):
            builder.replace((enter, 0), index)
        builder.connect()
