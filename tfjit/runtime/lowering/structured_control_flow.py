"""Lower loops and branches into the instructions of their partition.

The instructions of the bodies lie among those of the partition, between markers:

    While(cond, body)          If(then, else)
      copy init -> carried       branch predicate
      loop                       ... then, copy result -> output
      ... cond                   case 1
      test predicate             ... else, copy result -> output
      ... body                   join
      copy next -> carried
      repeat

A value that a loop passes through unchanged is read in place. A loop-carried value has one buffer.
The copy at an iteration's end is coalesced if the kernel of the next value can write to that buffer
itself (`runtime/schedule/liveness.py` decides that). Instructions of a body over unchanging values
alone are placed in front of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import CASE, IF, READS_STATE, VIEW, WHILE
from tfjit.passes.ir.function_library import passed_through
from tfjit.passes.ir.region_path import branch_part, region_path
from tfjit.runtime.lowering.lowered import Instruction, Value
from tfjit.runtime.lowering.lowering import Lowering, NotStatic

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

Role = Literal["loop", "test", "repeat", "branch", "case", "join"]


@dataclass(slots=True, eq=False)
class Construct:
    """Describe a loop or a branch.

    level: number of loops around its instructions. parent: the construct around this one. boolean:
    a branch by true (region 0) and false (region 1), not by number. prelude: instructions of its
    body over unchanging values alone. changes_variables: a body of the loop assigns some variable;
    then no variable read inside is unchanging. sequence: of its first marker. cases: number of a
    branch's bodies.
    """

    node: Node
    level: int
    parent: Construct | None
    boolean: bool = True
    prelude: list[Instruction] = field(default_factory=list)
    changes_variables: bool = False
    sequence: int = 0
    cases: int = 0

    @property
    def is_loop(self) -> bool:
        """Return whether the construct repeats."""
        return self.node.has_trait(WHILE)

    @property
    def chain(self) -> list[Construct]:
        """Return this construct and those around it, from inside out."""
        found: list[Construct] = []
        construct: Construct | None = self
        while construct is not None:
            found.append(construct)
            construct = construct.parent
        return found


def lower_loop(
    outer: Lowering, node: Node, inputs: Sequence[Value], cond: DataflowGraph, body: DataflowGraph
) -> list[Value]:
    """Emit a loop and return its outputs.

    Raises NotStatic; the caller must then drop the emitted instructions.
    """
    construct = Construct(node, outer.level + 1, outer.construct)
    construct.changes_variables = changes_variables(cond) or changes_variables(body)
    unchanged = passed_through(body)
    carried: list[Value] = []
    for k, init in enumerate(inputs):
        if k in unchanged:
            carried.append(init)
            continue
        if init.storage in ("handle", "object") or init.dtype.name in ("resource", "variant"):
            raise NotStatic(
                f"{node.name} ({node.op}) carries a {init.dtype.name}, which its body changes"
            )
        value = outer.new_value(node, k, init.dtype, init.shape, level=construct.level)
        carried.append(value)
        outer.copy(init, value)
    begin = outer.marker(construct, "loop", [])
    construct.sequence = begin.sequence
    inside: list[Instruction] = []
    predicate = _region(outer, construct, inside, node, cond, carried, "cond")
    if len(predicate) != 1 or predicate[0].shape != ():
        raise NotStatic(f"the condition of {node.name} ({node.op}) is not a scalar")
    test = outer.marker(construct, "test", [predicate[0]])
    inside.append(test)
    results = _region(outer, construct, inside, node, body, carried, "body")
    moves = []
    for k, (value, result) in enumerate(zip(carried, results, strict=True)):
        if k in unchanged:
            continue
        if (value.dtype, value.shape) != (result.dtype, result.shape):
            raise NotStatic(
                f"output {k} of the body of {node.name} has shape {list(result.shape)}, its input "
                f"{list(value.shape)}"
            )
        if result.root is not value:
            moves.append((result, value))
    with outer.inside(construct, inside):
        _move(outer, node, moves)
    outer.out += [*construct.prelude, begin, *inside, outer.marker(construct, "repeat", [])]
    return carried


def lower_branch(
    outer: Lowering, node: Node, inputs: Sequence[Value], bodies: Sequence[DataflowGraph]
) -> list[Value]:
    """Emit a branch and return its outputs.

    bodies: of If, the one for true, then the one for false; of Case, by number. Raises NotStatic.
    """
    selector, arguments = inputs[0], inputs[1:]
    if selector.shape != ():
        raise NotStatic(f"the selector of {node.name} ({node.op}) is not a scalar")
    construct = Construct(
        node,
        outer.level,
        outer.construct,
        boolean=node.op in ("If", "StatelessIf"),
        cases=len(bodies),
    )
    inside = [outer.marker(construct, "branch", [selector])]
    construct.sequence = inside[0].sequence
    outputs: list[Value] = []
    for number, body in enumerate(bodies):
        if number:
            inside.append(outer.marker(construct, "case", [selector]))
        part = branch_part(number, construct.boolean)
        results = _region(outer, construct, inside, node, body, arguments, part)
        if not number:
            outputs = [_output(outer, node, k, result) for k, result in enumerate(results)]
        for k, (output, result) in enumerate(zip(outputs, results, strict=True)):
            if output.storage == "handle":
                if result is not output:
                    raise NotStatic(
                        f"the branches of {node.name} ({node.op}) return different resources"
                    )
                continue
            if (output.dtype, output.shape) != (result.dtype, result.shape):
                raise NotStatic(
                    f"output {k} of {node.name} has shape {list(output.shape)} or "
                    f"{list(result.shape)}"
                )
            with outer.inside(construct, inside):
                outer.copy(result, output)
    outer.out += inside
    outer.out.append(outer.marker(construct, "join", []))
    return outputs


def _output(outer: Lowering, node: Node, k: int, result: Value) -> Value:
    if result.storage == "handle":
        return result
    if result.dtype.name in ("resource", "variant"):
        raise NotStatic(f"{node.name} ({node.op}) has a {result.dtype.name} output")
    return outer.new_value(node, k, result.dtype, result.shape, level=outer.level)


def _region(
    outer: Lowering,
    construct: Construct,
    inside: list[Instruction],
    node: Node,
    graph: DataflowGraph,
    arguments: Sequence[Value],
    part: str,
) -> list[Value]:
    """Lower one body into `inside` and return its results."""
    inner = Lowering(
        graph,
        outer.find_variable,
        0,
        outer=outer,
        inputs=arguments,
        path=region_path(outer.path, node.name, part),
    )
    with inner.inside(construct, inside):
        return inner.run_region()


def _move(outer: Lowering, node: Node, moves: list[tuple[Value, Value]]) -> None:
    """Emit copies that behave as if all were made at once.

    A target that is also the source of another copy is read before the copy overwrites its value.
    """
    waiting = list(moves)
    while waiting:
        free = [
            move
            for move in waiting
            if not any(other[0].root is move[1] for other in waiting if other is not move)
        ]
        if free:
            for source, target in free[:1]:
                outer.copy(source, target)
            waiting.remove(free[0])
            continue
        source, target = waiting[0]  # a cycle of copies: keep the value that this copy overwrites
        kept = outer.new_value(node, 0, target.dtype, target.shape, level=outer.level)
        outer.copy(target, kept)
        waiting = [(outer.viewed_as(kept, s) if s.root is target else s, t) for s, t in waiting]


def changes_variables(graph: DataflowGraph) -> bool:
    """Return whether a body or its nested bodies may assign variables."""
    for node in graph.op_nodes():
        if node.has_trait(WHILE | IF | CASE):
            bodies = graph.graph.get("bodies", {}).get(node.name)
            if bodies is None or any(changes_variables(body) for body in bodies):
                return True
        elif (
            not node.has_trait(READS_STATE | VIEW)
            and node.op not in ("_Arg", "_Retval")
            and any(d.is_ref or d.name == "resource" for d in node.input_dtypes)
        ):
            return True
    return False


_SLICES: Final = ("Slice", "StridedSlice")
"""Ops that cannot fail if begin and size are constants.

Shape inference has seen such constants."""


def can_leave_loop(node: Node, inputs: Sequence[Value]) -> bool:
    """Return whether a node may run before its loop.

    The loop itself might never reach the node. Such a node has no effects and cannot fail.
    """
    if _waits(node):
        return False
    if node.op == "_Fused":
        # A group contains only slices at constant positions.
        return all(
            member.spec.op in _SLICES
            or registry.require(member.spec.op).is_speculatable(member.spec.inputs[0].dtype)
            for member in node.attrs["group"].members
        )
    if node.op in _SLICES:
        return all(value.root.storage == "const" for value in inputs[1:])
    return node.is_speculatable


def _waits(node: Node) -> bool:
    return any(edge.is_control and edge.src != "_SOURCE" for edge in node.in_edges)


__all__ = [
    "Construct",
    "Role",
    "can_leave_loop",
    "changes_variables",
    "lower_branch",
    "lower_loop",
]
