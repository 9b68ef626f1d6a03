"""Compute ragged tensors in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.sparse.sparse import fill_empty_rows_grad, filled_rows, refused
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]


@reference("RaggedFillEmptyRows")
def _ragged_fill_empty_rows(node: NodeSpec, inputs: Arrays) -> Arrays:
    rows, values, wanted, default = (np.asarray(v) for v in inputs)
    if rows.ndim != 1:
        raise refused(f"value_rowids must be a vector, saw: {format_shape(rows.shape)}")
    if values.ndim != 1:
        raise refused(f"values must be a vector, saw: {format_shape(values.shape)}")
    if len(rows) != len(values):
        raise refused(
            f"The length of `values` ({len(values)}) must match the first dimension of "
            f"`value_rowids` ({len(rows)})."
        )
    if wanted.ndim:
        raise refused(f"nrows must be a scalar, saw: {format_shape(wanted.shape)}")
    if default.ndim:
        raise refused(f"default_value must be a scalar, saw: {format_shape(default.shape)}")
    count = int(wanted)
    if count == 0:
        if len(rows):
            raise refused(
                f"Received RaggedTensor with nrows = 0 but value_rowids.shape[0] = {len(rows)}"
            )
        return rows.copy(), values.copy(), np.zeros(0, np.bool_), np.zeros(0, np.int64)
    for k in np.flatnonzero((rows < 0) | (rows >= count))[:1]:
        raise refused(
            f"value_rowids({k}) is invalid: {rows[k]} {'< 0' if rows[k] < 0 else f'>= {count}'}"
        )
    place, empty, new = filled_rows(rows, count)
    out, filled = (
        np.empty(len(rows) + len(new), np.int64),
        np.empty(len(rows) + len(new), values.dtype),
    )
    out[place], filled[place] = rows, values
    out[new], filled[new] = np.flatnonzero(empty), default[()]
    return out, filled, empty, place


@reference("RaggedFillEmptyRowsGrad")
def _ragged_fill_empty_rows_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    return fill_empty_rows_grad(node, inputs)
