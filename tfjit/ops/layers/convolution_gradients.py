"""Define public functions of convolutions' gradients: depthwise ones, and of volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.apply import tensor
from tfjit.ops.layers.convolution_functions import padding_attrs

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import PaddingLike, TensorLike


def depthwise_conv2d_native_backprop_input(
    input_sizes: TensorLike,
    filter: TensorLike,
    out_backprop: TensorLike,
    strides: Sequence[int],
    padding: PaddingLike,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `depthwise_conv2d_native` by its input, of shape input_sizes."""
    kind, explicit = padding_attrs(padding, data_format == "NCHW")
    return tensor(
        "DepthwiseConv2dNativeBackpropInput",
        name,
        input_sizes=input_sizes,
        filter=filter,
        out_backprop=out_backprop,
        strides=list(strides),
        padding=kind,
        explicit_paddings=explicit,
        data_format=data_format,
        dilations=list(dilations),
    )


def depthwise_conv2d_native_backprop_filter(
    input: TensorLike,
    filter_sizes: TensorLike,
    out_backprop: TensorLike,
    strides: Sequence[int],
    padding: PaddingLike,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `depthwise_conv2d_native` by its filter, of shape filter_sizes."""
    kind, explicit = padding_attrs(padding, data_format == "NCHW")
    return tensor(
        "DepthwiseConv2dNativeBackpropFilter",
        name,
        input=input,
        filter_sizes=filter_sizes,
        out_backprop=out_backprop,
        strides=list(strides),
        padding=kind,
        explicit_paddings=explicit,
        data_format=data_format,
        dilations=list(dilations),
    )


depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter


def conv3d_backprop_filter_v2(
    input: TensorLike,
    filter_sizes: TensorLike,
    out_backprop: TensorLike,
    strides: Sequence[int],
    padding: str,
    data_format: str = "NDHWC",
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `conv3d` by its filter, of shape filter_sizes."""
    return tensor(
        "Conv3DBackpropFilterV2",
        name,
        input=input,
        filter_sizes=filter_sizes,
        out_backprop=out_backprop,
        strides=list(strides),
        padding=padding,
        data_format=data_format,
        dilations=list(dilations),
    )


conv3d_backprop_filter = conv3d_backprop_filter_v2
