"""`tfjit.sparse`: functions of sparse tensors, with TensorFlow 1's names and argument names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit import ops
from tfjit.client.composites.sparse_batches import eye, reduce_max_sparse, reduce_sum_sparse
from tfjit.client.data.accumulators import SparseConditionalAccumulator
from tfjit.client.data.sparse_merging import merged
from tfjit.client.data.sparse_tensors import SparseTensor, SparseTensorValue, sparse_placeholder
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arithmetic.segment import sparse_segment_mean as segment_mean
from tfjit.ops.arithmetic.segment import sparse_segment_sqrt_n as segment_sqrt_n
from tfjit.ops.arithmetic.segment import sparse_segment_sum as segment_sum
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, ShapeLike, TensorLike

__all__ = [
    "SparseConditionalAccumulator",
    "SparseTensor",
    "SparseTensorValue",
    "add",
    "concat",
    "expand_dims",
    "eye",
    "fill_empty_rows",
    "from_dense",
    "mask",
    "matmul",
    "maximum",
    "merge",
    "minimum",
    "placeholder",
    "reduce_max",
    "reduce_max_sparse",
    "reduce_sum",
    "reduce_sum_sparse",
    "reorder",
    "reset_shape",
    "reshape",
    "retain",
    "segment_mean",
    "segment_sqrt_n",
    "segment_sum",
    "slice",
    "softmax",
    "sparse_dense_matmul",
    "split",
    "to_dense",
    "to_indicator",
    "transpose",
]

placeholder = sparse_placeholder


def _sparse(value: TensorLike) -> SparseTensor:
    """Return a SparseTensor. Raises TypeError for other values."""
    if not isinstance(value, (SparseTensor, SparseTensorValue)):
        raise TypeError(f"Input must be a SparseTensor, got {value!r}.")
    return SparseTensor.from_value(value)


def to_dense(
    sp_input: SparseTensor | SparseTensorValue,
    default_value: TensorLike | None = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return the dense tensor, with `default_value` at empty places.

    default_value: zero, or an empty string, by default.
    """
    sp = _sparse(sp_input)
    default = (
        default_value if default_value is not None else (b"" if sp.dtype == dtypes.string else 0)
    )
    return sparse_to_dense(
        sp.indices,
        sp.dense_shape,
        sp.values,
        convert_to_tensor(default, dtype=sp.dtype),
        validate_indices,
        name,
    )


def sparse_to_dense(
    sparse_indices: TensorLike,
    output_shape: ShapeLike,
    sparse_values: TensorLike,
    default_value: TensorLike = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return a dense tensor with `sparse_values` at `sparse_indices`.

    Its shape is `output_shape`. sparse_indices: a scalar, [n] or [n, rank].
    """
    return tensor(
        "SparseToDense",
        name,
        sparse_indices=sparse_indices,
        output_shape=output_shape,
        sparse_values=sparse_values,
        default_value=default_value,
        validate_indices=validate_indices,
    )


def from_dense(tensor: TensorLike, name: str | None = None) -> SparseTensor:
    """Return the elements that are not zero."""
    with name_scope(name, "dense_to_sparse", [tensor]):
        dense = convert_to_tensor(tensor)
        zero = convert_to_tensor(
            b"" if dense.dtype.base_dtype == dtypes.string else 0, dtype=dense.dtype.base_dtype
        )
        indices = ops.where(ops.not_equal(dense, zero))
        return SparseTensor(
            indices, ops.gather_nd(dense, indices), ops.shape(dense, out_type=dtypes.int64)
        )


def reorder(sp_input: SparseTensor | SparseTensorValue, name: str | None = None) -> SparseTensor:
    """Return the same tensor with its indices in the order of rows."""
    sp = _sparse(sp_input)
    indices, values = call(
        "SparseReorder",
        name,
        input_indices=sp.indices,
        input_values=sp.values,
        input_shape=sp.dense_shape,
    )
    return SparseTensor(indices, values, sp.dense_shape)


def reshape(
    sp_input: SparseTensor | SparseTensorValue, shape: ShapeLike, name: str | None = None
) -> SparseTensor:
    """Return the same values in another dense shape.

    One size may be -1.
    """
    sp = _sparse(sp_input)
    wanted = convert_to_tensor(shape, dtype=dtypes.int64)
    indices, dense = call(
        "SparseReshape",
        name,
        input_indices=sp.indices,
        input_shape=sp.dense_shape,
        new_shape=wanted,
    )
    return SparseTensor(indices, sp.values, dense)


def expand_dims(
    sp_input: SparseTensor | SparseTensorValue, axis: int | None = None, name: str | None = None
) -> SparseTensor:
    """Insert an axis of size 1, the last one by default."""
    sp = _sparse(sp_input)
    rank = sp.get_shape().rank
    place: Any = -1 if axis is None else axis
    with name_scope(name, "expand_dims", [sp.values]):
        if place < 0:
            place = place + 1 + (ops.size(sp.dense_shape) if rank is None else rank)
        new = ops.concat(
            [sp.dense_shape[:place], ops.ones([1], dtypes.int64), sp.dense_shape[place:]], 0
        )
        return reshape(sp, new)


def transpose(
    sp_input: SparseTensor | SparseTensorValue,
    perm: Sequence[int] | None = None,
    name: str | None = None,
) -> SparseTensor:
    """Put axes in another order, reversed where none is given."""
    sp = _sparse(sp_input)
    with name_scope(name, "SparseTranspose", [sp.values]):
        order = list(perm) if perm is not None else ops.range(ops.size(sp.dense_shape) - 1, -1, -1)
        moved = SparseTensor(
            ops.gather(sp.indices, order, axis=1), sp.values, ops.gather(sp.dense_shape, order)
        )
        return reorder(moved)


def concat(
    axis: int | None,
    sp_inputs: Sequence[Any],
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Concatenate sparse tensors along an axis.

    Other sizes must be equal, or grow to the largest with expand_nonconcat_dim.
    """
    expands = renamed(
        expand_nonconcat_dims,
        expand_nonconcat_dim or None,
        "expand_nonconcat_dims",
        "expand_nonconcat_dim",
    )
    place = renamed(axis, concat_dim, "axis", "concat_dim")
    inputs = [_sparse(sp) for sp in sp_inputs]
    if len(inputs) == 1:
        return inputs[0]
    shapes = [sp.dense_shape for sp in inputs]
    if expands:
        largest = ops.reduce_max(ops.stack(shapes), 0)
        own = ops.equal(
            ops.range(ops.size(largest)), place if place >= 0 else ops.size(largest) + place
        )
        shapes = [ops.raw_ops.SelectV2(condition=own, t=shape, e=largest) for shape in shapes]
    found = call(
        "SparseConcat",
        name,
        indices=[sp.indices for sp in inputs],
        values=[sp.values for sp in inputs],
        shapes=shapes,
        concat_dim=place,
    )
    made = SparseTensor(*found)
    known = [sp.get_shape() for sp in inputs]
    if all(shape.rank is not None for shape in known):
        made._known_shape = _joined(known, place, bool(expands))
    return made


def _joined(shapes: Sequence[TensorShape], axis: int, expands: bool) -> TensorShape:
    """Return the known part of a concatenation's shape."""
    sizes = list(zip(*(shape.as_list() for shape in shapes), strict=True))
    out = [None if None in column else max(column) if expands else column[0] for column in sizes]
    out[axis] = None if None in sizes[axis] else sum(sizes[axis])
    return TensorShape(out)


class _KeywordRequired:
    """A default that forces the other arguments to be keywords."""

    def __repr__(self) -> str:
        return "KeywordRequired()"


def split(
    keyword_required: object = _KeywordRequired(),
    sp_input: Any = None,
    num_split: int | None = None,
    axis: AxisLike | None = None,
    name: str | None = None,
    split_dim: TensorLike | None = None,
) -> list[SparseTensor]:
    """Split into `num_split` parts along an axis.

    The first are longer by one where the size is no multiple. Arguments are keywords. Raises
    ValueError where one is missing.
    """
    if not isinstance(keyword_required, _KeywordRequired):
        raise ValueError("Keyword arguments are required for this function.")
    axis = renamed(axis, split_dim, "axis", "split_dim")
    for what, value in (("sp_input", sp_input), ("num_split", num_split), ("axis", axis)):
        if value is None:
            raise ValueError(f"{what} is required")
    sp = _sparse(sp_input)
    place = convert_to_tensor(axis, dtype=dtypes.int64)
    found = call(
        "SparseSplit",
        name,
        split_dim=place,
        indices=sp.indices,
        values=sp.values,
        shape=sp.dense_shape,
        num_split=num_split,
    )
    return [SparseTensor(*parts) for parts in zip(*found, strict=True)]


def slice(
    sp_input: SparseTensor | SparseTensorValue,
    start: TensorLike,
    size: TensorLike,
    name: str | None = None,
) -> SparseTensor:
    """Return the part from `start` of `size`.

    It ends where the tensor does.
    """
    sp = _sparse(sp_input)
    bounds = [convert_to_tensor(value, dtype=dtypes.int64) for value in (start, size)]
    found = call(
        "SparseSlice",
        name,
        indices=sp.indices,
        values=sp.values,
        shape=sp.dense_shape,
        start=bounds[0],
        size=bounds[1],
    )
    return SparseTensor(*found)


def retain(sp_input: SparseTensor | SparseTensorValue, to_retain: Any) -> SparseTensor:
    """Return the values for which `to_retain`, bool [n], is true."""
    sp = _sparse(sp_input)
    kept = ops.reshape(ops.where(convert_to_tensor(to_retain)), [-1])
    return SparseTensor(ops.gather(sp.indices, kept), ops.gather(sp.values, kept), sp.dense_shape)


def reset_shape(
    sp_input: SparseTensor | SparseTensorValue, new_shape: object = None
) -> SparseTensor:
    """Return the same values in another dense shape.

    new_shape: of the same rank, holding all values; the smallest one by default. Raises ValueError
    for sizes below those the tensor has, or InvalidArgumentError in a run that finds that.
    """
    sp = _sparse(sp_input)
    if new_shape is None:
        ends = ops.add(ops.reduce_max(sp.indices, axis=0), np.int64(1))
        return SparseTensor(sp.indices, sp.values, ops.maximum(ends, np.int64(0)))
    sizes = ops.cast(convert_to_tensor(new_shape), dtypes.int64)
    sizes.shape.assert_has_rank(1)
    sizes.shape.assert_is_compatible_with(sp.dense_shape.shape)
    known, before = constant_value(sizes), sp.get_shape()
    if known is not None and before.is_fully_defined():
        if (np.array(before.as_list()) > known).any():
            raise ValueError(
                "Requested new_shape should have dimension sizes >= sp_input.shape. Found "
                f"{before}, {known.tolist()}."
            )
        return SparseTensor(sp.indices, sp.values, sizes)
    holds = ops.reduce_all(ops.less_equal(sp.dense_shape, sizes))
    check = create(
        "Assert",
        None,
        condition=holds,
        data=["new_shape is below the tensor's:", sp.dense_shape, sizes],
    )
    with control_dependencies([check]):
        return SparseTensor(sp.indices, sp.values, ops.identity(sizes))


def fill_empty_rows(
    sp_input: SparseTensor | SparseTensorValue, default_value: TensorLike, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """Fill each empty row; return (tensor, mask of empty rows).

    The tensor has `default_value` at the beginning of each empty row.
    """
    sp = _sparse(sp_input)
    default = convert_to_tensor(default_value, dtype=sp.dtype)
    found = call(
        "SparseFillEmptyRows",
        name,
        indices=sp.indices,
        values=sp.values,
        dense_shape=sp.dense_shape,
        default_value=default,
    )
    return SparseTensor(found[0], found[1], sp.dense_shape), found[2]


def add(a: TensorLike, b: TensorLike, threshold: object = None, thresh: object = None) -> Any:
    """Return the sum: sparse of two sparse tensors, else dense.

    Sums smaller than the threshold are left out.
    """
    kinds = (SparseTensor, SparseTensorValue)
    if not isinstance(a, kinds) and not isinstance(b, kinds):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if isinstance(a, kinds) and isinstance(b, kinds):
        x, y = _sparse(a), _sparse(b)
        limit = threshold if threshold is not None else thresh if thresh is not None else 0
        real = x.dtype.real_dtype if x.dtype.is_complex else x.dtype
        found = call(
            "SparseAdd",
            None,
            a_indices=x.indices,
            a_values=x.values,
            a_shape=x.dense_shape,
            b_indices=y.indices,
            b_values=y.values,
            b_shape=y.dense_shape,
            thresh=convert_to_tensor(limit, dtype=real.base_dtype),
        )
        return SparseTensor(*found)
    sp, dense = (_sparse(a), b) if isinstance(a, kinds) else (_sparse(b), a)
    return tensor(
        "SparseTensorDenseAdd",
        None,
        a_indices=sp.indices,
        a_values=sp.values,
        a_shape=sp.dense_shape,
        b=dense,
    )


def sparse_dense_matmul(
    sp_a: SparseTensor | SparseTensorValue,
    b: TensorLike,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the product of a sparse and a dense matrix."""
    sp = _sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [sp.indices, sp.values, b]) as scope:
        return tensor(
            "SparseTensorDenseMatMul",
            scope,
            a_indices=sp.indices,
            a_values=sp.values,
            a_shape=sp.dense_shape,
            b=convert_to_tensor(b, name="b"),
            adjoint_a=adjoint_a,
            adjoint_b=adjoint_b,
        )


matmul = sparse_dense_matmul


def _reduction(
    op: str, sp_input: SparseTensor | SparseTensorValue, axis: object, keepdims: bool | None
) -> Tensor:
    sp = _sparse(sp_input)
    axes = axis if axis is not None else ops.range(ops.size(sp.dense_shape))
    found = convert_to_tensor(axes, dtype=dtypes.int32)
    return tensor(
        op,
        None,
        input_indices=sp.indices,
        input_values=sp.values,
        input_shape=sp.dense_shape,
        reduction_axes=found,
        keep_dims=bool(keepdims),
    )


def reduce_sum(
    sp_input: SparseTensor | SparseTensorValue,
    axis: AxisLike | None = None,
    keepdims: bool | None = None,
    reduction_axes: object = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Return the sum along axes (all where none is given), dense."""
    return _reduction(
        "SparseReduceSum",
        sp_input,
        axis if axis is not None else reduction_axes,
        keepdims or keep_dims,
    )


def reduce_max(
    sp_input: SparseTensor | SparseTensorValue,
    axis: AxisLike | None = None,
    keepdims: bool | None = None,
    reduction_axes: object = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Return the largest value along axes, dense.

    All axes are reduced where none is given; the result is zero where no value is.
    """
    return _reduction(
        "SparseReduceMax",
        sp_input,
        axis if axis is not None else reduction_axes,
        keepdims or keep_dims,
    )


def softmax(sp_input: SparseTensor | SparseTensorValue, name: str | None = None) -> SparseTensor:
    """Return the softmax of the values of each row.

    Missing values do not count.
    """
    sp = _sparse(sp_input)
    return sp.with_values(
        tensor(
            "SparseSoftmax",
            name,
            sp_indices=sp.indices,
            sp_values=sp.values,
            sp_shape=sp.dense_shape,
        )
    )


def _extreme(
    op: str,
    sp_a: SparseTensor | SparseTensorValue,
    sp_b: SparseTensor | SparseTensorValue,
    name: str | None,
) -> SparseTensor:
    a, b = _sparse(sp_a), _sparse(sp_b)
    indices, values = call(
        op,
        name,
        a_indices=a.indices,
        a_values=a.values,
        a_shape=a.dense_shape,
        b_indices=b.indices,
        b_values=b.values,
        b_shape=b.dense_shape,
    )
    return SparseTensor(indices, values, a.dense_shape)


def maximum(
    sp_a: SparseTensor | SparseTensorValue,
    sp_b: SparseTensor | SparseTensorValue,
    name: str | None = None,
) -> SparseTensor:
    """Return the larger of two at each place; missing values are zero."""
    return _extreme("SparseSparseMaximum", sp_a, sp_b, name)


def minimum(
    sp_a: SparseTensor | SparseTensorValue,
    sp_b: SparseTensor | SparseTensorValue,
    name: str | None = None,
) -> SparseTensor:
    """Return the smaller of two at each place; missing values are zero."""
    return _extreme("SparseSparseMinimum", sp_a, sp_b, name)


def merge(
    sp_ids: TensorLike,
    sp_values: Any,
    vocab_size: Any,
    name: str | None = None,
    already_sorted: bool = False,
) -> SparseTensor:
    """Return values at the places that the ids name.

    The ids name places along a last axis of `vocab_size`. Lists of ids and sizes name places along
    several last axes.
    """
    parts = sp_ids if isinstance(sp_ids, (list, tuple)) else [sp_ids]
    ids = [_sparse(part) for part in parts]
    sizes = vocab_size if isinstance(vocab_size, (list, tuple)) else [vocab_size]
    return merged(ids, _sparse(sp_values), sizes, already_sorted, name)


def to_indicator(
    sp_input: SparseTensor | SparseTensorValue, vocab_size: object, name: str | None = None
) -> Tensor:
    """Return bool [..., vocab_size], true for the ids in each row."""
    sp = _sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [sp.values]):
        there = sp.with_values(ops.fill(ops.shape(sp.values), True))
        return to_dense(merge(sp, there, vocab_size), default_value=False, validate_indices=False)


def mask(a: Any, mask_indices: Any, name: str | None = None) -> Any:
    """Return IndexedSlices without the rows in `mask_indices`."""
    from tfjit.framework.graphs.indexed_slices import IndexedSlices

    with name_scope(name, "sparse_mask", [a.values, a.indices]):
        kept, places = ops.setdiff1d(a.indices, convert_to_tensor(mask_indices))
        return IndexedSlices(ops.gather(a.values, places), kept, a.dense_shape)


sparse_add = add
sparse_concat = concat
sparse_fill_empty_rows = fill_empty_rows
sparse_mask = mask
sparse_maximum = maximum
sparse_merge = merge
sparse_minimum = minimum
sparse_reduce_max = reduce_max
sparse_reduce_sum = reduce_sum
sparse_reorder = reorder
sparse_reset_shape = reset_shape
sparse_reshape = reshape
sparse_retain = retain
sparse_slice = slice
sparse_softmax = softmax


sparse_split = split

sparse_tensor_dense_matmul = sparse_dense_matmul
sparse_tensor_to_dense = to_dense
sparse_to_indicator = to_indicator
sparse_transpose = transpose
