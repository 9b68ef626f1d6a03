"""Find reads of variables that share memory or are overtaken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.op_defs.op_traits import READS_STATE, VARIABLE, WRITES_ROWS
from tfjit.runtime.lowering.variable_hazards import aliasing_reads

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
    from tfjit.runtime.resources.variables_and_resources import Variable

_READS_ONLY: Final = frozenset(
    {"IsVariableInitialized", "VarIsInitializedOp", "VariableShape", "CountUpTo"}
)


def overwritten_reads(lowered: Lowered) -> list[Value]:
    """Return variable values overwritten between read and last use."""
    instructions = lowered.instructions
    # variable -> positions of writes, each with the last position whose reads come first
    writes: dict[int, list[tuple[int, int]]] = {}
    for position, instruction in enumerate(instructions):
        # A write by rows changes rows that it reads later.
        last_read = position - 1 if instruction.node.has_trait(WRITES_ROWS) else position
        for variable in _written(instruction):
            writes.setdefault(id(variable), []).append((position, last_read))
    if not writes:
        return []
    ends = {
        id(instruction.construct): p
        for p, instruction in enumerate(instructions)
        if instruction.role == "repeat"
    }
    last_use: dict[int, int] = {}
    for position, instruction in enumerate(instructions):
        for value in instruction.inputs:
            last_use[value.root.index] = max(position, last_use.get(value.root.index, 0))
            for construct in (
                instruction.construct.chain if instruction.construct is not None else ()
            ):
                # each iteration uses the value
                if construct.is_loop and value.root.sequence < construct.sequence:
                    last_use[value.root.index] = max(
                        last_use[value.root.index], ends[id(construct)]
                    )
    for value in lowered.fetches:
        last_use[value.root.index] = len(instructions)
    return [
        value
        for value in lowered.values
        if value.storage == "variable"
        and value.base is None
        and value.variable is not None
        and not value.read_at_end
        and any(
            # the write follows the read
            instructions[position].sequence > value.sequence
            and last_read < last_use.get(value.index, -1)
            for position, last_read in writes.get(id(value.variable), ())
        )
    ]


def carries_variable(node: Node) -> bool:
    """Return whether output 0 is a reference or a handle."""
    return bool(node.output_dtypes) and (
        node.output_dtypes[0].is_ref or node.output_dtypes[0].name == "resource"
    )


def variables_of(graph: DataflowGraph, order: Sequence[str]) -> dict[str, str]:
    """Return the variable that each node reads or changes, by node.

    An optimizer op counts for its first variable; no other node uses its slots.
    """
    owner: dict[str, str] = {}  # node -> the variable that its output 0 carries
    found: dict[str, str] = {}
    for name in order:
        node = graph.node(name)
        if node.has_trait(VARIABLE):
            owner[name] = name
            continue
        sources = graph.inputs(name)
        if not sources or sources[0][0] not in owner or sources[0][1] != 0 or node.op == "_Retval":
            continue
        variable = owner[sources[0][0]]
        if carries_variable(node):
            owner[name] = variable
        if node.op in _READS_ONLY or (node.is_view and carries_variable(node)):
            continue
        found[name] = variable
    return found


def is_read(node: Node) -> bool:
    """Return whether a node reads a variable's value."""
    return node.op == "ReadVariableOp" or (node.is_view and not carries_variable(node))


def reads_that_share(graph: DataflowGraph, order: Sequence[str] | None = None) -> set[str]:
    """Return the reads of reference variables that share the variable's memory.

    See `variable_hazards.aliasing_reads`. order: of execution; None selects the topological order.
    """
    if not graph.has_trait(VARIABLE):
        return set()
    order = graph.topological_order() if order is None else order

    def is_view(name: str) -> bool:
        return graph.node(name).is_view

    return aliasing_reads(
        graph, order, lambda name: is_read(graph.node(name)), is_view, variables_of(graph, order)
    )


def _written(instruction: Instruction) -> list[Variable]:
    if instruction.node.op in _READS_ONLY or instruction.node.has_trait(READS_STATE):
        return []
    return [
        v.variable for v in instruction.inputs if v.storage == "handle" and v.variable is not None
    ]
