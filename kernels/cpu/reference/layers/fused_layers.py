"""Compute the layers that TensorFlow's graph optimiser joins, in NumPy.

They occur in graphs saved after that optimiser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tfjit.kernels.cpu.conv.window import attr_text
from tfjit.kernels.cpu.reference.images.resize import bilinear, sized
from tfjit.kernels.cpu.reference.inputs import Arrays, compute_dtype, invalid
from tfjit.kernels.registry import NodeSpec, find_reference, reference

Array = np.ndarray


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.where(x > 0, x, x.dtype.type(0)) + x.dtype.type(0) * x,
    "Relu6": lambda x: np.clip(x, 0, 6),
    "Elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "GeluExact": lambda x: x * (x.dtype.type(0.5) * (1 + _erf(x / x.dtype.type(math.sqrt(2))))),
    "GeluApproximate": lambda x: (
        x.dtype.type(0.5)
        * x
        * (
            1
            + np.tanh(
                x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
            )
        )
    ),
}


def _run(op: str, node: NodeSpec, inputs: Sequence[Array]) -> Array:
    """Return the output of another op type's reference kernel for this node."""
    kernel = find_reference(op)
    assert kernel is not None, op
    return np.asarray(kernel(replace(node, op=op), inputs)[0])


def _finish(node: NodeSpec, y: Array, args: Sequence[Array], channels_first: bool) -> Array:
    """Apply the fused ops behind a layer, in order.

    Each takes its operands from the further inputs.
    """
    dtype = y.dtype
    y = y.astype(compute_dtype(dtype), copy=False)
    left = [a.astype(y.dtype, copy=False) for a in args]
    shape = (-1, *[1] * (y.ndim - 2)) if channels_first else (-1,)
    with np.errstate(all="ignore"):
        for name in (value.decode() for value in node.attrs["fused_ops"]):
            if name == "BiasAdd":
                y = y + left.pop(0).reshape(shape)
            elif name == "FusedBatchNorm":
                scale, offset, mean, variance = (left.pop(0).reshape(shape) for _ in range(4))
                factor = scale / np.sqrt(variance + y.dtype.type(node.attrs["epsilon"]))
                y = (y - mean) * factor + offset
            elif name == "Add":
                y = y + left.pop(0)
            elif name == "LeakyRelu":
                y = np.where(y > 0, y, y * y.dtype.type(node.attrs["leakyrelu_alpha"]))
            elif name in _ACTIVATIONS:
                y = _ACTIVATIONS[name](y)
            else:
                invalid(
                    "Unrecognized or unsupported fusion: "
                    f"{','.join(v.decode() for v in node.attrs['fused_ops'])}"
                )
    return y.astype(dtype, copy=False)


def _layer(op: str) -> Any:
    def kernel(node: NodeSpec, inputs: Arrays) -> Arrays:
        """Compute a layer with its fused ops applied.

        input, filter (or a, b), then the operands of the fused ops -> the layer's output.
        """
        if not node.attrs["fused_ops"]:
            invalid("Fused layer must have at least one fused op.")
        if attr_text(node.attrs, "filter_format", "HWIO") != "HWIO":
            invalid(f"{node.op} takes filters as HWIO only")
        first = attr_text(node.attrs, "data_format", "NHWC").startswith("NC")
        return (_finish(node, _run(op, node, inputs[:2]), inputs[2:], first),)

    return kernel


reference("_FusedConv2D")(_layer("Conv2D"))
reference("_FusedConv3D")(_layer("Conv3D"))
reference("_FusedDepthwiseConv2dNative")(_layer("DepthwiseConv2dNative"))
reference("_FusedMatMul")(_layer("MatMul"))


@reference("_FusedBatchNormEx")
def _batch_norm(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute batch normalisation with side input and activation.

    x, scale, offset, mean, variance, at most one side_input -> FusedBatchNormV3's outputs.
    """
    kernel = find_reference("FusedBatchNormV3")
    assert kernel is not None
    y, *rest = kernel(replace(node, op="FusedBatchNormV3"), inputs[:5])
    mode = attr_text(node.attrs, "activation_mode", "Identity")
    if mode not in ("Identity", "Relu"):
        invalid(f"Unsupported activation mode: {mode}")
    for side in inputs[5:]:
        y = y + side
    return np.maximum(y, y.dtype.type(0)) if mode == "Relu" else np.asarray(y), *rest


def _pad(images: Array, paddings: Array, node: NodeSpec) -> Array:
    if paddings.shape != (images.ndim, 2):
        invalid(
            f"The first dimension of paddings must be the rank of inputs: {list(paddings.shape)}, "
            f"{list(images.shape)}"
        )
    reflect = attr_text(node.attrs, "mode") == "REFLECT"
    for size, pads in zip(images.shape, paddings.tolist()):
        if min(pads) < 0 or max(pads) > size - reflect:
            invalid(
                f"paddings must be no greater than the dimension size: {pads[0]}, {pads[1]} "
                f"greater than {size - reflect}"
            )
    return np.pad(images, paddings.tolist(), mode="reflect" if reflect else "symmetric")


@reference("FusedPadConv2D")
def _pad_conv(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute Conv2D of the mirrored image.

    input [batch, h, w, c], paddings [4, 2], filter.
    """
    images, paddings, filters = inputs
    return (_run("Conv2D", node, [_pad(images, paddings, node), filters]),)


@reference("FusedResizeAndPadConv2D")
def _resize_pad_conv(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute Conv2D of the image resized bilinearly and mirrored.

    input [batch, h, w, c], size [2], paddings [4, 2], filter.
    """
    images, size, paddings, filters = inputs
    resize = replace(
        node,
        attrs={"align_corners": node.attrs["resize_align_corners"], "half_pixel_centers": False},
    )
    resized = bilinear(resize, images, *sized(resize, images, size)).astype(
        images.dtype, copy=False
    )
    return (_run("Conv2D", node, [_pad(resized, paddings, node), filters]),)


@reference("_UnaryOpsComposition")
def _composition(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Apply the unary ops of `op_names` to x, one after the other."""
    value = inputs[0]
    for name in node.attrs["op_names"]:
        value = _run(name.decode(), node, [value])
    return (value,)
