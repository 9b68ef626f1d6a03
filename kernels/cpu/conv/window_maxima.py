"""Build pooling with argmax, its gradient, and dilations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.conv.window import Window, attr_text, make_window
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import INDEX, write_imports
from tfjit.kernels.ir.symbolic_size import predicted
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
from tfjit.kernels.source import KernelSource, Source

_TAP_NS: Final = 1.0
_FLOATS: Final = (d.float32, d.float64)
_LEAST: Final = {d.float32: "-3.4028234663852886e38", d.float64: "-1.7976931348623157e308"}
_GEOMETRY: Final = (
    "units", "out_height", "out_width", "channels", "height", "width", "rows", "columns",
    "row_stride", "column_stride", "row_rate", "column_rate", "above", "left",
)  # fmt: skip


def _geometry(x: TensorSpec, rows: Window, columns: Window) -> tuple[Word, ...]:
    """Return the words of _GEOMETRY. Raises Unsupported where there are no outputs."""
    batch, height, width, channels = x.shape
    if not all(isinstance(size, int) for size in x.shape[1:]):
        raise Unsupported("sizes of images are not known while planning")
    if min(rows.out, columns.out, channels, rows.size, columns.size) <= 0:
        raise Unsupported("no outputs")
    return (
        *(batch * rows.out, rows.out, columns.out, channels, height, width),
        *(rows.size, columns.size, rows.stride, columns.stride),
        *(rows.dilation, columns.dilation, rows.before, columns.before),
    )


def _write_row(s: Source) -> None:
    """Write the image of an output row and its first input row."""
    s.line("unit = first + u")
    s.line("image = unit // out_height")
    s.line("top = (unit - image * out_height) * row_stride - above")


def _launch(
    source: KernelSource, words: Sequence[Word], units: int, taps: float
) -> tuple[Launch, ...]:
    cost = cost_model.FIXED_NS + _TAP_NS * taps
    chunks = cost_model.chunks_for(cost, units)
    return (Launch(source, tuple(words), chunks=chunks, cost_ns=cost),)


@functools.cache
def argmax_pool_source(dtype: DType, index: str, with_batch: bool) -> KernelSource:
    """Write the largest value of each window and its place.

    Places are those in the flattened image or batch.

    Words: those of _GEOMETRY, input, output, places of kind `index`. Ties go to the first value; so
    does a window that begins with NaN.
    """
    s = Source()
    write_imports(s, f"maxima of {dtype.name} with {index} places{' in the batch' * with_batch}")
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate((*_GEOMETRY, "input", "output", "places")):
            s.line(f"{name} = word(args, {i + 2})")
        s.line("first = units * chunk // nchunks")
        s.line("size = height * width * channels")
        with s.block("for u in range(units * (chunk + 1) // nchunks - first):"):
            _write_row(s)
            row = "unit * out_width * channels"
            s.line(f"out = {typed_pointers.pointer(dtype, f'output + {dtype.size} * {row}')}")
            s.line(f"place = ptr_{index}(places + {int(index[1:]) // 8} * {row})")
            s.line(f"x = {typed_pointers.pointer(dtype, f'input + {dtype.size} * image * size')}")
            s.line(f"base = {'image * size' if with_batch else '0'}")
            with s.block("for o in range(out_width):"):
                s.line("side = o * column_stride - left")
                s.line("started = 0")
                with s.block("for ky in range(rows):"):
                    s.line("y = top + ky * row_rate")
                    with s.block("if y >= 0 and y < height:"), s.block("for kx in range(columns):"):
                        s.line("at = side + kx * column_rate")
                        with s.block("if at >= 0 and at < width:"):
                            _write_tap(s, index)
    return KernelSource(s.text(), title="maxima with places", module=__name__)


def _write_tap(s: Source, index: str) -> None:
    s.line("flat = (y * width + at) * channels")
    kind = f"int{index[1:]}"
    with s.block("if started == 0:"):
        s.line("started = 1")
        with s.block("for c in range(channels):"):
            s.line("st_out(out, o * channels + c, ld(x, flat + c), 0)")
            s.line(f"st_out(place, o * channels + c, {kind}(base + flat + c), 1)")
    with s.block("else:"), s.block("for c in range(channels):"):
        s.line("value = ld(x, flat + c)")
        s.line("best = ld_out(out, o * channels + c, 0)")
        s.line("old = ld_out(place, o * channels + c, 1)")
        s.line("more = value > best")
        s.line("st_out(out, o * channels + c, select(more, value, best), 0)")
        s.line(f"st_out(place, o * channels + c, select(more, {kind}(base + flat + c), old), 1)")


@native("MaxPoolWithArgmax")
def _max_pool_with_argmax(spec: NodeSpec) -> NativeCall:
    (x,) = spec.inputs
    places = spec.outputs[1]
    sizes, strides = spec.attrs["ksize"], spec.attrs["strides"]
    if x.dtype not in _FLOATS or len(x.shape) != 4 or places.dtype.name not in INDEX:
        raise Unsupported(f"pooling of {x.dtype.name}")
    if (sizes[0], strides[0], sizes[3], strides[3]) != (1, 1, 1, 1):
        raise Unsupported("windows over the batch or channels: the reference tells")
    padding = attr_text(spec.attrs, "padding")
    rows, columns = (make_window(x.shape[i], sizes[i], strides[i], 1, padding) for i in (1, 2))
    words = _geometry(x, rows, columns)
    source = argmax_pool_source(
        x.dtype, INDEX[places.dtype.name], bool(spec.attrs["include_batch_in_index"])
    )
    pointers = (Pointer("in", 0), Pointer("out", 0), Pointer("out", 1))
    taps = predicted(spec.outputs[0].size) * rows.size * columns.size
    launches = _launch(source, (*words, *pointers), x.shape[0] * rows.out, taps)
    return NativeCall(launches, bytes_moved=predicted(x.nbytes + 3 * spec.outputs[0].nbytes))


@functools.cache
def argmax_gradient_source(dtype: DType, index: str, with_batch: bool) -> KernelSource:
    """Write the sums of gradients at the places of maxima.

    Words: images, bytes and elements of an image of the input, maxima of an image, gradients,
    places, output. A chunk adds up whole images; a place beyond the batch is left to the check
    before.
    """
    s = Source()
    write_imports(s, f"gradients of {dtype.name} at {index} maxima{' in the batch' * with_batch}")
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(("images", "size", "maxima", "gradient", "places", "output")):
            s.line(f"{name} = word(args, {i + 2})")
        s.line(f"grad = {typed_pointers.pointer(dtype, 'gradient')}")
        s.line(f"place = ptr_{index}(places)")
        s.line(f"out = {typed_pointers.pointer(dtype, 'output')}")
        s.line(f"fill_bytes(output, 0, images * size * {dtype.size})")
        s.line("outside = images * size")
        s.line("bad = 0")
        with s.block("for n in range(images):"):
            s.line(f"base = {'0' if with_batch else 'n * size'}")
            with s.block("for i in range(n * maxima, (n + 1) * maxima):"):
                s.line("at = base + int64(ld(place, i))")
                with s.block("if at < 0 or at >= outside:"):
                    with s.block("if bad == 0:"):
                        s.line("fail(args, 1, at)")
                    s.line("bad = 1")
                with s.block("else:"):
                    s.line("st_any(out, at, ld_any(out, at) + ld(grad, i))")
    return KernelSource(s.text(), title="gradients at maxima", module=__name__)


@native("MaxPoolGradWithArgmax")
def _grad_with_argmax(spec: NodeSpec) -> NativeCall:
    x, grad, places = spec.inputs
    if grad.dtype not in _FLOATS or places.dtype.name not in INDEX:
        raise Unsupported(f"gradients of {grad.dtype.name}")
    if grad.shape != places.shape or len(x.shape) != 4 or len(grad.shape) != 4:
        raise Unsupported("shapes do not fit: the reference tells")
    if grad.shape[0] != x.shape[0] or not all(isinstance(n, int) for n in x.shape[1:]):
        raise Unsupported("sizes of images are not known while planning")
    size, maxima = x.shape[1] * x.shape[2] * x.shape[3], 1
    for dim in grad.shape[1:]:
        maxima = maxima * dim
    cost = cost_model.FIXED_NS + 2.0 * predicted(grad.size) + cost_model.traffic_ns(x.nbytes)
    launch = Launch(
        argmax_gradient_source(
            grad.dtype, INDEX[places.dtype.name], bool(spec.attrs["include_batch_in_index"])
        ),
        (x.shape[0], size, maxima, Pointer("in", 1), Pointer("in", 2), Pointer("out", 0)),
        cost_ns=cost,
        errors={1: ("InvalidArgumentError", "Invalid input index: {detail}")},
    )
    return NativeCall((launch,), bytes_moved=predicted(x.nbytes + 3 * grad.nbytes))


@functools.cache
def dilation_source(dtype: DType) -> KernelSource:
    """Write the largest sum of image and kernel in each window.

    Words: those of _GEOMETRY, input, kernel, output. The lowest finite value is the least result.
    """
    s = Source()
    write_imports(s, f"dilation of {dtype.name}")
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate((*_GEOMETRY, "input", "taps", "output")):
            s.line(f"{name} = word(args, {i + 2})")
        s.line("first = units * chunk // nchunks")
        s.line("size = height * width * channels")
        s.line(f"tap = {typed_pointers.pointer(dtype, 'taps')}")
        with s.block("for u in range(units * (chunk + 1) // nchunks - first):"):
            _write_row(s)
            at = f"output + {dtype.size} * unit * out_width * channels"
            s.line(f"out = {typed_pointers.pointer(dtype, at)}")
            s.line(f"x = {typed_pointers.pointer(dtype, f'input + {dtype.size} * image * size')}")
            with s.block("for o in range(out_width * channels):"):
                s.line(f"st(out, o, {dtype.name}({_LEAST[dtype]}))")
            with s.block("for ky in range(rows):"):
                s.line("y = top + ky * row_rate")
                with s.block("if y >= 0 and y < height:"), s.block("for o in range(out_width):"):
                    s.line("side = o * column_stride - left")
                    with s.block("for kx in range(columns):"):
                        s.line("at = side + kx * column_rate")
                        with s.block("if at >= 0 and at < width:"):
                            _write_sums(s)
    return KernelSource(s.text(), title="dilation", module=__name__)


def _write_sums(s: Source) -> None:
    s.line("flat = (y * width + at) * channels")
    s.line("kernel_at = (ky * columns + kx) * channels")
    with s.block("for c in range(channels):"):
        s.line("total = ld(x, flat + c) + ld(tap, kernel_at + c)")
        s.line("best = ld_out(out, o * channels + c, 0)")
        s.line("st(out, o * channels + c, select(total > best, total, best))")


@native("Dilation2D")
def _dilation(spec: NodeSpec) -> NativeCall:
    x, taps = spec.inputs
    strides, rates = spec.attrs["strides"], spec.attrs["rates"]
    if x.dtype not in _FLOATS or len(x.shape) != 4 or len(taps.shape) != 3:
        raise Unsupported(f"dilations of {x.dtype.name}")
    if x.shape[3] != taps.shape[2] or {strides[0], strides[3], rates[0], rates[3]} != {1}:
        raise Unsupported("shapes do not fit: the reference tells")
    if min(*strides, *rates) < 1:
        raise Unsupported("strides and rates below 1: the reference tells")
    padding = attr_text(spec.attrs, "padding")
    rows, columns = (
        make_window(x.shape[i], taps.shape[i - 1], strides[i], rates[i], padding) for i in (1, 2)
    )
    words = _geometry(x, rows, columns)
    pointers = (Pointer("in", 0), Pointer("in", 1), Pointer("out", 0))
    sums = predicted(spec.outputs[0].size) * rows.size * columns.size
    launches = _launch(dilation_source(x.dtype), (*words, *pointers), x.shape[0] * rows.out, sums)
    return NativeCall(launches, bytes_moved=predicted(x.nbytes + spec.outputs[0].nbytes))
