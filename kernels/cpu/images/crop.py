"""Build crops of images, resized by bilinear interpolation."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource

_POINTERS: Final = {
    "float32": "f32", "float64": "f64", "uint8": "u8", "int8": "i8", "uint16": "u16",
    "int16": "i16", "int32": "i32", "int64": "i64",
}  # fmt: skip
_PIXEL_NS: Final = 3.0
_ERRORS: Final = {
    1: ("InvalidArgumentError", "Boxes contains at least one element that is not finite"),
    2: ("InvalidArgumentError", "box_index has values outside [0, batch_size)"),
}
# A place outside of the image is not computed. Arithmetic is float32, in the reference's order.
_TEXT: Final = """\
# crops of boxes from images of {name}
from numba import float32, int64
from tfjit.kernels.codegen.intrinsics import *


def kernel(args, chunk, nchunks):
    image = ptr_{kind}(word(args, 2))
    boxes = ptr_f32(word(args, 3))
    index = ptr_i32(word(args, 4))
    out = ptr_f32(word(args, 5))
    count = word(args, 6)
    batch = word(args, 7)
    height = word(args, 8)
    width = word(args, 9)
    channels = word(args, 10)
    rows = word(args, 11)
    columns = word(args, 12)
    outside = float32(f64_word(args, 13))
    tall = float32(height - 1)
    wide = float32(width - 1)
    units = count * rows
    first = units * chunk // nchunks
    last = units * (chunk + 1) // nchunks
    bad = 0
    for unit in range(last - first):
        n = (first + unit) // rows
        row = first + unit - n * rows
        y1 = ld(boxes, 4 * n)
        x1 = ld(boxes, 4 * n + 1)
        y2 = ld(boxes, 4 * n + 2)
        x2 = ld(boxes, 4 * n + 3)
        total = (y1 - y1) + (x1 - x1) + (y2 - y2) + (x2 - x2)
        b = int64(ld(index, n))
        if total != float32(0):
            bad = 1
            b = -1
        elif b < 0 or b >= batch:
            bad = 2 if bad == 0 else bad
            b = -1
        y = float32(0.5) * (y1 + y2) * tall
        if rows > 1:
            y = y1 * tall + float32(row) * ((y2 - y1) * tall / float32(rows - 1))
        inside = b >= 0 and y >= float32(0) and y <= tall
        top = int64(y) if inside else 0
        down = y - float32(top)
        low = top + 1 if inside and down > float32(0) else top
        for column in range(columns):
            x = float32(0.5) * (x1 + x2) * wide
            if columns > 1:
                x = x1 * wide + float32(column) * ((x2 - x1) * wide / float32(columns - 1))
            at = ((first + unit) * columns + column) * channels
            if inside and x >= float32(0) and x <= wide:
                left = int64(x)
                across = x - float32(left)
                right = left + 1 if across > float32(0) else left
                start = b * height
                a0 = ((start + top) * width + left) * channels
                a1 = ((start + top) * width + right) * channels
                a2 = ((start + low) * width + left) * channels
                a3 = ((start + low) * width + right) * channels
                for c in range(channels):
                    p0 = float32(ld(image, a0 + c))
                    p2 = float32(ld(image, a2 + c))
                    above = p0 + (float32(ld(image, a1 + c)) - p0) * across
                    below = p2 + (float32(ld(image, a3 + c)) - p2) * across
                    st(out, at + c, above + (below - above) * down)
            else:
                for c in range(channels):
                    st(out, at + c, outside)
    if bad != 0:
        fail(args, bad, 0)
"""


def crop_source(name: str) -> KernelSource:
    """Return the kernel for images of a dtype. Raises Unsupported."""
    kind = _POINTERS.get(name)
    if kind is None:
        raise Unsupported(f"crops of {name}")
    return KernelSource(_TEXT.format(kind=kind, name=name), title="crops", module=__name__)


@native("CropAndResize")
def _crop_and_resize(spec: NodeSpec) -> NativeCall:
    image, boxes, index, _ = spec.inputs
    out = spec.outputs[0]
    if spec.attrs.get("method", b"bilinear") != b"bilinear":
        raise Unsupported("crops by the nearest pixel")
    if 3 not in spec.constants:
        raise Unsupported("the size of the crops is not known while planning")
    size = np.asarray(spec.constants[3]).reshape(-1).tolist()
    shapes = (len(image.shape), len(boxes.shape), len(index.shape), len(size))
    if shapes != (4, 2, 1, 2) or boxes.shape[1] != 4 or min(size) <= 0:
        raise Unsupported("shapes do not fit: the reference tells")
    if boxes.shape[0] != index.shape[0] or image.shape[1] * image.shape[2] <= 0:
        raise Unsupported("shapes do not fit: the reference tells")
    outside = int(np.float64(spec.attrs.get("extrapolation_value", 0.0)).view(np.int64))
    words: tuple[Word, ...] = (
        *(Pointer("in", 0), Pointer("in", 1), Pointer("in", 2), Pointer("out", 0)),
        *(index.shape[0], *image.shape, *size, outside),
    )
    units = index.shape[0] * size[0]
    cost = cost_model.FIXED_NS + _PIXEL_NS * out.size + cost_model.traffic_ns(out.nbytes)
    launch = Launch(
        crop_source(image.dtype.name),
        words,
        chunks=cost_model.chunks_for(cost, units),
        cost_ns=cost,
        errors=_ERRORS,
    )
    return NativeCall((launch,), bytes_moved=2 * out.nbytes)
