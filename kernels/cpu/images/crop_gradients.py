"""Build the gradients of crops of images by bilinear interpolation."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.ir.symbolic_size import at_least, predicted
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    native,
)
from tfjit.kernels.source import KernelSource

_ELEMENT_NS: Final = 5.0
_OUTSIDE: Final = {1: ("InvalidArgumentError", "box_index has values outside [0, batch_size)")}
# Places are computed as those of the crops are. The loops over the channels of a pixel:
_IMAGE_BODY: Final = """\
                for c in range(channels):
                    g = ld(grads, at + c)
                    up = g * (one - down)
                    low = g * down
                    st_any(out, a0 + c, ld_any(out, a0 + c) + up * (one - across))
                    st_any(out, a1 + c, ld_any(out, a1 + c) + up * across)
                    st_any(out, a2 + c, ld_any(out, a2 + c) + low * (one - across))
                    st_any(out, a3 + c, ld_any(out, a3 + c) + low * across)
"""
_BOX_BODY: Final = """\
                by_y = float64(0)
                by_x = float64(0)
                for c in range(channels):
                    g = ld(grads, at + c)
                    p0 = ld(image, a0 + c)
                    p1 = ld(image, a1 + c)
                    p2 = ld(image, a2 + c)
                    p3 = ld(image, a3 + c)
                    by_y += float64(((one - across) * (p2 - p0) + across * (p3 - p1)) * g)
                    by_x += float64(((one - down) * (p1 - p0) + down * (p3 - p2)) * g)
                y_share = float32(row) / float32(rows - 1) if rows > 1 else float32(0.5)
                x_share = float32(column) / float32(columns - 1) if columns > 1 else float32(0.5)
                d_y1 += by_y * float64(tall * (one - y_share))
                d_y2 += by_y * float64(tall * y_share)
                d_x1 += by_x * float64(wide * (one - x_share))
                d_x2 += by_x * float64(wide * x_share)
"""
_BOX_SUMS: Final = ("d_y1", "d_x1", "d_y2", "d_x2")
_TEXT: Final = """\
# gradients of crops: of {title}
from numba import float32, float64, int64
from tfjit.kernels.codegen.intrinsics import *


def kernel(args, chunk, nchunks):
    grads = ptr_f32(word(args, 2))
    boxes = ptr_f32(word(args, 3))
    index = ptr_i32(word(args, 4))
    out = ptr_f32(word(args, 5))
    image = ptr_f32(word(args, 6))
    count = word(args, 7)
    batch = word(args, 8)
    height = word(args, 9)
    width = word(args, 10)
    channels = word(args, 11)
    rows = word(args, 12)
    columns = word(args, 13)
    one = float32(1)
    tall = float32(height - 1)
    wide = float32(width - 1)
    bad = 0
    for n in range(count):
        b = int64(ld(index, n))
        if b < 0 or b >= batch:
            bad = 1
    if bad != 0:
        fail(args, 1, 0)
        return
{before}    first = count * chunk // nchunks
    for n in range(first, count * (chunk + 1) // nchunks):
        start = int64(ld(index, n)) * height
        y1 = ld(boxes, 4 * n)
        x1 = ld(boxes, 4 * n + 1)
        y2 = ld(boxes, 4 * n + 2)
        x2 = ld(boxes, 4 * n + 3)
{begin}        for row in range(rows):
            y = float32(0.5) * (y1 + y2) * tall
            if rows > 1:
                y = y1 * tall + float32(row) * ((y2 - y1) * tall / float32(rows - 1))
            if not (y >= float32(0) and y <= tall):
                continue
            top = int64(y)
            down = y - float32(top)
            bottom = top + 1 if down > float32(0) else top
            for column in range(columns):
                x = float32(0.5) * (x1 + x2) * wide
                if columns > 1:
                    x = x1 * wide + float32(column) * ((x2 - x1) * wide / float32(columns - 1))
                if not (x >= float32(0) and x <= wide):
                    continue
                left = int64(x)
                across = x - float32(left)
                right = left + 1 if across > float32(0) else left
                at = ((n * rows + row) * columns + column) * channels
                a0 = ((start + top) * width + left) * channels
                a1 = ((start + top) * width + right) * channels
                a2 = ((start + bottom) * width + left) * channels
                a3 = ((start + bottom) * width + right) * channels
{body}{end}"""


@functools.cache
def crop_gradient_source(of_boxes: bool) -> KernelSource:
    """Write the gradient of the boxes or of the images.

    One chunk adds up that of the images.

    Words: gradients of the crops, boxes, numbers of images, output, images (for boxes), boxes,
    images, height, width, channels, rows and columns of a crop.
    """
    if of_boxes:
        text = _TEXT.format(
            title="boxes",
            before="",
            begin="".join(f"        {name} = float64(0)\n" for name in _BOX_SUMS),
            body=_BOX_BODY,
            end="".join(f"        st(out, 4 * n + {k}, {s})\n" for k, s in enumerate(_BOX_SUMS)),
        )
    else:
        clear = "    fill_bytes(word(args, 5), 0, 4 * batch * height * width * channels)\n"
        text = _TEXT.format(title="images", before=clear, begin="", body=_IMAGE_BODY, end="")
    return KernelSource(text, title="gradients of crops", module=__name__)


def _check(spec: NodeSpec, grads: TensorSpec, boxes: TensorSpec, index: TensorSpec) -> None:
    """Raise Unsupported for shapes and options that the reference serves."""
    if spec.attrs.get("method", b"bilinear") != b"bilinear" or grads.dtype is not d.float32:
        raise Unsupported("crops by the nearest pixel")
    shapes = (len(grads.shape), len(boxes.shape), len(index.shape))
    if shapes != (4, 2, 1) or boxes.shape[1] != 4 or index.dtype is not d.int32:
        raise Unsupported("shapes do not fit: the reference tells")
    if not grads.shape[0] == boxes.shape[0] == index.shape[0] or not at_least(grads.size) > 0:
        raise Unsupported("shapes do not fit: the reference tells")


@native("CropAndResizeGradImage")
def _image_gradient(spec: NodeSpec) -> NativeCall:
    grads, boxes, index, _ = spec.inputs
    out = spec.outputs[0]
    _check(spec, grads, boxes, index)
    if 3 not in spec.constants or out.dtype is not d.float32:
        raise Unsupported("the size of the images is not known while planning")
    size = np.asarray(spec.constants[3]).reshape(-1).tolist()
    if len(size) != 4 or min(size) <= 0 or tuple(size) != out.shape or size[3] != grads.shape[3]:
        raise Unsupported("shapes do not fit: the reference tells")
    cost = cost_model.FIXED_NS + _ELEMENT_NS * predicted(grads.size)
    launch = Launch(
        crop_gradient_source(False),
        (
            *(Pointer("in", 0), Pointer("in", 1), Pointer("in", 2), Pointer("out", 0)),
            *(Pointer("in", 0), grads.shape[0], *size, *grads.shape[1:3]),
        ),
        cost_ns=cost + cost_model.traffic_ns(out.nbytes),
        errors=_OUTSIDE,
    )
    return NativeCall((launch,), bytes_moved=predicted(grads.nbytes + out.nbytes))


@native("CropAndResizeGradBoxes")
def _box_gradient(spec: NodeSpec) -> NativeCall:
    grads, image, boxes, index = spec.inputs
    _check(spec, grads, boxes, index)
    if image.dtype is not d.float32 or len(image.shape) != 4:
        raise Unsupported(f"crops of {image.dtype.name}")
    if not at_least(image.size) > 0 or image.shape[3] != grads.shape[3]:
        raise Unsupported("shapes do not fit: the reference tells")
    cost = cost_model.FIXED_NS + _ELEMENT_NS * predicted(grads.size)
    pointers = (Pointer("in", 0), Pointer("in", 2), Pointer("in", 3), Pointer("out", 0))
    words: tuple[Word, ...] = (
        *(*pointers, Pointer("in", 1), grads.shape[0]),
        *(*image.shape, *grads.shape[1:3]),
    )
    launch = Launch(
        crop_gradient_source(True),
        words,
        chunks=cost_model.chunks_for(cost, grads.shape[0]),
        cost_ns=cost,
        errors=_OUTSIDE,
    )
    return NativeCall((launch,), bytes_moved=predicted(2 * grads.nbytes))
