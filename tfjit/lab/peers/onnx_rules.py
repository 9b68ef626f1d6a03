"""Define ops in ONNX (opset 20).

A rule takes (builder, node, *operands) and returns the output's name, or a tuple of them.

An operand is a NumPy value where it is known, else the name of an ONNX value. Images go through
transposes to NCHW and back, as ONNX's convolutions and poolings want; ONNX Runtime removes those
that cancel. Sources: the op documentations of TensorFlow and ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from tfjit.lab.peers.graph import Endpoint, PeerNode
from tfjit.lab.peers.presence import Absent

Operand: TypeAlias = "str | np.ndarray | np.generic"
Rule: TypeAlias = "Callable[..., str | tuple[str, ...]]"
RULES: dict[str, Rule] = {}


class Builder(Protocol):
    """Declare the builder that rules use."""

    def add(self, op: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> Any:
        """Add an ONNX node; its output's name, or a tuple of names."""

    def shape(self, at: Endpoint) -> tuple[int, ...]:
        """The static shape of an output of the TensorFlow graph."""


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for op types."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return add


_SAME = (
    "Relu Tanh Sigmoid Exp Log Erf Sqrt Abs Neg Floor Ceil Reciprocal Sign Sin Cos Sub Mul "
    "Pow "
    "Greater Less Equal Identity"
)
_OTHER = """
    AddV2=Add Add=Add BiasAdd=Add RealDiv=Div Maximum=Max Minimum=Min
    GreaterEqual=GreaterOrEqual LessEqual=LessOrEqual LogicalAnd=And LogicalOr=Or LogicalNot=Not
    Select=Where SelectV2=Where StopGradient=Identity IsNan=IsNaN IsInf=IsInf
"""
_NAMED = {op: op for op in _SAME.split()} | dict(pair.split("=") for pair in _OTHER.split())
for _op, _name in _NAMED.items():
    RULES[_op] = lambda b, node, *inputs, _name=_name: b.add(_name, *inputs)

_REDUCTIONS = {
    "Sum": "ReduceSum",
    "Mean": "ReduceMean",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
}
for _op, _name in _REDUCTIONS.items():
    RULES[_op] = lambda b, node, x, axes, _name=_name: b.add(
        _name, x, _longs(axes), keepdims=int(node.attrs["keep_dims"])
    )


def _longs(values: Operand | Sequence[int]) -> np.ndarray:
    if isinstance(values, str):
        raise Absent("an operand that must be constant is computed")
    return np.ravel(values).astype(np.int64)


@rule("Square")
def _square(b: Builder, node: PeerNode, x: Operand) -> str:
    return b.add("Mul", x, x)


@rule("Rsqrt")
def _rsqrt(b: Builder, node: PeerNode, x: Operand) -> str:
    return b.add("Reciprocal", b.add("Sqrt", x))


@rule("Relu6")
def _relu6(b: Builder, node: PeerNode, x: Operand) -> str:
    return b.add("Clip", x, np.float32(0), np.float32(6))


@rule("SquaredDifference")
def _squared_difference(b: Builder, node: PeerNode, x: Operand, y: Operand) -> str:
    difference = b.add("Sub", x, y)
    return b.add("Mul", difference, difference)


@rule("IsFinite")
def _is_finite(b: Builder, node: PeerNode, x: Operand) -> str:
    return b.add("Not", b.add("Or", b.add("IsInf", x), b.add("IsNaN", x)))


@rule("Cast")
def _cast(b: Builder, node: PeerNode, x: Operand) -> str:
    import onnx

    return b.add("Cast", x, to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(node.attrs["DstT"])))


@rule("Softmax")
def _softmax(b: Builder, node: PeerNode, x: Operand) -> str:
    return b.add("Softmax", x, axis=-1)


@rule("SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(b: Builder, node: PeerNode, logits: Operand, labels: Operand) -> str:
    return b.add("SoftmaxCrossEntropyLoss", logits, labels, reduction="none")


@rule("Reshape")
def _reshape(b: Builder, node: PeerNode, x: Operand, shape: Operand) -> str:
    # known sizes where the graph computes them
    return b.add("Reshape", x, np.array(b.shape((node.name, 0)), np.int64))


@rule("Transpose")
def _transpose(b: Builder, node: PeerNode, x: Operand, order: Operand) -> str:
    return b.add("Transpose", x, perm=_longs(order).tolist())


@rule("Squeeze")
def _squeeze(b: Builder, node: PeerNode, x: Operand) -> str:
    axes = node.attrs["squeeze_dims"]
    return b.add("Squeeze", x, _longs(axes)) if axes else b.add("Squeeze", x)


@rule("ExpandDims")
def _expand_dims(b: Builder, node: PeerNode, x: Operand, axis: Operand) -> str:
    return b.add("Unsqueeze", x, _longs(axis))


@rule("Pad")
def _pad(b: Builder, node: PeerNode, x: Operand, paddings: Operand) -> str:
    return b.add("Pad", x, _longs(np.transpose(paddings)))


@rule("ConcatV2")
def _concat(b: Builder, node: PeerNode, *inputs: Operand) -> str:
    return b.add("Concat", *inputs[:-1], axis=int(_longs(inputs[-1])[0]))


@rule("Pack")
def _pack(b: Builder, node: PeerNode, *inputs: Operand) -> str:
    axis = node.attrs["axis"]
    return b.add("Concat", *[b.add("Unsqueeze", x, _longs(axis)) for x in inputs], axis=axis)


@rule("Unpack")
def _unpack(b: Builder, node: PeerNode, x: Operand) -> tuple[str, ...]:
    axis, count = node.attrs["axis"], node.attrs["num"]
    parts = b.add("Split", x, outputs=count, axis=axis, num_outputs=count)
    return tuple(
        b.add("Squeeze", part, _longs(axis)) for part in (parts if count > 1 else (parts,))
    )


@rule("GatherV2")
def _gather(b: Builder, node: PeerNode, table: Operand, indices: Operand, axis: Operand) -> str:
    return b.add("Gather", table, indices, axis=int(_longs(axis)[0]))


@rule("StridedSlice")
def _strided_slice(
    b: Builder, node: PeerNode, x: Operand, begin: Operand, end: Operand, strides: Operand
) -> str:
    masks = node.attrs
    if (
        masks["ellipsis_mask"]
        or masks["new_axis_mask"]
        or masks["shrink_axis_mask"]
        or min(_longs(strides)) < 1
    ):
        raise Absent("a StridedSlice of this kind is not translated")
    axes = np.arange(len(_longs(begin)))
    first = np.where(masks["begin_mask"] >> axes & 1, 0, _longs(begin))
    last = np.where(masks["end_mask"] >> axes & 1, np.iinfo(np.int64).max, _longs(end))
    return b.add("Slice", x, first, last, axes, _longs(strides))


def _flipped(b: Builder, x: Operand, rank: int) -> Operand:
    if not isinstance(x, str):
        return np.ascontiguousarray(np.swapaxes(x, -1, -2))
    return b.add("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@rule("MatMul", "BatchMatMulV2")
def _matmul(b: Builder, node: PeerNode, x: Operand, y: Operand) -> str:
    first, second = ("transpose_a", "transpose_b") if node.op == "MatMul" else ("adj_x", "adj_y")
    x = _flipped(b, x, len(b.shape(node.inputs[0]))) if node.attrs[first] else x
    y = _flipped(b, y, len(b.shape(node.inputs[1]))) if node.attrs[second] else y
    return b.add("MatMul", x, y)


def _windowed(
    b: Builder, node: PeerNode, op: str, x: Operand, *others: Operand, **attributes: Any
) -> str:
    """An ONNX op on NCHW images for an NHWC one."""
    if node.attrs.get("data_format", "NHWC") != "NHWC" or node.attrs["padding"] not in (
        "SAME",
        "VALID",
    ):
        raise Absent(f"{node.op} with this layout or padding is not translated")
    padding = "SAME_UPPER" if node.attrs["padding"] == "SAME" else "VALID"
    channels_first = b.add("Transpose", x, perm=[0, 3, 1, 2])
    y = b.add(
        op,
        channels_first,
        *others,
        strides=node.attrs["strides"][1:3],
        auto_pad=padding,
        **attributes,
    )
    return b.add("Transpose", y, perm=[0, 2, 3, 1])


@rule("Conv2D")
def _conv(b: Builder, node: PeerNode, x: Operand, weights: Operand) -> str:
    if isinstance(weights, str):
        raise Absent("a convolution with computed weights is not translated")
    channels_first = np.ascontiguousarray(np.transpose(weights, (3, 2, 0, 1)))
    return _windowed(
        b,
        node,
        "Conv",
        x,
        channels_first,
        dilations=node.attrs["dilations"][1:3],
        kernel_shape=list(weights.shape[:2]),
    )


@rule("DepthwiseConv2dNative")
def _depthwise(b: Builder, node: PeerNode, x: Operand, weights: Operand) -> str:
    if isinstance(weights, str):
        raise Absent("a convolution with computed weights is not translated")
    height, width, channels, multiplier = weights.shape
    channels_first = np.ascontiguousarray(
        np.transpose(weights, (2, 3, 0, 1)).reshape(channels * multiplier, 1, height, width)
    )
    dilations = node.attrs["dilations"][1:3]
    return _windowed(
        b,
        node,
        "Conv",
        x,
        channels_first,
        group=channels,
        dilations=dilations,
        kernel_shape=[height, width],
    )


@rule("MaxPool")
def _max_pool(b: Builder, node: PeerNode, x: Operand) -> str:
    return _windowed(b, node, "MaxPool", x, kernel_shape=node.attrs["ksize"][1:3])


@rule("AvgPool")
def _avg_pool(b: Builder, node: PeerNode, x: Operand) -> str:
    return _windowed(
        b, node, "AveragePool", x, kernel_shape=node.attrs["ksize"][1:3], count_include_pad=0
    )
