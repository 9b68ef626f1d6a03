"""Declare operations on sets, which are the last axis of tensors."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.op_traits import SIZED_BY_VALUES
from tfjit.ops.core.declare import register_op
from tfjit.ops.sparse import sparse_shapes as shapes

_MEMBER: Final = "T: {int8, int16, int32, int64, uint8, uint16, string}"

register_op(
    "DenseToDenseSetOperation",
    inputs=("set1: T", "set2: T"),
    outputs=("result_indices: int64", "result_values: T", "result_shape: int64"),
    attrs=(
        "set_operation: string",
        "validate_indices: bool = true",
        _MEMBER,
    ),
    shape=shapes.set_operation,
    traits=SIZED_BY_VALUES,
)
register_op(
    "DenseToSparseSetOperation",
    inputs=("set1: T", "set2_indices: int64", "set2_values: T", "set2_shape: int64"),
    outputs=("result_indices: int64", "result_values: T", "result_shape: int64"),
    attrs=(
        "set_operation: string",
        "validate_indices: bool = true",
        _MEMBER,
    ),
    shape=shapes.set_operation,
    traits=SIZED_BY_VALUES,
)
register_op(
    "SetSize",
    inputs=("set_indices: int64", "set_values: T", "set_shape: int64"),
    outputs=("size: int32",),
    attrs=(
        "validate_indices: bool = true",
        _MEMBER,
    ),
)
register_op(
    "SparseToSparseSetOperation",
    inputs=(
        "set1_indices: int64",
        "set1_values: T",
        "set1_shape: int64",
        "set2_indices: int64",
        "set2_values: T",
        "set2_shape: int64",
    ),
    outputs=("result_indices: int64", "result_values: T", "result_shape: int64"),
    attrs=(
        "set_operation: string",
        "validate_indices: bool = true",
        _MEMBER,
    ),
    shape=shapes.set_operation,
    traits=SIZED_BY_VALUES,
)
