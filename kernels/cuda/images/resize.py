"""Build bilinear and nearest neighbour resizing with their gradients.

The places and weights of both axes are tables, which the reference's own functions make while
planning: host and device read the same pixels. A gradient's element visits the outputs that read
it, so that nothing is added by atomics and each run has the same order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reference.images.resize import linear_places, nearest_places
from tfjit.kernels.cuda.data_movement.gather import widest_words
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported

_AXES: Final = ("row", "column")
Tables = list[np.ndarray]


def _require_images(spec: NodeSpec, *images: TensorSpec) -> None:
    """Raise Unsupported for shapes and options that the reference refuses."""
    if any(len(one.shape) != 4 or not one.shape[1] * one.shape[2] for one in images):
        raise Unsupported("no images: the reference tells")
    if spec.attrs.get("half_pixel_centers") and spec.attrs.get("align_corners"):
        raise Unsupported("centres and corners of pixels: the reference tells")


def _text(tables: Tables, out: TensorSpec, *others: TensorSpec) -> KernelText:
    """Return a text with the result's sizes and the tables' pointers."""
    text = KernelText(fits_32_bits([out.size, *(other.size for other in others)]))
    text.argument("count", out.size)
    for name, size in zip(("out_height", "out_width", "channels"), out.shape[1:]):
        text.argument(name, size)
    for name, size in zip(("height", "width"), others[0].shape[1:3]):
        text.argument(name, size)
    for k, table in enumerate(tables):
        kind = "f32" if table.dtype == np.float32 else "i32"
        text.line(f"table{k} = ptr_{kind}({text.argument(f'table{k}_at', Pointer('const', k))})")
    return text


def _write_place(text: KernelText, unit: str = "u") -> None:
    """Define the image, row, column and channel of an element."""
    text.split(unit, "rest", "channel", "channels")
    text.split("rest", "rest", "column", "out_width")
    text.split("rest", "image", "row", "out_height")


def _finished(
    text: KernelText, spec: NodeSpec, title: str, tables: Tables, units: int
) -> NativeCall:
    launch = text.launch(title, title, __name__, grid_for(units))
    moved = spec.inputs[0].nbytes + spec.outputs[0].nbytes
    return NativeCall((launch,), constants=tuple(tables), bytes_moved=moved)


@device_native("ResizeBilinear")
def _bilinear(spec: NodeSpec) -> NativeCall:
    x, out = spec.inputs[0], spec.outputs[0]
    _require_images(spec, x, out)
    if not element_kinds.is_supported(x.dtype) or x.dtype.is_complex:
        raise Unsupported(f"images of {x.dtype.name}")
    if not out.size:
        return NativeCall(())
    same = x.shape == out.shape
    tables: Tables = []
    for axis in () if same else (1, 2):
        found = linear_places(spec, x.shape[axis], out.shape[axis])
        tables += [found.lower.astype(np.int32), found.upper.astype(np.int32), found.fraction]
    text = _text(tables, out, x)
    text.line(f"x_p = {element_kinds.pointer(x.dtype, text.argument('x', Pointer('in', 0)))}")
    text.line(f"y_p = {element_kinds.pointer(d.float32, text.argument('y', Pointer('out', 0)))}")
    with grid_stride(text, "u", "count"):
        if same:
            text.line(f"st(y_p, u, float32({expressions.loaded(x.dtype, 'ld_ro(x_p, u)')}))")
        else:
            _write_bilinear(text, x.dtype)
    what = "images as they are" if same else "bilinear images"
    return _finished(text, spec, f"{what} of {x.dtype.name}", tables, out.size)


def _write_bilinear(text: KernelText, dtype: DType) -> None:
    """Append the mean of four pixels, weighted by the way to each."""
    _write_place(text)
    for k, axis in enumerate(_AXES):
        for name, table in (("low", 3 * k), ("high", 3 * k + 1), ("part", 3 * k + 2)):
            value = f"ld_ro(table{table}, {axis})"
            text.line(f"{axis}_{name} = {value if name == 'part' else f'int64({value})'}")
    for row in ("low", "high"):
        for column in ("low", "high"):
            at = f"((image * height + row_{row}) * width + column_{column}) * channels + channel"
            element = expressions.loaded(dtype, f"ld_ro(x_p, {at})")
            text.line(f"{row}_{column} = float32({element})")
        text.line(f"{row} = {row}_low + ({row}_high - {row}_low) * column_part")
    text.line("st(y_p, u, low + (high - low) * row_part)")


def _ranges(places: np.ndarray, size: int) -> np.ndarray:
    """Return the first output that reads each input; `places` never fall.

    The outputs of input i end where those of i + 1 begin.
    """
    return np.searchsorted(places, np.arange(size + 1)).astype(np.int32)


@device_native("ResizeBilinearGrad")
def _bilinear_gradient(spec: NodeSpec) -> NativeCall:
    grads, dx = spec.inputs[0], spec.outputs[0]
    _require_images(spec, grads, dx)
    if grads.dtype is not d.float32 or not dx.dtype.is_floating:
        raise Unsupported(f"the gradient of images of {dx.dtype.name}")
    if not dx.size:
        return NativeCall(())
    tables: Tables = []
    for axis in (1, 2):
        found = linear_places(spec, dx.shape[axis], grads.shape[axis])
        tables += [_ranges(places, dx.shape[axis]) for places in (found.lower, found.upper)]
        tables += [1 - found.fraction, found.fraction]
    text = _text(tables, dx, grads)
    text.line(f"x_p = {element_kinds.pointer(grads.dtype, text.argument('x', Pointer('in', 0)))}")
    text.line(f"y_p = {element_kinds.pointer(dx.dtype, text.argument('y', Pointer('out', 0)))}")
    with grid_stride(text, "u", "count"):
        _write_place(text)
        text.line("first = image * height * width * channels + channel")
        if dx.dtype is d.float64:
            _write_products(text)
        else:
            _write_sums_of_rows(text)
        text.line(f"st(y_p, u, {expressions.stored(dx.dtype, 'total')})")
    title = f"gradient of bilinear images of {dx.dtype.name}"
    return _finished(text, spec, title, tables, dx.size)


def _range(axis: str, table: int) -> str:
    return f"range(int64(ld_ro(table{table}, {axis})), int64(ld_ro(table{table}, {axis} + 1)))"


def _write_sums_of_rows(text: KernelText) -> None:
    """Append the weighted sum along rows, then along columns."""
    for side in (0, 1):
        text.line(f"sum{side} = float32(0)")
        with text.block(f"for x in {_range('column', 4 + side)}:"):
            for up in (0, 1):
                text.line(f"part{up} = float32(0)")
                with text.block(f"for y in {_range('row', up)}:"):
                    value = "ld_ro(x_p, first + (y * width + x) * channels)"
                    text.line(f"part{up} += {value} * ld_ro(table{2 + up}, y)")
            text.line(f"sum{side} += (part0 + part1) * ld_ro(table{6 + side}, x)")
    text.line("total = sum0 + sum1")


def _write_products(text: KernelText) -> None:
    """Append the sum in float64 of products that are rounded to float32."""
    text.line("total = float64(0)")
    for up in (0, 1):
        for side in (0, 1):
            with (
                text.block(f"for y in {_range('row', up)}:"),
                text.block(f"for x in {_range('column', 4 + side)}:"),
            ):
                value = "ld_ro(x_p, first + (y * width + x) * channels)"
                text.line(f"v = {value} * ld_ro(table{2 + up}, y)")
                text.line(f"total += float64(v * ld_ro(table{6 + side}, x))")


@device_native("ResizeNearestNeighbor")
def _nearest(spec: NodeSpec) -> NativeCall:
    x, out = spec.inputs[0], spec.outputs[0]
    _require_images(spec, x, out)
    if not out.size:
        return NativeCall(())
    size, channels = widest_words(x.dtype.size, x.shape[3])
    tables = [
        nearest_places(spec, x.shape[axis], out.shape[axis]).astype(np.int32) for axis in (1, 2)
    ]
    words = TensorSpec(out.dtype, (*out.shape[:3], channels))
    text = _text(tables, words, x)
    raw = element_kinds.raw_kind(size)
    text.line(f"x_p = ptr_{raw}({text.argument('x', Pointer('in', 0))})")
    text.line(f"y_p = ptr_{raw}({text.argument('y', Pointer('out', 0))})")
    with grid_stride(text, "u", "count"):
        _write_place(text)
        for k, axis in enumerate(_AXES):
            text.line(f"from_{axis} = int64(ld_ro(table{k}, {axis}))")
        at = "((image * height + from_row) * width + from_column) * channels + channel"
        text.line(f"st(y_p, u, ld_ro(x_p, {at}))" if size < 16 else f"st(y_p, u, ld(x_p, {at}))")
    return _finished(text, spec, f"nearest pixels by words of {size} bytes", tables, words.size)


@device_native("ResizeNearestNeighborGrad")
def _nearest_gradient(spec: NodeSpec) -> NativeCall:
    grads, dx = spec.inputs[0], spec.outputs[0]
    _require_images(spec, grads, dx)
    if not dx.dtype.is_floating:
        raise Unsupported(f"the gradient of images of {dx.dtype.name}")
    if not dx.size:
        return NativeCall(())
    tables = [
        _ranges(nearest_places(spec, dx.shape[axis], grads.shape[axis]), dx.shape[axis])
        for axis in (1, 2)
    ]
    text = _text(tables, dx, grads)
    text.line(f"x_p = {element_kinds.pointer(grads.dtype, text.argument('x', Pointer('in', 0)))}")
    text.line(f"y_p = {element_kinds.pointer(dx.dtype, text.argument('y', Pointer('out', 0)))}")
    zero = f"{expressions.register_type(dx.dtype)}(0)"
    with grid_stride(text, "u", "count"):
        _write_place(text)
        text.line("first = image * height * width * channels + channel")
        text.line(f"total = {zero}")
        with text.block(f"for x in {_range('column', 1)}:"):
            text.line(f"part = {zero}")
            with text.block(f"for y in {_range('row', 0)}:"):
                at = "first + (y * width + x) * channels"
                text.line(f"part += {expressions.loaded(dx.dtype, f'ld_ro(x_p, {at})')}")
            text.line("total += part")
        text.line(f"st(y_p, u, {expressions.stored(dx.dtype, 'total')})")
    title = f"gradient of nearest pixels of {dx.dtype.name}"
    return _finished(text, spec, title, tables, dx.size)
