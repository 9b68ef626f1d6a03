"""Declare reads and writes of rows at a dynamic position."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes


def _row(c: ShapeContext) -> Shapes:
    rows = c.inputs[0]
    return [None if rows is None else rows[1:]]


def _rows(c: ShapeContext) -> Shapes:
    return [c.inputs[0]]


# Lists and tensor arrays of known size become these ops while a plan is made. message: the error
# for a bad index, with {detail} in place of the index.
register_op(
    "_GetRow",
    inputs=("rows: T", "index: int32"),
    outputs=("row: T",),
    attrs=("T: type", "message: string"),
    shape=_row,
)
register_op(
    "_SetRow",
    inputs=("rows: T", "index: int32", "row: T"),
    outputs=("output: T",),
    attrs=("T: type", "message: string"),
    shape=_rows,
)
