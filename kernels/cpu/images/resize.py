"""Build resizing of images, and its gradients.

The places and weights of both axes are tables, which the reference's own functions make while
planning. All other sizes are argument words: a text serves images of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reference.images.resize import (
    Taps,
    cubic_taps,
    linear_places,
    linear_taps,
    nearest_places,
)
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import write_imports
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

_UNROLLED: Final = 4
"""Most channels that a text names one by one."""
_TAP_NS: Final = 0.6
"""Time to add one weighted element."""
_SIZES: Final = ("source", "out", "units", "out_height", "out_width", "channels", "height", "width")


def _require_images(spec: NodeSpec, *images: TensorSpec) -> None:
    """Raise Unsupported for shapes and options that the reference refuses."""
    for one in images:
        if len(one.shape) != 4 or not all(isinstance(size, int) for size in one.shape[1:]):
            raise Unsupported("sizes of images are not known while planning")
        if min(one.shape[1:]) <= 0:
            raise Unsupported("no images: the reference tells")
    if spec.attrs.get("half_pixel_centers") and spec.attrs.get("align_corners"):
        raise Unsupported("centres and corners of pixels: the reference tells")


def _begin(s: Source, title: str, more: Sequence[str]) -> None:
    """Write the head of a kernel that computes rows of the output.

    A unit is one row of one image.
    """
    write_imports(s, title)
    s.begin("def kernel(args, chunk, nchunks):")
    for k, name in enumerate((*_SIZES, *more)):
        s.line(f"{name} = word(args, {2 + k})")


@contextmanager
def _each_row(s: Source) -> Iterator[None]:
    """Open the loop over a chunk's rows of images."""
    s.line("begin = units * chunk // nchunks")
    s.line("last = units * (chunk + 1) // nchunks")
    with s.block("for step in range(last - begin):"):
        s.line("unit = begin + step")
        s.line("image = unit // out_height")
        s.line("row = unit - image * out_height")
        s.line("out_p = ptr_f32(out + unit * out_width * channels * 4)")
        yield


@contextmanager
def _each_channel(s: Source, channels: int) -> Iterator[list[str]]:
    """Give the numbers of the channels to write a line for.

    Few channels are named one by one; 0 means a loop.
    """
    if channels:
        yield [str(c) for c in range(channels)]
    else:
        with s.block("for c in range(channels):"):
            yield ["c"]


def bilinear_source(dtype: DType, channels: int) -> KernelSource:
    """Write bilinear resizing to float32; channels: 0 for any number.

    The arithmetic is the reference's: along the row above and the row below, then between them.
    """
    s = Source()
    _begin(
        s,
        f"bilinear images of {dtype.name}, {channels or 'any'} channels",
        ("row_low", "row_high", "row_part", "column_low", "column_high", "column_part"),
    )
    for axis in ("row", "column"):
        s.line(f"{axis}_low_p = ptr_i64({axis}_low)")
        s.line(f"{axis}_high_p = ptr_i64({axis}_high)")
        s.line(f"{axis}_part_p = ptr_f32({axis}_part)")
    line = f"width * channels * {dtype.size}"
    with _each_row(s):
        for name in ("low", "high"):
            address = f"source + (image * height + ld(row_{name}_p, row)) * {line}"
            s.line(f"{name}_p = {typed_pointers.pointer(dtype, address)}")
        s.line("down = ld(row_part_p, row)")
        with s.block("for column in range(out_width):"):
            s.line("left = ld(column_low_p, column)")
            s.line("right = ld(column_high_p, column)")
            s.line("across = ld(column_part_p, column)")
            s.line("at = column * channels")
            with _each_channel(s, channels) as numbers:
                for c in numbers:
                    for name in ("low", "high"):
                        for side in ("left", "right"):
                            element = expressions.loaded(dtype, f"ld({name}_p, {side} + {c})")
                            s.line(f"{name}_{side} = float32({element})")
                        s.line(f"{name} = {name}_left + ({name}_right - {name}_left) * across")
                    s.line(f"st(out_p, at + {c}, low + (high - low) * down)")
    return KernelSource(s.text(), title="bilinear images", module=__name__)


def resampling_source(dtype: DType, channels: int) -> KernelSource:
    """Write weighted sums along the columns, then along the rows, to float32.

    Each row and column of the output has its own number of places and weights: those of
    `starts[i]` to `starts[i + 1]`. A row of sums goes through scratch memory of the chunk.
    channels: 0 for any number.
    """
    s = Source()
    axes = [
        f"{axis}_{name}" for axis in ("row", "column") for name in ("starts", "places", "weights")
    ]
    _begin(
        s,
        f"resampled images of {dtype.name}, {channels or 'any'} channels",
        (*axes, "scratch", "scratch_size"),
    )
    for name in axes:
        s.line(f"{name}_p = ptr_{'f32' if name.endswith('weights') else 'i64'}({name})")
    s.line("line_p = ptr_f32(scratch + chunk * scratch_size)")
    s.line("length = width * channels")
    with _each_row(s):
        s.line("taps = ld(row_starts_p, row)")
        s.line("count = ld(row_starts_p, row + 1) - taps")
        with s.block("if count == 0:"), s.block("for i in range(length):"):
            s.line("st_out(line_p, i, float32(0), 1)")
        with s.block("for tap in range(count):"):
            address = (
                f"source + (image * height + ld(row_places_p, taps + tap)) * length * {dtype.size}"
            )
            s.line(f"source_p = {typed_pointers.pointer(dtype, address)}")
            s.line("weight = ld(row_weights_p, taps + tap)")
            product = f"float32({expressions.loaded(dtype, 'ld(source_p, i)')}) * weight"
            with s.block("if tap == 0:"), s.block("for i in range(length):"):
                s.line(f"st_out(line_p, i, {product}, 1)")
            with s.block("else:"), s.block("for i in range(length):"):
                s.line(f"st_out(line_p, i, ld_out(line_p, i, 1) + {product}, 1)")
        with s.block("for column in range(out_width):"):
            s.line("taps = ld(column_starts_p, column)")
            s.line("count = ld(column_starts_p, column + 1) - taps")
            s.line("at = column * channels")
            _write_columns(s, channels)
    return KernelSource(s.text(), title="resampled images", module=__name__)


def _write_columns(s: Source, channels: int) -> None:
    """Write the weighted sum of one column's pixels."""
    if channels:
        for c in range(channels):
            s.line(f"total{c} = float32(0)")
        with s.block("for tap in range(count):"):
            s.line("place = ld(column_places_p, taps + tap)")
            s.line("weight = ld(column_weights_p, taps + tap)")
            for c in range(channels):
                s.line(f"total{c} += ld_out(line_p, place + {c}, 1) * weight")
        for c in range(channels):
            s.line(f"st_out(out_p, at + {c}, total{c}, 0)")
        return
    with s.block("if count == 0:"), s.block("for c in range(channels):"):
        s.line("st_out(out_p, at + c, float32(0), 0)")
    with s.block("for tap in range(count):"):
        s.line("place = ld(column_places_p, taps + tap)")
        s.line("weight = ld(column_weights_p, taps + tap)")
        product = "ld_out(line_p, place + c, 1) * weight"
        with s.block("if tap == 0:"), s.block("for c in range(channels):"):
            s.line(f"st_out(out_p, at + c, {product}, 0)")
        with s.block("else:"), s.block("for c in range(channels):"):
            s.line(f"st_out(out_p, at + c, ld_out(out_p, at + c, 0) + {product}, 0)")


def _words(source: TensorSpec, out: TensorSpec, tables: int) -> tuple[Word, ...]:
    batch, height, width, channels = out.shape
    sizes = (height, width, channels, *source.shape[1:3])
    at = (Pointer("in", 0), Pointer("out", 0))
    return (*at, batch * height, *sizes, *(Pointer("const", k) for k in range(tables)))


def _few(channels: int) -> int:
    return channels if channels <= _UNROLLED else 0


@native("ResizeBilinear")
def _bilinear(spec: NodeSpec) -> NativeCall:
    images, out = spec.inputs[0], spec.outputs[0]
    _require_images(spec, images, out)
    if not typed_pointers.is_supported(images.dtype) or images.dtype.is_complex:
        raise Unsupported(f"images of {images.dtype.name}")
    if images.shape == out.shape:
        raise Unsupported("images as they are")
    channels = out.shape[3]
    tables: list[np.ndarray] = []
    for axis, scale in ((1, 1), (2, channels)):
        low, high, part = linear_places(spec, images.shape[axis], out.shape[axis])
        tables += [low * scale, high * scale, part]
    source = bilinear_source(images.dtype, _few(channels))
    return _call(source, _words(images, out, len(tables)), tables, images, out, 4)


def _call(
    source: KernelSource,
    words: tuple[Word, ...],
    tables: Sequence[np.ndarray],
    images: TensorSpec,
    out: TensorSpec,
    taps: float,
    scratch: int = 0,
) -> NativeCall:
    """Return the call of one launch.

    taps: elements of which one of the output is made.
    """
    moved = predicted(images.nbytes + out.nbytes)
    cost = cost_model.FIXED_NS + taps * _TAP_NS * predicted(out.size) + cost_model.traffic_ns(moved)
    chunks = cost_model.chunks_for(cost, predicted(out.shape[0]) * out.shape[1])
    if scratch:
        words = (*words, Pointer("temp", 0), scratch)
    launch = Launch(source, words, chunks=chunks, cost_ns=cost)
    temps = (scratch * chunks,) if scratch else ()
    return NativeCall((launch,), temp_bytes=temps, constants=tuple(tables), bytes_moved=moved)


Lists = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Starts, places and weights of the elements of each output."""


def read_lists(taps: Taps) -> Lists:
    """Return the inputs that each output reads."""
    used = taps.used.T
    starts = np.concatenate([[0], np.cumsum(used.sum(1))])
    return starts, taps.place.T[used].astype(np.int64), taps.weight.T[used].astype(np.float32)


def added_lists(taps: Taps, size: int) -> Lists:
    """Return the outputs that each input's gradient adds up.

    These outputs read the input. They are in the order of the taps. size: the number of inputs.
    """
    count = taps.place.shape[1]
    outputs = np.broadcast_to(np.arange(count), taps.place.shape)[taps.used]
    places = taps.place[taps.used]
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(size + 1))
    weights = taps.weight[taps.used][order]
    return starts, outputs[order].astype(np.int64), weights.astype(np.float32)


def _resampled(source: TensorSpec, out: TensorSpec, rows: Lists, columns: Lists) -> NativeCall:
    channels = out.shape[3]
    tables = [np.ascontiguousarray(table) for table in (*rows, *columns)]
    tables[4] = tables[4] * channels
    mean = len(rows[1]) * source.shape[2] / (out.shape[1] * out.shape[2])
    mean += len(columns[1]) / out.shape[2]
    scratch = -(-source.shape[2] * channels * 4 // 64) * 64
    words = _words(source, out, len(tables))
    text = resampling_source(source.dtype, _few(channels))
    return _call(text, words, tables, source, out, mean, scratch)


@native("ResizeBicubic")
def _bicubic(spec: NodeSpec) -> NativeCall:
    images, out = spec.inputs[0], spec.outputs[0]
    _require_images(spec, images, out)
    if not typed_pointers.is_supported(images.dtype) or images.dtype.is_complex:
        raise Unsupported(f"images of {images.dtype.name}")
    rows, columns = (
        read_lists(cubic_taps(spec, images.shape[axis], out.shape[axis])) for axis in (1, 2)
    )
    return _resampled(images, out, rows, columns)


def _nearest_taps(spec: NodeSpec, size: int, out: int) -> Taps:
    """Return the one input of each output."""
    places = nearest_places(spec, size, out)[None]
    return Taps(places, np.ones(places.shape, np.float32), np.ones(places.shape, np.bool_))


_TAPS: Final = {
    "ResizeBilinearGrad": linear_taps,
    "ResizeBicubicGrad": cubic_taps,
    "ResizeNearestNeighborGrad": _nearest_taps,
}


@native(*_TAPS)
def _gradient(spec: NodeSpec) -> NativeCall:
    grads, dx = spec.inputs[0], spec.outputs[0]
    _require_images(spec, grads, dx)
    if grads.dtype is not d.float32 or dx.dtype is not d.float32:
        raise Unsupported(f"the gradient of images of {dx.dtype.name}")
    rows, columns = (
        added_lists(_TAPS[spec.op](spec, dx.shape[axis], grads.shape[axis]), dx.shape[axis])
        for axis in (1, 2)
    )
    return _resampled(grads, dx, rows, columns)
