"""Compile a pattern to steps, and run these steps at a node.

A step (`steps.py`) checks one fact and can say why it does not hold. A pattern with commutative
nodes has a program of steps for each order of their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tfjit.framework.op_defs.op_registry import registry
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.patterns.expressions import (
    ANY_USES,
    Op,
    Tensor,
    Value,
    node_of,
    walk,
)
from tfjit.passes.patterns.steps import (
    InputTest,
    State,
    Step,
    constant_checks,
    constraints,
    input_test,
    match_attr,
    match_node,
    match_numbers,
    match_output,
    match_same,
    match_uses,
)

MAX_COMMUTATIVE: Final = 8
"""Most commutative nodes of a pattern: it is tried in 2**8 orders."""


class CompiledPattern:
    """A pattern as programs, with the slots of its parts.

    nodes: the pattern's nodes, root first, with their slots: the order is the same in all programs.
    references: node's slot -> number of its uses by the pattern.
    """

    def __init__(self, root: Op) -> None:
        self.root = root
        self.slots: dict[object, int] = {}
        self.names: dict[str, int] = {}
        self.nodes: list[tuple[Op, int]] = []
        self.variables: list[tuple[Tensor, int]] = []
        self.references: dict[int, int] = {}
        for value in walk(root):
            slot = self.slots.setdefault(key_of(value), len(self.slots))
            name = getattr(value, "name", "")
            if name:
                self.names[name] = slot
            if isinstance(value, Op):
                self.nodes.append((value, slot))
                self.references.setdefault(slot, 0)
            elif isinstance(value, Tensor) and all(slot != known for _, known in self.variables):
                self.variables.append((value, slot))
        self.names["root"] = 0
        for value, _ in self.nodes:
            for child in value.inputs:
                found = node_of(child)
                if found:
                    self.references[self.slots[key_of(found[0])]] += 1
        self.commutative = [slot for value, slot in self.nodes if _is_commutative(value)]
        orders = 1 << len(self.commutative)
        # the steps as plain functions: most attempts end at one of the first
        self.programs = [tuple(self._steps(order)) for order in range(orders)]
        self._runs = [tuple(step.run for step in steps) for steps in self.programs]
        self._heads = self._root_inputs()

    def slot_of(self, value: Value) -> int | None:
        """Return a part's slot; None for a value outside the pattern."""
        found = node_of(value)
        return self.slots.get(key_of(found[0] if found else value))

    def may_match(self, graph: DataflowGraph, ctx: PassContext, node: Node) -> bool:
        """Return whether each input by itself fits the pattern's root.

        Most attempts end here, without a state.
        """
        inputs = graph.inputs(node.name)
        if len(inputs) != len(self.root.inputs):
            return False
        for heads in self._heads:
            for index, fits in heads:
                if not fits(graph, ctx, inputs[index]):
                    break
            else:
                return True
        return False

    def _root_inputs(self) -> list[list[tuple[int, InputTest]]]:
        """Return the tests of each order of the root's inputs."""
        orders = [self.root.inputs]
        if 0 in self.commutative:
            orders.append(self.root.inputs[::-1])
        made = []
        for inputs in orders:
            tests = [(index, input_test(value)) for index, value in enumerate(inputs)]
            made.append([(index, fits) for index, fits in tests if fits is not None])
        return made

    def matches(self, graph: DataflowGraph, ctx: PassContext, node: Node) -> Iterator[State]:
        """Yield the matches at a node, one for each order of inputs."""
        order, count = 0, len(self.commutative)
        while order < len(self._runs):
            state = State(graph, ctx, node, len(self.slots))
            for position, run in enumerate(self._runs[order]):
                if not run(state):
                    # orders that agree in the decided nodes would fail at the same step
                    left = count - self.programs[order][position].decided
                    order = ((order >> left) + 1) << left
                    break
            else:
                yield state
                order += 1

    def attempts(
        self, graph: DataflowGraph, ctx: PassContext, node: Node
    ) -> Iterator[tuple[State, tuple[Step, ...], int]]:
        """Yield (state, program, number of steps that held) of each order."""
        for program in self.programs:
            state = State(graph, ctx, node, len(self.slots))
            held = 0
            while held < len(program) and program[held].run(state):
                held += 1
            yield state, program, held

    # ---- compiling

    def _steps(self, order: int) -> Iterator[Step]:
        known = {0}
        decided = 0
        uses: list[Step] = []  # last: they look at all edges of a node
        places = {0: str(self.root.kind)}
        for value, slot in self.nodes:
            inputs = list(value.inputs)
            reverse = False
            if slot in self.commutative:
                decided += 1
                reverse = bool(order >> (len(self.commutative) - decided) & 1)
                if reverse:
                    inputs.reverse()
            children = []
            for child in inputs:
                found = node_of(child)
                children.append(self.slots[key_of(found[0] if found else child)])
            fresh = []
            for index, child_slot in enumerate(children):
                if child_slot not in known:
                    known.add(child_slot)
                    fresh.append((child_slot, index))
            place = places[slot]
            yield Step(
                match_node(value, slot, tuple(fresh)), place, slot, decided, matches_node=True
            )
            if reverse and "Add" in value.kind.types:
                yield Step(match_numbers(slot), place, slot, decided)
            for name, wanted in value.attrs.items():
                checks = match_attr(value, slot, name, wanted)
                yield Step(checks, f"{value.kind}'s attr '{name}'", slot, decided)
            for check in constraints(value, slot):
                yield Step(check, place, slot, decided)
            for index, (child, child_slot) in enumerate(zip(inputs, children, strict=True)):
                here = f"{value.kind}'s input {index}"
                places.setdefault(child_slot, here)
                found = node_of(child)
                if (child_slot, index) not in fresh:
                    output = found[1] if found else None
                    name = str(found[0].kind if found else child)
                    same = match_same(slot, index, child_slot, output, name)
                    yield Step(same, here, child_slot, decided)
                elif found:
                    yield Step(match_output(child_slot, found[1]), here, child_slot, decided)
                elif isinstance(child, Tensor):
                    for check in constant_checks(child, child_slot):
                        yield Step(check, here, child_slot, decided)
                    for check in constraints(child, child_slot):
                        yield Step(check, here, child_slot, decided)
            if value.use_count is not None and value.use_count != ANY_USES:
                uses.append(
                    Step(match_uses(slot, value.use_count), place, slot, len(self.commutative))
                )
        yield from uses


def key_of(value: Value) -> object:
    """Return the identity of a part: a variable's is its name."""
    return value.name if isinstance(value, Tensor) and value.name else id(value)


def is_commutative(op_type: str) -> bool:
    """Return whether two inputs of an op may change places.

    Add has no flag, since texts are joined by it; the matcher looks at the dtype.
    """
    op_def = registry.lookup(op_type)
    return op_def is not None and (op_def.is_commutative or op_type == "Add")


def _is_commutative(value: Op) -> bool:
    if len(value.inputs) != 2 or key_of(value.inputs[0]) == key_of(value.inputs[1]):
        return False
    return all(is_commutative(op_type) for op_type in value.kind.types)
