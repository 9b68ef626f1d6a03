"""Build 2-D convolutions with fused epilogues, NHWC, without im2col.

Micro-kernels run over a padded band of input rows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.kernels.cpu.conv import winograd
from tfjit.kernels.cpu.conv.nchw import either_layout
from tfjit.kernels.cpu.conv.window import Layout, Window, channels_last, node_layout
from tfjit.kernels.cpu.gemm.macro_kernel import (
    part_table,
    write_chunk_bounds,
    write_panels_of_lines,
    write_words,
)
from tfjit.kernels.cpu.gemm.matmul import matmul_call, product_ns, traffic
from tfjit.kernels.cpu.gemm.micro_kernels import Tile, cover, tile_of
from tfjit.kernels.cpu.gemm.operands import operand_pointers
from tfjit.kernels.cpu.gemm.packing import (
    MatrixLayout,
    PanelPlan,
    depth_blocks,
    pack_at_run_time,
    plan_panels,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.cpu.template.epilogue import (
    Epilogue,
    EpilogueText,
    epilogue_ns,
    epilogue_text,
    epilogue_words,
)
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

# size of padded input rows and of products: both stay in the second-level cache
_BAND_BYTES: Final = 256 << 10
_SPLIT_ROWS_FROM: Final = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """One axis of a convolution that computes every `stride`-th output.

    Tap t of its window is tap first + t * step of a packed filter with `size` taps. Its output o is
    position start + o * stride of `length`.
    """

    size: int
    first: int
    step: int
    start: int
    stride: int
    length: int


@dataclass(frozen=True, slots=True)
class ConvSpec:
    """A convolution of an image batch.

    x is [batch, rows.length, cols.length, channels], the filter [rows.size, cols.size, channels /
    groups, out_channels]. phases: of rows and columns, for a part of the filter and of the outputs.
    """

    batch: int
    rows: Window
    cols: Window
    channels: int
    out_channels: int
    groups: int = 1
    phases: tuple[Phase, Phase] | None = None


_WORDS: Final = (
    "units", "out_height", "tiles", "height", "tall", "band_rows", "share_columns", "out_width",
    "tall_wide", "low_wide", "tall_narrow", "low_narrow",
    "x", "image_bytes", "in_height", "row_bytes_x", "pixel_bytes", "row_stride", "stride_h", "before", "extent",
    "copies", "band", "band_bytes", "pitch", "left", "skip", "copy", "right",
    "b", "panels", "panel_table", "parts", "part_table", "c_start", "c_pixel", "c_line", "c_image",
)  # fmt: skip


@functools.cache
def conv_source(tile: Tile, text: EpilogueText) -> KernelSource:
    """Write the macro-kernel: bands, panels, parts of the sum, rows, tiles.

    Bands are of input rows, tiles of output columns; the epilogue follows. A unit of work is one
    output row of one image. Words: those of _WORDS, then the epilogue's.
    """
    s = Source()
    s.line(f"# conv2d {tile.kind} {tile.isa}{text.title}")
    text.write_imports(s)
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import call_tile")
    with s.block("def kernel(args, chunk, nchunks):"):
        text.write_setup(s, write_words(s, *_WORDS))
        write_chunk_bounds(s, tile, "units")
        s.line("stride_a = row_stride")
        s.line("stride_c = c_pixel")
        s.line("band += chunk * band_bytes")
        s.line("a_line = stride_h * pitch")
        s.line("tile_first = 0")
        s.line("tile_last = tiles")
        with s.block("while unit < last_unit:"):
            s.line("image = unit // out_height")
            s.line("top = unit - image * out_height")
            s.line("count = min(min(band_rows, out_height - top), last_unit - unit)")
            s.line("x_image = x + image * image_bytes")
            s.line("start = top * stride_h - before")
            with s.block("if copies != 0:"):
                _write_band(s)
                s.line("a_band = band")
            with s.block("else:"):
                s.line("a_band = x_image + start * row_bytes_x + skip")
            s.line("row_first = unit * out_width")
            s.line("row_last = (unit + count) * out_width")
            if text.home is None:
                s.line("c_at = c")
            else:
                s.line("c_at = c + c_start + image * c_image + top * c_line")
            s.line("a_at = a_band")
            s.line("b_at = b")
            write_panels_of_lines(s)
            text.write_block(s)
            s.line("unit += count")
    return KernelSource(s.text(), title=f"conv2d{text.title} {tile.kind}", module=__name__)


def _write_band(s: Source) -> None:
    """Copy the input rows of `count` output rows into the band.

    They are padded with zeros.
    """
    with s.block("for q in range((count - 1) * stride_h + extent):"):
        s.line("at = band + q * pitch")
        s.line("ih = start + q")
        s.line("inside = ih >= 0 and ih < in_height")
        with s.block("if not inside:"):
            s.line("fill_bytes(at, 0, pitch)")
        with s.block("else:"):
            with s.block("if left != 0:"):
                s.line("fill_bytes(at, 0, left)")
            s.line("copy_bytes(at + left, x_image + ih * row_bytes_x + skip, copy)")
            with s.block("if right != 0:"):
                s.line("fill_bytes(at + left + copy, 0, right)")


def _column_words(spec: ConvSpec, pixel: int) -> tuple[int, int, int, int]:
    """Return (left, skip, copy, right) of a padded row: see `_write_band`."""
    cols = spec.cols
    first, last = max(0, -cols.before), min(cols.length, cols.padded - cols.before)
    copied = max(0, last - first)
    left = min(max(0, cols.before), cols.padded)
    return left * pixel, first * pixel, copied * pixel, (cols.padded - left - copied) * pixel


def segments_of(spec: ConvSpec, pixel: int, pitch: int, size: int) -> tuple[list[int], int]:
    """Return byte offsets and length of one output's contiguous inputs.

    The runs are filter rows or single taps; k is the length of each.
    """
    group_channels = spec.channels // spec.groups
    if spec.groups == 1 and spec.cols.dilation == 1:
        return [
            kh * spec.rows.dilation * pitch for kh in range(spec.rows.size)
        ], spec.cols.size * group_channels
    return [
        kh * spec.rows.dilation * pitch + kw * spec.cols.dilation * pixel
        for kh in range(spec.rows.size)
        for kw in range(spec.cols.size)
    ], group_channels


def _parts_of_phase(
    spec: ConvSpec, phases: tuple[Phase, Phase], pitch: int, pixel: int
) -> tuple[list[tuple[int, int, int, int]], list[int], int]:
    """Return the sum over some taps of a filter.

    It comes as (parts, offsets, terms of a tap).
    Each tap is a part of the sum, as the rows of its neighbours in the packed filter are other
    phases'. The offsets are those of all taps of the packed filter.
    """
    rows, cols = phases
    terms = spec.channels // spec.groups
    blocks, offsets = [], [0] * (rows.size * cols.size)
    for h in range(spec.rows.size):
        for w in range(spec.cols.size):
            tap = (rows.first + h * rows.step) * cols.size + cols.first + w * cols.step
            offsets[tap] = h * spec.rows.dilation * pitch + w * spec.cols.dilation * pixel
            blocks += [(tap, *block[1:]) for block in depth_blocks(1, terms)]
    return blocks, offsets, terms


def _output_words(spec: ConvSpec, size: int) -> tuple[int, int, int, int]:
    """Return the bytes to the first output, and from pixel to pixel.

    Then those from line to line and from image to image.
    """
    pixel = spec.out_channels * size
    if spec.phases is None:
        return 0, pixel, spec.cols.out * pixel, spec.rows.out * spec.cols.out * pixel
    rows, cols = spec.phases
    line = cols.length * pixel
    start = rows.start * line + cols.start * pixel
    return start, cols.stride * pixel, rows.stride * line, rows.length * line


def add_convolution(
    call: CallBuilder,
    spec: ConvSpec,
    plan: PanelPlan,
    packed: Pointer,
    table: Pointer,
    text: EpilogueText,
    x: Pointer,
    operands: Sequence[tuple[Pointer, TensorSpec]],
) -> None:
    """Add the launch of a convolution with a packed filter.

    plan: of the filter (depth: filter height, width, channels).
    """
    tile = plan.tile
    size = tile.size
    rows, cols = spec.rows, spec.cols
    pixel = spec.channels * size
    # windows that never leave the image read it in place
    copies = any(w.before != 0 or w.padded > w.length for w in (rows, cols))
    pitch = cols.padded * pixel if copies else cols.length * pixel
    if spec.phases is None:
        segments, k = segments_of(spec, pixel, pitch, size)
        parts, share = depth_blocks(len(segments), k), 1.0
    else:
        parts, segments, k = _parts_of_phase(spec, spec.phases, pitch, pixel)
        share = rows.size * cols.size / len(segments)
    row_tiles = cover(cols.out, plan.max_height)
    units = spec.batch * rows.out
    products = units * cols.out
    out_row_bytes = cols.out * spec.out_channels * size
    fit = (_BAND_BYTES // max(1, pitch) - rows.extent) // rows.stride + 1
    band_rows = max(1, min(fit, _BAND_BYTES // max(1, out_row_bytes), rows.out))
    share_columns = units < _SPLIT_ROWS_FROM and spec.groups == 1 and len(plan.panels) > units
    read_bytes = units * rows.stride * pitch if copies else 0
    cost = (
        cost_model.FIXED_NS
        + share * product_ns(tile, units * row_tiles.count, row_tiles.height, plan)
        + epilogue_ns(text.epilogue, products * spec.out_channels)
        + 0.03 * read_bytes
    )
    chunks = chunk_count(cost, len(plan.panels) if share_columns else units)
    share_columns = share_columns and chunks > 1
    band_bytes = -(-((band_rows - 1) * rows.stride + rows.extent) * pitch // 64) * 64
    band: Word = call.temp(band_bytes * chunks) if copies else 0
    left, skip, copied, right = _column_words(spec, pixel)
    words: tuple[Word, ...] = (
        *(
            units,
            rows.out,
            row_tiles.count,
            row_tiles.height,
            row_tiles.tall,
            band_rows,
            int(share_columns),
            cols.out,
        ),
        *plan.micro_kernels(row_tiles),
        *(x, rows.length * cols.length * pixel, rows.length, cols.length * pixel, pixel),
        *(cols.stride * pixel, rows.stride, rows.before, rows.extent),
        *(int(copies), band, band_bytes, pitch, left, skip, copied, right),
        *(packed, len(plan.panels), table, len(parts), part_table(call, parts, segments, k, size)),
        *_output_words(spec, size),
        *epilogue_words(
            call,
            text,
            operands,
            products,
            spec.out_channels,
            not share_columns,
            (band_rows * out_row_bytes, chunks),
        ),
    )
    call.launch(Launch(conv_source(tile, text), words, chunks=chunks, cost_ns=cost))


def conv2d_call(
    inputs: Sequence[TensorSpec],
    *,
    strides: tuple[int, int] = (1, 1),
    padding: str = "SAME",
    explicit: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    dilations: tuple[int, int] = (1, 1),
    epilogue: Epilogue | None = None,
    constants: Mapping[int, np.ndarray] | None = None,
) -> NativeCall:
    """Return a 2-D convolution with an epilogue.

    x [b, h, w, groups * in_c], filter [k_h, k_w, in_c, out_c], operands... -> [b, out_h, out_w,
    out_c]. padding: "SAME", "VALID" or "EXPLICIT" (then `explicit` holds (before, after) of height
    and width). constants: inputs known while planning, by index; a known filter is packed then.
    Raises Unsupported for dtypes without tiles and images without channels, ValueError for sizes
    that do not fit.
    """
    x, w = inputs[:2]
    tile = tile_of(x.dtype)
    if w.dtype is not x.dtype:
        raise Unsupported(f"convolution of {x.dtype.name} and {w.dtype.name}")
    text = epilogue_text(epilogue, x.dtype)
    batch, height, width, channels = x.shape
    k_h, k_w, in_c, out_c = w.shape
    if not channels:
        raise Unsupported("no channels")
    if in_c == 0 or channels % in_c or out_c % (channels // in_c):
        raise ValueError(f"filter {w.shape} does not fit input {x.shape}")
    layout = Layout(True, strides, dilations, padding, explicit)
    rows, cols = layout.windows(height, width, (k_h, k_w))
    products = batch * rows.out * cols.out * out_c
    groups = channels // in_c
    if products == 0:
        return CallBuilder().finish()
    pointwise = (
        k_h == k_w == groups == 1 and strides == (1, 1) and (rows.before, cols.before) == (0, 0)
    )
    if pointwise and (rows.out, cols.out) == (height, width):
        pixels = TensorSpec(x.dtype, (batch * height * width, channels))
        filters = TensorSpec(w.dtype, (in_c, out_c))
        known = {i: v.reshape(in_c, out_c) if i == 1 else v for i, v in (constants or {}).items()}
        return matmul_call((pixels, filters, *inputs[2:]), epilogue=epilogue, constants=known)
    call = CallBuilder(constants)
    depth = k_h * k_w * in_c
    plan = plan_panels(tile, depth, out_c, groups, dots=True)
    value = (constants or {}).get(1)
    row_tiles = cover(cols.out, plan.max_height)
    direct_ns = product_ns(tile, batch * rows.out * row_tiles.count, row_tiles.height, plan)
    if groups == 1 and winograd.pays(tile, batch, rows, cols, in_c, out_c, value, direct_ns):
        filter_ = np.asarray(value) if value is not None else w.shape
        winograd.add_winograd(call, batch, rows, cols, filter_, text, operand_pointers(inputs))
        return call.finish(traffic(inputs, text, products), 2 * products * depth)
    table = call.table(plan.table(in_c * tile.size))
    if value is not None:
        packed = call.constant(plan.pack(np.asarray(value).reshape(depth, out_c)))
    else:
        packed = pack_at_run_time(
            call,
            plan,
            table,
            Pointer("in", 1),
            MatrixLayout(1, 0, depth, out_c * tile.size, tile.size),
        )
    add_convolution(call, ConvSpec(batch, rows, cols, channels, out_c, groups), plan, packed, table, text, Pointer("in", 0),
                    operand_pointers(inputs))  # fmt: skip
    return call.finish(traffic(inputs, text, products), 2 * products * depth)


def native_layout(node: NodeSpec) -> Layout:
    """Return the layout of a node in NHWC.

    Raises Unsupported for other layouts.
    """
    return channels_last(node_layout(node))


@native("Conv2D")
@either_layout
def _conv2d(node: NodeSpec) -> NativeCall:
    layout = native_layout(node)
    return conv2d_call(
        node.inputs[:2],
        strides=layout.strides,
        padding=layout.padding,
        explicit=layout.explicit,
        dilations=layout.dilations,
        constants=node.constants,
    )
