"""Build maximum and mean pooling with their gradients.

Both layouts of images are served.
"""

from __future__ import annotations

from tfjit.kernels.cpu.conv.window import Layout, Window, pool_layout
from tfjit.kernels.cuda.conv.conv import sizes_of
from tfjit.kernels.cuda.conv.window_text import Op
from tfjit.kernels.cuda.conv.windows import Images, windows_call
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec


def _images(spec: TensorSpec, layout: Layout) -> tuple[Images, tuple[Window, Window]]:
    """Return pooled images and the windows over them."""
    batch, height, width, channels = sizes_of(spec.shape, layout)
    return (
        Images(batch, height, width, channels, layout.channels_last),
        layout.windows(height, width),
    )


def _pool(node: NodeSpec, op: Op) -> NativeCall:
    x = node.inputs[0]
    layout = pool_layout(node, 1)
    images, (rows, columns) = _images(x, layout)
    result = Images(images.batch, rows.out, columns.out, images.channels, layout.channels_last)
    size = images.height, images.width
    moved = x.nbytes + node.outputs[0].nbytes
    return windows_call(
        op, x.dtype, result, size, (rows, columns), (Pointer("in", 0),), bytes_moved=moved
    )


@device_native("MaxPool", "MaxPoolV2")
def _max_pool(node: NodeSpec) -> NativeCall:
    return _pool(node, "max")


@device_native("AvgPool")
def _avg_pool(node: NodeSpec) -> NativeCall:
    return _pool(node, "mean")


@device_native("MaxPoolGrad", "MaxPoolGradV2")
def _max_pool_gradient(node: NodeSpec) -> NativeCall:
    x = node.inputs[0]
    images, windows = _images(x, pool_layout(node, 3))
    sources = Pointer("in", 0), Pointer("in", 1), Pointer("in", 2)
    size = windows[0].out, windows[1].out
    moved = 2 * x.nbytes + 2 * node.inputs[2].nbytes
    return windows_call("max gradient", x.dtype, images, size, windows, sources, bytes_moved=moved)


@device_native("AvgPoolGrad")
def _avg_pool_gradient(node: NodeSpec) -> NativeCall:
    dx = node.outputs[0]
    images, windows = _images(dx, pool_layout(node, len(node.inputs)))
    size = windows[0].out, windows[1].out
    moved = dx.nbytes + node.inputs[1].nbytes
    return windows_call(
        "mean gradient", dx.dtype, images, size, windows, (Pointer("in", 1),), bytes_moved=moved
    )
