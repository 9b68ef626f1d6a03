"""Define ops in terms of PyTorch, for inference and for training steps.

A rule takes (node, *inputs) and returns the output, or a tuple where an op has several. Inputs that
are NumPy arrays are shapes and axes. Images are in NHWC order, as the graphs have them: PyTorch gets
them as views in its memory format "channels last". Sources: TensorFlow's op documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjit.lab.peers.graph import PeerNode
from tfjit.lab.peers.numpy_like import slices
from tfjit.lab.peers.presence import Absent

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Register a rule for op types."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, function))
        return function

    return add


_NAMED = """
    AddV2=add Add=add BiasAdd=add Sub=sub Mul=mul RealDiv=div Maximum=maximum Minimum=minimum Tanh=tanh Sigmoid=sigmoid
    Exp=exp Log=log Sqrt=sqrt Rsqrt=rsqrt Square=square Neg=neg Relu=relu Abs=abs Erf=erf ZerosLike=zeros_like
"""


def _plain(name: str) -> Rule:
    def apply(node: PeerNode, *inputs: Any) -> Any:
        import torch

        return getattr(torch, name)(*inputs)

    return apply


for _op, _name in (pair.split("=") for pair in _NAMED.split()):
    RULES[_op] = _plain(_name)


def _ints(values: Any) -> list[int]:
    return [int(v) for v in np.ravel(values)]


@rule("Identity", "PreventGradient", "StopGradient")
def _identity(node: PeerNode, x: Any) -> Any:
    return x


@rule("Relu6")
def _relu6(node: PeerNode, x: Any) -> Any:
    return x.clamp(0, 6)


@rule("Softmax")
def _softmax(node: PeerNode, x: Any) -> Any:
    return x.softmax(-1)


@rule("SquaredDifference")
def _squared_difference(node: PeerNode, a: Any, b: Any) -> Any:
    return (a - b).square()


@rule("Mean", "Sum")
def _reduce(node: PeerNode, x: Any, axes: Any) -> Any:
    reduce = x.mean if node.op == "Mean" else x.sum
    dims = _ints(axes)
    return reduce(dim=dims, keepdim=node.attrs["keep_dims"]) if dims else x


@rule("Reshape")
def _reshape(node: PeerNode, x: Any, shape: Any) -> Any:
    return x.reshape(_ints(shape))


@rule("BroadcastTo")
def _broadcast(node: PeerNode, x: Any, shape: Any) -> Any:
    return x.expand(_ints(shape))


@rule("Tile")
def _tile(node: PeerNode, x: Any, multiples: Any) -> Any:
    return x.tile(_ints(multiples))


@rule("Transpose")
def _transpose(node: PeerNode, x: Any, order: Any) -> Any:
    return x.permute(_ints(order))


@rule("ConcatV2")
def _concat(node: PeerNode, *inputs: Any) -> Any:
    import torch

    return torch.cat(inputs[:-1], dim=int(inputs[-1]))


@rule("Pack")
def _pack(node: PeerNode, *inputs: Any) -> Any:
    import torch

    return torch.stack(inputs, dim=node.attrs["axis"])


@rule("StridedSlice")
def _slice(node: PeerNode, x: Any, begin: Any, end: Any, strides: Any) -> Any:
    return x[slices(node, begin, end, strides)]


@rule("MatMul")
def _matmul(node: PeerNode, a: Any, b: Any) -> Any:
    a = a.T if node.attrs["transpose_a"] else a
    return a @ (b.T if node.attrs["transpose_b"] else b)


@rule("BatchMatMulV2")
def _batch_matmul(node: PeerNode, a: Any, b: Any) -> Any:
    a = a.mT if node.attrs["adj_x"] else a
    return a @ (b.mT if node.attrs["adj_y"] else b)


# images


def _nchw(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def _nhwc(x: Any) -> Any:
    return x.permute(0, 2, 3, 1)


def _sides(size: int, window: int, stride: int, padding: str) -> tuple[int, int]:
    """Return the padding before and behind one axis."""
    if padding == "VALID":
        return 0, 0
    if padding != "SAME":
        raise Absent(f"padding {padding} is not translated")
    whole = max((-(-size // stride) - 1) * stride + window - size, 0)
    return whole // 2, whole - whole // 2


def _padded(
    node: PeerNode, shape: Sequence[int], window: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return strides and padding (left, right, top, bottom) of a window op."""
    if node.attrs.get("data_format", "NHWC") != "NHWC":
        raise Absent(f"{node.op} of another layout is not translated")
    strides = list(node.attrs["strides"][1:3])
    top, left = (_sides(shape[1 + k], window[k], strides[k], node.attrs["padding"]) for k in (0, 1))
    return strides, [*left, *top]


@rule("Pad")
def _pad(node: PeerNode, x: Any, paddings: Any) -> Any:
    import torch

    return torch.nn.functional.pad(x, [n for pair in _rows(paddings)[::-1] for n in pair])


def _rows(paddings: Any) -> list[list[int]]:
    return [[int(n) for n in pair] for pair in np.asarray(paddings)]


def _convolved(node: PeerNode, x: Any, weights: Any, groups: int) -> Any:
    import torch

    strides, padding = _padded(node, x.shape, weights.shape)
    images = torch.nn.functional.pad(_nchw(x), padding)
    filters = weights.permute(3, 2, 0, 1)
    return _nhwc(torch.nn.functional.conv2d(images, filters, stride=strides, groups=groups))


@rule("Conv2D")
def _conv(node: PeerNode, x: Any, weights: Any) -> Any:
    return _convolved(node, x, weights, 1)


@rule("DepthwiseConv2dNative")
def _depthwise(node: PeerNode, x: Any, weights: Any) -> Any:
    height, width, channels, multiplier = weights.shape
    flat = weights.reshape(height, width, 1, channels * multiplier)
    return _convolved(node, x, flat, channels)


@rule("Conv2DBackpropInput")
def _conv_input_gradient(node: PeerNode, sizes: Any, weights: Any, dy: Any) -> Any:
    import torch

    shape = _ints(sizes)
    strides, (left, right, top, bottom) = _padded(node, shape, weights.shape)
    n, height, width, channels = shape
    whole = (n, channels, height + top + bottom, width + left + right)
    found = torch.nn.grad.conv2d_input(
        whole, weights.permute(3, 2, 0, 1).contiguous(), _nchw(dy), stride=strides
    )
    return _nhwc(found[:, :, top : top + height, left : left + width])


@rule("Conv2DBackpropFilter")
def _conv_filter_gradient(node: PeerNode, x: Any, sizes: Any, dy: Any) -> Any:
    import torch

    height, width, before, after = _ints(sizes)
    strides, padding = _padded(node, x.shape, (height, width))
    images = torch.nn.functional.pad(_nchw(x), padding)
    found = torch.nn.grad.conv2d_weight(
        images, (after, before, height, width), _nchw(dy), stride=strides
    )
    return found.permute(2, 3, 1, 0)


def _pooled(node: PeerNode, x: Any) -> Any:
    import torch

    window = list(node.attrs["ksize"][1:3])
    strides, padding = _padded(node, x.shape, window)
    images = torch.nn.functional.pad(_nchw(x), padding, value=-float("inf"))
    return torch.nn.functional.max_pool2d(images, window, strides, return_indices=True), padding


@rule("MaxPool")
def _max_pool(node: PeerNode, x: Any) -> Any:
    return _nhwc(_pooled(node, x)[0][0])


@rule("MaxPoolGrad")
def _max_pool_gradient(node: PeerNode, x: Any, y: Any, dy: Any) -> Any:
    import torch

    (_, places), (left, right, top, bottom) = _pooled(node, x)
    n, height, width, channels = x.shape
    rows, columns = height + top + bottom, width + left + right
    flat = torch.zeros(n, channels, rows * columns, dtype=x.dtype, device=x.device)
    flat = flat.scatter_add(2, places.flatten(2), _nchw(dy).flatten(2))
    whole = flat.reshape(n, channels, rows, columns)
    return _nhwc(whole[:, :, top : top + height, left : left + width])


# training


@rule("ReluGrad")
def _relu_gradient(node: PeerNode, dy: Any, x: Any) -> Any:
    return dy * (x > 0)


@rule("BiasAddGrad")
def _bias_gradient(node: PeerNode, dy: Any) -> Any:
    return dy.sum(dim=list(range(dy.ndim - 1)))


@rule("SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(node: PeerNode, logits: Any, labels: Any) -> Any:
    import torch

    rows = labels.long()[:, None]
    logs = logits.log_softmax(-1)
    ones = torch.zeros_like(logs).scatter(1, rows, 1.0)
    return -logs.gather(1, rows)[:, 0], logs.exp() - ones


__all__ = ["RULES"]
