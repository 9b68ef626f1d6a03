"""Build the gradient of maximum pooling over disjoint windows.

Every input is written once, and none is read back. The gradient of a ReLU before the pooling and
the sum by channel (the gradient of a bias) come out of the same pass. The pooling read the ReLU's
result, and a window's gradient goes to one of its inputs, so that windows are summed up instead of
inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.conv.channelwise import RUN_WORDS, class_lists, forward_map
from tfjit.kernels.cpu.conv.window import Window, channels_last, pool_layout
from tfjit.kernels.cpu.gemm.macro_kernel import write_words
from tfjit.kernels.cpu.gemm.micro_kernels import Tile, tile_of
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.ir.fused_group import FusedGroup, Ref
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    find_native,
)
from tfjit.kernels.source import KernelSource, Source

_MAX_TAPS: Final = 16
"""Inputs of a window that a vector's registers hold."""
_MAX_CLASSES: Final = 9
_DX: Final = Pointer("out", 0)
_WORDS: Final = (
    "units", "x", "dy", "dx", "image_bytes", "dy_image_bytes", "out_height", "dy_row_bytes", "channels", "gaps",
    "row_table", "runs", "run_table", "class_table", "totals", "totals_bytes",
)  # fmt: skip


@functools.cache
def spread_tile(tile: Tile, ntaps: int, relu: bool = False, summed: bool = False) -> KernelSource:
    """Return the micro-kernel for windows of that many taps.

    relu, summed: as for `spread_windows`.
    """
    title = (
        f"maximum pooling gradient{'+relugrad' * relu}{'+sum' * summed} of {ntaps} taps {tile.kind}"
    )
    s = Source()
    s.line(f"# {title} {tile.isa}")
    s.line("from tfjit.kernels.cpu.conv.max_pool_grad_ir import spread_windows")
    s.line(f"emit = spread_windows({tile.kind!r}, {tile.lanes}, {ntaps}, {relu}, {summed})")
    names = "x, taps, dy, dx, channels, count, step, dy_step, totals"
    with s.block(f"def tile({names}):"):
        s.line(f"emit({names})")
    return KernelSource(s.text(), ("tile",), arity=9, title=title, module=__name__)


@functools.cache
def spread_source(tile: Tile) -> KernelSource:
    """Write the macro-kernel: images, rows of windows, runs of windows.

    Windows of a run have the same taps. Words: those of _WORDS, then the micro-kernel of every
    class. Tables as for `channelwise_source`. gaps: whether there are inputs that no window reads.
    totals: the address of a vector of sums for each row of windows, or a buffer of 0 bytes.
    """
    s = Source()
    s.line(f"# maximum pooling gradient {tile.kind} {tile.isa}")
    s.line("from tfjit.kernels.codegen.intrinsics import fill_bytes, word")
    s.line("from tfjit.kernels.cpu.conv.max_pool_grad_ir import call_spread")
    with s.block("def kernel(args, chunk, nchunks):"):
        tiles_at = write_words(s, *_WORDS)
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line("at = (first + unit) * image_bytes")
            with s.block("if gaps != 0:"):
                s.line("fill_bytes(dx + at, 0, image_bytes)")
            with s.block("for top in range(out_height):"):
                s.line("row = at + word(row_table, 2 * top)")
                s.line("total = totals + ((first + unit) * out_height + top) * totals_bytes")
                s.line("fill_bytes(total, 0, totals_bytes)")
                s.line("dy_row = dy + (first + unit) * dy_image_bytes + top * dy_row_bytes")
                with s.block("for run in range(runs):"):
                    s.line(f"entry = run_table + run * {8 * RUN_WORDS}")
                    s.line("place = row + word(entry, 0)")
                    s.line("kind = word(row_table, 2 * top + 1) + word(entry, 7)")
                    s.line("taps = class_table + word(class_table, 2 * kind + 1)")
                    s.line(
                        f"call_spread(word(args, {tiles_at} + kind), x + place, taps, dy_row + "
                        "word(entry, 1), dx + place, channels, "
                        "word(entry, 4), word(entry, 2), word(entry, 3), total)"
                    )
    return KernelSource(s.text(), title=f"maximum pooling gradient {tile.kind}", module=__name__)


def spread_call(
    tile: Tile,
    shape: Sequence[int],
    rows: Window,
    cols: Window,
    x: Pointer,
    dy: Pointer,
    dx: Pointer = _DX,
    relu: bool = False,
    total: Pointer | None = None,
) -> NativeCall | None:
    """Return the gradient of a max pooling, or None.

    The input is [b, h, w, c]. None means that windows overlap or are large. relu: x is a ReLU's
    result, and dx the gradient of the ReLU's input. total: the place of the sum of dx by channel
    [c].
    """
    batch, height, width, channels = shape
    maps = forward_map(rows), forward_map(cols)
    classes = [len(own) * len(other) for own in maps[0].classes for other in maps[1].classes]
    overlap = any(w.extent > w.stride or w.dilation != 1 for w in (rows, cols))
    if (
        overlap
        or not classes
        or len(classes) > _MAX_CLASSES
        or not 1 <= min(classes) <= max(classes) <= _MAX_TAPS
    ):
        return None
    call = CallBuilder()
    pixel = channels * tile.size
    pitch = width * pixel
    totals = None if total is None else call.temp(batch * rows.out * pixel)
    row_table, class_table = class_lists(maps, pitch, pixel)
    run_table: list[int] = []
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
    gaps = any(
        sum(len(taps) for taps in axis.taps) < window.length
        for axis, window in zip(maps, (rows, cols), strict=True)
    )
    nbytes = batch * height * pitch
    cost = (
        cost_model.FIXED_NS
        + 3.0 * batch * rows.out
        + cost_model.traffic_ns(2 * nbytes + batch * rows.out * cols.out * pixel)
    )
    words: tuple[Word, ...] = (
        *(
            batch,
            x,
            dy,
            dx,
            height * pitch,
            rows.out * cols.out * pixel,
            rows.out,
            cols.out * pixel,
            channels,
            int(gaps),
        ),
        *(
            call.table(row_table),
            len(run_table) // RUN_WORDS,
            call.table(run_table),
            call.table(class_table),
        ),
        *((0, 0) if totals is None else (totals, pixel)),
        *(
            Pointer("code", source=spread_tile(tile, count, relu, total is not None), entry="tile")
            for count in classes
        ),
    )
    call.launch(Launch(spread_source(tile), words, chunks=chunk_count(cost, batch), cost_ns=cost))
    if total is not None and totals is not None:
        dtype = dtypes.float32 if tile.kind == "f32" else dtypes.float64
        node = NodeSpec(
            "",
            "BiasAddGrad",
            {},
            (TensorSpec(dtype, (batch * rows.out, channels)),),
            (TensorSpec(dtype, (channels,)),),
        )
        builder = find_native(node.op)
        assert builder is not None
        call.append(builder(node), [totals], [total])
    return call.finish(
        2 * nbytes + batch * rows.out * cols.out * pixel, batch * height * width * channels
    )


def pool_gradient_call(group: FusedGroup) -> NativeCall:
    """Return the call of MaxPoolGrad with ReluGrad and BiasAddGrad.

    The group is MaxPoolGrad(x, y, dy), optionally ReluGrad(., x), and optionally its BiasAddGrad.
    Its outputs are dx and the sum. Raises Unsupported for windows that overlap or are large, and
    where dx itself is not an output.
    """
    pool, *rest = group.members
    relu = bool(rest) and rest[0].spec.op == "ReluGrad"
    wanted = [Ref(int(relu))]
    if relu and (rest[0].inputs[0] != Ref(0) or rest[0].inputs[1] != pool.inputs[0]):
        raise Unsupported("the ReLU of the gradient is not the pooled one")
    if len(rest) > relu:
        wanted.append(Ref(int(relu) + 1))
        if (
            rest[-1].spec.op != "BiasAddGrad"
            or rest[-1].inputs != (wanted[0],)
            or len(rest) > relu + 1
        ):
            raise Unsupported("more than a sum by channel after the gradient of pooling")
    if set(group.outputs) != set(wanted) or len(rest) == 0:
        raise Unsupported("other results than the gradient and its sum")
    x = group.tensor(pool.inputs[0])
    layout = channels_last(pool_layout(pool.spec, 3))
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    places = [Pointer("out", group.outputs.index(ref)) for ref in wanted]
    x_at, dy_at = (Pointer("in", pool.inputs[k].index) for k in (0, 2))
    call = spread_call(
        tile_of(x.dtype),
        x.shape,
        rows,
        cols,
        x_at,
        dy_at,
        places[0],
        relu,
        places[1] if len(places) > 1 else None,
    )
    if call is None:
        raise Unsupported("windows that overlap or are large")
    return call
