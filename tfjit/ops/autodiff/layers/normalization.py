"""Define gradients of bias, normalisation, softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("BiasAdd")
def _bias_add(op: Operation, grad: Tensor) -> Gradients:
    return grad, raw.BiasAddGrad(out_backprop=grad, data_format=op.get_attr("data_format"))


@RegisterGradient("BiasAddV1")
def _bias_add_v1(op: Operation, grad: Tensor) -> Gradients:
    axes = raw.Range(start=0, limit=raw.Rank(input=op.inputs[0]) - 1, delta=1)
    return grad, raw.Sum(input=grad, reduction_indices=axes)


@RegisterGradient("BiasAddGrad")
def _bias_add_grad(op: Operation, grad: Tensor) -> Gradients:
    shape = raw.Shape(input=op.inputs[0])
    channels_first = op.get_attr("data_format") in (b"NCHW", "NCHW")
    if channels_first:
        rank = raw.Size(input=shape)
        ones = raw.Fill(dims=raw.ExpandDims(input=rank - 2, dim=0), value=convert_to_tensor(1))
        kept = raw.ConcatV2(values=[convert_to_tensor([1, -1]), ones], axis=0)
        grad = raw.Reshape(tensor=grad, shape=kept)
    return raw.BroadcastTo(input=grad, shape=shape)


@RegisterGradient("Softmax")
def _softmax(op: Operation, grad: Tensor) -> Gradients:
    y = op.outputs[0]
    return (grad - raw.Sum(input=grad * y, reduction_indices=-1, keep_dims=True)) * y


@RegisterGradient("LogSoftmax")
def _log_softmax(op: Operation, grad: Tensor) -> Gradients:
    return grad - raw.Sum(input=grad, reduction_indices=-1, keep_dims=True) * raw.Exp(
        x=op.outputs[0]
    )


def _batch_norm(op: Operation, grad: Tensor, op_type: str, reserve_3: bool) -> Any:
    x, scale = op.inputs[:2]
    training = op.get_attr("is_training")
    arguments: dict[str, object] = {"y_backprop": grad, "x": x, "scale": scale}
    arguments["reserve_space_1"], arguments["reserve_space_2"] = (
        (op.outputs[3], op.outputs[4]) if training else (op.inputs[3], op.inputs[4])
    )
    if reserve_3:
        arguments["reserve_space_3"] = op.outputs[5]
    found = getattr(raw, op_type)(
        **arguments, **attrs_of(op, "epsilon", "data_format", "is_training")
    )
    return found[0], found[1], found[2], None, None


@RegisterGradient("FusedBatchNorm")
def _fused_batch_norm(op: Operation, grad: Tensor, *_: object) -> Gradients:
    return _batch_norm(op, grad, "FusedBatchNormGrad", reserve_3=False)


@RegisterGradient("FusedBatchNormV2")
def _fused_batch_norm_v2(op: Operation, grad: Tensor, *_: object) -> Gradients:
    return _batch_norm(op, grad, "FusedBatchNormGradV2", reserve_3=False)


@RegisterGradient("FusedBatchNormV3")
def _fused_batch_norm_v3(op: Operation, grad: Tensor, *_: object) -> Gradients:
    return _batch_norm(op, grad, "FusedBatchNormGradV3", reserve_3=True)


@RegisterGradient("LRN")
def _lrn(op: Operation, grad: Tensor) -> Gradients:
    options = attrs_of(op, "depth_radius", "bias", "alpha", "beta")
    return raw.LRNGrad(
        input_grads=grad, input_image=op.inputs[0], output_image=op.outputs[0], **options
    )


@RegisterGradient("FusedBatchNormGrad")
@RegisterGradient("FusedBatchNormGradV2")
@RegisterGradient("FusedBatchNormGradV3")
def _fused_batch_norm_grad(op: Operation, *grads: Tensor) -> Gradients:
    """Differentiate the gradient, built of single ops."""
    from tfjit.ops.autodiff.backprop import gradients

    inputs = [raw.Identity(input=x) for x in op.inputs[:3]]
    outputs = _batch_norm_gradients(op, *inputs)
    found = gradients(outputs, inputs, grad_ys=list(grads[:3]))
    return *found, *[None] * (len(op.inputs) - 3)


def _batch_norm_gradients(
    op: Operation, grad: Tensor, x: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs of a FusedBatchNormGrad, of x, scale and offset."""
    layout = op.get_attr("data_format")
    layout = layout.decode() if isinstance(layout, bytes) else layout
    axes = [i for i, axis in enumerate(layout) if axis != "C"]
    kept = [-1 if axis == "C" else 1 for axis in layout]
    dtype = x.dtype.base_dtype
    x, grad = (raw.Cast(x=v, DstT=scale.dtype.base_dtype) for v in (x, grad))

    def by_channel(values: Tensor) -> Tensor:
        return raw.Reshape(tensor=values, shape=convert_to_tensor(kept))

    def mean(values: Tensor) -> Tensor:
        return raw.Mean(input=values, reduction_indices=axes, keep_dims=True)

    training = op.get_attr("is_training")
    centre = mean(x) if training else by_channel(op.inputs[3])
    centred = x - centre
    variance = mean(raw.Square(x=centred)) if training else by_channel(op.inputs[4])
    variance += convert_to_tensor(op.get_attr("epsilon"), dtype=scale.dtype.base_dtype)
    normal = centred * raw.Rsqrt(x=variance)
    factor = by_channel(scale) * raw.Rsqrt(x=variance)
    for_x = grad * factor
    if training:
        for_x = factor * (grad - mean(grad) - normal * mean(grad * normal))
    return (
        raw.Cast(x=for_x, DstT=dtype),
        raw.Sum(input=grad * normal, reduction_indices=axes),
        raw.Sum(input=grad, reduction_indices=axes),
    )
