"""Declare sparse tensors."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import SIZED_BY_VALUES
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, scalar
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.sparse import sparse_shapes as shapes


def vector(c: ShapeContext) -> Shapes:
    """Infer a vector of unknown length."""
    return [(None,)]


def three(c: ShapeContext) -> Shapes:
    """Infer indices, values and dense shape as three strings."""
    c.with_rank(0, 2)
    c.with_rank(1, 1)
    c.with_rank(2, 1)
    return [(3,)]


def rows_of_three(c: ShapeContext) -> Shapes:
    """Infer a row of three strings for each sparse tensor."""
    c.with_rank(0, 2)
    c.with_rank(1, 1)
    c.with_rank(2, 1)
    return [(None, 3)]


register_op(
    "AddManySparseToTensorsMap",
    inputs=("sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"),
    outputs=("sparse_handles: int64",),
    attrs=("T: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=vector,
)
register_op(
    "AddSparseToTensorsMap",
    inputs=("sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"),
    outputs=("sparse_handle: int64",),
    attrs=("T: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=scalar,
)
register_op(
    "DenseCountSparseOutput",
    inputs=("values: T", "weights: output_type"),
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
    "DeserializeManySparse",
    inputs=("serialized_sparse: string",),
    outputs=("sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"),
    attrs=("dtype: type",),
    shape=shapes.any_sparse,
)
register_op(
    "DeserializeSparse",
    inputs=("serialized_sparse: Tserialized",),
    outputs=("sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"),
    attrs=("dtype: type", "Tserialized: {string, variant} = DT_STRING"),
)
register_op(
    "SerializeManySparse",
    inputs=("sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"),
    outputs=("serialized_sparse: out_type",),
    attrs=("T: type", "out_type: {string, variant} = DT_STRING"),
    shape=rows_of_three,
)
register_op(
    "SerializeSparse",
    inputs=("sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"),
    outputs=("serialized_sparse: out_type",),
    attrs=("T: type", "out_type: {string, variant} = DT_STRING"),
    shape=three,
)
register_op(
    "SparseBincount",
    inputs=("indices: int64", "values: Tidx", "dense_shape: int64", "size: Tidx", "weights: T"),
    outputs=("output: T",),
    attrs=(f"Tidx: {INDEX}", "T: {int32, int64, float, double}", "binary_output: bool = false"),
)
register_op(
    "SparseConcat",
    inputs=("indices: N * int64", "values: N * T", "shapes: N * int64"),
    outputs=("output_indices: int64", "output_values: T", "output_shape: int64"),
    attrs=("concat_dim: int", "N: int >= 2", "T: type"),
    shape=shapes.concatenated,
)
register_op(
    "SparseCountSparseOutput",
    inputs=("indices: int64", "values: T", "dense_shape: int64", "weights: output_type"),
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
    "SparseFillEmptyRows",
    inputs=("indices: int64", "values: T", "dense_shape: int64", "default_value: T"),
    outputs=(
        "output_indices: int64",
        "output_values: T",
        "empty_row_indicator: bool",
        "reverse_index_map: int64",
    ),
    attrs=("T: type",),
    shape=shapes.filled,
    traits=SIZED_BY_VALUES,
)
register_op(
    "SparseFillEmptyRowsGrad",
    inputs=("reverse_index_map: int64", "grad_values: T"),
    outputs=("d_values: T", "d_default_value: T"),
    attrs=("T: type",),
    shape=shapes.fill_gradient,
)
register_op(
    "SparseReorder",
    inputs=("input_indices: int64", "input_values: T", "input_shape: int64"),
    outputs=("output_indices: int64", "output_values: T"),
    attrs=("T: type",),
    shape=shapes.reordered,
)
register_op(
    "SparseReshape",
    inputs=("input_indices: int64", "input_shape: int64", "new_shape: int64"),
    outputs=("output_indices: int64", "output_shape: int64"),
    shape=shapes.reshaped,
)
register_op(
    "SparseSlice",
    inputs=("indices: int64", "values: T", "shape: int64", "start: int64", "size: int64"),
    outputs=("output_indices: int64", "output_values: T", "output_shape: int64"),
    attrs=("T: type",),
    shape=shapes.sliced,
    traits=SIZED_BY_VALUES,
)
register_op(
    "SparseSliceGrad",
    inputs=(
        "backprop_val_grad: T",
        "input_indices: int64",
        "input_start: int64",
        "output_indices: int64",
    ),
    outputs=("val_grad: T",),
    attrs=("T: numbertype",),
    shape=shapes.slice_gradient,
)
register_op(
    "SparseSplit",
    inputs=("split_dim: int64", "indices: int64", "values: T", "shape: int64"),
    outputs=(
        "output_indices: num_split * int64",
        "output_values: num_split * T",
        "output_shape: num_split * int64",
    ),
    attrs=("num_split: int >= 1", "T: type"),
    shape=shapes.split,
)
register_op(
    "SparseToDense",
    inputs=(
        "sparse_indices: Tindices",
        "output_shape: Tindices",
        "sparse_values: T",
        "default_value: T",
    ),
    outputs=("dense: T",),
    attrs=("validate_indices: bool = true", "T: type", f"Tindices: {INDEX}"),
    shape=shapes.to_dense,
)
register_op(
    "TakeManySparseFromTensorsMap",
    inputs=("sparse_handles: int64",),
    outputs=("sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"),
    attrs=("dtype: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=shapes.any_sparse,
)
