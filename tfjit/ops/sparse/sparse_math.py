"""Declare arithmetic, reductions and products of sparse tensors."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import SIZED_BY_VALUES
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import same_as_input
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.sparse import sparse_shapes as shapes

register_op(
    "SparseAdd",
    inputs=(
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
        "thresh: Treal",
    ),
    outputs=("sum_indices: int64", "sum_values: T", "sum_shape: int64"),
    attrs=("T: numbertype", "Treal: realnumbertype"),
    shape=shapes.added,
    traits=SIZED_BY_VALUES,
)
register_op(
    "SparseAddGrad",
    inputs=("backprop_val_grad: T", "a_indices: int64", "b_indices: int64", "sum_indices: int64"),
    outputs=("a_val_grad: T", "b_val_grad: T"),
    attrs=("T: numbertype",),
    shape=shapes.sum_gradient,
)
for _op_type in ("SparseDenseCwiseAdd", "SparseDenseCwiseDiv", "SparseDenseCwiseMul"):
    register_op(
        _op_type,
        inputs=("sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"),
        outputs=("output: T",),
        attrs=("T: numbertype",),
        shape=shapes.values_alone,
    )
register_op(
    "SparseMatMul",
    inputs=("a: Ta", "b: Tb"),
    outputs=("product: float",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "a_is_sparse: bool = false",
        "b_is_sparse: bool = false",
        "Ta: {float, bfloat16} = DT_FLOAT",
        "Tb: {float, bfloat16} = DT_FLOAT",
    ),
    shape=shapes.product_of_dense,
)
register_op(
    "SparseReduceMax",
    inputs=(
        "input_indices: int64",
        "input_values: T",
        "input_shape: int64",
        "reduction_axes: int32",
    ),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: realnumbertype"),
    shape=shapes.reduced,
)
register_op(
    "SparseReduceMaxSparse",
    inputs=(
        "input_indices: int64",
        "input_values: T",
        "input_shape: int64",
        "reduction_axes: int32",
    ),
    outputs=("output_indices: int64", "output_values: T", "output_shape: int64"),
    attrs=("keep_dims: bool = false", "T: realnumbertype"),
    traits=SIZED_BY_VALUES,
)
register_op(
    "SparseReduceSum",
    inputs=(
        "input_indices: int64",
        "input_values: T",
        "input_shape: int64",
        "reduction_axes: int32",
    ),
    outputs=("output: T",),
    attrs=("keep_dims: bool = false", "T: numbertype"),
    shape=shapes.reduced,
)
register_op(
    "SparseReduceSumSparse",
    inputs=(
        "input_indices: int64",
        "input_values: T",
        "input_shape: int64",
        "reduction_axes: int32",
    ),
    outputs=("output_indices: int64", "output_values: T", "output_shape: int64"),
    attrs=("keep_dims: bool = false", "T: numbertype"),
    traits=SIZED_BY_VALUES,
)
register_op(
    "SparseSoftmax",
    inputs=("sp_indices: int64", "sp_values: T", "sp_shape: int64"),
    outputs=("output: T",),
    attrs=("T: {half, float, double}",),
    shape=shapes.softmax,
)
register_op(
    "SparseSparseMaximum",
    inputs=(
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
    ),
    outputs=("output_indices: int64", "output_values: T"),
    attrs=("T: realnumbertype",),
    shape=shapes.extremes,
    traits=SIZED_BY_VALUES,
)
register_op(
    "SparseSparseMinimum",
    inputs=(
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
    ),
    outputs=("output_indices: int64", "output_values: T"),
    attrs=("T: numbertype",),
    shape=shapes.extremes,
    traits=SIZED_BY_VALUES,
)
register_op(
    "SparseTensorDenseAdd",
    inputs=("a_indices: Tindices", "a_values: T", "a_shape: Tindices", "b: T"),
    outputs=("output: T",),
    attrs=("T: numbertype", f"Tindices: {INDEX}"),
    shape=same_as_input(3),
)
register_op(
    "SparseTensorDenseMatMul",
    inputs=("a_indices: Tindices", "a_values: T", "a_shape: int64", "b: T"),
    outputs=("product: T",),
    attrs=(
        "T: type",
        f"Tindices: {INDEX} = DT_INT64",
        "adjoint_a: bool = false",
        "adjoint_b: bool = false",
    ),
    shape=shapes.dense_product,
)
