"""Lower convolutions and pooling of volumes to those of images.

A volume is a batch of images. So the kernels and libraries for images serve volumes, too.
"""

from __future__ import annotations

from math import prod
from typing import Final

from tfjit.framework.types import dtypes
from tfjit.passes.canonicalize.volume_maker import Depth, Sizes, Tensor, VolumeMaker, depth_of
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext

_MOST_BYTES: Final = 1 << 30
"""The largest array of unfolded images.

A volume may be as many times smaller as a filter is deep.
"""
_HALVES: Final = (dtypes.float16, dtypes.bfloat16)


class _Convolution:
    """A convolution of volumes as one of images.

    x [batch, depth, height, width, c], filter [d, h, w, c, o].

    Each image of the result belongs to the images of x under the taps along depth: these side by
    side, as channels, are the image that a 2-D convolution takes.
    """

    def __init__(self, make: VolumeMaker, x: Sizes, w: Sizes, result: Sizes) -> None:
        if not len(x) == len(w) == len(result) == 5 or x[4] != w[3]:
            raise Declined("input, filter and result do not fit")
        self.make = make
        attrs = make.node.attrs
        strides, dilations = make.spatial("strides"), make.spatial("dilations")
        padding = attrs["padding"]
        self.depth = depth_of(x[1], w[0], strides[0], dilations[0], result[1], padding)
        self.x, self.w, self.result = x, w, result
        self.images: Sizes = (x[0] * result[1], *x[2:4], w[0] * x[4])
        self.filter: Sizes = (*w[1:3], w[0] * w[3], w[4])
        self.results: Sizes = (x[0] * result[1], *result[2:])
        if prod(self.images) * make.dtype.size > _MOST_BYTES:
            raise Declined("the images under all taps would take more than 1 GiB")
        self.attrs = {
            "strides": make.flat("strides"),
            "dilations": make.flat("dilations"),
            "padding": padding,
            "data_format": b"NHWC",
        }

    def unfolded(self, x: Tensor) -> Tensor:
        """Add the images with all taps as channels."""
        make, depth = self.make, self.depth
        x = make.pad(x, 1, depth.before, depth.padded - depth.before - depth.length)
        taps = [
            make.places(x, 1, tap * depth.dilation, depth.out, depth.stride)
            for tap in range(depth.size)
        ]
        shape = (*self.result[:2], *self.images[1:])
        if len(taps) > 1:
            inputs = [*taps, make.axis(4)]
            taps = [make.op("ConcatV2", inputs, shape, N=depth.size, Tidx=dtypes.int32)]
        return make.reshape(taps[0], self.images)

    def folded(self, images: Tensor) -> Tensor:
        """Add the volumes of unfolded images, with sums over the taps."""
        make, depth = self.make, self.depth
        batch, height, width, channels = self.x[0], *self.x[2:]
        whole = make.reshape(images, (batch, depth.out, *self.images[1:]))
        parts = []
        for tap in range(depth.size):
            part = make.places(whole, 4, tap * channels, channels)
            if depth.stride > 1:
                apart = make.reshape(part, (batch, depth.out, 1, height * width, channels))
                apart = make.pad(apart, 2, 0, depth.stride - 1)
                length = depth.out * depth.stride
                part = make.reshape(apart, (batch, length, height, width, channels))
                part = make.places(part, 1, 0, length - depth.stride + 1)
            first = tap * depth.dilation
            reach = (depth.out - 1) * depth.stride + 1
            parts.append(make.pad(part, 1, first, depth.padded - first - reach))
        total = parts[0]
        if len(parts) > 1:
            shape = (batch, depth.padded, height, width, channels)
            total = make.op("AddN", parts, shape, N=len(parts))
        return make.places(total, 1, depth.before, depth.length)

    def flat_filter(self, w: Tensor) -> Tensor:
        """Add the filter [h, w, d * c, o]."""
        moved = self.make.transpose(w, (1, 2, 0, 3, 4)) if self.depth.size > 1 else w
        target = self.make.numbers(self.filter)
        return self.make.op("Reshape", [moved, target], self.filter, Tshape=dtypes.int32)


def lower_conv3d(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Lower Conv3D to Conv2D.

    Before: Conv3D(x, w)
    After: Reshape(Conv2D(images of x under the taps along depth, w transposed))

    Sums are the same; their rounding may differ. The last node keeps the name. Fires where the
    shapes are known and not empty. Raises Declined, with the reason, elsewhere.
    """
    make = VolumeMaker(graph, node)
    x, w = graph.inputs(node.name)
    result = make.result_shape()
    volumes = make.channels_last(x)
    form = _Convolution(make, make.shape(volumes), make.shape(w), result)
    inputs = [form.unfolded(volumes), form.flat_filter(w)]
    make.become(make.op("Conv2D", inputs, form.results, **form.attrs), result)
    return "a convolution of images"


def lower_conv3d_input_gradient(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Lower the gradient of Conv3D's input to Conv2DBackpropInput.

    Before: Conv3DBackpropInputV2(sizes, w, dy)
    After: the sum of Conv2DBackpropInput(sizes of images, w transposed, images of dy) over the taps

    Fires and raises as `lower_conv3d` does.
    """
    make = VolumeMaker(graph, node)
    _, w, dy = graph.inputs(node.name)
    gradients = make.channels_last(dy)
    x = make.result_shape()
    form = _Convolution(make, x, make.shape(w), make.shape(gradients))
    inputs = [
        make.numbers(form.images),
        form.flat_filter(w),
        make.reshape(gradients, form.results),
    ]
    images = make.op("Conv2DBackpropInput", inputs, form.images, **form.attrs)
    make.become(form.folded(images), x)
    return "a gradient of images"


def lower_conv3d_filter_gradient(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Lower the gradient of Conv3D's filter to Conv2DBackpropFilter.

    Before: Conv3DBackpropFilterV2(x, sizes, dy)
    After: Transpose(Conv2DBackpropFilter(images of x, sizes of filters, images of dy))

    Fires and raises as `lower_conv3d` does.
    """
    make = VolumeMaker(graph, node)
    x, _, dy = graph.inputs(node.name)
    w = make.filter_shape()
    volumes, gradients = make.channels_last(x), make.channels_last(dy)
    form = _Convolution(make, make.shape(volumes), w, make.shape(gradients))
    inputs = [
        form.unfolded(volumes),
        make.numbers(form.filter),
        make.reshape(gradients, form.results),
    ]
    made = make.op("Conv2DBackpropFilter", inputs, form.filter, **form.attrs)
    split = (*w[1:3], w[0], *w[3:])
    target = make.numbers(split)
    apart = make.op("Reshape", [made, target], split, Tshape=dtypes.int32)
    make.become_transposed(apart, (2, 0, 1, 3, 4))
    return "a gradient of a filter of images"


class _Pooling:
    """Pooling of volumes in two parts: over images, then over depth.

    rows: the images with height and width as one axis, [batch, depth, height * width, c].
    """

    def __init__(self, make: VolumeMaker, x: Sizes, result: Sizes) -> None:
        if not len(x) == len(result) == 5:
            raise Declined("input and result are no volumes")
        self.make, self.x, self.result = make, x, result
        (size, *_), (stride, *_) = make.spatial("ksize"), make.spatial("strides")
        padding = make.node.attrs["padding"]
        self.depth: Depth = depth_of(x[1], size, stride, 1, result[1], padding)
        self.images: Sizes = (x[0] * x[1], *x[2:])
        self.pooled: Sizes = (x[0] * x[1], *result[2:])
        self.rows: Sizes = (x[0], x[1], result[2] * result[3], x[4])
        self.results: Sizes = (x[0], result[1], result[2] * result[3], x[4])
        common = {"padding": padding, "data_format": b"NHWC"}
        self.over_images = {
            "ksize": make.flat("ksize"), "strides": make.flat("strides"), **common,
        }  # fmt: skip
        self.over_depth = {"ksize": [1, size, 1, 1], "strides": [1, stride, 1, 1], **common}


def lower_pool3d(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Lower MaxPool3D and AvgPool3D to pooling over images, then over depth.

    Before: MaxPool3D(x)
    After: MaxPool(MaxPool(images of x; height, width); depth)

    The padding of an axis is left out of means, so that means of means are those of the windows;
    their rounding may differ. Halves are averaged in float32. Fires where the shapes are known and
    not empty. Raises Declined, with the reason, elsewhere.
    """
    make = VolumeMaker(graph, node)
    (x,) = graph.inputs(node.name)
    op = node.op.removesuffix("3D")
    result = make.result_shape()
    volumes = make.channels_last(x)
    form = _Pooling(make, make.shape(volumes), result)
    halves = op == "AvgPool" and make.dtype in _HALVES
    images = make.reshape(volumes, form.images)
    if halves:
        images = make.widened(images)
    pooled = make.op(op, [images], form.pooled, **form.over_images)
    if not form.depth.is_trivial:
        rows = make.reshape(pooled, form.rows)
        pooled = make.op(op, [rows], form.results, **form.over_depth)
    if halves:
        pooled = make.narrowed(pooled)
    make.become(pooled, result)
    return "pooling over images and over depth"


def lower_max_pool3d_gradient(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Lower MaxPool3DGrad to the gradients of pooling over depth, then over images.

    Before: MaxPool3DGrad(x, y, dy)
    After: MaxPoolGrad(images of x, p, MaxPoolGrad(p, y, dy; depth); height, width)

    p is the pooled images of x. Ties go to the first image, then to the first place of it: the
    first place of the window. Fires and raises as `lower_pool3d` does.
    """
    make = VolumeMaker(graph, node)
    if node.attrs.get("TInput", make.dtype) is not make.dtype:
        raise Declined("input and gradient have different types")
    x, y, dy = map(make.channels_last, graph.inputs(node.name))
    form = _Pooling(make, make.shape(x), make.shape(dy))
    images = make.reshape(x, form.images)
    pooled = make.op("MaxPool", [images], form.pooled, **form.over_images)
    if form.depth.is_trivial:
        back = make.reshape(dy, form.pooled)
    else:
        rows = make.reshape(pooled, form.rows)
        inputs = [rows, make.reshape(y, form.results), make.reshape(dy, form.results)]
        back = make.op("MaxPoolGrad", inputs, form.rows, **form.over_depth)
        back = make.reshape(back, form.pooled)
    inputs = [images, pooled, back]
    make.become(make.op("MaxPoolGrad", inputs, form.images, **form.over_images), form.x)
    return "gradients over depth and over images"


def lower_avg_pool3d_gradient(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Lower AvgPool3DGrad to the gradients of pooling over depth, then over images.

    Before: AvgPool3DGrad(sizes, dy)
    After: AvgPoolGrad(sizes of images, AvgPoolGrad(sizes of rows, dy; depth); height, width)

    Halves are summed in float32. Fires and raises as `lower_pool3d` does.
    """
    make = VolumeMaker(graph, node)
    dy = make.channels_last(graph.inputs(node.name)[1])
    form = _Pooling(make, make.result_shape(), make.shape(dy))
    halves = make.dtype in _HALVES
    back = make.reshape(dy, form.results)
    if halves:
        back = make.widened(back)
    if not form.depth.is_trivial:
        sizes = make.numbers(form.rows)
        back = make.op("AvgPoolGrad", [sizes, back], form.rows, **form.over_depth)
    inputs = [make.numbers(form.images), make.reshape(back, form.pooled)]
    back = make.op("AvgPoolGrad", inputs, form.images, **form.over_images)
    if halves:
        back = make.narrowed(back)
    make.become(back, form.x)
    return "gradients over depth and over images"


__all__ = [
    "lower_avg_pool3d_gradient", "lower_conv3d", "lower_conv3d_filter_gradient",
    "lower_conv3d_input_gradient", "lower_max_pool3d_gradient", "lower_pool3d",
]  # fmt: skip
