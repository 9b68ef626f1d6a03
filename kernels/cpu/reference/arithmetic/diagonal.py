"""Compute diagonals and bands of matrices in NumPy, one or a batch."""

from __future__ import annotations

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference


@reference("MatrixBandPart", "BatchMatrixBandPart")
def _band_part(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, lower, upper = inputs
    if x.ndim < 2:
        invalid(f"input must be at least 2-dim, received shape: {shape_text(x)}")
    rows, columns = x.shape[-2:]
    below, above = int(lower), int(upper)
    if not below <= rows:
        invalid(
            f"num_lower must be negative or less or equal to number of rows ({rows}) got: {below}"
        )
    if not above <= columns:
        invalid(
            f"num_upper must be negative or less or equal to number of columns ({columns}) got: "
            f"{above}"
        )
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    inside = ((below < 0) | (i - j <= below)) & ((above < 0) | (j - i <= above))
    return (np.where(inside, x, np.zeros((), x.dtype)),)


def _bounds(k: np.ndarray) -> tuple[int, int]:
    """Return (lowest, highest) diagonal of a scalar or pair.

    Raises InvalidArgumentError for a pair out of order.
    """
    if k.ndim > 1 or k.size not in (1, 2):
        invalid(f"diag_index must have one or two elements, received {k.size} elements.")
    low, high = int(k.reshape(-1)[0]), int(k.reshape(-1)[-1])
    if low > high:
        invalid(f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}")
    return low, high


def _starts_right(node: NodeSpec, diagonal: int) -> bool:
    """Return whether a short diagonal is aligned right in its packed row."""
    align = node.attrs.get("align", b"LEFT_LEFT")
    above, below = align.split(b"_")
    return (above if diagonal >= 0 else below) == b"RIGHT"


def _place(node: NodeSpec, diagonal: int, rows: int, columns: int, width: int) -> tuple[int, int]:
    """Return (length of a diagonal, its start in the packed row)."""
    length = max(0, min(rows + min(diagonal, 0), columns - max(diagonal, 0)))
    return length, width - length if _starts_right(node, diagonal) else 0


def _check_range(low: int, high: int, rows: int, columns: int) -> None:
    for name, index in (("lower_diag_index", low), ("upper_diag_index", high)):
        if not (-rows < index < columns or index == 0):
            invalid(f"{name} is out of bound: {index}. It must be between {-rows} and {columns}")


@reference("MatrixDiagPart", "BatchMatrixDiagPart")
def _diag_part(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim < 2:
        invalid(f"input must be at least 2-dim, received shape: {shape_text(x)}")
    return (np.diagonal(x, axis1=-2, axis2=-1).copy(),)


@reference("MatrixDiagPartV2", "MatrixDiagPartV3")
def _diag_part_band(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, k, padding = inputs
    if x.ndim < 2:
        invalid(f"input must be at least 2-dim, received shape: {shape_text(x)}")
    low, high = _bounds(k)
    rows, columns = x.shape[-2:]
    _check_range(low, high, rows, columns)
    width = min(rows + min(high, 0), columns - max(low, 0))
    out = np.full(
        (*x.shape[:-2], high - low + 1, width),
        padding.reshape(-1)[0] if padding.size else 0,
        x.dtype,
    )
    for d in range(high, low - 1, -1):
        length, start = _place(node, d, rows, columns, width)
        out[..., high - d, start : start + length] = np.diagonal(x, d, -2, -1)
    return (out.reshape(*x.shape[:-2], width) if low == high else out,)


def _write_band(node: NodeSpec, matrix: np.ndarray, bands: np.ndarray, low: int, high: int) -> None:
    rows, columns = matrix.shape[-2:]
    width = bands.shape[-1]
    for d in range(high, low - 1, -1):
        length, start = _place(node, d, rows, columns, width)
        at = np.arange(length)
        matrix[..., at + max(-d, 0), at + max(d, 0)] = bands[..., high - d, start : start + length]


@reference("MatrixDiag", "BatchMatrixDiag")
def _diag(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim < 1:
        invalid(f"diagonal must be at least 1-dim, received shape: {shape_text(x)}")
    out = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    at = np.arange(x.shape[-1])
    out[..., at, at] = x
    return (out,)


@reference("MatrixDiagV2", "MatrixDiagV3")
def _diag_band(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, k, rows_input, columns_input, padding = inputs
    low, high = _bounds(k)
    if x.ndim < 1:
        invalid(f"diagonal must be at least 1-dim, received shape: {shape_text(x)}")
    bands = x if high > low else x[..., None, :]
    if high > low and bands.shape[-2] != high - low + 1:
        invalid(
            "The number of diagonals provided in the input does not match the lower_diag_index and "
            "upper_diag_index range."
        )
    width = bands.shape[-1]
    least_rows, least_columns = width - min(high, 0), width + max(low, 0)
    rows, columns = int(rows_input.reshape(-1)[0]), int(columns_input.reshape(-1)[0])
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows:
        invalid("The number of rows is too small.")
    if columns < least_columns:
        invalid("The number of columns is too small.")
    if rows != least_rows and columns != least_columns:
        invalid(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, "
            "and diagonal."
        )
    out = np.full(
        (*bands.shape[:-2], rows, columns), padding.reshape(-1)[0] if padding.size else 0, x.dtype
    )
    _write_band(node, out, bands, low, high)
    return (out,)


@reference("MatrixSetDiag", "BatchMatrixSetDiag")
def _set_diag(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, diagonal = inputs
    if x.ndim < 2:
        invalid(f"input must be at least 2-dim, received shape: {shape_text(x)}")
    if diagonal.shape != (*x.shape[:-2], min(x.shape[-2:])):
        invalid(
            "must have diagonal.shape == input.shape[:-2] + min(input.shape[-2:]), but received "
            f"{shape_text(x)} and {shape_text(diagonal)}"
        )
    out = x.copy()
    at = np.arange(diagonal.shape[-1])
    out[..., at, at] = diagonal
    return (out,)


@reference("MatrixSetDiagV2", "MatrixSetDiagV3")
def _set_diag_band(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, diagonal, k = inputs
    low, high = _bounds(k)
    if x.ndim < 2:
        invalid(f"input must be at least 2-dim, received shape: {shape_text(x)}")
    _check_range(low, high, x.shape[-2], x.shape[-1])
    width = min(x.shape[-2] + min(high, 0), x.shape[-1] - max(low, 0))
    bands = diagonal if high > low else diagonal[..., None, :]
    if bands.shape != (*x.shape[:-2], high - low + 1, width):
        invalid(
            "Either first dimensions of diagonal don't match input.shape[:-2], or "
            "diagonal.shape[:-1] is not equal to the "
            "longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: "
            f"{shape_text(x)}\n"
            f"Diagonal shape: {shape_text(diagonal)}"
        )
    out = x.copy()
    _write_band(node, out, bands, low, high)
    return (out,)
