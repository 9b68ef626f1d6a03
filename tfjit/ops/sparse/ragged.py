"""Declare ragged tensors."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.sparse import sparse_shapes as shapes

register_op(
    "RaggedBincount",
    inputs=("splits: int64", "values: Tidx", "size: Tidx", "weights: T"),
    outputs=("output: T",),
    attrs=(f"Tidx: {INDEX}", "T: {int32, int64, float, double}", "binary_output: bool = false"),
)
register_op(
    "RaggedCountSparseOutput",
    inputs=("splits: int64", "values: T", "weights: output_type"),
    outputs=("output_indices: int64", "output_values: output_type", "output_dense_shape: int64"),
    attrs=(
        f"T: {INDEX}",
        "minlength: int >= -1 = -1",
        "maxlength: int >= -1 = -1",
        "binary_output: bool",
        "output_type: {int32, int64, float, double}",
    ),
)
register_op(
    "RaggedFillEmptyRows",
    inputs=("value_rowids: int64", "values: T", "nrows: int64", "default_value: T"),
    outputs=(
        "output_value_rowids: int64",
        "output_values: T",
        "empty_row_indicator: bool",
        "reverse_index_map: int64",
    ),
    attrs=("T: type",),
    shape=shapes.ragged_filled,
)
register_op(
    "RaggedFillEmptyRowsGrad",
    inputs=("reverse_index_map: int64", "grad_values: T"),
    outputs=("d_values: T", "d_default_value: T"),
    attrs=("T: type",),
    shape=shapes.fill_gradient,
)
register_op(
    "RaggedGather",
    inputs=(
        "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits",
        "params_dense_values: Tvalues",
        "indices: Tindices",
    ),
    outputs=("output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits", "output_dense_values: Tvalues"),
    attrs=(
        "Tvalues: type",
        f"Tindices: {INDEX}",
        f"Tsplits: {INDEX} = DT_INT64",
        "PARAMS_RAGGED_RANK: int >= 1",
        "OUTPUT_RAGGED_RANK: int >= 0",
    ),
    shape=shapes.ragged_gathered,
)
register_op(
    "RaggedRange",
    inputs=("starts: T", "limits: T", "deltas: T"),
    outputs=("rt_nested_splits: Tsplits", "rt_dense_values: T"),
    attrs=("T: {bfloat16, float, double, int32, int64} = DT_INT32", f"Tsplits: {INDEX} = DT_INT64"),
    shape=shapes.ragged_range,
)
register_op(
    "RaggedTensorFromVariant",
    inputs=("encoded_ragged: variant",),
    outputs=("output_nested_splits: output_ragged_rank * Tsplits", "output_dense_values: Tvalues"),
    attrs=(
        "input_ragged_rank: int >= -1",
        "output_ragged_rank: int >= 0",
        "Tvalues: type",
        f"Tsplits: {INDEX} = DT_INT64",
    ),
    shape=shapes.variants_as_ragged,
)
register_op(
    "RaggedTensorToSparse",
    inputs=("rt_nested_splits: RAGGED_RANK * Tsplits", "rt_dense_values: T"),
    outputs=("sparse_indices: int64", "sparse_values: T", "sparse_dense_shape: int64"),
    attrs=("RAGGED_RANK: int >= 1", "T: type", f"Tsplits: {INDEX} = DT_INT64"),
    shape=shapes.ragged_as_sparse,
)
register_op(
    "RaggedTensorToTensor",
    inputs=(
        "shape: Tshape",
        "values: T",
        "default_value: T",
        "row_partition_tensors: num_row_partition_tensors * Tindex",
    ),
    outputs=("result: T",),
    attrs=(
        "T: type",
        "Tindex: {int64, int32}",
        "Tshape: {int64, int32}",
        "num_row_partition_tensors: int >= 1",
        "row_partition_types: list(string)",
    ),
    shape=shapes.ragged_as_dense,
)
register_op(
    "RaggedTensorToVariant",
    inputs=("rt_nested_splits: RAGGED_RANK * Tsplits", "rt_dense_values: Tvalues"),
    outputs=("encoded_ragged: variant",),
    attrs=(
        "RAGGED_RANK: int >= 0",
        "Tvalues: type",
        f"Tsplits: {INDEX} = DT_INT64",
        "batched_input: bool",
    ),
    shape=shapes.ragged_as_variants,
)
register_op(
    "RaggedTensorToVariantGradient",
    inputs=("encoded_ragged_grad: variant", "row_splits: Tsplits", "dense_values_shape: int32"),
    outputs=("dense_values_grad: Tvalues",),
    attrs=("Tvalues: type", f"Tsplits: {INDEX} = DT_INT64"),
    shape=shapes.variant_gradient,
)
