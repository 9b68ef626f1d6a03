"""Build gradients of convolutions, dense and depthwise, NHWC."""

from __future__ import annotations

import functools
import math
from typing import Final

import numpy as np

from tfjit.kernels.cpu.conv import winograd
from tfjit.kernels.cpu.conv.channelwise import add_channelwise, backward_map
from tfjit.kernels.cpu.conv.conv import ConvSpec, Phase, add_convolution, native_layout
from tfjit.kernels.cpu.conv.filter_grad import (
    FilterGradSpec,
    add_filter_gradient,
    joins_taps,
    valid_outputs,
)
from tfjit.kernels.cpu.conv.window import Window
from tfjit.kernels.cpu.data_movement.strided_copy import View, copy_launch
from tfjit.kernels.cpu.gemm.macro_kernel import write_words
from tfjit.kernels.cpu.gemm.matmul import product_ns
from tfjit.kernels.cpu.gemm.micro_kernels import Tile, cover, tile_of
from tfjit.kernels.cpu.gemm.packing import MatrixLayout, pack_at_run_time, plan_panels
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.cpu.template.epilogue import epilogue_text
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


def _windows(
    node: NodeSpec, x_shape: tuple[int, ...], filter_shape: tuple[int, ...]
) -> tuple[Window, Window]:
    return native_layout(node).windows(x_shape[1], x_shape[2], (filter_shape[0], filter_shape[1]))


def _require(dtype_of: TensorSpec, *others: TensorSpec) -> Tile:
    for other in others:
        if other.dtype is not dtype_of.dtype:
            raise Unsupported(f"convolution of {dtype_of.dtype.name} and {other.dtype.name}")
    return tile_of(dtype_of.dtype)


def zero_call(nbytes: int) -> NativeCall:
    """Return a call that fills output 0 with zeros."""
    return NativeCall((_zero_launch(nbytes),) if nbytes else ())


def _zero_launch(nbytes: int) -> Launch:
    cost = cost_model.FIXED_NS + 0.02 * nbytes
    return Launch(zero_source(), (Pointer("out", 0), nbytes), cost_ns=cost)


@functools.cache
def zero_source() -> KernelSource:
    """Write a fill with zeros. Words: address, bytes."""
    s = Source()
    s.line("# zeros")
    s.line("from tfjit.kernels.codegen.intrinsics import fill_bytes, word")
    with s.block("def kernel(args, chunk, nchunks):"):
        s.line("size = word(args, 3)")
        s.line("first = size * chunk // nchunks")
        s.line("fill_bytes(word(args, 2) + first, 0, size * (chunk + 1) // nchunks - first)")
    return KernelSource(s.text(), title="zeros", module=__name__)


def input_phases(window: Window) -> list[tuple[Window, Phase] | None]:
    """Return the windows of the input gradient, one a phase.

    Input i is in phase i % stride of the window. Its gradient sums, over taps t with a stride's multiple in i +
    before - t * dilation, gradients of the outputs at that multiple: a window over the gradient of
    the outputs, with the filter rotated by 180 degrees. None: no tap reads the phase. Phases
    without inputs are left out.
    """
    common = math.gcd(window.stride, window.dilation)
    step, dilation = window.stride // common, window.dilation // common
    phases: list[tuple[Window, Phase] | None] = []
    for start in range(window.stride):
        if start >= window.length:
            break
        reach = start + window.before
        taps = range(min(step, window.size))
        first = next((t for t in taps if (reach - t * window.dilation) % window.stride == 0), None)
        if first is None:
            phases.append(None)
            continue
        size = (window.size - 1 - first) // step + 1
        before = (size - 1) * dilation - (reach - first * window.dilation) // window.stride
        count = -(-(window.length - start) // window.stride)
        after = count - 1 + (size - 1) * dilation + 1 - window.out - before
        last = first + (size - 1) * step
        phases.append(
            (
                Window(window.out, size, 1, dilation, before, after),
                Phase(
                    window.size, window.size - 1 - last, step, start, window.stride, window.length
                ),
            )
        )
    return phases


def mirrored(window: Window) -> Window:
    """Return the window of the input gradient of a window without strides."""
    (found,) = input_phases(window)
    assert found is not None
    return found[0]


@native("Conv2DBackpropInput")
def _input_gradient(node: NodeSpec) -> NativeCall:
    _, w, _ = node.inputs
    return _dense_input_gradient(node, (w.shape[0], w.shape[1], w.shape[2], w.shape[3]))


def _dense_input_gradient(node: NodeSpec, filter_shape: tuple[int, int, int, int]) -> NativeCall:
    """Return the input gradient as a convolution of out_backprop.

    Its filter is rotated by 180 degrees, with its channels swapped. With strides, inputs at one
    phase of them have taps of their own: each pair of phases is a convolution that writes every
    stride-th pixel. filter_shape: [k_h, k_w, channels of a group, out_c].
    """
    _, w, dy = node.inputs
    dx = node.outputs[0]
    tile = _require(dy, w)
    k_h, k_w, in_c, out_c = filter_shape
    batch, _, _, channels = dx.shape
    rows, cols = _windows(node, dx.shape, filter_shape)
    if dx.size == 0 or dy.size == 0 or w.size == 0:
        return zero_call(dx.nbytes)
    call = CallBuilder(node.constants)
    groups = channels // in_c
    share = out_c // groups
    taps, size = k_h * k_w, tile.size
    plan = plan_panels(tile, taps * share, channels, groups, dots=True)
    value = node.constants.get(1)
    row_tiles = cover(cols.length, plan.max_height)
    direct_ns = product_ns(tile, batch * rows.length * row_tiles.count, row_tiles.height, plan)
    if groups == rows.stride == cols.stride == 1 and winograd.pays(
        tile, batch, mirrored(rows), mirrored(cols), out_c, channels, value, direct_ns
    ):
        rotated, weights = _rotated_filter(call, filter_shape, value, size)
        winograd.add_winograd(
            call,
            batch,
            mirrored(rows),
            mirrored(cols),
            rotated,
            epilogue_text(None, dy.dtype),
            (),
            Pointer("in", 2),
            weights,
        )
        return call.finish(dy.nbytes + w.nbytes + dx.nbytes, 2 * dy.size * taps * in_c)
    table = call.table(plan.table(share * size))
    if value is not None:
        rotated = np.ascontiguousarray(value.reshape(filter_shape)[::-1, ::-1]).reshape(
            taps, in_c, groups, share
        )
        packed = call.constant(
            plan.pack(rotated.transpose(0, 3, 2, 1).reshape(taps * share, channels))
        )
    else:
        tap, column = in_c * out_c * size, out_c * size
        shift = share * size - in_c * column
        layout = MatrixLayout(
            taps, -tap, share, size, column, start=(taps - 1) * tap, group_shift=shift
        )
        packed = pack_at_run_time(call, plan, table, Pointer("in", 1), layout)
    pairs = [(r, c) for r in input_phases(rows) for c in input_phases(cols)]
    if any(r is None or c is None for r, c in pairs):
        call.launch(_zero_launch(dx.nbytes))
    text = epilogue_text(None, dy.dtype)
    for r, c in pairs:
        if r is None or c is None:
            continue
        one_phase = rows.stride == cols.stride == 1
        spec = ConvSpec(
            batch,
            r[0],
            c[0],
            out_c,
            channels,
            groups,
            phases=None if one_phase else (r[1], c[1]),
        )
        add_convolution(call, spec, plan, packed, table, text, Pointer("in", 2), ())
    return call.finish(dy.nbytes + w.nbytes + dx.nbytes, 2 * dy.size * taps * in_c)


def _rotated_filter(
    call: CallBuilder, shape: tuple[int, int, int, int], value: np.ndarray | None, size: int
) -> tuple[np.ndarray | tuple[int, ...], Pointer]:
    """Return a filter rotated by 180 degrees, with its channels swapped.

    Returns its value, or its shape where the value is not known while planning, and its address.
    """
    k_h, k_w, in_c, out_c = shape
    if value is not None:
        rotated = np.ascontiguousarray(value.reshape(shape)[::-1, ::-1].transpose(0, 1, 3, 2))
        return rotated, call.constant(rotated)
    target = call.temp(k_h * k_w * in_c * out_c * size)
    swapped = (k_h * k_w, out_c, in_c)
    tap = in_c * out_c * size
    source = View(swapped, (-tap, size, out_c * size), (k_h * k_w - 1) * tap)
    launch = copy_launch(
        size, source, View(swapped, (tap, in_c * size, size)), Pointer("in", 1), target
    )
    assert launch is not None  # a filter without elements has been served already
    call.launch(launch)
    return (k_h, k_w, out_c, in_c), target


_PAD_WORDS: Final = (
    "units",
    "height",
    "in_height",
    "before",
    "x",
    "row_bytes",
    "target",
    "pitch",
    "left",
    "skip",
    "copy",
    "right",
)


@functools.cache
def pad_source() -> KernelSource:
    """Write a copy of images with a border of zeros.

    A unit is a row of the result. Words: those of _PAD_WORDS.
    """
    s = Source()
    s.line("# pad images with zeros")
    s.line("from tfjit.kernels.codegen.intrinsics import copy_bytes, fill_bytes, word")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_words(s, *_PAD_WORDS)
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line("image = (first + unit) // height")
            s.line("row = (first + unit) - image * height - before")
            s.line("at = target + (first + unit) * pitch")
            with s.block("if row < 0 or row >= in_height:"):
                s.line("fill_bytes(at, 0, pitch)")
            with s.block("else:"):
                s.line("fill_bytes(at, 0, left)")
                s.line(
                    "copy_bytes(at + left, x + (image * in_height + row) * row_bytes + skip, copy)"
                )
                s.line("fill_bytes(at + left + copy, 0, right)")
    return KernelSource(s.text(), title="pad images", module=__name__)


def _padded(
    call: CallBuilder, x: Pointer, batch: int, rows: Window, cols: Window, pixel: int
) -> tuple[Pointer, int, int]:
    """Return images that hold all positions that their windows read.

    Returns (address, rows, bytes of a row). The images are copied only where the windows leave
    them.
    """
    if all(w.before == 0 and w.padded <= w.length for w in (rows, cols)):
        return x, rows.length, cols.length * pixel
    first, last = max(0, -cols.before), min(cols.length, cols.padded - cols.before)
    left, copied = max(0, cols.before), max(0, last - first)
    pitch = cols.padded * pixel
    target = call.temp(batch * rows.padded * pitch)
    units = batch * rows.padded
    cost = cost_model.FIXED_NS + 8.0 * units + 0.03 * units * pitch
    words: tuple[Word, ...] = (
        *(units, rows.padded, rows.length, rows.before, x, cols.length * pixel, target, pitch),
        *(left * pixel, first * pixel, copied * pixel, (cols.padded - left - copied) * pixel),
    )
    call.launch(Launch(pad_source(), words, chunks=chunk_count(cost, units), cost_ns=cost))
    return target, rows.padded, pitch


@native("Conv2DBackpropFilter")
def _filter_gradient(node: NodeSpec) -> NativeCall:
    k_h, k_w, in_c, out_c = node.outputs[0].shape
    return _dense_filter_gradient(node, (k_h, k_w, in_c, out_c))


def _dense_filter_gradient(node: NodeSpec, filter_shape: tuple[int, int, int, int]) -> NativeCall:
    """Return the filter gradient: a product for every tap.

    The input, transposed, is multiplied with out_backprop and summed over all output pixels whose
    tap is inside the input. filter_shape: [k_h, k_w, channels of a group, out_c].
    """
    x, _, dy = node.inputs
    dw = node.outputs[0]
    tile = _require(dy, x)
    _, _, in_c, out_c = filter_shape
    batch, _, _, channels = x.shape
    rows, cols = _windows(node, x.shape, filter_shape)
    if dw.size == 0 or dy.size == 0:
        return zero_call(dw.nbytes)
    call = CallBuilder()
    pixel = channels * tile.size
    padded = joins_taps(tile, in_c, channels, cols)
    source, height, pitch = Pointer("in", 0), rows.length, cols.length * pixel
    if padded:
        source, height, pitch = _padded(call, source, batch, rows, cols, pixel)
    spec = FilterGradSpec(batch, rows, cols, channels, in_c, out_c, height * pitch, pitch, padded)
    add_filter_gradient(call, tile, spec, source, Pointer("in", 2))
    return call.finish(x.nbytes + dy.nbytes + dw.nbytes, 2 * dy.size * rows.size * cols.size * in_c)


@native("DepthwiseConv2dNativeBackpropInput")
def _depthwise_input_gradient(node: NodeSpec) -> NativeCall:
    """Return the input gradient of a depthwise convolution.

    Every input position gathers the outputs it went into; with several results a channel, channels
    are groups.
    """
    _, w, dy = node.inputs
    dx = node.outputs[0]
    tile = _require(dy, w)
    if w.shape[3] != 1:
        return _dense_input_gradient(node, (w.shape[0], w.shape[1], 1, w.shape[2] * w.shape[3]))
    rows, cols = _windows(node, dx.shape, w.shape)
    if dx.size == 0 or dy.size == 0:
        return zero_call(dx.nbytes)
    call = CallBuilder(node.constants)
    maps = backward_map(rows), backward_map(cols)
    text = epilogue_text(None, dy.dtype)
    batch, channels = dx.shape[0], dx.shape[3]
    add_channelwise(
        call,
        tile,
        "fma",
        text,
        maps,
        batch,
        (rows.out, cols.out),
        channels,
        Pointer("in", 2),
        Pointer("in", 1),
        cols.size,
    )
    return call.finish(dx.nbytes + dy.nbytes + w.nbytes, 2 * dy.size * rows.size * cols.size)


_REDUCE_WORDS: Final = (
    "units", "blocks", "block_channels", "channels", "x", "image_bytes", "row_bytes", "column_step", "row_step", "dy",
    "dy_row_bytes", "dw", "batch", "out_height", "tap_table",
)  # fmt: skip


@functools.cache
def depthwise_filter_source(tile: Tile) -> KernelSource:
    """Write the gradient of a depthwise filter.

    A unit is a block of channels of one tap. Words: those of _REDUCE_WORDS. tap_table: rows (first
    output row, last, byte offset of the first output column in x, in dy, output columns, byte
    offset of output row 0 in x).
    """
    s = Source()
    s.line(f"# depthwise filter gradient {tile.kind} {tile.isa}")
    s.line("from tfjit.kernels.codegen.intrinsics import fill_bytes, word")
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import multiply_reduce")
    s.line(f"reduce = multiply_reduce({tile.kind!r}, {tile.lanes}, {tile.fused})")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_words(s, *_REDUCE_WORDS)
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line("tap = (first + unit) // blocks")
            s.line("start = ((first + unit) - tap * blocks) * block_channels")
            s.line("own = min(block_channels, channels - start)")
            s.line("entry = tap_table + tap * 48")
            s.line("top = word(entry, 0)")
            s.line("last = word(entry, 1)")
            s.line(f"x_start = x + start * {tile.size} + word(entry, 2) + word(entry, 5)")
            s.line(f"dy_start = dy + start * {tile.size} + word(entry, 3)")
            s.line("count = word(entry, 4)")
            s.line(f"total = dw + (tap * channels + start) * {tile.size}")
            s.line(f"fill_bytes(total, 0, own * {tile.size})")
            with s.block("for image in range(batch):"), s.block("for line in range(top, last):"):
                s.line("x_at = x_start + image * image_bytes + line * row_step")
                s.line("dy_at = dy_start + (image * out_height + line) * dy_row_bytes")
                s.line(
                    f"reduce(x_at, column_step, dy_at, channels * {tile.size}, count, total, own)"
                )
    return KernelSource(s.text(), title=f"depthwise filter gradient {tile.kind}", module=__name__)


@native("DepthwiseConv2dNativeBackpropFilter")
def _depthwise_filter_gradient(node: NodeSpec) -> NativeCall:
    x, _, dy = node.inputs
    dw = node.outputs[0]
    tile = _require(dy, x)
    if dw.shape[3] != 1:
        return _dense_filter_gradient(
            node, (dw.shape[0], dw.shape[1], 1, dw.shape[2] * dw.shape[3])
        )
    rows, cols = _windows(node, x.shape, dw.shape)
    if dw.size == 0 or dy.size == 0:
        return zero_call(dw.nbytes)
    call = CallBuilder(node.constants)
    batch, height, width, channels = x.shape
    pixel = channels * tile.size
    pitch = width * pixel
    table = []
    for kh in range(rows.size):
        for kw in range(cols.size):
            top, last = valid_outputs(rows, kh)
            left, right = valid_outputs(cols, kw)
            x_left = (left * cols.stride + kw * cols.dilation - cols.before) * pixel
            table += [
                top,
                last,
                x_left,
                left * pixel,
                right - left,
                (kh * rows.dilation - rows.before) * pitch,
            ]
    taps = rows.size * cols.size
    blocks = -(-channels // 64)
    units = taps * blocks
    cost = cost_model.FIXED_NS + taps * batch * rows.out * (
        5.0 + 0.8 * cols.out * -(-channels // tile.lanes)
    )
    words: tuple[Word, ...] = (
        *(
            units,
            blocks,
            64,
            channels,
            Pointer("in", 0),
            height * pitch,
            pitch,
            cols.stride * pixel,
            rows.stride * pitch,
        ),
        *(
            Pointer("in", 2),
            cols.out * pixel,
            Pointer("out", 0),
            batch,
            rows.out,
            call.table(table),
        ),
    )
    chunks = chunk_count(cost, units)
    call.launch(Launch(depthwise_filter_source(tile), words, chunks=chunks, cost_ns=cost))
    return call.finish(x.nbytes + dy.nbytes + dw.nbytes, 2 * dy.size * taps)
