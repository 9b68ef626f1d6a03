"""Build MaxPoolWithArgmax and its gradients, which follow the places of maxima."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.conv.window import pool_layout
from tfjit.kernels.cuda.conv.window_text import lowest
from tfjit.kernels.cuda.data_movement.strided_copy import fill_launch
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_ATOMIC: Final = frozenset({"float32", "float64", "int32", "int64"})


def _pointer(text: KernelText, name: str, dtype: DType, place: Pointer) -> None:
    text.line(f"{name}_p = {element_kinds.pointer(dtype, text.argument(f'{name}_at', place))}")


@device_native("MaxPoolWithArgmax")
def _pool(spec: NodeSpec) -> NativeCall:
    x, (out, places) = spec.inputs[0], spec.outputs
    layout = pool_layout(spec, 1)
    if not layout.channels_last or not x.dtype.is_floating:
        raise Unsupported(f"places of maxima of {x.dtype.name}, or in NCHW")
    if not out.size:
        return NativeCall(())
    whole = bool(spec.attrs.get("include_batch_in_index", False))
    _, height, width, channels = x.shape
    rows, columns = layout.windows(height, width)
    text = KernelText(fits_32_bits([x.size, out.size]))
    for name, size in (
        ("count", out.size), ("out_height", rows.out), ("out_width", columns.out),
        ("channels", channels), ("height", height), ("width", width), ("down", rows.size),
        ("across", columns.size), ("row_stride", rows.stride), ("column_stride", columns.stride),
        ("row_before", rows.before), ("column_before", columns.before),
    ):  # fmt: skip
        text.argument(name, size)
    _pointer(text, "x", x.dtype, Pointer("in", 0))
    _pointer(text, "y", out.dtype, Pointer("out", 0))
    _pointer(text, "place", places.dtype, Pointer("out", 1))
    kind = expressions.register_type(x.dtype)
    with grid_stride(text, "u", "count"):
        text.split("u", "rest", "channel", "channels")
        text.split("rest", "rest", "column", "out_width")
        text.split("rest", "image", "row", "out_height")
        for axis, taps, length in (("row", "down", "height"), ("column", "across", "width")):
            text.line(f"start = {axis} * {axis}_stride - {axis}_before")
            text.line(f"{axis}_first = max(start, 0)")
            text.line(f"{axis}_last = min(start + {taps}, {length})")
        text.line(f"best = {kind}({lowest(x.dtype)!r})")
        text.line("found = int64(-1)")
        text.line("start_of_image = image * height * width * channels")
        with (
            text.block("for i in range(row_first, row_last):"),
            text.block("for j in range(column_first, column_last):"),
        ):
            text.line("at = (i * width + j) * channels + channel")
            text.line(f"v = {expressions.loaded(x.dtype, 'ld_ro(x_p, start_of_image + at)')}")
            # NaN is the largest only where it comes first
            with text.block("if v > best or found < 0:"):
                text.line("best = v")
                text.line("found = at")
        if whole:
            text.line("found = select(found < 0, found, found + start_of_image)")
        text.line(f"st(y_p, u, {expressions.stored(out.dtype, 'best')})")
        text.line(f"st(place_p, u, {places.dtype.name}(found))")
    title = f"maxima of windows of {x.dtype.name} with places as {places.dtype.name}"
    title += " in the batch" if whole else ""
    launch = text.launch(title, title, __name__, grid_for(out.size))
    return NativeCall((launch,), bytes_moved=x.nbytes + out.nbytes + places.nbytes)


def _by_places(spec: NodeSpec, gathers: bool) -> NativeCall:
    """Return the launch over the places of maxima.

    gathers: whether it reads the pixels there; else it adds to them, in any order. A place outside
    of the batch changes nothing and reads a zero.
    """
    x, grad, places = spec.inputs
    out = spec.outputs[0]
    if places.dtype.name not in ("int32", "int64"):
        raise Unsupported(f"places as {places.dtype.name}")
    if not gathers and out.dtype.name not in _ATOMIC:
        raise Unsupported(f"sums of {out.dtype.name} by places")
    element_kinds.raw_kind(out.dtype.size)
    whole = bool(spec.attrs.get("include_batch_in_index", False))
    text = KernelText(fits_32_bits([x.size, places.size]))
    text.argument("count", places.size)
    text.argument("in_all", x.size)
    text.argument("image_size", prod(x.shape[1:]))
    text.argument("own_size", prod(places.shape[1:]))
    _pointer(text, "grad", grad.dtype, Pointer("in", 1))
    _pointer(text, "place", places.dtype, Pointer("in", 2))
    _pointer(text, "y", out.dtype, Pointer("out", 0))
    with grid_stride(text, "u", "count"):
        text.line("at = int64(ld_ro(place_p, u))")
        if not whole:
            text.split("u", "image", "own", "own_size")
            text.line("at += image * image_size")
        with text.block("if at >= 0 and at < in_all:"):
            if gathers:
                text.line("st(y_p, u, ld_ro(grad_p, at))")
            else:
                text.line("atomic_add(y_p, at, ld_ro(grad_p, u))")
        if gathers:
            with text.block("else:"):
                text.line(f"st(y_p, u, {expressions.memory_type(out.dtype)}(0))")
    what = "gather" if gathers else "add"
    title = f"{what} {out.dtype.name} by places as {places.dtype.name}"
    title += " in the batch" if whole else ""
    launches = []
    if not gathers:
        launches.append(fill_launch(out.dtype, out.size, Pointer("const", 0), Pointer("out", 0)))
    if places.size:
        launches.append(text.launch(title, title, __name__, grid_for(places.size)))
    return NativeCall(
        tuple(launch for launch in launches if launch is not None),
        constants=() if gathers else (np.zeros(1, out.dtype.as_numpy_dtype),),
        bytes_moved=2 * out.nbytes + places.nbytes,
    )


@device_native("MaxPoolGradWithArgmax", without=("float16", "bfloat16"))
def _gradient(spec: NodeSpec) -> NativeCall:
    return _by_places(spec, False)


@device_native("MaxPoolGradGradWithArgmax")
def _second_gradient(spec: NodeSpec) -> NativeCall:
    return _by_places(spec, True)
