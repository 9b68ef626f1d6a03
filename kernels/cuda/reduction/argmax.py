"""Build ArgMax and ArgMin for GPUs: the positions of extremes.

NaN never wins; the first of equal values does.
"""

from __future__ import annotations

from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction.argmax import searched_extents
from tfjit.kernels.cuda.reduction.steps import WARP
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import THREADS, CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_LONG: Final = 1024
"""Elements of a row from which on a whole block searches it."""


def _start(largest: bool, dtype: DType) -> str:
    """Return the value that any larger (smaller) value must beat.

    It is the lowest (highest) finite one, so that rows of only -inf (inf) or NaN give 0.
    """
    if dtype.is_floating:
        limit = float(dtype.max)
        return expressions.literal(-limit if largest else limit, dtype)
    if dtype is d.bool:
        return "uint8(0)" if largest else "uint8(1)"
    return expressions.literal(dtype.min if largest else dtype.max, dtype)


def _write_search(text: KernelText, largest: bool, dtype: DType, first: str, step: str) -> None:
    """Append a thread's search from index `first` on.

    It sets `best` and `at`.
    """
    load = f"ld_ro(x_p, base + k * {step})"
    text.line(f"best = {_start(largest, dtype)}")
    text.line("at = int64(0)")
    text.line(f"k = {first}")
    with text.block("while k < length:"):
        text.line(f"v = {load if dtype is d.bool else expressions.loaded(dtype, load)}")
        text.line(f"wins = v {'>' if largest else '<'} best")
        text.line("best = select(wins, v, best)")
        text.line("at = select(wins, k, at)")
        text.line("k += apart")


def _write_exchange(text: KernelText, largest: bool, count: int) -> None:
    """Append the choice among `count` neighbours of a warp."""
    mask = count // 2
    while mask:
        text.line(f"other = shuffle_xor(best, {mask})")
        text.line(f"there = shuffle_xor(at, {mask})")
        sign = ">" if largest else "<"
        text.line(f"wins = (other {sign} best) | ((other == best) & (there < at))")
        text.line("best = select(wins, other, best)")
        text.line("at = select(wins, there, at)")
        mask //= 2


def _rows_launch(
    largest: bool, dtype: DType, index: DType, rows: int, length: int, title: str
) -> CudaLaunch:
    """Return the launch along the inner axis.

    A warp or a block searches a row.
    """
    threads = THREADS if length >= _LONG else WARP
    kind = "u8" if dtype is d.bool else element_kinds.register_kind(dtype)
    text = KernelText()
    text.argument("rows", rows)
    text.argument("length", length)
    text.line(f"x_p = {element_kinds.pointer(dtype, text.argument('x_at', Pointer('in', 0)))}")
    text.line(f"y_p = {element_kinds.pointer(index, text.argument('y_at', Pointer('out', 0)))}")
    if threads > WARP:
        text.line(f"bests = shared_{kind}({threads // WARP})")
        text.line(f"places = shared_i64({threads // WARP})")
    text.line(f"apart = {threads}")
    text.line(f"lane = thread() & {threads - 1}")
    text.line(f"each = threads() >> {threads.bit_length() - 1}")
    text.line("first = block() * each")
    text.line("step = blocks() * each")
    with text.block("while first < rows:"):
        text.line(f"row = first + (thread() >> {threads.bit_length() - 1})")
        text.line("live = row < rows")
        text.line("base = select(live, row, rows - 1) * length")
        _write_search(text, largest, dtype, "lane", "1")
        _write_exchange(text, largest, WARP)
        if threads > WARP:
            with text.block(f"if lane & {WARP - 1} == 0:"):
                text.line("st_shared(bests, lane >> 5, best)")
                text.line("st_shared(places, lane >> 5, at)")
            text.line("sync_threads()")
            text.line(f"best = ld_shared(bests, lane & {threads // WARP - 1})")
            text.line(f"at = ld_shared(places, lane & {threads // WARP - 1})")
            _write_exchange(text, largest, threads // WARP)
            text.line("sync_threads()")
        with text.block("if live and lane == 0:"):
            text.line(f"st(y_p, row, {index.name}(at))")
        text.line("first = advance(first, step)")
    block = THREADS if threads == THREADS or rows * WARP >= THREADS * 264 else WARP
    grid = grid_for(-(-rows * threads // block), 1)
    return text.launch(f"{title} along rows", title, __name__, grid, (block, 1, 1))


def _columns_launch(
    largest: bool, dtype: DType, index: DType, outer: int, length: int, inner: int, title: str
) -> CudaLaunch:
    """Return the launch along an outer axis: a thread searches a column."""
    text = KernelText(fits_32_bits([outer * length * inner]))
    text.argument("count", outer * inner)
    text.argument("length", length)
    text.argument("inner", inner)
    text.line(f"x_p = {element_kinds.pointer(dtype, text.argument('x_at', Pointer('in', 0)))}")
    text.line(f"y_p = {element_kinds.pointer(index, text.argument('y_at', Pointer('out', 0)))}")
    text.line("apart = 1")
    with grid_stride(text, "u", "count"):
        text.split("u", "row", "column", "inner")
        text.line("base = row * length * inner + column")
        _write_search(text, largest, dtype, "0", "inner")
        text.line(f"st(y_p, u, {index.name}(at))")
    return text.launch(f"{title} along columns", title, __name__, grid_for(outer * inner))


@device_native("ArgMax", "ArgMin")
def _arg(spec: NodeSpec) -> NativeCall:
    x, y = spec.inputs[0], spec.outputs[0]
    if x.dtype.is_complex or not element_kinds.is_supported(x.dtype):
        raise Unsupported(f"{spec.op} of {x.dtype.name}")
    outer, length, inner = searched_extents(spec)
    if y.size == 0:
        return NativeCall(())
    largest, title = spec.op == "ArgMax", f"{spec.op.lower()} {x.dtype.name}"
    if inner == 1:
        launch = _rows_launch(largest, x.dtype, y.dtype, outer, length, title)
    else:
        launch = _columns_launch(largest, x.dtype, y.dtype, outer, length, inner, title)
    return NativeCall((launch,), bytes_moved=x.nbytes + y.nbytes, flops=x.size)
