"""Define the checks of a match, each with words for its failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types.dtypes import string
from tfjit.framework.types.shape import format_shape
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import constant, tensor_dtype, tensor_shape
from tfjit.passes.patterns.expressions import (
    Attr,
    AttrValue,
    Constant,
    Op,
    Tensor,
    Value,
    dtypes_text,
    node_of,
)
from tfjit.passes.patterns.literals import cast, equals, text_of

_MISSING: Final = object()
InputTest = Callable[[DataflowGraph, PassContext, tuple[str, int]], bool]
Check = tuple[Callable[["State"], bool], Callable[["State"], str]]
"""A check of a state, and its words for a failure."""


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
        self, check: Check, place: str, slot: int, decided: int, matches_node: bool = False
    ) -> None:
        self.run, self.explain = check
        self.place, self.slot = place, slot
        self.decided, self.matches_node = decided, matches_node


def input_test(value: Value) -> InputTest | None:
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


def match_node(value: Op, slot: int, fresh: tuple[tuple[int, int], ...]) -> Check:
    """Return the check of a node's type and number of inputs.

    fresh: (slot, input) of the inputs that the node is the first to name.
    """
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


def match_attr(value: Op, slot: int, name: str, wanted: AttrValue) -> Check:
    """Return the check of one attr of a node."""

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


def _match_attr_variable(found_in: Callable[[State], AttrValue], wanted: Attr) -> Check:
    def run(state: State) -> bool:
        found = found_in(state)
        return attr_forms.equal(state.attrs.setdefault(wanted.name, found), found)

    def explain(state: State) -> str:
        return f"it is {found_in(state)!r}, but {wanted} is {state.attrs[wanted.name]!r}"

    return run, explain


def _match_predicate(
    found_in: Callable[[State], AttrValue], wanted: Callable[[AttrValue], object]
) -> Check:
    def run(state: State) -> bool:
        return bool(wanted(found_in(state)))

    def explain(state: State) -> str:
        return f"the predicate is false for {found_in(state)!r}"

    return run, explain


def match_numbers(slot: int) -> Check:
    """Return the check that a node adds numbers, not texts."""

    def run(state: State) -> bool:
        return state.op_node(slot).input_dtypes[0].base_dtype is not string

    def explain(state: State) -> str:
        return f"'{state.op_node(slot).name}' joins texts, whose order matters"

    return run, explain


def match_same(slot: int, index: int, child: int, output: int | None, name: str) -> Check:
    """Return the check that an input is a part seen before."""

    def run(state: State) -> bool:
        src, port = state.inputs[slot][index]
        if output is None:
            return state.tensors[child] == (src, port)
        return state.tensors[child][0] == src and port == output

    def explain(state: State) -> str:
        src, port = state.inputs[slot][index]
        return f"'{src}:{port}' is not {name}, which is '{state.tensors[child][0]}'"

    return run, explain


def match_output(slot: int, output: int) -> Check:
    """Return the check of the output that an input reads."""

    def run(state: State) -> bool:
        return state.tensors[slot][1] == output

    def explain(state: State) -> str:
        src, port = state.tensors[slot]
        return f"it is output {port} of '{src}', expected output {output}"

    return run, explain


def match_uses(slot: int, count: int) -> Check:
    """Return the check of a node's number of uses."""

    def run(state: State) -> bool:
        return len(uses_of(state.graph, state.tensors[slot][0])) == count

    def explain(state: State) -> str:
        users = uses_of(state.graph, state.tensors[slot][0])
        by = ", ".join(f"'{user}'" for user in users[:3])
        return f"its use count is {len(users)}, the pattern asks for {count}: used by {by}"

    return run, explain


def constant_checks(value: Tensor, slot: int) -> Iterator[Check]:
    """Yield the checks of a constant; none for another variable."""
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


def constraints(value: Tensor | Op, slot: int) -> Iterator[Check]:
    """Yield the checks of dtype and shape of a part."""
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
