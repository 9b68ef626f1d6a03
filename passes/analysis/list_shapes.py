"""What shape inference knows of tensor lists: the shape that a list accepts, that of the elements
put into it, and its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tfjit.framework.op_defs.op_traits import IDENTITY
from tfjit.framework.types import shape as shape_rules
from tfjit.framework.types.shape import Shape
from tfjit.passes.ir.dataflow_graph import Node

EMPTY: Final = "empty"

_JOINED: Final = frozenset({"AddN", "AddV2", "Add"})


@dataclass(frozen=True, slots=True)
class ListShape:
    """accepts: of every element, as the list was made. holds: of the elements put into it; EMPTY
    before the first. length: None is unknown. has_gaps: there may be elements that were never set;
    they read as zeros.
    """

    accepts: Shape = None
    holds: Shape | str = EMPTY
    length: int | None = None
    has_gaps: bool = False

    @property
    def element(self) -> Shape:
        """What an element has that was put into it."""
        if isinstance(self.holds, str):
            return self.accepts
        return (
            shape_rules.merge(self.accepts, self.holds)
            if shape_rules.is_compatible(self.accepts, self.holds)
            else None
        )

    def with_element(self, shape: Shape) -> ListShape:
        """After an element of that shape was put into it."""
        return replace(
            self,
            holds=shape if isinstance(self.holds, str) else shape_rules.relax(self.holds, shape),
        )

    def relax(self, other: ListShape | None) -> ListShape | None:
        """What holds of both."""
        if other is None:
            return None
        if isinstance(self.holds, str):
            holds = other.holds
        else:
            holds = (
                self.holds
                if isinstance(other.holds, str)
                else shape_rules.relax(self.holds, other.holds)
            )
        length = self.length if self.length == other.length else None
        return ListShape(
            shape_rules.relax(self.accepts, other.accepts),
            holds,
            length,
            self.has_gaps or other.has_gaps,
        )

    def read_as(self, asked: Shape, is_all_asked: bool) -> Shape:
        """The shape of an element that is read. asked: what the reader says of it; is_all_asked:
        that is all it will say at run time.

        A gap has the shape that list and reader say, and that of the others where these leave
        something open.
        """
        if not self.has_gaps:
            return self.element
        if not shape_rules.is_compatible(self.accepts, asked):
            return None
        gap = shape_rules.merge(self.accepts, asked)
        if gap is not None and None not in gap:
            return gap if isinstance(self.holds, str) else shape_rules.relax(self.holds, gap)
        return self.element if is_all_asked else None


def list_made(
    node: Node,
    lists: Sequence[ListShape | None],
    shapes: Sequence[Shape],
    as_shape: Callable[[int], Shape],
    as_number: Callable[[int], int | None],
) -> ListShape | None:
    """The list that output 0 of a node is; None where it is none, or nothing is known of it.

    lists, shapes: of the inputs. as_shape, as_number: an input read as a shape, or as a number.
    """
    op = node.op
    if op == "EmptyTensorList":
        return ListShape(as_shape(0), EMPTY, 0)
    if op == "TensorListReserve":
        return ListShape(as_shape(0), EMPTY, _length(as_number(1)), True)
    if op == "TensorListFromTensor":
        rows = shapes[0]
        if rows == ():
            return None  # an error of the run
        return ListShape(
            as_shape(1), None if rows is None else rows[1:], None if rows is None else rows[0]
        )
    first = lists[0] if lists else None
    if first is None:
        return None
    if op == "TensorListSetItem":
        grows = node.attrs.get("resize_if_index_out_of_bounds")
        return replace(
            first.with_element(shapes[2]),
            length=None if grows else first.length,
            has_gaps=first.has_gaps or bool(grows),
        )
    if op == "TensorListPushBack":
        return replace(
            first.with_element(shapes[1]), length=None if first.length is None else first.length + 1
        )
    if op == "TensorListPopBack":
        return replace(first, length=None if first.length is None else max(first.length - 1, 0))
    if op == "TensorListResize":
        return replace(first, length=_length(as_number(1)), has_gaps=True)
    if node.has_trait(IDENTITY) or op in ("ZerosLike", "TensorListPopBack"):
        return first  # the list goes through
    if op in _JOINED:
        found: ListShape | None = first
        for other in lists[1:]:
            found = found.relax(other) if found is not None else None
        return found
    return None


def _length(number: int | None) -> int | None:
    return number if number is not None and number >= 0 else None


def element_read(
    node: Node,
    found: ListShape,
    as_shape: Callable[[int], Shape],
    is_constant: Callable[[int], bool],
) -> dict[int, Shape]:
    """Shapes of the outputs of a node that follow from the list that is its first
    input, by slot.
    """
    if node.op == "TensorListGetItem":
        return {0: found.read_as(as_shape(2), is_constant(2))}
    if node.op == "TensorListPopBack":
        return {1: found.read_as(as_shape(1), is_constant(1))}
    if node.op == "TensorListStack" and found.element is not None:
        return {0: (found.length, *found.element)}  # gaps have the shape of the others
    return {}
