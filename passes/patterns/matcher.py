"""Compile a pattern to steps, and run these steps at a node.

A step checks one fact and can say why it does not hold. A pattern with commutative nodes has a
program of steps for each order of their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.framework.op_defs.op_def import registry
from tfjit.framework.types.dtypes import string
from tfjit.framework.types.shape import format_shape
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import constant, tensor_dtype, tensor_shape
from tfjit.passes.patterns.expressions import (
    ANY_USES,
    Attr,
    AttrValue,
    Constant,
    Op,
    Tensor,
    Value,
    dtypes_text,
    node_of,
    walk,
)
from tfjit.passes.patterns.literals import cast, equals, text_of

MAX_COMMUTATIVE: Final = 8
"""Most commutative nodes of a pattern: it is tried in 2**8 orders."""

_MISSING: Final = object()
_Fits = Callable[[DataflowGraph, PassContext, tuple[str, int]], bool]
_Check = tuple[Callable[["State"], bool], Callable[["State"], str]]


class State:
    """The facts of a match so far, at one node.

    tensors: slot -> tensor. inputs: slot of a node -> its inputs. types, attrs, sizes: by the names
    of their variables.
    """

    __slots__ = ("attrs", "ctx", "graph", "inputs", "node", "sizes", "tensors", "types")

    def __init__(self, graph: DataflowGraph, ctx: PassContext, node: Node, slots: int) -> None:
        self.graph, self.ctx, self.node = graph, ctx, node
        self.tensors: list[tuple[str, int]] = [(node.name, 0)] * slots
        self.inputs: list[list[tuple[str, int]]] = [[]] * slots
        self.types: dict[str, str] = {}
        self.attrs: dict[str, AttrValue] = {}
        self.sizes: dict[str, int] = {}

    def op_node(self, slot: int) -> Node:
        """Return the node that a slot holds an output of."""
        return self.graph.node(self.tensors[slot][0])

    def constant(self, slot: int) -> np.ndarray | None:
        """Return the static value of a slot's tensor."""
        return constant(self.graph, self.ctx, *self.tensors[slot])


class Step:
    """One check of a program.

    place: the part of the pattern, as messages name it. slot: of that part; a node's where
    `matches_node`. decided: number of commutative nodes with an order that this step or an earlier
    one uses.
    """

    __slots__ = ("decided", "explain", "matches_node", "place", "run", "slot")

    def __init__(
        self, check: _Check, place: str, slot: int, decided: int, matches_node: bool = False
    ) -> None:
        self.run, self.explain = check
        self.place, self.slot = place, slot
        self.decided, self.matches_node = decided, matches_node


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

    def _root_inputs(self) -> list[list[tuple[int, _Fits]]]:
        """Return the tests of each order of the root's inputs."""
        orders = [self.root.inputs]
        if 0 in self.commutative:
            orders.append(self.root.inputs[::-1])
        made = []
        for inputs in orders:
            tests = [(index, _fits(value)) for index, value in enumerate(inputs)]
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
                _match_node(value, slot, tuple(fresh)), place, slot, decided, matches_node=True
            )
            if reverse and "Add" in value.kind.types:
                yield Step(_match_numbers(slot), place, slot, decided)
            for name, wanted in value.attrs.items():
                checks = _match_attr(value, slot, name, wanted)
                yield Step(checks, f"{value.kind}'s attr '{name}'", slot, decided)
            for check in _constraints(value, slot):
                yield Step(check, place, slot, decided)
            for index, (child, child_slot) in enumerate(zip(inputs, children, strict=True)):
                here = f"{value.kind}'s input {index}"
                places.setdefault(child_slot, here)
                found = node_of(child)
                if (child_slot, index) not in fresh:
                    output = found[1] if found else None
                    name = str(found[0].kind if found else child)
                    same = _match_same(slot, index, child_slot, output, name)
                    yield Step(same, here, child_slot, decided)
                elif found:
                    yield Step(_match_output(child_slot, found[1]), here, child_slot, decided)
                elif isinstance(child, Tensor):
                    for check in _constant_checks(child, child_slot):
                        yield Step(check, here, child_slot, decided)
                    for check in _constraints(child, child_slot):
                        yield Step(check, here, child_slot, decided)
            if value.use_count is not None and value.use_count != ANY_USES:
                uses.append(
                    Step(_match_uses(slot, value.use_count), place, slot, len(self.commutative))
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


def _fits(value: Value) -> _Fits | None:
    """Return the test of one input; None if every tensor fits."""
    found = node_of(value)
    if found:
        types = frozenset(found[0].kind.types)
        return lambda graph, ctx, tensor: graph.node(tensor[0]).op in types
    if not isinstance(value, Constant):
        return None
    holds, when = _value_test(value), value.when

    def fits(graph: DataflowGraph, ctx: PassContext, tensor: tuple[str, int]) -> bool:
        array = constant(graph, ctx, *tensor)
        return array is not None and holds(array) and (when is None or bool(when(array)))

    return fits


def _value_test(value: Constant) -> Callable[[np.ndarray], bool]:
    """Return the test of a constant's value, without its predicate."""
    literal = value.value
    if literal is None:
        return lambda array: True
    if isinstance(literal, np.ndarray):
        return lambda array: equals(array, literal)
    first: dict[object, object] = {}

    def is_literal(array: np.ndarray) -> bool:
        # the first element decides for most constants
        dtype = array.dtype
        if dtype not in first:
            made = cast(literal, dtype)
            first[dtype] = None if made is None else made.item()
        if not array.size or first[dtype] is None:
            return False
        here, wanted = array.item(0), first[dtype]
        return (here == wanted or here != here) and equals(array, literal)

    return is_literal


def uses_of(graph: DataflowGraph, name: str) -> list[str]:
    """Return the users of a node, one entry a use.

    A node that waits for it is a user, and so is a run that it is a target of.
    """
    return [
        "a target of the run" if edge.dst == SINK else edge.dst for edge in graph.edges_out_of(name)
    ]


def _match_node(value: Op, slot: int, fresh: tuple[tuple[int, int], ...]) -> _Check:
    types, count, bound = frozenset(value.kind.types), len(value.inputs), value.kind.name

    def run(state: State) -> bool:
        node = state.graph.node(state.tensors[slot][0])
        if node.op not in types:
            return False
        if bound and state.types.setdefault(bound, node.op) != node.op:
            return False
        inputs = state.graph.inputs(node.name)
        if len(inputs) != count:
            return False
        state.inputs[slot] = inputs
        for child, index in fresh:
            state.tensors[child] = inputs[index]
        return True

    def explain(state: State) -> str:
        node = state.op_node(slot)
        if node.op not in types:
            return f"'{node.name}' is a {node.op}, expected {' or '.join(value.kind.types)}"
        if bound and state.types.get(bound, node.op) != node.op:
            return f"'{node.name}' is a {node.op}, but {bound} is {state.types[bound]}"
        found = len(state.graph.inputs(node.name))
        return f"'{node.name}' has {found} inputs, the pattern {count}"

    return run, explain


def _match_attr(value: Op, slot: int, name: str, wanted: AttrValue) -> _Check:
    def found_in(state: State) -> AttrValue:
        return state.op_node(slot).attrs.get(name, _MISSING)

    if isinstance(wanted, Attr):
        return _match_attr_variable(found_in, wanted)
    if callable(wanted):
        return _match_predicate(found_in, wanted)
    op_def = registry.require(value.kind.types[0])
    declared = op_def.attr(name)
    assert declared is not None
    converted = attr_forms.convert(wanted, declared.type, name, op_def.name)

    def run(state: State) -> bool:
        return attr_forms.equal(found_in(state), converted)

    def explain(state: State) -> str:
        found = found_in(state)
        return f"'{state.op_node(slot).name}' has {found!r}, expected {converted!r}"

    return run, explain


def _match_attr_variable(found_in: Callable[[State], AttrValue], wanted: Attr) -> _Check:
    def run(state: State) -> bool:
        found = found_in(state)
        return attr_forms.equal(state.attrs.setdefault(wanted.name, found), found)

    def explain(state: State) -> str:
        return f"it is {found_in(state)!r}, but {wanted} is {state.attrs[wanted.name]!r}"

    return run, explain


def _match_predicate(
    found_in: Callable[[State], AttrValue], wanted: Callable[[AttrValue], object]
) -> _Check:
    def run(state: State) -> bool:
        return bool(wanted(found_in(state)))

    def explain(state: State) -> str:
        return f"the predicate is false for {found_in(state)!r}"

    return run, explain


def _match_numbers(slot: int) -> _Check:
    def run(state: State) -> bool:
        return state.op_node(slot).input_dtypes[0].base_dtype is not string

    def explain(state: State) -> str:
        return f"'{state.op_node(slot).name}' joins texts, whose order matters"

    return run, explain


def _match_same(slot: int, index: int, child: int, output: int | None, name: str) -> _Check:
    def run(state: State) -> bool:
        src, port = state.inputs[slot][index]
        if output is None:
            return state.tensors[child] == (src, port)
        return state.tensors[child][0] == src and port == output

    def explain(state: State) -> str:
        src, port = state.inputs[slot][index]
        return f"'{src}:{port}' is not {name}, which is '{state.tensors[child][0]}'"

    return run, explain


def _match_output(slot: int, output: int) -> _Check:
    def run(state: State) -> bool:
        return state.tensors[slot][1] == output

    def explain(state: State) -> str:
        src, port = state.tensors[slot]
        return f"it is output {port} of '{src}', expected output {output}"

    return run, explain


def _match_uses(slot: int, count: int) -> _Check:
    def run(state: State) -> bool:
        return len(uses_of(state.graph, state.tensors[slot][0])) == count

    def explain(state: State) -> str:
        users = uses_of(state.graph, state.tensors[slot][0])
        by = ", ".join(f"'{user}'" for user in users[:3])
        return f"its use count is {len(users)}, the pattern asks for {count}: used by {by}"

    return run, explain


def _constant_checks(value: Tensor, slot: int) -> Iterator[_Check]:
    if not isinstance(value, Constant):
        return
    literal, when, holds_value = value.value, value.when, _value_test(value)

    def is_constant(state: State) -> bool:
        found = state.constant(slot)
        return found is not None and holds_value(found)

    def why_no_constant(state: State) -> str:
        found, (src, _) = state.constant(slot), state.tensors[slot]
        if found is None:
            return f"'{src}' is a {state.op_node(slot).op} without a static value, expected " + (
                f"the constant {text_of(literal)}" if literal is not None else "a constant"
            )
        shown = np.array2string(found, separator=", ", threshold=6)
        return f"'{src}' is {found.dtype} {shown}, expected {text_of(literal)}"

    yield is_constant, why_no_constant
    if when is not None:

        def holds(state: State) -> bool:
            found = state.constant(slot)
            return found is not None and bool(when(found))

        def why_not(state: State) -> str:
            return f"the predicate on {value} is false for '{state.tensors[slot][0]}'"

        yield holds, why_not


def _constraints(value: Tensor | Op, slot: int) -> Iterator[_Check]:
    dtypes, dims, rank = value.dtypes, value.shape, value.rank
    of_node = isinstance(value, Op)

    def tensor(state: State) -> tuple[str, int]:
        src, output = state.tensors[slot]
        return (src, 0) if of_node else (src, output)

    if dtypes is not None:

        def has_dtype(state: State) -> bool:
            return tensor_dtype(state.graph, *tensor(state)).base_dtype in dtypes

        def why_dtype(state: State) -> str:
            found = tensor_dtype(state.graph, *tensor(state)).base_dtype.name
            return f"'{state.tensors[slot][0]}' is {found}, expected {dtypes_text(dtypes)}"

        yield has_dtype, why_dtype
    if rank is not None or dims is not None:

        def has_shape(state: State) -> bool:
            shape = tensor_shape(state.graph, *tensor(state))
            if shape is None or rank not in (None, len(shape)):
                return False
            if dims is None:
                return True
            return len(dims) == len(shape) and all(
                wanted is None
                or (
                    size == wanted
                    if isinstance(wanted, int)
                    else size is not None and state.sizes.setdefault(wanted, size) == size
                )
                for wanted, size in zip(dims, shape, strict=True)
            )

        def why_shape(state: State) -> str:
            shape = format_shape(tensor_shape(state.graph, *tensor(state)))
            wanted = f"rank {rank}" if dims is None else str(list(dims)).replace("'", "")
            sizes = "".join(f", {name}={size}" for name, size in state.sizes.items())
            return f"'{state.tensors[slot][0]}' has the shape {shape}, expected {wanted}{sizes}"

        yield has_shape, why_shape
