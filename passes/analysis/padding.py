"""Find the nodes of unknown output sizes that may be padded.

A `Unique` of n indices has at most n results. An output of n rows, with padding behind those in
use, has a known shape; so have all values that are computed row by row from it. That is right where
no node can tell the padding from a row: rows of padding end in updates of rows, which ignore them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from tfjit.framework.op_defs.op_traits import CANNOT_FAIL, ELEMENTWISE, IDENTITY, WRITES_ROWS
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK, DataflowGraph, Node

Tensor = tuple[str, int]

_INDEX_TYPES: Final = ("int32", "int64")
_VALUE_TYPES: Final = ("float32", "float64")

_ROWS: Final = "rows"
"""The distinct indices."""
_PLACES: Final = "places"
"""Places of elements among the distinct indices: values without padding."""
_VALUES: Final = "values"
"""An array with a row for each distinct index."""
_SHAPE: Final = "shape"
"""A shape of which only the first element depends on values."""
_COUNT: Final = "count"
"""The number of distinct indices."""


@dataclass(slots=True)
class Padding:
    """The nodes of a run that padding changes.

    roots: the Unique nodes, with the nodes that update rows at their distinct indices. gradients:
    SparseSegmentSumGradV2 nodes that only `roots` and sums over their results use.
    """

    roots: dict[str, set[str]] = field(default_factory=dict)
    gradients: set[str] = field(default_factory=set)


def find_padding(
    graph: DataflowGraph, needed: Collection[str], kept: Collection[Tensor] = ()
) -> Padding:
    """Return the nodes that may have padded outputs.

    graph: with or without inferred shapes; ranks have to be known. needed: nodes of the run. kept:
    tensors that are fetched, or replaced by a feed.
    """
    found, search = Padding(), _Search(graph, needed, kept)
    for name in sorted(needed):
        if graph.node(name).op == "Unique":
            updates = search.updates_of(name)
            if updates:
                found.roots[name] = updates
    for name in sorted(needed):
        if graph.node(name).op == "SparseSegmentSumGradV2" and search.is_summed(name, found.roots):
            found.gradients.add(name)
    return found


class _Search:
    def __init__(
        self, graph: DataflowGraph, needed: Collection[str], kept: Collection[Tensor]
    ) -> None:
        self._graph, self._needed, self._kept = graph, needed, kept

    def _users(self, name: str) -> Iterator[tuple[str, int, int]]:
        """Yield (user, output, user's input) for each use of a node."""
        for edge in self._graph.edges_out_of(name):
            if not edge.is_control and edge.dst != SINK and edge.dst in self._needed:
                yield edge.dst, edge.src_output, edge.dst_input

    def updates_of(self, root: str) -> set[str]:
        """Return the updates by the results of a Unique.

        There are none where the Unique cannot be padded.
        """
        node = self._graph.node(root)
        if node.input_dtypes[0].name not in _INDEX_TYPES:
            return set()
        states: dict[Tensor, str] = {(root, 0): _ROWS, (root, 1): _PLACES}
        updates: set[str] = set()
        refused: set[str] = set()  # their other inputs may come later
        waiting = [user for user, _, _ in self._users(root)]
        while waiting:
            name = waiting.pop()
            if name == root:
                return set()
            made = self._outputs(name, states)
            refused.discard(name)
            if made is None:
                refused.add(name)
                continue
            if self._graph.node(name).has_trait(WRITES_ROWS):
                updates.add(name)
            new = {tensor: state for tensor, state in made.items() if tensor not in states}
            if new:
                states.update(new)
                waiting += [user for user, output, _ in self._users(name) if (name, output) in new]
        padded = {tensor for tensor, state in states.items() if state != _PLACES}
        return set() if refused or not padded.isdisjoint(self._kept) else updates

    def _outputs(self, name: str, states: dict[Tensor, str]) -> dict[Tensor, str] | None:
        """Return the states of a node's outputs; None where padding may show."""
        node, inputs = self._graph.node(name), self._graph.inputs(name)
        given = [states.get(tensor) for tensor in inputs if tensor[1] != CONTROL]
        if node.has_trait(IDENTITY):
            return {(name, 0): given[0]} if given[0] is not None else {}
        rule = _RULES.get(node.op)
        if rule is not None:
            state = rule(self._graph, node, given)
            if state:
                return {(name, 0): state}
        if node.has_trait(WRITES_ROWS):
            return {} if self._updates_rows(node, given) else None
        if node.has_trait(ELEMENTWISE) and _VALUES in given:
            return {(name, 0): _VALUES} if self._is_row_by_row(node, given) else None
        return {} if set(given) <= {None, _PLACES} else None

    def _updates_rows(self, node: Node, given: list[str | None]) -> bool:
        """Return whether a node updates rows at the distinct indices."""
        assert node.op_def is not None
        roles = [argument.name for argument in node.op_def.inputs]
        if "indices" not in roles or "Nd" in node.op or len(roles) != len(given):
            return False
        for role, state, tensor in zip(roles, given, self._graph.inputs(node.name), strict=True):
            if role == "indices":
                if state != _ROWS:
                    return False
            elif (state is not None and (state != _VALUES or role not in ("grad", "updates"))) or (
                state is None and role in ("grad", "updates") and self._shape(tensor) != ()
            ):
                return False
        return True

    def _is_row_by_row(self, node: Node, given: list[str | None]) -> bool:
        """Return whether only padded operands have rows for the indices."""
        shape = node.output_shapes[0]
        if shape is None or not node.has_trait(CANNOT_FAIL):
            return False
        for state, tensor in zip(given, self._graph.inputs(node.name)):
            operand = self._shape(tensor)
            if operand is None or state not in (None, _VALUES):
                return False
            if len(operand) == len(shape):
                if state is None and operand[0] != 1:
                    return False
            elif state is not None:
                return False
        return True

    def _shape(self, tensor: Tensor) -> tuple[int | None, ...] | None:
        name, output = tensor
        shape: tuple[int | None, ...] | None = self._graph.node(name).output_shapes[output]
        return shape

    def is_summed(self, name: str, roots: Collection[str]) -> bool:
        """Return whether rows and values of a gradient may repeat.

        All users are padded roots, and sums of the values of each row.
        """
        graph, node = self._graph, self._graph.node(name)
        if node.output_dtypes[0].name not in _VALUE_TYPES:
            return False
        if any(tensor[0] == name for tensor in self._kept):
            return False
        uses = list(self._users(name))
        distinct = {user for user, output, _ in uses if output == 1}
        sums = {user for user, output, _ in uses if output == 0}
        return (
            bool(sums)
            and distinct <= set(roots)
            and all(
                graph.node(user).op == "UnsortedSegmentSum"
                and place == 0
                and graph.inputs(user)[1] in {(root, 1) for root in distinct}
                for user, output, place in uses
                if output == 0
            )
        )


def _shape_of(graph: DataflowGraph, node: Node, given: list[str | None]) -> str:
    return _SHAPE if given[0] in (_ROWS, _VALUES) else ""


def _size_of(graph: DataflowGraph, node: Node, given: list[str | None]) -> str:
    return _COUNT if given[0] == _ROWS else ""


def _first_size(graph: DataflowGraph, node: Node, given: list[str | None]) -> str:
    """Recognize `shape[0]`."""
    if given[0] != _SHAPE or any(given[1:]):
        return ""
    bounds = [constant_value(graph, *tensor) for tensor in graph.inputs(node.name)[1:]]
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask")
    if any(node.attrs.get(mask) for mask in masks) or node.attrs.get("shrink_axis_mask") != 1:
        return ""
    if any(bound is None or bound.shape != (1,) for bound in bounds):
        return ""
    first = [int(bound[0]) for bound in bounds if bound is not None]
    return _COUNT if first == [0, 1, 1] else ""


def _sum_of_rows(graph: DataflowGraph, node: Node, given: list[str | None]) -> str:
    return _VALUES if given == [None, _PLACES, _COUNT] else ""


_RULES: Final[dict[str, Callable[[DataflowGraph, Node, list[str | None]], str]]] = {
    "Shape": _shape_of,
    "Size": _size_of,
    "StridedSlice": _first_size,
    "UnsortedSegmentSum": _sum_of_rows,
}
"""States of output 0 by op type; "" where another rule decides."""
