"""Build running sums, products and log-sum-exps along one axis for GPUs."""

from __future__ import annotations

import numpy as np

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.scan import KINDS, scanned_extents
from tfjit.kernels.cuda.reduction import steps
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import THREADS, CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer


def _start(kind: str, dtype: DType) -> str:
    if kind == "logsumexp":
        return expressions.literal(-np.inf, dtype)
    return steps.start(kind, dtype)


def _write_step(text: KernelText, kind: str, dtype: DType, into: str, a: str, b: str) -> None:
    """Append the combination of two totals; `a` comes first along the axis."""
    if kind == "logsumexp":
        suffix = element_kinds.math_suffix(dtype)
        text.line(f"top = vm.maximum_{suffix}({a}, {b})")
        text.line(f"apart = vm.minimum_{suffix}({a}, {b}) - top")
        log = f"top + vm.log1p_{suffix}(vm.exp_{suffix}(apart))"
        # two equal infinities have no difference
        value = f"vm.select_{suffix}(apart == apart, {log}, top)"
    else:
        value = steps.step(kind, dtype, a, b)
    if dtype.is_floating:
        value = reducers.narrowed(dtype, f"({value})")
    text.line(f"{into} = {value}")


def _pointers(text: KernelText, dtype: DType) -> None:
    text.line(f"x_p = {element_kinds.pointer(dtype, text.argument('x_at', Pointer('in', 0)))}")
    text.line(f"y_p = {element_kinds.pointer(dtype, text.argument('y_at', Pointer('out', 0)))}")


def _rows_launch(
    kind: str, dtype: DType, rows: int, length: int, reverse: bool, exclusive: bool, title: str
) -> CudaLaunch:
    """Return the scan along the inner axis.

    A block scans a row, an element a thread at a time.
    """
    threads = min(THREADS, max(32, 1 << (length - 1).bit_length()))
    text = KernelText()
    text.argument("rows", rows)
    text.argument("length", length)
    _pointers(text, dtype)
    text.line(f"totals = shared_{element_kinds.register_kind(dtype)}({threads})")
    text.line("lane = thread()")
    text.line("row = block()")
    with text.block("while row < rows:"):
        text.line(f"carry = {_start(kind, dtype)}")
        text.line("first = int64(0)")
        with text.block("while first < length:"):
            text.line("i = first + lane")
            text.line("inside = i < length")
            text.line("place = select(inside, i, 0)")
            at = "row * length + " + ("(length - 1 - place)" if reverse else "place")
            text.line(f"at = {at}")
            text.line(f"x = {expressions.loaded(dtype, 'ld(x_p, at)')}")
            suffix = element_kinds.math_suffix(dtype)
            text.line(f"total = vm.select_{suffix}(inside, x, {_start(kind, dtype)})")
            text.line("st_shared(totals, lane, total)")
            distance = 1
            while distance < threads:
                text.line("sync_threads()")
                text.line(
                    f"near = ld_shared(totals, select(lane >= {distance}, lane - {distance}, lane))"
                )
                text.line("sync_threads()")
                with text.block(f"if lane >= {distance}:"):
                    _write_step(text, kind, dtype, "total", "near", "total")
                    text.line("st_shared(totals, lane, total)")
                distance *= 2
            text.line("sync_threads()")
            if exclusive:
                text.line("before = ld_shared(totals, select(lane > 0, lane - 1, 0))")
                text.line(f"before = vm.select_{suffix}(lane > 0, before, {_start(kind, dtype)})")
                _write_step(text, kind, dtype, "result", "carry", "before")
            else:
                _write_step(text, kind, dtype, "result", "carry", "total")
            text.line(f"last = ld_shared(totals, {threads - 1})")
            _write_step(text, kind, dtype, "carry", "carry", "last")
            with text.block("if inside:"):
                text.line(f"st(y_p, at, {expressions.stored(dtype, 'result')})")
            text.line("sync_threads()")
            text.line(f"first += {threads}")
        text.line("row += blocks()")
    block = (threads, 1, 1)
    return text.launch(f"{title} along rows", title, __name__, grid_for(rows, 1), block)


def _columns_launch(
    kind: str, dtype: DType, outer: int, length: int, inner: int, reverse: bool, exclusive: bool,
    title: str,
) -> CudaLaunch:  # fmt: skip
    """Return the scan along an outer axis: a thread scans a column."""
    text = KernelText(fits_32_bits([outer * length * inner]))
    text.argument("count", outer * inner)
    text.argument("length", length)
    text.argument("inner", inner)
    _pointers(text, dtype)
    with grid_stride(text, "u", "count"):
        text.split("u", "row", "column", "inner")
        text.line("base = row * length * inner + column")
        text.line(f"total = {_start(kind, dtype)}")
        text.line("i = int64(0)")
        with text.block("while i < length:"):
            text.line(f"at = base + {'(length - 1 - i)' if reverse else 'i'} * inner")
            text.line(f"x = {expressions.loaded(dtype, 'ld(x_p, at)')}")
            if exclusive:
                text.line(f"st(y_p, at, {expressions.stored(dtype, 'total')})")
            _write_step(text, kind, dtype, "total", "total", "x")
            if not exclusive:
                text.line(f"st(y_p, at, {expressions.stored(dtype, 'total')})")
            text.line("i += 1")
    return text.launch(f"{title} along columns", title, __name__, grid_for(outer * inner))


@device_native(*KINDS)
def _cumulative(spec: NodeSpec) -> NativeCall:
    x, kind = spec.inputs[0], KINDS[spec.op]
    outer, length, inner = scanned_extents(spec)
    if x.size == 0:
        return NativeCall(())
    title = f"running {kind} {x.dtype.name}"
    reverse = bool(spec.attrs.get("reverse", False))
    exclusive = bool(spec.attrs.get("exclusive", False))
    if inner == 1:
        launch = _rows_launch(kind, x.dtype, outer, length, reverse, exclusive, title)
    else:
        launch = _columns_launch(
            kind, x.dtype, outer, length, inner, reverse, exclusive, title
        )  # fmt: skip
    return NativeCall((launch,), bytes_moved=2 * x.nbytes, flops=x.size)
