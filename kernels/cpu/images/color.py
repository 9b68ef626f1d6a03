"""Build conversions and adjustments of the colours of images."""

from __future__ import annotations

import functools
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.ir.symbolic_size import at_least, predicted
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

_PIXEL_NS: Final = {"RGBToHSV": 6.0, "HSVToRGB": 4.0, "AdjustHue": 10.0, "AdjustSaturation": 10.0}
_CONTRAST_NS: Final = 0.4
_FOLDED: Final = 64
"""Pixels that have separate sums."""

# All arithmetic is float32, in the reference's order. NaN is no largest and no least channel.
_HUE: Final = """\
        value = select(red != red, green, select(red < green, green, red))
        value = select(value != value, blue, select(value < blue, blue, value))
        least = select(red != red, green, select(red > green, green, red))
        least = select(least != least, blue, select(least > blue, blue, least))
        spread = value - least
        norm = one / (float32(6) * spread)
        hue = select(
            red == value,
            norm * (green - blue),
            select(
                green == value,
                norm * (blue - red) + float32({third}),
                norm * (red - green) + float32({twothirds}),
            ),
        )
        hue = select(spread > zero, hue, zero)
        hue = select(hue < zero, hue + one, hue)
"""
_RAMPS: Final = """\
        sixth = hue * float32(6)
        ramp_r = fabs(sixth - float32(3)) - one
        ramp_g = float32(2) - fabs(sixth - float32(2))
        ramp_b = float32(2) - fabs(sixth - float32(4))
        ramp_r = select(ramp_r < zero, zero, select(ramp_r > one, one, ramp_r))
        ramp_g = select(ramp_g < zero, zero, select(ramp_g > one, one, ramp_g))
        ramp_b = select(ramp_b < zero, zero, select(ramp_b > one, one, ramp_b))
"""
_SATURATION: Final = """\
        saturation = select(value > zero, spread / value, zero)
"""
_BODIES: Final = {
    "RGBToHSV": (
        _HUE + _SATURATION,
        ("hue", "saturation", "value"),
    ),
    "HSVToRGB": (
        """\
        hue = red
        saturation = green
        value = blue
"""
        + _RAMPS,
        tuple(f"((one - saturation) + saturation * ramp_{c}) * value" for c in "rgb"),
    ),
    "AdjustHue": (
        _HUE
        + """\
        hue = hue + turn
        hue = hue - floor(hue)
        low = value - spread
"""
        + _RAMPS,
        tuple(f"low + ramp_{c} * spread" for c in "rgb"),
    ),
    "AdjustSaturation": (
        _HUE
        + _SATURATION
        + """\
        saturation = saturation * amount
        saturation = select(saturation < zero, zero, select(saturation > one, one, saturation))
"""
        + _RAMPS,
        tuple(f"((one - saturation) + saturation * ramp_{c}) * value" for c in "rgb"),
    ),
}
_THIRDS: Final = {"third": "0.3333333432674408", "twothirds": "0.6666666865348816"}
_HEAD: Final = """\
# {op} of float32 pixels
from numba import float32
from tfjit.kernels.codegen.intrinsics import *


def kernel(args, chunk, nchunks):
    pixels = word(args, 2)
    first = pixels * chunk // nchunks
    count = pixels * (chunk + 1) // nchunks - first
    image = ptr_f32(word(args, 3) + 12 * first)
    out = ptr_f32(word(args, 4) + 12 * first)
    zero = float32(0)
    one = float32(1)
"""


@functools.cache
def pixel_source(op: str) -> KernelSource:
    """Write a function of the three channels of each pixel.

    Words: pixels, images, output, and the amount of an adjustment.
    """
    body, results = _BODIES[op]
    s = _HEAD.format(op=op)
    if op.startswith("Adjust"):
        s += "    amount = ld(ptr_f32(word(args, 5)), 0)\n"
    if op == "AdjustHue":
        s += "    turn = amount - floor(amount)\n"
    s += "    for i in range(count):\n"
    for c, name in enumerate(("red", "green", "blue")):
        s += f"        {name} = ld(image, 3 * i + {c})\n"
    s += body.format(**_THIRDS)
    for c, result in enumerate(results):
        s += f"        st(out, 3 * i + {c}, {result})\n"
    return KernelSource(s, title=op, module=__name__)


@native(*_BODIES)
def _pixels(spec: NodeSpec) -> NativeCall:
    images = spec.inputs[0]
    adjusts = spec.op.startswith("Adjust")
    if images.dtype is not d.float32:
        raise Unsupported(f"colours of {images.dtype.name}")
    if len(images.shape) < (3 if adjusts else 1) or images.shape[-1] != 3:
        raise Unsupported("shapes do not fit: the reference tells")
    if adjusts and spec.inputs[1].shape != ():
        raise Unsupported("shapes do not fit: the reference tells")
    pixels = images.size // 3
    words = (pixels, Pointer("in", 0), Pointer("out", 0))
    cost = cost_model.FIXED_NS + _PIXEL_NS[spec.op] * predicted(pixels)
    launch = Launch(
        pixel_source(spec.op),
        (*words, Pointer("in", 1)) if adjusts else words,
        chunks=cost_model.chunks_for(cost, pixels),
        cost_ns=cost,
    )
    return NativeCall((launch,), bytes_moved=2 * predicted(images.nbytes))


@functools.cache
def contrast_source() -> KernelSource:
    """Write the scaled distance of each element from its channel's mean.

    Words: images, pixels of one, channels, input, output, factor, scratch, and the bytes of one
    scratch buffer: float64 sums and then float32 means of each channel of _FOLDED pixels, so that
    loops over them are long enough for vectors.
    """
    s = Source()
    s.line("# contrast of float32 images")
    s.line("from numba import float32, float64")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(("images", "pixels", "channels", "input", "output")):
            s.line(f"{name} = word(args, {i + 2})")
        s.line("factor = ld(ptr_f32(word(args, 7)), 0)")
        s.line("sums = ptr_f64(word(args, 8) + chunk * word(args, 9))")
        s.line(f"width = {_FOLDED} * channels")
        s.line("means = ptr_f32(word(args, 8) + chunk * word(args, 9) + 8 * width)")
        s.line("first = images * chunk // nchunks")
        s.line("size = pixels * channels")
        s.line("whole = size // width")
        with s.block("for n in range(images * (chunk + 1) // nchunks - first):"):
            with s.block("for k in range(width):"):
                s.line("st_out(sums, k, float64(0), 1)")
            for blocks, count in (("whole", "width"), ("1", "size - whole * width")):
                with s.block(f"for b in range({blocks}):"):
                    at = "b" if blocks == "whole" else "whole"
                    s.line(f"row = ptr_f32(input + 4 * ((first + n) * size + {at} * width))")
                    with s.block(f"for k in range({count}):"):
                        s.line("st_out(sums, k, ld_out(sums, k, 1) + float64(ld(row, k)), 1)")
            with s.block("for c in range(channels):"):
                s.line("total = float64(0)")
                with s.block(f"for k in range({_FOLDED}):"):
                    s.line("total += ld_out(sums, k * channels + c, 1)")
                s.line("mean = float32(total / float64(pixels))")
                with s.block(f"for k in range({_FOLDED}):"):
                    s.line("st_out(means, k * channels + c, mean, 2)")
            for blocks, count in (("whole", "width"), ("1", "size - whole * width")):
                with s.block(f"for b in range({blocks}):"):
                    at = "b" if blocks == "whole" else "whole"
                    for name, base in (("row", "input"), ("result", "output")):
                        place = f"{base} + 4 * ((first + n) * size + {at} * width)"
                        s.line(f"{name} = ptr_f32({place})")
                    with s.block(f"for k in range({count}):"):
                        s.line("mean = ld_out(means, k, 2)")
                        s.line("st(result, k, (ld(row, k) - mean) * factor + mean)")
    return KernelSource(s.text(), title="contrast", module=__name__)


@native("AdjustContrastv2")
def _contrast(spec: NodeSpec) -> NativeCall:
    images, factor = spec.inputs
    if images.dtype is not d.float32:
        raise Unsupported(f"contrast of {images.dtype.name}")
    if len(images.shape) < 3 or factor.shape != () or not at_least(images.size) > 0:
        raise Unsupported("shapes do not fit: the reference tells")
    height, width, channels = images.shape[-3:]
    count = 1
    for dim in images.shape[:-3]:
        count = count * dim
    cost = cost_model.FIXED_NS + _CONTRAST_NS * predicted(images.size)
    chunks = cost_model.chunks_for(cost, count)
    stride = -(-12 * _FOLDED * channels // 64) * 64
    words = (count, height * width, channels, Pointer("in", 0), Pointer("out", 0))
    launch = Launch(
        contrast_source(),
        (*words, Pointer("in", 1), Pointer("temp", 0), stride),
        chunks=chunks,
        cost_ns=cost,
    )
    moved = 3 * predicted(images.nbytes)
    return NativeCall((launch,), temp_bytes=(chunks * stride,), bytes_moved=moved)
