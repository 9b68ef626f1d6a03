"""Define gradients of reductions, scans and segment reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import conj, like
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


def kept_dims_shape(x: Tensor, axes: Tensor) -> Tensor:
    """Return the shape of x with 1 along `axes`, int32[rank]."""
    shape = raw.Shape(input=x)
    rank = raw.Size(input=shape)
    axes = raw.Reshape(tensor=raw.Cast(x=axes, DstT=dtypes.int32), shape=convert_to_tensor([-1]))
    axes = raw.FloorMod(x=axes + rank, y=rank)
    ones = raw.Fill(dims=raw.Shape(input=axes), value=convert_to_tensor(1))
    return raw.DynamicStitch(
        indices=[raw.Range(start=0, limit=rank, delta=1), axes], data=[shape, ones]
    )


def _spread(op: Operation, grad: Tensor) -> Tensor:
    """Return a reduction's gradient at every element that went into it."""
    x, axes = op.inputs
    return raw.BroadcastTo(
        input=raw.Reshape(tensor=grad, shape=kept_dims_shape(x, axes)), shape=raw.Shape(input=x)
    )


@RegisterGradient("Sum")
def _sum(op: Operation, grad: Tensor) -> Gradients:
    return _spread(op, grad), None


@RegisterGradient("Mean")
def _mean(op: Operation, grad: Tensor) -> Gradients:
    sizes = raw.Size(input=op.inputs[0]), raw.Size(input=op.outputs[0])
    factor = raw.FloorDiv(x=sizes[0], y=raw.Maximum(x=sizes[1], y=convert_to_tensor(1)))
    return raw.RealDiv(x=_spread(op, grad), y=raw.Cast(x=factor, DstT=grad.dtype.base_dtype)), None


@RegisterGradient("Max")
@RegisterGradient("Min")
def _extremum(op: Operation, grad: Tensor) -> Gradients:
    """Share the gradient between elements that are the extremum."""
    x, axes = op.inputs
    shape = kept_dims_shape(x, axes)
    y = raw.Reshape(tensor=op.outputs[0], shape=shape)
    grad = raw.Reshape(tensor=grad, shape=shape)
    chosen = raw.Cast(x=raw.Equal(x=x, y=y), DstT=grad.dtype.base_dtype)
    count = raw.Reshape(tensor=raw.Sum(input=chosen, reduction_indices=axes), shape=shape)
    return chosen / count * grad, None


@RegisterGradient("Prod")
def _prod(op: Operation, grad: Tensor) -> Gradients:
    """Return products of all other elements, by scans from both sides.

    Such products are right where elements are 0 too.
    """
    x, axes = op.inputs
    grad = _spread(op, grad)
    rank = raw.Rank(input=x)
    axes = raw.Reshape(tensor=raw.Cast(x=axes, DstT=dtypes.int32), shape=convert_to_tensor([-1]))
    axes = raw.FloorMod(x=axes + rank, y=rank)
    others = raw.ListDiff(x=raw.Range(start=0, limit=rank, delta=1), y=axes)[0]
    order = raw.ConcatV2(values=[axes, others], axis=0)
    shape = raw.Shape(input=x)
    reduced = raw.Prod(input=raw.GatherV2(params=shape, indices=axes, axis=0), reduction_indices=0)
    rest = raw.Prod(input=raw.GatherV2(params=shape, indices=others, axis=0), reduction_indices=0)
    transposed = raw.Transpose(x=x, perm=order)
    flat = raw.Reshape(tensor=transposed, shape=raw.Pack(values=[reduced, rest]))
    left = raw.Cumprod(x=flat, axis=0, exclusive=True)
    right = raw.Cumprod(x=flat, axis=0, exclusive=True, reverse=True)
    product = raw.Reshape(tensor=conj(left) * conj(right), shape=raw.Shape(input=transposed))
    return grad * raw.Transpose(x=product, perm=raw.InvertPermutation(x=order)), None


@RegisterGradient("EuclideanNorm")
def _euclidean_norm(op: Operation, grad: Tensor) -> Gradients:
    x, axes = op.inputs
    shape = kept_dims_shape(x, axes)
    norm = raw.Reshape(tensor=op.outputs[0], shape=shape)
    return x / (norm / raw.Reshape(tensor=grad, shape=shape)), None


@RegisterGradient("CumulativeLogsumexp")
def _cumulative_logsumexp(op: Operation, grad: Tensor) -> Gradients:
    """Return a scan from the other side, of logarithms.

    Gradients above and below 0 are scanned apart, since logarithms are of positive numbers.
    """
    x, axis = op.inputs
    zero = like(0.0, grad)
    lowest = like(grad.dtype.base_dtype.min, grad)

    def scanned(size: Tensor) -> Tensor:
        there = raw.Greater(x=size, y=zero)
        log = raw.SelectV2(condition=there, t=raw.Log(x=size), e=lowest)
        summed = raw.CumulativeLogsumexp(
            x=log - op.outputs[0],
            axis=axis,
            exclusive=op.get_attr("exclusive"),
            reverse=not op.get_attr("reverse"),
        )
        return raw.Exp(x=summed + x)

    return scanned(grad) - scanned(-grad), None


@RegisterGradient("Cumsum")
def _cumsum(op: Operation, grad: Tensor) -> Gradients:
    return raw.Cumsum(
        x=grad,
        axis=op.inputs[1],
        exclusive=op.get_attr("exclusive"),
        reverse=not op.get_attr("reverse"),
    ), None


@RegisterGradient("Cumprod")
def _cumprod(op: Operation, grad: Tensor) -> Gradients:
    x, axis = op.inputs
    options = {"exclusive": op.get_attr("exclusive"), "reverse": op.get_attr("reverse")}
    product = raw.Cumprod(x=x, axis=axis, **options)
    out = raw.Cumsum(
        x=product * grad, axis=axis, exclusive=options["exclusive"], reverse=not options["reverse"]
    )
    return raw.DivNoNan(x=out, y=x), None
