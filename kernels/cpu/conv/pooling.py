"""Build maximum and mean pooling with their gradients, NHWC."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from tfjit.kernels.cpu.conv.channelwise import (
    RUN_WORDS,
    AxisMap,
    add_channelwise,
    class_lists,
    forward_map,
)
from tfjit.kernels.cpu.conv.max_pool_grad import spread_call
from tfjit.kernels.cpu.conv.nchw import either_layout
from tfjit.kernels.cpu.conv.window import Window, channels_last, pool_layout
from tfjit.kernels.cpu.gemm.macro_kernel import write_words
from tfjit.kernels.cpu.gemm.micro_kernels import Tile, tile_of
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.cpu.template.epilogue import epilogue_text
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Word, native
from tfjit.kernels.source import KernelSource, Source

_CHANNEL_BLOCK: Final = 64  # channels of a unit of work where there are few images to share


def _pool(node: NodeSpec, op: str) -> NativeCall:
    x = node.inputs[0]
    tile = tile_of(x.dtype)
    layout = channels_last(pool_layout(node, 1))
    batch, height, width, channels = x.shape
    rows, cols = layout.windows(height, width)
    call = CallBuilder()
    results = batch * rows.out * cols.out * channels
    if results == 0:
        return call.finish()
    maps = forward_map(rows), forward_map(cols)
    add_channelwise(
        call,
        tile,
        op,
        epilogue_text(None, x.dtype),
        maps,
        batch,
        (height, width),
        channels,
        Pointer("in", 0),
        None,
    )
    return call.finish(x.nbytes + results * x.dtype.size, results * rows.size * cols.size)


@native("MaxPool", "MaxPoolV2")
@either_layout
def _max_pool(node: NodeSpec) -> NativeCall:
    return _pool(node, "max")


@native("AvgPool")
@either_layout
def _avg_pool(node: NodeSpec) -> NativeCall:
    return _pool(node, "mean")


_WORDS: Final = (
    "units", "blocks", "block_channels", "channels", "x", "dy", "dx", "image_bytes", "dy_image_bytes", "out_height", "dy_row_bytes",
    "row_table", "runs", "run_table", "class_table",
)  # fmt: skip


@functools.cache
def scatter_source(tile: Tile, op: str) -> KernelSource:
    """Write a pooling gradient: zero dx, then add every window's gradient.

    The gradient goes to the inputs that the window read. Windows may overlap, so that a unit of
    work is a whole image, or a block of its channels. Words: those of _WORDS. The tables are those
    of `channelwise_source`.
    """
    s = Source()
    s.line(f"# {op} pooling gradient {tile.kind} {tile.isa}")
    s.line("from tfjit.kernels.codegen.intrinsics import fill_bytes, word")
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import scatter_pixel")
    s.line(f"give = scatter_pixel({tile.kind!r}, {tile.lanes}, {op!r})")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_words(s, *_WORDS)
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line("image = (first + unit) // blocks")
            s.line("start = ((first + unit) - image * blocks) * block_channels")
            s.line("own = min(block_channels, channels - start)")
            s.line(f"at = image * image_bytes + start * {tile.size}")
            with s.block("if own == channels:"):
                s.line("fill_bytes(dx + at, 0, image_bytes)")
            with (
                s.block("else:"),
                s.block(f"for pixel in range(image_bytes // (channels * {tile.size})):"),
            ):
                s.line(
                    f"fill_bytes(dx + at + pixel * channels * {tile.size}, 0, own * {tile.size})"
                )
            s.line(f"dy_at = dy + image * dy_image_bytes + start * {tile.size}")
            with s.block("for top in range(out_height):"):
                s.line("row = at + word(row_table, 2 * top)")
                s.line("dy_row = dy_at + top * dy_row_bytes")
                with s.block("for run in range(runs):"):
                    s.line(f"entry = run_table + run * {8 * RUN_WORDS}")
                    s.line("place = row + word(entry, 0)")
                    s.line("from_ = dy_row + word(entry, 1)")
                    s.line("step = word(entry, 2)")
                    s.line("from_step = word(entry, 3)")
                    s.line("kind = word(row_table, 2 * top + 1) + word(entry, 7)")
                    s.line("ntaps = word(class_table, 2 * kind)")
                    s.line("taps = class_table + word(class_table, 2 * kind + 1)")
                    with s.block("for p in range(word(entry, 4)):"):
                        s.line("give(x + place, taps, ntaps, from_, dx + place, own)")
                        s.line("place += step")
                        s.line("from_ += from_step")
    return KernelSource(s.text(), title=f"{op} pooling gradient {tile.kind}", module=__name__)


def _scatter(
    tile: Tile,
    op: str,
    shape: Sequence[int],
    rows: Window,
    cols: Window,
    x: Pointer | None,
    dy: Pointer,
) -> NativeCall:
    """Return the launch of a pooling gradient.

    shape: of the input [b, h, w, c].
    """
    batch, height, width, channels = shape
    call = CallBuilder()
    if batch * height * width * channels == 0:
        return call.finish()
    maps: tuple[AxisMap, AxisMap] = (forward_map(rows), forward_map(cols))
    pixel = channels * tile.size
    pitch = width * pixel
    row_table, class_table = class_lists(maps, pitch, pixel)
    run_table = []
    for first, count, step, move, number in maps[1].runs():
        run_table += [
            maps[1].starts[first] * pixel,
            first * pixel,
            move * pixel,
            step * pixel,
            count,
            0,
            0,
            number,
            0,
        ]
    block = channels if batch >= 16 or channels <= _CHANNEL_BLOCK else _CHANNEL_BLOCK
    blocks = -(-channels // block)
    reads = batch * rows.out * rows.size * cols.out * cols.size
    cost = (
        cost_model.FIXED_NS
        + reads * -(-channels // tile.lanes) * 1.5
        + 3.0 * batch * rows.out * cols.out
    )
    units = batch * blocks
    words: tuple[Word, ...] = (
        *(units, blocks, block, channels, x or 0, dy, Pointer("out", 0), height * pitch),
        *(rows.out * cols.out * pixel, rows.out, cols.out * pixel),
        *(
            call.table(row_table),
            len(run_table) // RUN_WORDS,
            call.table(run_table),
            call.table(class_table),
        ),
    )
    chunks = chunk_count(cost, units)
    call.launch(Launch(scatter_source(tile, op), words, chunks=chunks, cost_ns=cost))
    size = batch * height * width * channels * tile.size
    return call.finish(2 * size + batch * rows.out * cols.out * pixel, reads * channels)


@native("MaxPoolGrad", "MaxPoolGradV2")
def _max_pool_grad(node: NodeSpec) -> NativeCall:
    x = node.inputs[0]
    tile = tile_of(x.dtype)
    layout = channels_last(pool_layout(node, 3))
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    found = (
        spread_call(tile, x.shape, rows, cols, Pointer("in", 0), Pointer("in", 2))
        if x.size
        else None
    )
    return found or _scatter(tile, "max", x.shape, rows, cols, Pointer("in", 0), Pointer("in", 2))


@native("AvgPoolGrad")
def _avg_pool_grad(node: NodeSpec) -> NativeCall:
    dx = node.outputs[0]
    tile = tile_of(dx.dtype)
    layout = channels_last(pool_layout(node, len(node.inputs)))
    rows, cols = layout.windows(dx.shape[1], dx.shape[2])
    return _scatter(tile, "mean", dx.shape, rows, cols, None, Pointer("in", 1))
