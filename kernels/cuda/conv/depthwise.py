"""Build depthwise convolutions with fused epilogues, and their gradients."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.conv.window import Layout, Window, node_layout
from tfjit.kernels.cpu.gemm.operands import operand_pointers
from tfjit.kernels.cuda.conv.conv import gradient_in_planes, require_one_dtype, sizes_of
from tfjit.kernels.cuda.conv.windows import Images, windows_call
from tfjit.kernels.cuda.gemm.finish_text import Finish, finish_of, finish_words
from tfjit.kernels.cuda.gemm.product_text import sum_launch, write_header
from tfjit.kernels.cuda.gemm.tiles import PROCESSORS, accumulator
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.launches import CudaLaunch, source
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Word
from tfjit.kernels.source import KernelSource, Source

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue

_WARP: Final = 32
_GROUPS: Final = 8
_LEAST_PIXELS: Final = 256  # of one part of a split sum


def depthwise_call(
    inputs: Sequence[TensorSpec], layout: Layout, epilogue: Epilogue | None = None
) -> NativeCall:
    """Return a depthwise convolution with an epilogue.

    x [b, h, w, c] or [b, c, h, w], filter [k_h, k_w, c, multiplier], operands... -> images of c *
    multiplier channels. Raises Unsupported for dtypes without products.
    """
    x, w = inputs[:2]
    require_one_dtype(x, w)
    batch, height, width, channels = sizes_of(x.shape, layout)
    k_h, k_w, _, multiplier = w.shape
    rows, columns = layout.windows(height, width, (k_h, k_w))
    own = Images(batch, rows.out, columns.out, channels * multiplier, layout.channels_last)
    moved = sum(spec.nbytes for spec in inputs) + own.matrix[0] * own.matrix[1] * x.dtype.size
    return windows_call(
        "fma", x.dtype, own, (height, width), (rows, columns), (Pointer("in", 0), Pointer("in", 1)),
        multiplier, epilogue, operand_pointers(inputs), moved,
    )  # fmt: skip


@device_native("DepthwiseConv2dNative")
def _depthwise(node: NodeSpec) -> NativeCall:
    return depthwise_call(node.inputs[:2], node_layout(node))


@device_native("DepthwiseConv2dNativeBackpropInput")
def _input_gradient(node: NodeSpec) -> NativeCall:
    _, w, dy = node.inputs
    dx = node.outputs[0]
    require_one_dtype(dy, w)
    layout = node_layout(node)
    batch, height, width, channels = sizes_of(dx.shape, layout)
    windows = layout.windows(height, width, (w.shape[0], w.shape[1]))
    own = Images(batch, height, width, channels, layout.channels_last)
    size = windows[0].out, windows[1].out
    sources = Pointer("in", 2), Pointer("in", 1)
    moved = dy.nbytes + w.nbytes + dx.nbytes
    return windows_call(
        "fma gradient", dy.dtype, own, size, windows, sources, w.shape[3], bytes_moved=moved
    )


_WORDS: Final = (
    "rows", "columns", "blocks_of_row", "splits", "pixels", "part", "channels", "multiplier",
    "height", "width", "grid_height", "grid_width", "taps_width", "row_stride", "column_stride",
    "row_dilation", "column_dilation", "row_before", "column_before", "x_address", "dy_address",
)  # fmt: skip


@functools.cache
def filter_gradient_source(dtype: DType, finish: Finish) -> KernelSource:
    """Write the kernel of a depthwise filter's gradient.

    A block computes 32 channels of one tap over a part of the pixels, 8 threads a channel. Words:
    those of _WORDS, of the finish. rows: taps; columns: results of a pixel.
    """
    words = (*_WORDS, *finish.words)
    s = Source()
    write_header(s, f"filter gradient of a depthwise convolution {dtype.name}")
    sums = accumulator(dtype)
    with s.block(f"def kernel({', '.join(words)}):"):
        finish.write_setup(s)
        s.line(f"x_p = {element_kinds.pointer(dtype, 'x_address')}")
        s.line(f"dy_p = {element_kinds.pointer(dtype, 'dy_address')}")
        s.line("group = thread() // 32")
        s.line("lane = thread() - group * 32")
        s.line("whole = div_u32(block(), blocks_of_row)")
        s.line(f"column = (block() - whole * blocks_of_row) * {_WARP} + lane")
        s.line("split = div_u32(whole, rows)")
        s.line("row = whole - split * rows")
        s.line("down = div_u32(row, taps_width) * row_dilation - row_before")
        s.line("right = rem_u32(row, taps_width) * column_dilation - column_before")
        s.line("channel = div_u32(column, multiplier)")
        s.line("last = min(pixels, split * part + part) if column < columns else 0")
        s.line(f"total = {sums.name}(0.0)")
        s.line("pixel = split * part + group")
        with s.block("while pixel < last:"):
            s.line("number_of_row = div_u32(pixel, grid_width)")
            s.line("image = div_u32(number_of_row, grid_height)")
            s.line("y = (number_of_row - image * grid_height) * row_stride + down")
            s.line("x = (pixel - number_of_row * grid_width) * column_stride + right")
            s.line("at = ((image * height + y) * width + x) * channels + channel")
            s.line("value = ld_inside(x_p, at, pixel, last, y, height, x, width)")
            s.line("given = ld_ro(dy_p, pixel * columns + column)")
            value, given = (expressions.loaded(dtype, name) for name in ("value", "given"))
            s.line(f"total = fma({value}, {given}, total)")
            s.line(f"pixel += {_GROUPS}")
        s.line(f"shared = shared_{element_kinds.kind(sums)}({_GROUPS * _WARP})")
        s.line("st_shared(shared, thread(), total)")
        s.line("sync_threads()")
        with s.block("if group == 0 and column < columns:"):
            for k in range(1, _GROUPS):
                s.line(f"total += ld_shared(shared, lane + {k * _WARP})")
            s.line("line = split * rows + row")
            finish.write_run(s, ["total"])
    title = f"filter gradient of a depthwise convolution {dtype.name}"
    return source(s.text(), len(words), title, __name__)


@device_native("DepthwiseConv2dNativeBackpropFilter")
def _filter_gradient(node: NodeSpec) -> NativeCall:
    moved = gradient_in_planes(node, _filter_gradient, (0, 2), False)
    if moved is not None:
        return moved
    x, _, dy = node.inputs
    dw = node.outputs[0]
    require_one_dtype(x, dy)
    layout = node_layout(node)
    k_h, k_w, channels, multiplier = dw.shape
    if dw.size == 0:
        return NativeCall(())
    rows, columns = layout.windows(x.shape[1], x.shape[2], (k_h, k_w))
    taps, results = k_h * k_w, channels * multiplier
    pixels = x.shape[0] * rows.out * columns.out
    blocks = -(-results // _WARP)
    splits = max(1, min(-(-8 * PROCESSORS // (blocks * taps)), pixels // _LEAST_PIXELS))
    part = -(-max(1, pixels) // splits)
    splits = max(1, -(-pixels // part))
    last = finish_of(dw.dtype, None, results)
    last_words = finish_words(last, (), taps, results)
    sums = accumulator(dw.dtype)
    finish = Finish(sums if splits > 1 else dw.dtype, None, 1, False)
    words: tuple[Word, ...] = (
        *(taps, results, blocks, splits, pixels, part, channels, multiplier),
        *(x.shape[1], x.shape[2], rows.out, columns.out, k_w),
        *_axis_words(rows, columns),
        *(Pointer("in", 0), Pointer("in", 2)),
        *((Pointer("temp", 0),) if splits > 1 else last_words),
    )
    launches = [
        CudaLaunch(
            filter_gradient_source(x.dtype, finish),
            words,
            grid=(blocks * taps * splits, 1, 1),
            block=(_WARP * _GROUPS, 1, 1),
        )
    ]
    if splits > 1:
        launches.append(sum_launch(last, taps, results, splits, last_words))
    return NativeCall(
        tuple(launches),
        temp_bytes=(splits * taps * results * sums.size,) if splits > 1 else (),
        bytes_moved=x.nbytes + dy.nbytes + dw.nbytes,
        flops=2 * dy.size * taps,
    )


def _axis_words(rows: Window, columns: Window) -> tuple[int, ...]:
    return (
        rows.stride, columns.stride, rows.dilation, columns.dilation, rows.before, columns.before,
    )  # fmt: skip
