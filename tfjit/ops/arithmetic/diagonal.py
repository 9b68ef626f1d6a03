"""Read, set and build diagonals and bands of matrices."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, int_constant, int_list_constant
from tfjit.ops.core.type_lists import INDEX


def _band_part(c: ShapeContext) -> Shapes:
    return [c.with_rank_at_least(0, 2)]


def _diag(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    return [None if shape is None else (*shape, shape[-1])]


def _diag_part(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    if shape is None:
        return [None]
    rows, columns = shape[-2:]
    return [(*shape[:-2], None if rows is None or columns is None else min(rows, columns))]


def _set_diag(c: ShapeContext) -> Shapes:
    shape, diagonal = c.with_rank_at_least(0, 2), c.with_rank_at_least(1, 1)
    if shape is not None:
        rows, columns = shape[-2:]
        if rows is not None and columns is not None and diagonal is not None:
            c.merge_dim(diagonal[-1], min(rows, columns))
    outer: Shape = None
    if diagonal is not None:
        outer = c.merge(None if shape is None else shape[:-2], diagonal[:-1])
    if shape is None:
        return [None if outer is None else (*outer, None, None)]
    return [(*(outer if outer is not None else shape[:-2]), *shape[-2:])]


def _band(c: ShapeContext, index: int) -> tuple[int, int] | None:
    """Return (lowest, highest) diagonal, where the input for them is known."""
    values = int_list_constant(c, index)
    if values is None:
        return None
    if len(values) not in (1, 2):
        raise fail(f"diag_index must have one or two elements, received {len(values)} elements.")
    if values[0] > values[-1]:
        raise fail("lower_diag_index is greater than upper_diag_index")
    return values[0], values[-1]


def _diag_part_band(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    c.with_rank_at_most(1, 1)
    c.with_rank(2, 0)
    band = _band(c, 1)
    if shape is None or band is None:
        return [None]
    low, high = band
    rows, columns = shape[-2:]
    width = None
    if rows is not None and columns is not None:
        for index in band:
            if not (-rows < index < columns or index == 0):
                name = "lower_diag_index" if index == low else "upper_diag_index"
                raise fail(
                    f"{name} {index} is out of bound. It must be between {-rows} and {columns}"
                )
        width = min(rows + min(high, 0), columns - max(low, 0))
    return [(*shape[:-2], width) if low == high else (*shape[:-2], high - low + 1, width)]


def _diag_band(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    c.with_rank_at_most(1, 1)
    for i in (2, 3, 4):
        c.with_rank(i, 0)
    band = _band(c, 1)
    if shape is None or band is None:
        return [None]
    low, high = band
    if low < high:
        c.with_rank_at_least(shape, 2)
        if shape[-2] is not None and shape[-2] != high - low + 1:
            raise fail(
                "The number of diagonals provided in the input does not match the lower_diag_index "
                "and upper_diag_index range."
            )
    outer = shape[:-1] if low == high else shape[:-2]
    rows, columns = int_constant(c, 2), int_constant(c, 3)
    width = shape[-1]
    if width is None or rows is None or columns is None:
        return [
            (
                *outer,
                None if rows is None or rows == -1 else rows,
                None if columns is None or columns == -1 else columns,
            )
        ]
    least_rows, least_columns = width - min(high, 0), width + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows:
        raise fail(f"Number of rows is too small: {rows}, at least {least_rows} are needed")
    if columns < least_columns:
        raise fail(
            f"Number of columns is too small: {columns}, at least {least_columns} are needed"
        )
    if rows != least_rows and columns != least_columns:
        raise fail(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, "
            "and diagonal."
        )
    return [(*outer, rows, columns)]


def _set_diag_band(c: ShapeContext) -> Shapes:
    shape, diagonal = c.with_rank_at_least(0, 2), c.with_rank_at_least(1, 1)
    c.with_rank_at_most(2, 1)
    band = _band(c, 2)
    if shape is None or band is None or diagonal is None:
        return [shape]
    low, high = band
    outer = diagonal[:-1] if low == high else diagonal[:-2]
    return [(*(c.merge(shape[:-2], outer) or ()), *shape[-2:])]


register_op(
    "BatchMatrixBandPart",
    inputs=("input: T", "num_lower: int64", "num_upper: int64"),
    outputs=("band: T",),
    attrs=("T: type",),
    deprecated=(14, "Use MatrixBandPart"),
    shape=_band_part,
)
register_op(
    "BatchMatrixDiag",
    inputs=("diagonal: T",),
    outputs=("output: T",),
    attrs=("T: type",),
    deprecated=(14, "Use MatrixDiag"),
    shape=_diag,
)
register_op(
    "BatchMatrixDiagPart",
    inputs=("input: T",),
    outputs=("diagonal: T",),
    attrs=("T: type",),
    deprecated=(14, "Use MatrixDiagPart"),
    shape=_diag_part,
)
register_op(
    "BatchMatrixSetDiag",
    inputs=("input: T", "diagonal: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    deprecated=(14, "Use MatrixSetDiag"),
    shape=_set_diag,
)
register_op(
    "MatrixBandPart",
    inputs=("input: T", "num_lower: Tindex", "num_upper: Tindex"),
    outputs=("band: T",),
    attrs=("T: type", f"Tindex: {INDEX} = DT_INT64"),
    shape=_band_part,
)
register_op(
    "MatrixDiag", inputs=("diagonal: T",), outputs=("output: T",), attrs=("T: type",), shape=_diag
)
register_op(
    "MatrixDiagPart",
    inputs=("input: T",),
    outputs=("diagonal: T",),
    attrs=("T: type",),
    shape=_diag_part,
)
register_op(
    "MatrixDiagPartV2",
    inputs=("input: T", "k: int32", "padding_value: T"),
    outputs=("diagonal: T",),
    attrs=("T: type",),
    shape=_diag_part_band,
)
register_op(
    "MatrixDiagPartV3",
    inputs=("input: T", "k: int32", "padding_value: T"),
    outputs=("diagonal: T",),
    attrs=(
        "T: type",
        "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'",
    ),
    shape=_diag_part_band,
)
register_op(
    "MatrixDiagV2",
    inputs=("diagonal: T", "k: int32", "num_rows: int32", "num_cols: int32", "padding_value: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=_diag_band,
)
register_op(
    "MatrixDiagV3",
    inputs=("diagonal: T", "k: int32", "num_rows: int32", "num_cols: int32", "padding_value: T"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'",
    ),
    shape=_diag_band,
)
register_op(
    "MatrixSetDiag",
    inputs=("input: T", "diagonal: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=_set_diag,
)
register_op(
    "MatrixSetDiagV2",
    inputs=("input: T", "diagonal: T", "k: int32"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=_set_diag_band,
)
register_op(
    "MatrixSetDiagV3",
    inputs=("input: T", "diagonal: T", "k: int32"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'",
    ),
    shape=_set_diag_band,
)
