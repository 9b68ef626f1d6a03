"""Define gradients of operations that move elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("Transpose")
def _transpose(op: Operation, grad: Tensor) -> Gradients:
    return raw.Transpose(x=grad, perm=raw.InvertPermutation(x=op.inputs[1])), None


@RegisterGradient("ConjugateTranspose")
def _conjugate_transpose(op: Operation, grad: Tensor) -> Gradients:
    return raw.ConjugateTranspose(x=grad, perm=raw.InvertPermutation(x=op.inputs[1])), None


def _split_for(values: list[Tensor], axis: Tensor, grad: Tensor) -> list[Tensor]:
    """Return the parts of a concatenation's gradient."""
    if len(values) == 1:
        return [grad]
    shapes = raw.ShapeN(input=values)
    rank = raw.Rank(input=grad)
    place = raw.FloorMod(x=raw.Cast(x=axis, DstT=dtypes.int32) + rank, y=rank)
    begins = raw.ConcatOffset(concat_dim=place, shape=shapes)
    return [
        raw.Slice(input=grad, begin=begin, size=size)
        for begin, size in zip(begins, shapes, strict=True)
    ]


@RegisterGradient("ConcatV2")
def _concat_v2(op: Operation, grad: Tensor) -> Gradients:
    *values, axis = op.inputs
    return [*_split_for(values, axis, grad), None]


@RegisterGradient("Concat")
def _concat(op: Operation, grad: Tensor) -> Gradients:
    axis, *values = op.inputs
    return [None, *_split_for(values, axis, grad)]


@RegisterGradient("Pack")
def _pack(op: Operation, grad: Tensor) -> Gradients:
    return list(raw.Unpack(value=grad, num=op.get_attr("N"), axis=op.get_attr("axis")))


@RegisterGradient("Unpack")
def _unpack(op: Operation, *grads: Tensor) -> Gradients:
    return raw.Pack(values=list(grads), axis=op.get_attr("axis"))


@RegisterGradient("Split")
def _split(op: Operation, *grads: Tensor) -> Gradients:
    return None, raw.ConcatV2(values=list(grads), axis=op.inputs[0]) if len(grads) > 1 else grads[0]


@RegisterGradient("SplitV")
def _split_v(op: Operation, *grads: Tensor) -> Gradients:
    return (
        (raw.ConcatV2(values=list(grads), axis=op.inputs[2]) if len(grads) > 1 else grads[0]),
        None,
        None,
    )


@RegisterGradient("Pad")
@RegisterGradient("PadV2")
def _pad(op: Operation, grad: Tensor) -> Gradients:
    x, paddings = op.inputs[:2]
    rank = raw.Rank(input=x)
    before = raw.Slice(
        input=paddings,
        begin=convert_to_tensor([0, 0]),
        size=raw.Pack(values=[rank, convert_to_tensor(1)]),
    )
    begin = raw.Cast(x=raw.Reshape(tensor=before, shape=convert_to_tensor([-1])), DstT=dtypes.int32)
    gradient = raw.Slice(input=grad, begin=begin, size=raw.Shape(input=x))
    return gradient, *[None] * (len(op.inputs) - 1)


@RegisterGradient("MirrorPad")
def _mirror_pad(op: Operation, grad: Tensor) -> Gradients:
    return raw.MirrorPadGrad(input=grad, paddings=op.inputs[1], mode=op.get_attr("mode")), None


@RegisterGradient("MirrorPadGrad")
def _mirror_pad_grad(op: Operation, grad: Tensor) -> Gradients:
    return raw.MirrorPad(input=grad, paddings=op.inputs[1], mode=op.get_attr("mode")), None


@RegisterGradient("Tile")
def _tile(op: Operation, grad: Tensor) -> Gradients:
    x, multiples = op.inputs
    shape = raw.Cast(x=raw.Shape(input=x), DstT=multiples.dtype.base_dtype)
    # [m0, s0, m1, s1, ...]: the sum is over the copies
    sizes = raw.Reshape(
        tensor=raw.Pack(values=[multiples, shape], axis=1), shape=convert_to_tensor([-1])
    )
    axes = raw.Range(start=0, limit=raw.Size(input=sizes), delta=2)
    return raw.Reshape(
        tensor=raw.Sum(input=raw.Reshape(tensor=grad, shape=sizes), reduction_indices=axes),
        shape=raw.Shape(input=x),
    ), None


@RegisterGradient("ReverseV2")
def _reverse(op: Operation, grad: Tensor) -> Gradients:
    return raw.ReverseV2(tensor=grad, axis=op.inputs[1]), None


@RegisterGradient("Reverse")
def _reverse_by_flags(op: Operation, grad: Tensor) -> Gradients:
    return raw.Reverse(tensor=grad, dims=op.inputs[1]), None


@RegisterGradient("ReverseSequence")
def _reverse_sequence(op: Operation, grad: Tensor) -> Gradients:
    options = {"seq_dim": op.get_attr("seq_dim"), "batch_dim": op.get_attr("batch_dim")}
    return raw.ReverseSequence(input=grad, seq_lengths=op.inputs[1], **options), None


@RegisterGradient("Roll")
def _roll(op: Operation, grad: Tensor) -> Gradients:
    return raw.Roll(input=grad, shift=-op.inputs[1], axis=op.inputs[2]), None, None
