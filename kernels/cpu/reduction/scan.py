"""Build running sums, products and log-sum-exps along one axis."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

COLUMNS: Final = 1024
"""Inner positions that are scanned side by side."""
LANES: Final = 4
"""Rows that are scanned side by side."""


def _take(s: Source, kind: str, dtype: DType, total: str, value: str) -> None:
    """Append the step that combines the name `total` with a value."""
    if kind != "logsumexp":
        s.line(
            f"{total} = {reducers.narrowed(dtype, f'({reducers.step(kind, dtype, total, value, in_order=True)})')}"
        )
        return
    suffix = "f64" if expressions.register_type(dtype) == "float64" else "f32"
    s.line(f"top = maximum({total}, {value})")
    s.line(f"apart = minimum({total}, {value}) - top")
    log = f"top + vm.log1p_{suffix}(vm.exp_{suffix}(apart))"
    # two equal infinities have no difference
    s.line(f"{total} = {reducers.narrowed(dtype, f'select(apart == apart, {log}, top)')}")


def _start(kind: str, dtype: DType) -> str:
    return (
        expressions.literal(-np.inf, dtype) if kind == "logsumexp" else reducers.start(kind, dtype)
    )


def columns_source(kind: str, dtype: DType) -> KernelSource:
    """Write the scan along an outer axis, columns side by side.

    Words: outer, length, inner, byte step along the axis (negative for a backward scan), byte
    offset of its first element, exclusive (0 or 1), input, output. With exclusive, element k holds
    the total before element k.
    """
    s = Source()
    s.line(f"# running {kind} of {dtype.name}, columns")
    for line in reducers.IMPORTS:
        s.line(line)
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(
            ("outer", "length", "inner", "step", "start", "exclusive", "src", "dst")
        ):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"blocks = (inner + {COLUMNS - 1}) // {COLUMNS}")
        s.line("units = outer * blocks")
        s.line("first = units * chunk // nchunks")
        s.line("count = units * (chunk + 1) // nchunks - first")
        with s.block("for u in range(count):"):
            s.line("row = (first + u) // blocks")
            s.line(f"lo = ((first + u) - row * blocks) * {COLUMNS}")
            s.line(f"m = min(inner - lo, {COLUMNS})")
            s.line(f"at = (row * length * inner + lo) * {dtype.size} + start")
            s.line(f"x_p = {typed_pointers.pointer(dtype, 'src + at')}")
            s.line(f"y_p = {typed_pointers.pointer(dtype, 'dst + at')}")
            with s.block("for i in range(m):"):
                s.line(f"value = {_start(kind, dtype)}")
                with s.block("if exclusive == 0:"):
                    s.line(f"value = {expressions.loaded(dtype, 'ld_any(x_p, i)')}")
                s.line(f"st_any(y_p, i, {expressions.stored(dtype, 'value')})")
            with s.block("for k in range(length - 1):"):
                s.line("here = at + (k + 1) * step")
                s.line("x_at = src + (here - step if exclusive != 0 else here)")
                s.line(f"x_p = {typed_pointers.pointer(dtype, 'x_at')}")
                s.line(f"before_p = {typed_pointers.pointer(dtype, 'dst + here - step')}")
                s.line(f"y_p = {typed_pointers.pointer(dtype, 'dst + here')}")
                with s.block("for i in range(m):"):
                    s.line(f"total = {expressions.loaded(dtype, 'ld_any(before_p, i)')}")
                    s.line(f"value = {expressions.loaded(dtype, 'ld_any(x_p, i)')}")
                    _take(s, kind, dtype, "total", "value")
                    s.line(f"st_any(y_p, i, {expressions.stored(dtype, 'total')})")
    return KernelSource(s.text(), title=f"running {kind} {dtype.name}", module=__name__)


def rows_source(kind: str, dtype: DType) -> KernelSource:
    """Write the scan along the inner axis, with totals in registers.

    LANES rows are scanned at a time because each step waits for the previous one. Words: rows,
    length, byte step, byte offset of the first element, exclusive, input, output.
    """
    s = Source()
    s.line(f"# running {kind} of {dtype.name}, rows")
    for line in reducers.IMPORTS:
        s.line(line)

    def rows(count: int) -> None:
        for j in range(count):
            s.line(f"at{j} = (row + {j}) * length * {dtype.size} + start")
            s.line(f"x{j}_p = {typed_pointers.pointer(dtype, f'src + at{j}')}")
            s.line(f"y{j}_p = {typed_pointers.pointer(dtype, f'dst + at{j}')}")
            s.line(f"total{j} = {_start(kind, dtype)}")
        for condition, before in (("if exclusive == 0:", False), ("else:", True)):
            with s.block(condition), s.block("for k in range(length):"):
                for j in range(count):
                    s.line(f"value = {expressions.loaded(dtype, f'ld_at(x{j}_p, k * step)')}")
                    if not before:
                        _take(s, kind, dtype, f"total{j}", "value")
                    s.line(
                        f"st_out_at(y{j}_p, k * step, {expressions.stored(dtype, f'total{j}')}, "
                        f"{j})"
                    )
                    if before:
                        _take(s, kind, dtype, f"total{j}", "value")

    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("units", "length", "step", "start", "exclusive", "src", "dst")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line("row = units * chunk // nchunks")
        s.line("last = units * (chunk + 1) // nchunks")
        with s.block(f"while row + {LANES} <= last:"):
            rows(LANES)
            s.line(f"row += {LANES}")
        with s.block("while row < last:"):
            rows(1)
            s.line("row += 1")
    return KernelSource(s.text(), title=f"running {kind} {dtype.name}", module=__name__)


KINDS: Final = {"Cumsum": "sum", "Cumprod": "prod", "CumulativeLogsumexp": "logsumexp"}
"""Kinds of running totals, by op type."""


def scanned_extents(spec: NodeSpec) -> tuple[int, int, int]:
    """Return the elements before, along and behind the scanned axis.

    Raises Unsupported for an unknown axis, one out of range, and types without the total.
    """
    x = spec.inputs[0]
    if 1 not in spec.constants:
        raise Unsupported("the axis is not known while planning")
    rank = len(x.shape)
    axis = int(np.asarray(spec.constants[1]).reshape(-1)[0])
    if not rank or not -rank <= axis < rank:
        raise Unsupported("the axis is out of range")
    axis %= rank
    if KINDS[spec.op] == "logsumexp" and not x.dtype.is_floating:
        raise Unsupported(f"{spec.op} of {x.dtype.name}")
    return prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])


@native(*KINDS)
def _cumulative(spec: NodeSpec) -> NativeCall:
    x, kind = spec.inputs[0], KINDS[spec.op]
    outer, length, inner = scanned_extents(spec)
    if x.size == 0:
        return NativeCall(())
    step = inner * x.dtype.size
    start = 0
    if spec.attrs.get("reverse", False):
        step, start = -step, (length - 1) * step
    exclusive = int(bool(spec.attrs.get("exclusive", False)))
    element_ns = (0.3 if outer >= LANES else 1.2) if inner == 1 else 0.1
    if kind == "logsumexp":
        element_ns = (5.0 if outer >= LANES else 20.0) if inner == 1 else 1.0
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(2 * x.nbytes) + x.size * element_ns
    ends = (Pointer("in", 0), Pointer("out", 0))
    if inner == 1:
        launch = Launch(
            rows_source(kind, x.dtype), (outer, length, step, start, exclusive, *ends), cost_ns=cost
        )
        chunks = cost_model.chunks_for(cost, -(-outer // LANES))
    else:
        launch = Launch(
            columns_source(kind, x.dtype),
            (outer, length, inner, step, start, exclusive, *ends),
            cost_ns=cost,
        )
        chunks = cost_model.chunks_for(cost, outer * -(-inner // COLUMNS))
    return NativeCall((replace(launch, chunks=chunks),), bytes_moved=2 * x.nbytes, flops=x.size)
