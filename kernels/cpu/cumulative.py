"""Running sums and products along one axis."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from tfjit.framework.dtypes import DType
from tfjit.kernels import expressions
from tfjit.kernels.cpu import access, costs, reducers
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

COLUMNS: Final = 1024
"""Inner positions that are followed side by side."""


def cumulative_source(kind: str, dtype: DType) -> KernelSource:
    """Words: outer, length, inner, byte step along the axis (negative when it is walked backwards), byte offset of its first
    element, exclusive (0 or 1), input, output. With exclusive, element k holds what came before it.
    """
    s = Source()
    s.line(f"# running {kind} of {dtype.name}")
    for line in reducers.IMPORTS:
        s.line(line)
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("outer", "length", "inner", "step", "start", "exclusive", "src", "dst")):
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
            s.line(f"x_p = {access.pointer(dtype, 'src + at')}")
            s.line(f"y_p = {access.pointer(dtype, 'dst + at')}")
            with s.block("for i in range(m):"):
                s.line(f"value = {reducers.start(kind, dtype)}")
                with s.block("if exclusive == 0:"):
                    s.line(f"value = {expressions.loaded(dtype, 'ld_any(x_p, i)')}")
                s.line(f"st_any(y_p, i, {expressions.stored(dtype, 'value')})")
            with s.block("for k in range(length - 1):"):
                s.line("here = at + (k + 1) * step")
                s.line("x_at = src + (here - step if exclusive != 0 else here)")
                s.line(f"x_p = {access.pointer(dtype, 'x_at')}")
                s.line(f"before_p = {access.pointer(dtype, 'dst + here - step')}")
                s.line(f"y_p = {access.pointer(dtype, 'dst + here')}")
                with s.block("for i in range(m):"):
                    s.line(f"total = {expressions.loaded(dtype, 'ld_any(before_p, i)')}")
                    s.line(f"value = {expressions.loaded(dtype, 'ld_any(x_p, i)')}")
                    taken = reducers.narrowed(dtype, f"({reducers.step(kind, dtype, 'total', 'value', in_order=True)})")
                    s.line(f"st_any(y_p, i, {expressions.stored(dtype, taken)})")
    return KernelSource(s.text(), title=f"running {kind} {dtype.name}")


@native("Cumsum", "Cumprod")
def _cumulative(spec: NodeSpec) -> NativeCall:
    x = spec.inputs[0]
    if 1 not in spec.constants:
        raise Unsupported("the axis is not known while planning")
    rank = len(x.shape)
    axis = int(np.asarray(spec.constants[1]).reshape(-1)[0])
    if not rank or not -rank <= axis < rank:
        raise Unsupported("the axis is out of range")
    axis %= rank
    if x.size == 0:
        return NativeCall(())
    outer, length, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    step = inner * x.dtype.size
    start = 0
    if spec.attrs.get("reverse", False):
        step, start = -step, (length - 1) * step
    cost = costs.FIXED_NS + costs.traffic_ns(2 * x.nbytes) + x.size * (1.5 if inner == 1 else 0.1)
    words = (outer, length, inner, step, start, int(bool(spec.attrs.get("exclusive", False))), Pointer("in", 0), Pointer("out", 0))
    source = cumulative_source("sum" if spec.op == "Cumsum" else "prod", x.dtype)
    chunks = costs.chunks_for(cost, outer * -(-inner // COLUMNS))
    return NativeCall((Launch(source, words, chunks=chunks, cost_ns=cost),), bytes_moved=2 * x.nbytes, flops=x.size)
