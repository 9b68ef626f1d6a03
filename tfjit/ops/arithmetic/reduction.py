"""Define reductions and scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_traits import CANNOT_FAIL, REDUCTION
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.dispatch import dispatched
from tfjit.ops.core.renamed import renamed
from tfjit.ops.core.shape_rules import Shapes, fail, int_constant, int_list_constant, unchanged
from tfjit.ops.core.type_lists import FLOAT, INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, TensorLike


def _reduce(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    axes_shape = c.inputs[1]
    keep = c.attr("keep_dims")
    if axes_shape is not None and len(axes_shape) > 1:
        # Old graphs hold axes of higher rank; TensorFlow ran them.
        return [None]
    axes = int_list_constant(c, 1)
    if shape is None:
        return [None]
    rank = len(shape)
    if axes is None:
        if keep:
            return [(None,) * rank]
        return [None]
    wanted = set()
    for axis in axes:
        if not -rank <= axis < rank:
            raise fail(f"Invalid reduction dimension {axis} for input with {rank} dimensions.")
        wanted.add(axis % rank)
    if keep:
        return [tuple(1 if i in wanted else size for i, size in enumerate(shape))]
    return [tuple(size for i, size in enumerate(shape) if i not in wanted)]


def _arg_extreme(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    c.with_rank(1, 0)
    if shape is None:
        return [None]
    rank = len(shape)
    if rank <= 1:
        return [()]
    axis = int_constant(c, 1)
    if axis is None:
        return [(None,) * (rank - 1)]
    if not -rank <= axis < rank:
        raise fail(
            f"Dimension ({axis}) must be in the range [{-rank}, {rank}), where {rank} is the "
            "number of dimensions in the input."
        )
    axis %= rank
    return [shape[:axis] + shape[axis + 1 :]]


for _op_type in ("All", "Any"):
    register_op(
        _op_type,
        inputs=("input: bool", "reduction_indices: Tidx"),
        outputs=("output: bool",),
        attrs=("keep_dims: bool = false", f"Tidx: {INDEX} = DT_INT32"),
        shape=_reduce,
        traits=REDUCTION | CANNOT_FAIL,
    )
register_op(
    "ArgMax",
    inputs=("input: T", "dimension: Tidx"),
    outputs=("output: output_type",),
    attrs=(
        "T: {realnumbertype, quantizedtype, bool}",
        "Tidx: {int16, int32, int64} = DT_INT32",
        "output_type: {int16, uint16, int32, int64} = DT_INT64",
    ),
    shape=_arg_extreme,
)
register_op(
    "ArgMin",
    inputs=("input: T", "dimension: Tidx"),
    outputs=("output: output_type",),
    attrs=(
        "T: {realnumbertype, quantizedtype, bool}",
        f"Tidx: {INDEX} = DT_INT32",
        f"output_type: {INDEX} = DT_INT64",
    ),
    shape=_arg_extreme,
)
for _op_type in ("Cumprod", "Cumsum"):
    register_op(
        _op_type,
        inputs=("x: T", "axis: Tidx"),
        outputs=("out: T",),
        attrs=(
            "exclusive: bool = false",
            "reverse: bool = false",
            "T: numbertype",
            f"Tidx: {INDEX} = DT_INT32",
        ),
        shape=unchanged,
    )
register_op(
    "CumulativeLogsumexp",
    inputs=("x: T", "axis: Tidx"),
    outputs=("out: T",),
    attrs=(
        "exclusive: bool = false",
        "reverse: bool = false",
        f"T: {FLOAT}",
        f"Tidx: {INDEX} = DT_INT32",
    ),
    shape=unchanged,
)
for _op_type in ("EuclideanNorm", "Mean", "Prod", "Sum"):
    register_op(
        _op_type,
        inputs=("input: T", "reduction_indices: Tidx"),
        outputs=("output: T",),
        attrs=("keep_dims: bool = false", "T: numbertype", f"Tidx: {INDEX} = DT_INT32"),
        shape=_reduce,
        traits=REDUCTION | CANNOT_FAIL,
    )
for _op_type in ("Max", "Min"):
    register_op(
        _op_type,
        inputs=("input: T", "reduction_indices: Tidx"),
        outputs=("output: T",),
        attrs=(
            "keep_dims: bool = false",
            "T: {realnumbertype, quantizedtype}",
            f"Tidx: {INDEX} = DT_INT32",
        ),
        shape=_reduce,
        traits=REDUCTION | CANNOT_FAIL,
    )
register_op(
    "ReduceJoin",
    inputs=("inputs: string", "reduction_indices: int32"),
    outputs=("output: string",),
    attrs=("keep_dims: bool = false", "separator: string = ''"),
    shape=_reduce,
)


def axes_or_all(x: Tensor, axis: AxisLike) -> Any:
    """Return `axis`, or every axis of `x` where it is None."""
    if axis is not None:
        return axis
    rank = x.shape.rank
    if rank:
        return constant(np.arange(rank, dtype=np.int32))
    # of a scalar, too: TensorFlow's nodes
    found = tensor("Rank", None, input=x) if rank is None else constant(0, name="Rank")
    return tensor("Range", "range", start=0, limit=found, delta=1)


def _reduced(
    op_type: str, x: Any, axis: Any, keepdims: Any, name: str | None, indices: Any, keep_dims: Any
) -> Tensor:
    axis = renamed(axis, indices, "axis", "reduction_indices")
    keep = bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims"))
    # A variable knows its shape, and is read where the op takes it.
    value = (
        x
        if hasattr(x, "_as_graph_element") and not isinstance(x, Tensor)
        else convert_to_tensor(x, name="input_tensor")
    )
    out = tensor(
        op_type, name, input=value, reduction_indices=axes_or_all(value, axis), keep_dims=keep
    )
    if axis is None and not keep:
        out.set_shape(())
    return out


def _reduction(public: str, op_type: str, text: str) -> Callable[..., Tensor]:
    def reduce(
        input_tensor: object,
        axis: object = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: object = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        return _reduced(op_type, input_tensor, axis, keepdims, name, reduction_indices, keep_dims)

    reduce.__name__ = reduce.__qualname__ = public
    reduce.__doc__ = f"{text} over `axis` (all axes when None); keepdims leaves them with size 1."
    return dispatched(reduce)


reduce_sum = _reduction("reduce_sum", "Sum", "The sum")
reduce_mean = _reduction("reduce_mean", "Mean", "The mean")
reduce_prod = _reduction("reduce_prod", "Prod", "The product")
reduce_max = _reduction("reduce_max", "Max", "The largest value")
reduce_min = _reduction("reduce_min", "Min", "The smallest value")
reduce_all = _reduction("reduce_all", "All", "Whether all are true,")
reduce_any = _reduction("reduce_any", "Any", "Whether any is true,")
reduce_euclidean_norm = _reduction("reduce_euclidean_norm", "EuclideanNorm", "The Euclidean norm")


@dispatched
def reduce_variance(
    input_tensor: TensorLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the variance (not corrected for the sample's size)."""
    with name_scope(name, "reduce_variance", [input_tensor]):
        x = convert_to_tensor(input_tensor)
        mean = reduce_mean(x, axis, True)
        if mean.dtype.is_integer:
            raise TypeError(
                f"Input must be either real or complex. Received integer type {mean.dtype}."
            )
        difference = tensor("Sub", "sub", x=x, y=mean)
        return reduce_mean(tensor("Square", None, x=difference), axis, keepdims)


@dispatched
def reduce_std(
    input_tensor: TensorLike,
    axis: AxisLike | None = None,
    keepdims: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the standard deviation (not corrected for the sample's size)."""
    with name_scope(name, "reduce_std", [input_tensor]):
        return tensor("Sqrt", None, x=reduce_variance(input_tensor, axis, keepdims))


def reduce_logsumexp(
    input_tensor: TensorLike,
    axis: AxisLike | None = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: AxisLike | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Return log(sum(exp(x))), without overflow."""
    axis = renamed(axis, reduction_indices, "axis", "reduction_indices")
    keep = bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims"))
    with name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        x = convert_to_tensor(input_tensor)
        top = reduce_max(x, axis, True)
        finite = tensor(
            "StopGradient",
            None,
            input=tensor(
                "SelectV2",
                None,
                condition=tensor("IsFinite", None, x=top),
                t=top,
                e=tensor("ZerosLike", None, x=top),
            ),
        )
        total = reduce_sum(tensor("Exp", None, x=tensor("Sub", None, x=x, y=finite)), axis, keep)
        logarithm = tensor("Log", None, x=total)
        if not keep:
            finite = tensor(
                "Reshape", None, tensor=finite, shape=tensor("Shape", None, input=logarithm)
            )
        return tensor("AddV2", scope, x=logarithm, y=finite)


def count_nonzero(
    input_tensor: TensorLike | None = None,
    axis: AxisLike | None = None,
    keepdims: bool | None = None,
    dtype: DTypeLike = dtypes.int64,
    name: str | None = None,
    reduction_indices: AxisLike | None = None,
    keep_dims: bool | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Count the elements that are not zero (or not empty strings)."""
    value = renamed(input_tensor, input, "input_tensor", "input")
    axis = renamed(axis, reduction_indices, "axis", "reduction_indices")
    keep = bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims"))
    with name_scope(name, "count_nonzero", [value]):
        x = convert_to_tensor(value, name="input")
        zero: object = "" if x.dtype is dtypes.string else np.zeros((), x.dtype.as_numpy_dtype)
        ones = tensor("Cast", None, x=tensor("NotEqual", None, x=x, y=zero), DstT=dtypes.int64)
        total = reduce_sum(ones, axis, keep)
        return (
            total
            if as_dtype(dtype) is dtypes.int64
            else tensor("Cast", None, x=total, DstT=as_dtype(dtype))
        )


def argmax(
    input: TensorLike,
    axis: AxisLike | None = None,
    name: str | None = None,
    dimension: AxisLike | None = None,
    output_type: DTypeLike = dtypes.int64,
) -> Tensor:
    """Return the index of the largest value along an axis (0).

    Of equal values the first counts.
    """
    axis = renamed(axis, dimension, "axis", "dimension")
    return tensor(
        "ArgMax",
        name,
        input=input,
        dimension=0 if axis is None else axis,
        output_type=as_dtype(output_type),
    )


def argmin(
    input: TensorLike,
    axis: AxisLike | None = None,
    name: str | None = None,
    dimension: AxisLike | None = None,
    output_type: DTypeLike = dtypes.int64,
) -> Tensor:
    """Return the index of the smallest value along an axis (0).

    Of equal values the first counts.
    """
    axis = renamed(axis, dimension, "axis", "dimension")
    return tensor(
        "ArgMin",
        name,
        input=input,
        dimension=0 if axis is None else axis,
        output_type=as_dtype(output_type),
    )


def arg_max(
    input: TensorLike,
    dimension: AxisLike,
    output_type: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Return `argmax`; its older name."""
    return argmax(input, dimension, name, output_type=output_type)


def arg_min(
    input: TensorLike,
    dimension: AxisLike,
    output_type: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Return `argmin`; its older name."""
    return argmin(input, dimension, name, output_type=output_type)


@dispatched
def cumsum(
    x: TensorLike,
    axis: AxisLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return running sums.

    exclusive leaves each element itself out, reverse runs from the end.
    """
    with name_scope(name, "Cumsum", [x]) as scope:
        return tensor("Cumsum", scope, x=x, axis=axis, exclusive=exclusive, reverse=reverse)


def cumprod(
    x: TensorLike,
    axis: AxisLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return running products."""
    with name_scope(name, "Cumprod", [x]) as scope:
        return tensor("Cumprod", scope, x=x, axis=axis, exclusive=exclusive, reverse=reverse)


def cumulative_logsumexp(
    x: TensorLike,
    axis: AxisLike = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return running log(sum(exp(x)))."""
    with name_scope(name, "CumulativeLogsumexp", [x]) as scope:
        return tensor(
            "CumulativeLogsumexp", scope, x=x, axis=axis, exclusive=exclusive, reverse=reverse
        )
