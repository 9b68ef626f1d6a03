"""Gradients of convolutions, pooling, normalisation, softmax and losses."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import NotDifferentiable, RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor


def _attrs(op: Operation, *names: str) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in names}


_CONV = ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations")


@RegisterGradient("Conv2D")
def _conv2d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    options = _attrs(op, *_CONV)
    sizes = raw.ShapeN(input=[x, w])
    return (
        raw.Conv2DBackpropInput(input_sizes=sizes[0], filter=w, out_backprop=grad, **options),
        raw.Conv2DBackpropFilter(input=x, filter_sizes=sizes[1], out_backprop=grad, **options),
    )


@RegisterGradient("Conv2DBackpropInput")
def _conv2d_backprop_input(op: Operation, grad: Tensor) -> Any:
    _, w, out = op.inputs
    options = _attrs(op, *_CONV)
    for_w = raw.Conv2DBackpropFilter(
        input=grad, filter_sizes=raw.Shape(input=w), out_backprop=out, **options
    )
    return None, for_w, raw.Conv2D(input=grad, filter=w, **options)


@RegisterGradient("Conv2DBackpropFilter")
def _conv2d_backprop_filter(op: Operation, grad: Tensor) -> Any:
    x, _, out = op.inputs
    options = _attrs(op, *_CONV)
    for_x = raw.Conv2DBackpropInput(
        input_sizes=raw.Shape(input=x), filter=grad, out_backprop=out, **options
    )
    return for_x, None, raw.Conv2D(input=x, filter=grad, **options)


@RegisterGradient("DepthwiseConv2dNative")
def _depthwise_conv2d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    options = _attrs(op, "strides", "padding", "explicit_paddings", "data_format", "dilations")
    return (
        raw.DepthwiseConv2dNativeBackpropInput(
            input_sizes=raw.Shape(input=x), filter=w, out_backprop=grad, **options
        ),
        raw.DepthwiseConv2dNativeBackpropFilter(
            input=x, filter_sizes=raw.Shape(input=w), out_backprop=grad, **options
        ),
    )


@RegisterGradient("Conv3D")
def _conv3d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    options = _attrs(op, "strides", "padding", "data_format", "dilations")
    sizes = raw.ShapeN(input=[x, w])
    return (
        raw.Conv3DBackpropInputV2(input_sizes=sizes[0], filter=w, out_backprop=grad, **options),
        raw.Conv3DBackpropFilterV2(input=x, filter_sizes=sizes[1], out_backprop=grad, **options),
    )


@RegisterGradient("MaxPool")
def _max_pool(op: Operation, grad: Tensor) -> Any:
    options = _attrs(op, "ksize", "strides", "padding", "explicit_paddings", "data_format")
    return raw.MaxPoolGrad(orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **options)


@RegisterGradient("AvgPool")
def _avg_pool(op: Operation, grad: Tensor) -> Any:
    options = _attrs(op, "ksize", "strides", "padding", "data_format")
    return raw.AvgPoolGrad(orig_input_shape=raw.Shape(input=op.inputs[0]), grad=grad, **options)


@RegisterGradient("AvgPoolGrad")
def _avg_pool_grad(op: Operation, grad: Tensor) -> Any:
    return None, raw.AvgPool(value=grad, **_attrs(op, "ksize", "strides", "padding", "data_format"))


@RegisterGradient("MaxPoolWithArgmax")
def _max_pool_with_argmax(op: Operation, grad: Tensor, _: Any) -> Any:
    options = _attrs(op, "ksize", "strides", "padding", "include_batch_in_index")
    return raw.MaxPoolGradWithArgmax(input=op.inputs[0], grad=grad, argmax=op.outputs[1], **options)


@RegisterGradient("MaxPoolGrad")
def _max_pool_grad(op: Operation, grad: Tensor) -> Any:
    x, y, _ = op.inputs
    second = raw.MaxPoolGradGrad(
        orig_input=x,
        orig_output=y,
        grad=grad,
        **_attrs(op, "ksize", "strides", "padding", "data_format"),
    )
    return raw.ZerosLike(x=x), raw.ZerosLike(x=y), second


_POOL_3D = ("ksize", "strides", "padding", "data_format")


@RegisterGradient("MaxPool3D")
def _max_pool_3d(op: Operation, grad: Tensor) -> Any:
    return raw.MaxPool3DGrad(
        orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **_attrs(op, *_POOL_3D)
    )


@RegisterGradient("AvgPool3D")
def _avg_pool_3d(op: Operation, grad: Tensor) -> Any:
    return raw.AvgPool3DGrad(
        orig_input_shape=raw.Shape(input=op.inputs[0]), grad=grad, **_attrs(op, *_POOL_3D)
    )


@RegisterGradient("AvgPool3DGrad")
def _avg_pool_3d_grad(op: Operation, grad: Tensor) -> Any:
    return None, raw.AvgPool3D(input=grad, **_attrs(op, *_POOL_3D))


def _block_lstm(op: Operation, grads: tuple[Any, ...], op_type: str) -> Any:
    names = ("seq_len_max", "x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    outputs = dict(zip(("i", "cs", "f", "o", "ci", "co", "h"), op.outputs))
    given = dict(zip(names, op.inputs))
    found = getattr(raw, op_type)(
        **given,
        **outputs,
        cs_grad=grads[1],
        h_grad=grads[6],
        use_peephole=op.get_attr("use_peephole"),
    )
    return [None, *found]


@RegisterGradient("BlockLSTM")
def _block_lstm_v1(op: Operation, *grads: Any) -> Any:
    return _block_lstm(op, grads, "BlockLSTMGrad")


@RegisterGradient("BlockLSTMV2")
def _block_lstm_v2(op: Operation, *grads: Any) -> Any:
    return _block_lstm(op, grads, "BlockLSTMGradV2")


@RegisterGradient("BiasAdd")
def _bias_add(op: Operation, grad: Tensor) -> Any:
    return grad, raw.BiasAddGrad(out_backprop=grad, data_format=op.get_attr("data_format"))


@RegisterGradient("BiasAddV1")
def _bias_add_v1(op: Operation, grad: Tensor) -> Any:
    axes = raw.Range(start=0, limit=raw.Rank(input=op.inputs[0]) - 1, delta=1)
    return grad, raw.Sum(input=grad, reduction_indices=axes)


@RegisterGradient("BiasAddGrad")
def _bias_add_grad(op: Operation, grad: Tensor) -> Any:
    shape = raw.Shape(input=op.inputs[0])
    channels_first = op.get_attr("data_format") in (b"NCHW", "NCHW")
    if channels_first:
        rank = raw.Size(input=shape)
        ones = raw.Fill(dims=raw.ExpandDims(input=rank - 2, dim=0), value=convert_to_tensor(1))
        kept = raw.ConcatV2(values=[convert_to_tensor([1, -1]), ones], axis=0)
        grad = raw.Reshape(tensor=grad, shape=kept)
    return raw.BroadcastTo(input=grad, shape=shape)


@RegisterGradient("Softmax")
def _softmax(op: Operation, grad: Tensor) -> Any:
    y = op.outputs[0]
    return (grad - raw.Sum(input=grad * y, reduction_indices=-1, keep_dims=True)) * y


@RegisterGradient("LogSoftmax")
def _log_softmax(op: Operation, grad: Tensor) -> Any:
    return grad - raw.Sum(input=grad, reduction_indices=-1, keep_dims=True) * raw.Exp(
        x=op.outputs[0]
    )


@RegisterGradient("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(op: Operation, grad: Tensor, grad_of_backprop: Tensor) -> Any:
    logits, backprop = op.inputs[0], op.outputs[1]
    wide = raw.ExpandDims(input=grad, dim=-1)
    gradient = wide * backprop
    if grad_of_backprop.op.type not in ("ZerosLike", "Zeros"):
        softmax = raw.Softmax(logits=logits)
        inner = raw.Sum(input=grad_of_backprop * softmax, reduction_indices=-1, keep_dims=True)
        gradient = gradient + (grad_of_backprop - inner) * softmax
    return gradient, wide * -raw.LogSoftmax(logits=logits)


@RegisterGradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_cross_entropy(op: Operation, grad: Tensor, _: Any) -> Any:
    # behind it is a function of the labels that has no gradient
    kept = raw.PreventGradient(
        input=op.outputs[1],
        message="There is no second derivative of sparse_softmax_cross_entropy_with_logits through "
        "its backprop output",
    )
    return raw.ExpandDims(input=grad, dim=-1) * kept, None


def _batch_norm(op: Operation, grad: Tensor, op_type: str, reserve_3: bool) -> Any:
    x, scale = op.inputs[:2]
    training = op.get_attr("is_training")
    arguments: dict[str, Any] = {"y_backprop": grad, "x": x, "scale": scale}
    arguments["reserve_space_1"], arguments["reserve_space_2"] = (
        (op.outputs[3], op.outputs[4]) if training else (op.inputs[3], op.inputs[4])
    )
    if reserve_3:
        arguments["reserve_space_3"] = op.outputs[5]
    found = getattr(raw, op_type)(
        **arguments, **_attrs(op, "epsilon", "data_format", "is_training")
    )
    return found[0], found[1], found[2], None, None


@RegisterGradient("FusedBatchNorm")
def _fused_batch_norm(op: Operation, grad: Tensor, *_: Any) -> Any:
    return _batch_norm(op, grad, "FusedBatchNormGrad", reserve_3=False)


@RegisterGradient("FusedBatchNormV2")
def _fused_batch_norm_v2(op: Operation, grad: Tensor, *_: Any) -> Any:
    return _batch_norm(op, grad, "FusedBatchNormGradV2", reserve_3=False)


@RegisterGradient("FusedBatchNormV3")
def _fused_batch_norm_v3(op: Operation, grad: Tensor, *_: Any) -> Any:
    return _batch_norm(op, grad, "FusedBatchNormGradV3", reserve_3=True)


@RegisterGradient("LRN")
def _lrn(op: Operation, grad: Tensor) -> Any:
    options = _attrs(op, "depth_radius", "bias", "alpha", "beta")
    return raw.LRNGrad(
        input_grads=grad, input_image=op.inputs[0], output_image=op.outputs[0], **options
    )


@RegisterGradient("Dilation2D")
def _dilation2d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    options = _attrs(op, "strides", "rates", "padding")
    return (
        raw.Dilation2DBackpropInput(input=x, filter=w, out_backprop=grad, **options),
        raw.Dilation2DBackpropFilter(input=x, filter=w, out_backprop=grad, **options),
    )


for _op_type in (
    "MaxPoolGradGrad",
    "NonMaxSuppression",
    "NonMaxSuppressionV2",
    "NonMaxSuppressionV3",
):
    NotDifferentiable(_op_type)
