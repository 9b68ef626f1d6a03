"""Define gradients of slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of, reduced

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@RegisterGradient("Slice")
def _slice(op: Operation, grad: Tensor) -> Gradients:
    x, begin, _ = op.inputs
    begin = raw.Cast(x=begin, DstT=dtypes.int32)
    after = raw.Shape(input=x) - raw.Shape(input=op.outputs[0]) - begin
    return raw.Pad(input=grad, paddings=raw.Pack(values=[begin, after], axis=1)), None, None


@RegisterGradient("StridedSlice")
def _strided_slice(op: Operation, grad: Tensor) -> Gradients:
    x, begin, end, strides = op.inputs
    masks = attrs_of(op, *_MASKS)
    shape = raw.Shape(input=x, out_type=begin.dtype.base_dtype)
    return (
        raw.StridedSliceGrad(shape=shape, begin=begin, end=end, strides=strides, dy=grad, **masks),
        None,
        None,
        None,
    )


@RegisterGradient("StridedSliceGrad")
def _strided_slice_grad(op: Operation, grad: Tensor) -> Gradients:
    _, begin, end, strides, _ = op.inputs
    masks = attrs_of(op, *_MASKS)
    return (
        None,
        None,
        None,
        None,
        raw.StridedSlice(input=grad, begin=begin, end=end, strides=strides, **masks),
    )


@RegisterGradient("TensorStridedSliceUpdate")
def _tensor_strided_slice_update(op: Operation, grad: Tensor) -> Gradients:
    _, begin, end, strides, value = op.inputs
    place = {"begin": begin, "end": end, "strides": strides, **attrs_of(op, *_MASKS)}
    taken = raw.StridedSlice(input=grad, **place)
    rest = raw.TensorStridedSliceUpdate(input=grad, value=raw.ZerosLike(x=taken), **place)
    return rest, None, None, None, reduced(taken, value, taken, first=True)
