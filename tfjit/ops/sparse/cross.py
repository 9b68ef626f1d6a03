"""Declare crosses of the rows of feature columns."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.sparse import sparse_shapes as shapes

_INPUTS = (
    "indices: N * int64",
    "values: sparse_types",
    "shapes: N * int64",
    "dense_inputs: dense_types",
)
_TYPES = (
    "N: int >= 0",
    "sparse_types: list({int64, string}) >= 0",
    "dense_types: list({int64, string}) >= 0",
)
register_op(
    "RaggedCross",
    inputs=(
        "ragged_values: ragged_values_types",
        "ragged_row_splits: ragged_splits_types",
        "sparse_indices: Nsparse * int64",
        "sparse_values: sparse_values_types",
        "sparse_shape: Nsparse * int64",
        "dense_inputs: dense_types",
    ),
    outputs=("output_values: out_values_type", "output_row_splits: out_row_splits_type"),
    attrs=(
        "Nsparse: int >= 0",
        "input_order: string",
        "hashed_output: bool",
        "num_buckets: int >= 0",
        "hash_key: int",
        "ragged_values_types: list({int64, string}) >= 0",
        f"ragged_splits_types: list({INDEX}) >= 0",
        "sparse_values_types: list({int64, string}) >= 0",
        "dense_types: list({int64, string}) >= 0",
        "out_values_type: {int64, string}",
        f"out_row_splits_type: {INDEX}",
    ),
    shape=shapes.ragged_crossed,
)
register_op(
    "SparseCross",
    inputs=_INPUTS,
    outputs=("output_indices: int64", "output_values: out_type", "output_shape: int64"),
    attrs=(
        "N: int >= 0",
        "hashed_output: bool",
        "num_buckets: int >= 0",
        "hash_key: int",
        *_TYPES[1:],
        "out_type: {int64, string}",
        "internal_type: {int64, string}",
    ),
    shape=shapes.sparse_matrix,
)
register_op(
    "SparseCrossHashed",
    inputs=(*_INPUTS, "num_buckets: int64", "strong_hash: bool", "salt: int64"),
    outputs=("output_indices: int64", "output_values: int64", "output_shape: int64"),
    attrs=_TYPES,
    shape=shapes.sparse_matrix,
)
register_op(
    "SparseCrossV2",
    inputs=(*_INPUTS, "sep: string"),
    outputs=("output_indices: int64", "output_values: string", "output_shape: int64"),
    attrs=_TYPES,
    shape=shapes.sparse_matrix,
)
