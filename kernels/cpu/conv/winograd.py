"""Build 3 x 3 convolutions with stride 1 in Winograd's form.

It has 2.25 times fewer multiplications, and fused epilogues; NHWC. A tile is a 4 x 4 patch d of the
input, from which 2 x 2 outputs follow. With g a 3 x 3 filter, channel by channel,

    y = A.T [sum over channels of (G g G.T) * (B.T d B)] A

and the sum over channels, for each of the 16 positions of the transformed patch, is a matrix
product [tiles, channels] by [channels, out_channels], which the micro-kernels of `matmul` compute.
Tiles come in blocks whose transformed patches and products stay in the second-level cache.

Source: S. Winograd, Arithmetic complexity of computations (1980); A. Lavin and S. Gray, Fast
algorithms for convolutional neural networks (2015). Of the family F(m x m, 3 x 3) only F(2 x 2, 3 x
3) is here: measured against float64 its largest error is 0.4 (16 channels) to 1.4 (512) times that
of the direct sum in blocks, where F(4 x 4, 3 x 3) with the points 0, +-1, +-2 has 5 to 25 times,
with the best points tried (0, +-3/4, +-3/2) 2 to 7 times. The transforms of F(2 x 2) only add and
subtract.

NaN and infinity would spread over their tile, and sums of numbers near the largest could overflow
where the direct form does not. The output transform detects this, and the row of tiles is computed
again in the direct form.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

import numpy as np

from tfjit.framework import settings
from tfjit.kernels.cpu.conv.window import Window
from tfjit.kernels.cpu.conv.winograd_filter import FILTER_MATRIX, filter_ns, transform_at_run_time
from tfjit.kernels.cpu.gemm.macro_kernel import (
    part_table,
    write_chunk_bounds,
    write_chunk_range,
    write_panels,
    write_words,
)
from tfjit.kernels.cpu.gemm.matmul import product_ns
from tfjit.kernels.cpu.gemm.micro_kernels import (
    VECTORS,
    Tile,
    cover,
    matmul_tiles,
    tile_entry,
    tile_of,
)
from tfjit.kernels.cpu.gemm.packing import PANEL_WORDS, PanelPlan, depth_blocks, plan_panels
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.cpu.template.epilogue import EpilogueText, epilogue_ns, epilogue_words
from tfjit.kernels.registry import Launch, Pointer, TensorSpec, Word
from tfjit.kernels.source import KernelSource, Source

TAPS: Final = 3
OUTPUTS: Final = 2
PATCH: Final = TAPS + OUTPUTS - 1
POSITIONS: Final = PATCH * PATCH
INPUT_MATRIX: Final = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
"""B.T, for the points 0, 1, -1 and infinity."""
OUTPUT_MATRIX: Final = ((1, 1, 1, 0), (0, 1, -1, -1))

_BLOCK_BYTES: Final = 256 << 10  # size of the transformed patches and products of a block
_MIN_CHANNELS: Final = 16  # with fewer channels, the transforms cost as much as the products save
# with fewer rows of tiles, chunks take panels of output channels instead
_SPLIT_ROWS_FROM: Final = 12
_GROUP_PANELS: Final = 1
_MAX_CHUNKS: Final = 16
_STREAM_NS: Final = 0.04  # time a byte of transformed filters from memory, beyond the cache's size
_KEPT_BYTES: Final = 8 << 20


@functools.cache
def transform_source(tile: Tile) -> KernelSource:
    """Write one tile's transforms and one pixel's direct form."""
    s = Source()
    s.line(f"# winograd transforms {tile.kind} {tile.isa}")
    s.line(
        "from tfjit.kernels.cpu.conv.winograd_ir import direct_pixel, input_transform, "
        "output_transform"
    )
    entries = ("forward", "backward", "direct")
    for name, maker, form in zip(
        entries,
        ("input_transform", "output_transform", "direct_pixel"),
        (INPUT_MATRIX, OUTPUT_MATRIX, TAPS),
        strict=True,
    ):
        s.line(f"emit_{name} = {maker}({tile.kind!r}, {tile.lanes}, {form}, {tile.fused})")
        with s.block(f"def {name}(a, b, c, d, e, f, g, h, i):"):
            s.line(f"emit_{name}(a, b, c, d, e, f, g, h, i)")
    return KernelSource(
        s.text(), entries, arity=9, title=f"winograd transforms {tile.kind}", module=__name__
    )


_GEOMETRY: Final = (
    "units", "tile_rows", "tile_columns", "x", "image_bytes", "row_bytes_x", "pixel_bytes", "in_height", "in_width", "before_h", "before_w",
    "channels", "patch", "patch_bytes", "forward", "v", "v_row", "position_v",
)  # fmt: skip
_WORDS: Final = (
    *_GEOMETRY, "v_bytes", "whole_v", "band", "share_columns", "group", "m", "m_bytes", "m_pad", "out_height", "out_width", "backward",
    "direct", "filter", "b", "matrix_bytes", "panels", "panel_table", "parts", "part_table",
)  # fmt: skip


def _write_locate(s: Source) -> None:
    """Define source and source_step of the patch of column `t`.

    The patch, of a row of tiles, is read in the image, or from a copy with zeros around.
    """
    s.line(f"iw = {OUTPUTS} * t - before_w")
    with s.block(
        f"if ih >= 0 and ih + {PATCH} <= in_height and iw >= 0 and iw + {PATCH} <= in_width:"
    ):
        s.line("source = x_image + ih * row_bytes_x + iw * pixel_bytes")
        s.line("source_step = row_bytes_x")
    with s.block("else:"):
        s.line("source = patch")
        s.line(f"source_step = {PATCH} * pixel_bytes")
        s.line("left = max(0, -iw)")
        s.line(f"right = min({PATCH}, in_width - iw)")
        with s.block(f"for r in range({PATCH}):"):
            s.line("fill_bytes(patch + r * source_step, 0, source_step)")
            with s.block("if ih + r >= 0 and ih + r < in_height and right > left:"):
                s.line("from_ = x_image + (ih + r) * row_bytes_x + (iw + left) * pixel_bytes")
                s.line(
                    "copy_bytes(patch + r * source_step + left * pixel_bytes, from_, (right - "
                    "left) * pixel_bytes)"
                )


def _write_line(s: Source, line: str) -> None:
    """Define the image and first rows of row of tiles number `line`.

    The first rows are of output and input.
    """
    s.line(f"image = ({line}) // tile_rows")
    s.line(f"top = (({line}) - image * tile_rows) * {OUTPUTS}")
    s.line("ih = top - before_h")
    s.line("x_image = x + image * image_bytes")


def _write_forward(s: Source, line: str, target: str) -> None:
    """Transform a row of patches into rows of v from `target` on."""
    _write_line(s, line)
    s.line(f"to = {target}")
    with s.block("for t in range(tile_columns):"):
        _write_locate(s)
        s.line(
            "call_winograd(forward, source, source_step, pixel_bytes, to, position_v, channels, 0, "
            "0, 0)"
        )
        s.line("to += v_row")


@functools.cache
def forward_source(tile: Tile) -> KernelSource:
    """Write the transform of all patches.

    A unit of work is a row of tiles of one image. Words: those of _GEOMETRY.
    """
    s = Source()
    s.line(f"# winograd input transform {tile.kind} {tile.isa}")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line("from tfjit.kernels.cpu.conv.winograd_ir import call_winograd")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_words(s, *_GEOMETRY)
        s.line("patch += chunk * patch_bytes")
        write_chunk_range(s, "units", "unit", "last_unit")
        with s.block("while unit < last_unit:"):
            _write_forward(s, "unit", "v + unit * tile_columns * v_row")
            s.line("unit += 1")
    return KernelSource(s.text(), title=f"winograd input transform {tile.kind}", module=__name__)


@functools.cache
def winograd_source(tile: Tile, text: EpilogueText) -> KernelSource:
    """Write the macro-kernel: groups of panels, blocks of rows of tiles.

    A block is transformed, multiplied at every position and transformed back, and the epilogue
    follows. A unit of work is a row of tiles of one image. With share_columns chunks take panels
    instead, and v holds all patches already (whole_v). Words: those of _WORDS, the micro-kernels of
    every height for full and for narrow panels, the epilogue's.
    """
    s = Source()
    s.line(f"# winograd conv2d {tile.kind} {tile.isa}{text.title}")
    text.write_imports(s)
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import call_tile")
    s.line("from tfjit.kernels.cpu.conv.winograd_ir import call_winograd")
    with s.block("def kernel(args, chunk, nchunks):"):
        tiles_at = write_words(s, *_WORDS)
        text.write_setup(s, tiles_at + 2 * tile.height)
        write_chunk_bounds(s, tile, "units")
        s.line("y_pixel = stride_c")
        s.line("v += chunk * v_bytes")
        s.line("m += chunk * m_bytes")
        s.line("flag = m")
        s.line("store_word(flag, 0)")
        s.line("m += 64")
        s.line("patch += chunk * patch_bytes")
        s.line("row_stride = v_row")
        s.line("stride_a = v_row")
        s.line("final_panel = last_panel")
        s.line("first_unit = unit")
        with s.block("while first_panel < final_panel:"):
            s.line("last_panel = min(first_panel + group, final_panel)")
            s.line(f"column_first = word(panel_table, first_panel * {PANEL_WORDS} + 3)")
            s.line(f"column_last = word(panel_table, (last_panel - 1) * {PANEL_WORDS} + 3)")
            s.line(f"column_last += word(panel_table, (last_panel - 1) * {PANEL_WORDS} + 4)")
            s.line(f"stride_c = (column_last - column_first) * {tile.size}")
            s.line("unit = first_unit")
            with s.block("while unit < last_unit:"):
                s.line("count = min(band, last_unit - unit)")
                _write_products(s, tile, tiles_at)
                _write_outputs(s, tile, text)
                s.line("unit += count")
            s.line("first_panel = last_panel")
    return KernelSource(s.text(), title=f"winograd conv2d{text.title} {tile.kind}", module=__name__)


def _write_products(s: Source, tile: Tile, tiles_at: int) -> None:
    """Multiply `count` rows of tiles from `unit` on into m.

    Every position of the patch is multiplied.
    """
    s.line("rows_of_tiles = count * tile_columns")
    with s.block("if whole_v != 0:"):
        s.line("v_at = v + unit * tile_columns * v_row")
    with s.block("else:"):
        s.line("v_at = v")
        with s.block("for q in range(count):"):
            _write_forward(s, "unit + q", "v_at + q * tile_columns * v_row")
    s.line("position_m = rows_of_tiles * stride_c + m_pad")
    # cut into tiles of the micro-kernels as `tiles.cover` does
    s.line("tile_first = 0")
    s.line(f"tile_last = (rows_of_tiles + {tile.height - 1}) // {tile.height}")
    s.line("height = (rows_of_tiles + tile_last - 1) // tile_last")
    s.line("tall = tile_last - (tile_last * height - rows_of_tiles)")
    s.line("low = max(1, height - 1)")
    for i, width in enumerate(("wide", "narrow")):
        for name, rows in (("tall", "height"), ("low", "low")):
            s.line(f"{name}_{width} = word(args, {tiles_at + i * tile.height - 1} + {rows})")
    with s.block(f"for position in range({POSITIONS}):"):
        s.line("a_at = v_at + position * position_v")
        s.line("b_at = b + position * matrix_bytes")
        s.line(f"c_at = m + position * position_m - column_first * {tile.size}")
        write_panels(s)


def _write_outputs(s: Source, tile: Tile, text: EpilogueText) -> None:
    """Transform the products back row by row, then run the epilogue.

    Rows are rows of tiles; the epilogue runs over all of them.
    """
    _write_line(s, "unit")
    s.line("row_first = (image * out_height + top) * out_width")
    _write_line(s, "unit + count - 1")
    s.line(f"row_last = (image * out_height + min(top + {OUTPUTS}, out_height)) * out_width")
    text.write_block_start(s)
    s.line("m_at = m")
    with s.block("for q in range(count):"):
        _write_line(s, "unit + q")
        s.line(f"rows = min({OUTPUTS}, out_height - top)")
        s.line("y_row = out_width * y_pixel")
        s.line(
            "y_line = c_at + ((image * out_height + top) * out_width - row_first) * y_pixel + "
            f"column_first * {tile.size}"
        )
        s.line("y_at = y_line")
        with s.block("for t in range(tile_columns):"):
            s.line(f"cols = min({OUTPUTS}, out_width - {OUTPUTS} * t)")
            s.line(
                "call_winograd(backward, m_at, position_m, y_at, y_row, y_pixel, rows, cols, "
                "column_last - column_first, flag)"
            )
            s.line("m_at += stride_c")
            s.line(f"y_at += {OUTPUTS} * y_pixel")
        with s.block("if load_word(flag) != 0:"):
            s.line("store_word(flag, 0)")
            s.line("y_at = y_line")
            s.line(f"filter_at = filter + column_first * {tile.size}")
            with s.block("for t in range(tile_columns):"):
                _write_locate(s)
                with (
                    s.block("for r in range(rows):"),
                    s.block(f"for col in range(min({OUTPUTS}, out_width - {OUTPUTS} * t)):"),
                ):
                    s.line("pixel_at = source + r * source_step + col * pixel_bytes")
                    s.line("y_to = y_at + r * y_row + col * y_pixel")
                    s.line("width = column_last - column_first")
                    s.line(
                        "call_winograd(direct, pixel_at, source_step, pixel_bytes, filter_at, "
                        "y_pixel, channels, y_to, width, 0)"
                    )
                s.line(f"y_at += {OUTPUTS} * y_pixel")
    text.write_block(s)


def transformed_filter(filter_: np.ndarray, plan: PanelPlan) -> np.ndarray:
    """Return the packed matrices of a transformed filter.

    They are [POSITIONS, packed elements] of a filter [3, 3, channels, out_channels], computed in
    float64 and rounded once.
    """
    g = np.array(FILTER_MATRIX)
    half = np.tensordot(g, np.asarray(filter_, np.float64), (1, 0))
    u = np.tensordot(g, half, (1, 1)).swapaxes(0, 1).astype(filter_.dtype)
    return np.stack([plan.pack(matrix) for matrix in u.reshape(POSITIONS, *filter_.shape[2:])])


def forward_ns(tiles: int, channels: int, lanes: int) -> float:
    """Return the predicted time of transforming patches, or products back.

    It is the time to move 32 vectors between first and second-level cache.
    """
    return tiles * (5.0 + 20.0 * -(-channels // lanes))


def winograd_ns(
    tile: Tile, batch: int, rows: Window, cols: Window, channels: int, out_channels: int
) -> float:
    """Return the predicted time on one thread, without the epilogue."""
    tiles = batch * -(-rows.out // OUTPUTS) * -(-cols.out // OUTPUTS)
    heights = cover(tiles, tile.height)
    products = product_ns(
        tile, heights.count, heights.height, plan_panels(tile, channels, out_channels)
    )
    stream = max(0, POSITIONS * channels * out_channels * tile.size - _KEPT_BYTES) * _STREAM_NS
    return (
        POSITIONS * products
        + forward_ns(tiles, channels, tile.lanes)
        + forward_ns(tiles, out_channels, tile.lanes)
        + stream
    )


def pays(
    tile: Tile,
    batch: int,
    rows: Window,
    cols: Window,
    channels: int,
    out_channels: int,
    filter_: np.ndarray | None,
    direct_ns: float,
) -> bool:
    """Return whether Winograd's form should serve a convolution.

    direct_ns: the time of its direct form. A filter that is known while planning (filter_) is
    transformed once, and must be finite; any other in every run.
    """
    if any((w.size, w.stride, w.dilation) != (TAPS, 1, 1) for w in (rows, cols)):
        return False
    if min(channels, out_channels) < _MIN_CHANNELS or not settings.flag("TFJIT_WINOGRAD"):
        return False
    transform_ns = 0.0 if filter_ is not None else filter_ns(channels, out_channels)
    if (
        winograd_ns(tile, batch, rows, cols, channels, out_channels) + transform_ns
        > 0.85 * direct_ns
    ):
        return False
    return filter_ is None or bool(np.isfinite(filter_).all())


_X: Final = Pointer("in", 0)
_WEIGHTS: Final = Pointer("in", 1)


def add_winograd(
    call: CallBuilder,
    batch: int,
    rows: Window,
    cols: Window,
    filter_: np.ndarray | tuple[int, ...],
    text: EpilogueText,
    operands: Sequence[tuple[Pointer, TensorSpec]],
    x: Pointer = _X,
    weights: Pointer = _WEIGHTS,
) -> None:
    """Add the launches of a convolution in Winograd's form.

    x is [batch, rows.length, cols.length, channels]; weights is the filter's address. filter_: its
    value, or its shape [3, 3, channels, out_channels] where it is not known while planning.
    """
    known = filter_ if isinstance(filter_, np.ndarray) else None
    channels, out_channels = (known.shape if known is not None else tuple(filter_))[2:]
    tile = tile_of(text.product)
    size = tile.size
    plan = plan_panels(tile, channels, out_channels)
    table = call.table(plan.table())
    packed = (
        call.constant(transformed_filter(known, plan))
        if known is not None
        else transform_at_run_time(call, plan, table, weights)
    )
    packed_bytes = POSITIONS * plan.nbytes
    tile_rows, tile_columns = -(-rows.out // OUTPUTS), -(-cols.out // OUTPUTS)
    units = batch * tile_rows
    tiles = units * tile_columns
    v_row = channels * size
    # rows in one set of the first-level cache would evict each other
    v_row += 64 if v_row % 2048 == 0 else 0
    all_v = tiles * v_row * POSITIONS
    share_columns = len(plan.panels) > 1 and (units < _SPLIT_ROWS_FROM or packed_bytes > all_v)
    cost = winograd_ns(tile, batch, rows, cols, channels, out_channels) + epilogue_ns(
        text.epilogue, tiles * OUTPUTS**2 * out_channels
    )
    group = _GROUP_PANELS if share_columns else len(plan.panels)
    m_row = min(group * tile.columns, out_channels) * size
    line_bytes = tile_columns * POSITIONS * (m_row if share_columns else v_row + m_row)
    band = max(1, min(_BLOCK_BYTES // line_bytes, units))
    limit = -(-len(plan.panels) // group) if share_columns else units
    chunks = min(chunk_count(cost, limit), _MAX_CHUNKS)
    band_tiles = (units if share_columns else band) * tile_columns
    pad = 64  # positions a power of two apart would fall into one set of the first-level cache
    position_v = band_tiles * v_row + pad
    v_bytes = POSITIONS * position_v
    m_bytes = 64 + POSITIONS * (-(-band * tile_columns * m_row // 64) * 64 + pad)
    patch_bytes = -(-POSITIONS * channels * size // 64) * 64
    transforms = transform_source(tile)
    forward_cost = forward_ns(tiles, channels, tile.lanes)
    forward_chunks = chunk_count(forward_cost, units) if share_columns else 1
    v = call.temp(v_bytes * (1 if share_columns else chunks))
    geometry: tuple[Word, ...] = (
        *(units, tile_rows, tile_columns, x),
        *(
            rows.length * cols.length * channels * size,
            cols.length * channels * size,
            channels * size,
            rows.length,
            cols.length,
        ),
        *(
            rows.before,
            cols.before,
            channels,
            call.temp(patch_bytes * max(chunks, forward_chunks)),
            patch_bytes,
        ),
        *(Pointer("code", source=transforms, entry="forward"), v, v_row, position_v),
    )
    if share_columns:
        call.launch(
            Launch(
                forward_source(tile),
                geometry,
                chunks=forward_chunks,
                cost_ns=cost_model.FIXED_NS + forward_cost,
            )
        )
        cost -= forward_cost
    parts = depth_blocks(1, channels)
    widths = {panel.vectors for panel in plan.panels}
    wide, narrow = (
        vectors if vectors in widths else next(iter(widths)) for vectors in (VECTORS, 1)
    )
    words: tuple[Word, ...] = (
        *geometry,
        *(0 if share_columns else v_bytes, int(share_columns), band, int(share_columns), group),
        *(call.temp(m_bytes * chunks), m_bytes, pad, rows.out, cols.out),
        *(Pointer("code", source=transforms, entry=entry) for entry in ("backward", "direct")),
        *(weights, packed, plan.nbytes, len(plan.panels), table),
        *(len(parts), part_table(call, parts, [0], channels, size)),
        *(
            Pointer("code", source=matmul_tiles(tile, vectors), entry=tile_entry(height, vectors))
            for vectors in (wide, narrow)
            for height in range(1, tile.height + 1)
        ),
        *epilogue_words(
            call,
            text,
            operands,
            batch * rows.out * cols.out,
            out_channels,
            not share_columns,
            (band * OUTPUTS * cols.out * out_channels * size, chunks),
        ),
    )
    call.launch(
        Launch(
            winograd_source(tile, text), words, chunks=chunks, cost_ns=cost_model.FIXED_NS + cost
        )
    )
