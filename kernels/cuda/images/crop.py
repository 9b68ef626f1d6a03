"""Build crops of images and the gradient of their images.

Boxes are values of the device, so nothing is reported: a crop by an index out of range, or of a
box that is not finite, is all `extrapolation_value`, and adds nothing to a gradient.
"""

from __future__ import annotations

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.conv.window import attr_text
from tfjit.kernels.cuda.data_movement.strided_copy import fill_launch
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported


def _crops_text(spec: NodeSpec, images: TensorSpec, crops: TensorSpec) -> tuple[KernelText, bool]:
    """Return a text with sizes, boxes and indices.

    The second result tells whether pixels are the nearest, not interpolated. Raises Unsupported for shapes that do not fit.
    """
    boxes, index = spec.inputs[1:3]
    shapes = (len(images.shape), len(crops.shape), len(boxes.shape), len(index.shape))
    if shapes != (4, 4, 2, 1) or boxes.shape != (index.shape[0], 4):
        raise Unsupported("shapes do not fit: the reference tells")
    if crops.shape != (index.shape[0], *crops.shape[1:3], images.shape[3]):
        raise Unsupported("shapes do not fit: the reference tells")
    if not images.shape[1] * images.shape[2] or not crops.shape[1] * crops.shape[2]:
        raise Unsupported("images without pixels: the reference tells")
    if boxes.dtype is not d.float32 or index.dtype is not d.int32:
        raise Unsupported(f"boxes of {boxes.dtype.name}")
    text = KernelText(fits_32_bits([images.size, crops.size]))
    text.argument("count", crops.size)
    for name, size in zip(("batch", "height", "width", "channels"), images.shape):
        text.argument(name, size)
    for name, size in zip(("rows", "columns"), crops.shape[1:3]):
        text.argument(name, size)
    text.line(f"box_p = ptr_f32({text.argument('boxes', Pointer('in', 1))})")
    text.line(f"index_p = ptr_i32({text.argument('index', Pointer('in', 2))})")
    return text, attr_text(spec.attrs, "method", "bilinear") == "nearest"


def _write_pixels(text: KernelText, nearest: bool) -> None:
    """Define the pixels that a crop's element reads.

    These are `inside`, the image's first row, and for both axes the lower and upper place with the
    fraction between.
    """
    text.split("u", "rest", "channel", "channels")
    text.split("rest", "rest", "column", "columns")
    text.split("rest", "crop", "row", "rows")
    for k, name in enumerate(("y1", "x1", "y2", "x2")):
        text.line(f"{name} = ld_ro(box_p, crop * 4 + {k})")
    text.line("image = int64(ld_ro(index_p, crop))")
    text.line("inside = image >= 0 and image < batch")
    for axis, size, own, out in (
        ("y", "height", "row", "rows"),
        ("x", "width", "column", "columns"),
    ):
        text.line(f"long_{axis} = float32({size} - 1)")
        text.line(f"{axis} = float32(0.5) * ({axis}1 + {axis}2) * long_{axis}")
        with text.block(f"if {out} > 1:"):
            step = f"({axis}2 - {axis}1) * long_{axis} / float32({out} - 1)"
            text.line(f"{axis} = {axis}1 * long_{axis} + float32({own}) * ({step})")
        # false for NaN
        text.line(f"inside = inside and {axis} >= float32(0) and {axis} <= long_{axis}")
    text.line("first = image * height")
    for axis in ("y", "x"):
        with text.block("if not inside:"):
            text.line(f"{axis} = float32(0)")
        if nearest:
            text.line(f"low_{axis} = int64({axis})")
            with text.block(f"if {axis} - float32(low_{axis}) >= float32(0.5):"):
                text.line(f"low_{axis} += 1")
        else:
            text.line(f"low_{axis} = int64({axis})")
            text.line(f"part_{axis} = {axis} - float32(low_{axis})")
            text.line(f"high_{axis} = low_{axis}")
            with text.block(f"if part_{axis} > float32(0):"):
                text.line(f"high_{axis} += 1")


def _pixel(row: str, column: str) -> str:
    return f"((first + {row}_y) * width + {column}_x) * channels + channel"


@device_native("CropAndResize")
def _crop_and_resize(spec: NodeSpec) -> NativeCall:
    image, out = spec.inputs[0], spec.outputs[0]
    if not element_kinds.is_supported(image.dtype) or image.dtype.is_complex:
        raise Unsupported(f"crops of {image.dtype.name}")
    text, nearest = _crops_text(spec, image, out)
    if not out.size:
        return NativeCall(())
    outside = np.float64(spec.attrs.get("extrapolation_value", 0.0)).view(np.int64)
    text.line(f"outside = float32(bits_f64({text.argument('outside', int(outside))}))")
    text.line(f"x_p = {element_kinds.pointer(image.dtype, text.argument('x', Pointer('in', 0)))}")
    text.line(f"y_p = ptr_f32({text.argument('out', Pointer('out', 0))})")
    with grid_stride(text, "u", "count"):
        _write_pixels(text, nearest)
        text.line("value = outside")
        with text.block("if inside:"):
            for row in ("low",) if nearest else ("low", "high"):
                for column in ("low",) if nearest else ("low", "high"):
                    element = expressions.loaded(image.dtype, f"ld_ro(x_p, {_pixel(row, column)})")
                    text.line(f"{row}_{column} = float32({element})")
            if nearest:
                text.line("value = low_low")
            else:
                text.line("above = low_low + (low_high - low_low) * part_x")
                text.line("below = high_low + (high_high - high_low) * part_x")
                text.line("value = above + (below - above) * part_y")
        text.line("st(y_p, u, value)")
    title = f"{'nearest' if nearest else 'bilinear'} crops of {image.dtype.name}"
    launch = text.launch(title, title, __name__, grid_for(out.size))
    return NativeCall((launch,), bytes_moved=2 * out.nbytes)


@device_native("CropAndResizeGradImage", without=("float16", "bfloat16"))
def _image_gradient(spec: NodeSpec) -> NativeCall:
    """Return the fill and the launch that adds to pixels.

    Sums have any order.
    """
    grads, dx = spec.inputs[0], spec.outputs[0]
    if grads.dtype is not d.float32 or dx.dtype not in (d.float32, d.float64):
        raise Unsupported(f"the gradient of images of {dx.dtype.name}")
    text, nearest = _crops_text(spec, dx, grads)
    text.line(f"g_p = ptr_f32({text.argument('grads', Pointer('in', 0))})")
    text.line(f"x_p = {element_kinds.pointer(dx.dtype, text.argument('dx', Pointer('out', 0)))}")
    with grid_stride(text, "u", "count"):
        _write_pixels(text, nearest)
        with text.block("if inside:"):
            text.line("value = ld_ro(g_p, u)")
            weights = {"low": "(float32(1) - part_{0})", "high": "part_{0}"}
            for row in ("low",) if nearest else weights:
                for column in ("low",) if nearest else weights:
                    share = "value"
                    if not nearest:
                        down, across = weights[row].format("y"), weights[column].format("x")
                        share = f"value * {down} * {across}"
                    text.line(f"atomic_add(x_p, {_pixel(row, column)}, {dx.dtype.name}({share}))")
    title = f"gradient of {'nearest' if nearest else 'bilinear'} crops of {dx.dtype.name}"
    launches = [text.launch(title, title, __name__, grid_for(grads.size))] if grads.size else []
    fill = fill_launch(dx.dtype, dx.size, Pointer("const", 0), Pointer("out", 0))
    zero = np.zeros(1, dx.dtype.as_numpy_dtype)
    made = (*([] if fill is None else [fill]), *launches)
    return NativeCall(made, constants=(zero,), bytes_moved=3 * grads.nbytes + dx.nbytes)
