"""Represent the shapes of tensor lists during shape inference.

A list has an accepted element shape, the shape of the elements put into the list, and a length.
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
    """The static shape of a tensor list.

    accepts: element shape that the list was created with. holds: shape of the elements put into the
    list; EMPTY before the first. length: None is unknown. has_gaps: some elements may never have
    been set; these read as zeros.
    """

    accepts: Shape = None
    holds: Shape | str = EMPTY
    length: int | None = None
    has_gaps: bool = False

    @property
    def element(self) -> Shape:
        """Return the shape of an element that was put into the list."""
        if isinstance(self.holds, str):
            return self.accepts
        return (
            shape_rules.merge(self.accepts, self.holds)
            if shape_rules.is_compatible(self.accepts, self.holds)
            else None
        )

    def with_element(self, shape: Shape) -> ListShape:
        """Return the list with one more element of that shape set."""
        return replace(
            self,
            holds=shape if isinstance(self.holds, str) else shape_rules.relax(self.holds, shape),
        )

    def relax(self, other: ListShape | None) -> ListShape | None:
        """Return the facts that hold for both lists."""
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
        """Return the shape of an element that is read.

        asked: the element shape that the reader requests. is_all_asked: the reader requests no more
        than that at run time.

        A gap has the shape that the list and the reader give together. Where these leave a
        dimension open, the gap has the shape of the other elements.
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
    """Return the list that output 0 of a node is.

    None where the output is no list, or nothing is known about the list. lists, shapes: of the
    inputs. as_shape, as_number: read an input as a shape, or as a number.
    """
    op = node.op
    if op == "EmptyTensorList":
        return ListShape(as_shape(0), EMPTY, 0)
    if op == "TensorListReserve":
        return ListShape(as_shape(0), EMPTY, _length(as_number(1)), True)
    if op == "TensorListFromTensor":
        rows = shapes[0]
        if rows == ():
            return None  # an error at run time
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
        return first  # the same list is passed on
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
    """Return the output shapes that follow from the input list, in order."""
    if node.op == "TensorListGetItem":
        return {0: found.read_as(as_shape(2), is_constant(2))}
    if node.op == "TensorListPopBack":
        return {1: found.read_as(as_shape(1), is_constant(1))}
    if node.op == "TensorListStack" and found.element is not None:
        return {0: (found.length, *found.element)}  # gaps have the shape of the other elements
    return {}
