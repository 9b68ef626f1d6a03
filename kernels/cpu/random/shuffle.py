"""Build shuffles of rows and draws of classes.

The draws are from a session's Philox streams: the values are TensorFlow's exactly (see `philox`).
"""

from __future__ import annotations

import math
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.random.stateful_random import FUNCTIONS, advance_text
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource

_ROW_NS: Final = 8.0
_DRAW_NS: Final = 25.0
_CLASS_NS: Final = 8.0

_SHUFFLE: Final = """\
from tfjit.kernels.codegen.intrinsics import copy_bytes, ld_out, ptr_i64, st_out, store_word, word


def order(args, chunk, nchunks):
    rows = word(args, 2)
    position = word(args, 3)
    place = ptr_i64(word(args, 4))
    for i in range(rows):
        st_out(place, i, i, 0)
    c0 = c1 = c2 = c3 = uint64(0)
    for i in range(rows - 1):
        part = i & 3
        if part == 0:
            c0, c1, c2, c3 = philox(position, uint64(i >> 2))
        draw = c0 if part == 0 else c1 if part == 1 else c2 if part == 2 else c3
        j = i + int64(draw % uint64(rows - i))
        held = ld_out(place, i, 0)
        st_out(place, i, ld_out(place, j, 0), 0)
        st_out(place, j, held, 0)


def kernel(args, chunk, nchunks):
    rows = word(args, 2)
    place = ptr_i64(word(args, 4))
    source = word(args, 5)
    out = word(args, 6)
    size = word(args, 7)
    first = rows * chunk // nchunks
    last = rows * (chunk + 1) // nchunks
    for step in range(last - first):
        row = first + step
        copy_bytes(out + row * size, source + ld_out(place, row, 0) * size, size)
"""


def shuffle_source() -> KernelSource:
    """Write the shuffle of rows of any size.

    Words: rows, address of the stream's position, memory for the order, input, output, bytes of a
    row. `order` runs as one chunk.
    """
    text = "from numba import int64\n" + FUNCTIONS + _SHUFFLE + advance_text("(rows + 2) // 4")
    return KernelSource(text, ("order", "kernel", "advance"), title="shuffle", module=__name__)


@native("RandomShuffle")
def _shuffled(spec: NodeSpec) -> NativeCall:
    value = spec.inputs[0]
    if not value.shape or not all(isinstance(size, int) for size in value.shape):
        raise Unsupported("the sizes are not known while planning")
    rows = value.shape[0]
    if rows <= 1 or value.size <= 1 or value.dtype in (d.string, d.resource, d.variant):
        raise Unsupported(f"shuffles of {rows} rows of {value.dtype.name}")
    words: tuple[Word, ...] = (rows, Pointer("state"), Pointer("temp", 0), Pointer("in", 0),
                               Pointer("out", 0), value.nbytes // rows)  # fmt: skip
    source = shuffle_source()
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(2 * value.nbytes) + rows
    copies = Launch(source, words, chunks=cost_model.chunks_for(cost, rows), cost_ns=cost)
    order = Launch(source, words, entry="order", cost_ns=_ROW_NS * rows)
    advance = Launch(source, words, entry="advance", cost_ns=cost_model.FIXED_NS)
    return NativeCall(
        (order, copies, advance), temp_bytes=(8 * rows,), bytes_moved=2 * value.nbytes
    )


_CLASSES: Final = """\
from tfjit.kernels.codegen.intrinsics import ld, ld_out, ptr_f32, ptr_f64, ptr_i32, ptr_i64, st
from tfjit.kernels.codegen.intrinsics import st_out, store_word, word


def kernel(args, chunk, nchunks):
    rows = word(args, 2)
    position = word(args, 3)
    out = ptr_{out}(word(args, 4))
    logits = ptr_{kind}(word(args, 5))
    classes = word(args, 6)
    samples = word(args, 7)
    sums = ptr_f64(word(args, 8) + chunk * classes * 8)
    first = rows * chunk // nchunks
    last = rows * (chunk + 1) // nchunks
    for step in range(last - first):
        row = first + step
        top = -math.inf
        for c in range(classes):
            v = float64(ld(logits, row * classes + c))
            if v > top and v < math.inf:
                top = v
        total = 0.0
        for c in range(classes):
            v = float64(ld(logits, row * classes + c))
            if v > -math.inf and v < math.inf:
                total += math.exp(v - top)
            st_out(sums, c, total, 1)
        for s in range(samples):
            at = row * samples + s
            c0, c1, c2, c3 = philox(position, uint64(at >> 1))
            draw = (unit_f64(c0, c1) if at & 1 == 0 else unit_f64(c2, c3)) * total
            low = 0
            count = classes
            while count > 0:
                half = count >> 1
                if ld_out(sums, low + half, 1) <= draw:
                    low += half + 1
                    count -= half + 1
                else:
                    count = half
            st(out, at, low)


"""


def classes_source(kind: str, out: str) -> KernelSource:
    """Write draws of classes by unnormalised log-probabilities.

    Words: rows, address of the stream's position, output, logits, classes, samples of a row, and
    scratch memory for a row of each chunk. The rows share one stream of doubles, drawn in order.
    """
    count = f"rows * ((word(args, 7) + 3) // 4) * {8 * BLOCKS_PER_OUTPUT}"
    text = FUNCTIONS + _CLASSES.format(kind=kind, out=out) + advance_text(count)
    title = f"classes by logits of {kind}"
    return KernelSource(text, ("kernel", "advance"), title=title, module=__name__)


@native("Multinomial")
def _classes(spec: NodeSpec) -> NativeCall:
    logits, out = spec.inputs[0], spec.outputs[0]
    kinds = {d.float32: "f32", d.float64: "f64"}
    shapes = (*logits.shape, *out.shape)
    if len(logits.shape) != 2 or not all(isinstance(size, int) and size > 0 for size in shapes):
        raise Unsupported("sizes that are not known while planning, or none")
    if logits.dtype not in kinds or out.dtype not in (d.int32, d.int64):
        raise Unsupported(f"classes by logits of {logits.dtype.name}")
    (rows, classes), samples = logits.shape, out.shape[1]
    searches = _DRAW_NS + 2.0 * math.log2(classes + 1)
    cost = cost_model.FIXED_NS + rows * (_CLASS_NS * classes + searches * samples)
    chunks = cost_model.chunks_for(cost, rows)
    words: tuple[Word, ...] = (rows, Pointer("state"), Pointer("out", 0), Pointer("in", 0), classes,
                               samples, Pointer("temp", 0))  # fmt: skip
    source = classes_source(kinds[logits.dtype], "i32" if out.dtype is d.int32 else "i64")
    draws = Launch(source, words, chunks=chunks, cost_ns=cost)
    advance = Launch(source, words, entry="advance", cost_ns=cost_model.FIXED_NS)
    return NativeCall(
        (draws, advance), temp_bytes=(8 * classes * chunks,), bytes_moved=logits.nbytes + out.nbytes
    )
