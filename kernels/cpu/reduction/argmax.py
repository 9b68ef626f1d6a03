"""Build ArgMax and ArgMin: the position of an extreme along one axis.

NaN never wins; the first of equal values does.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

COLUMNS: int = 1024
"""Inner positions that are scanned side by side."""
SHORT: int = 192
"""Rows up to this length are scanned element by element.

Several rows are in flight at a time then. For longer rows the extreme is found first and searched
for afterwards, which ends in a jump that no processor predicts.
"""


def _start(largest: bool, dtype: DType) -> str:
    """Return the start value, which any larger (smaller) value must beat.

    It is the lowest (highest) finite one, so that rows of only -inf (inf) or NaN give 0.
    """
    if dtype.is_floating:
        limit = float(dtype.max)
        return expressions.literal(-limit if largest else limit, dtype)
    if dtype is d.bool:
        return "uint8(0)" if largest else "uint8(1)"
    return expressions.literal(dtype.min if largest else dtype.max, dtype)


def _loaded(dtype: DType, element: str) -> str:
    return element if dtype is d.bool else expressions.loaded(dtype, element)


def arg_source(largest: bool, dtype: DType, index: DType, along_inner: bool) -> KernelSource:
    """Write the kernel.

    Words: outer, length of the axis, inner, input, output; for an inner part also scratch and its
    bytes a chunk.
    """
    s = Source()
    name = "argmax" if largest else "argmin"
    s.line(f"# {name} {dtype.name} along {'the inner' if along_inner else 'an outer'} axis")
    for line in reducers.IMPORTS:
        s.line(line)
    better = ">" if largest else "<"
    start = _start(largest, dtype)
    size = dtype.size
    best_dtype = d.uint8 if dtype is d.bool else dtype
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, word in enumerate(("outer", "length", "inner", "x_at", "y_at")):
            s.line(f"{word} = word(args, {2 + k})")
        if along_inner:
            s.line("first = outer * chunk // nchunks")
            s.line("count = outer * (chunk + 1) // nchunks - first")
            s.line(f"y_p = {typed_pointers.pointer(index, 'y_at')}")
            with s.block(f"if length <= {SHORT}:"):
                with s.block("for u in range(count):"):
                    s.line(
                        "x_p = "
                        f"{typed_pointers.pointer(dtype, f'x_at + (first + u) * length * {size}')}"
                    )
                    s.line(f"best = {start}")
                    s.line("at = 0")
                    with s.block("for i in range(length):"):
                        s.line(f"v = {_loaded(dtype, 'ld(x_p, i)')}")
                        s.line(f"wins = v {better} best")
                        s.line("best = select(wins, v, best)")
                        s.line("at = select(wins, i, at)")
                    s.line("st(y_p, first + u, at)")
                s.line("return")
            with s.block("for u in range(count):"):
                s.line(
                    "x_p = "
                    f"{typed_pointers.pointer(dtype, f'x_at + (first + u) * length * {size}')}"
                )
                s.line(f"best = {start}")
                with s.block("for i in range(length):"):
                    s.line(f"v = {_loaded(dtype, 'ld(x_p, i)')}")
                    if dtype.is_floating:
                        s.line(f"v = select(v == v, v, {start})")
                        s.line(f"best = {'maximum' if largest else 'minimum'}(best, v)")
                    else:
                        s.line(f"best = select(v {better} best, v, best)")
                s.line("at = 0")
                with (
                    s.block(f"if best != {start}:"),
                    s.block(f"while {_loaded(dtype, 'ld(x_p, at)')} != best:"),
                ):
                    s.line("at += 1")
                s.line("st(y_p, first + u, at)")
        else:
            s.line("best_at = word(args, 7) + chunk * word(args, 8)")
            s.line(f"best_p = {typed_pointers.pointer(best_dtype, 'best_at')}")
            s.line(f"blocks = (inner + {COLUMNS - 1}) // {COLUMNS}")
            s.line("units = outer * blocks")
            s.line("first = units * chunk // nchunks")
            s.line("count = units * (chunk + 1) // nchunks - first")
            with s.block("for u in range(count):"):
                s.line("row = (first + u) // blocks")
                s.line(f"lo = ((first + u) - row * blocks) * {COLUMNS}")
                s.line(f"m = min(inner - lo, {COLUMNS})")
                s.line(
                    "y_p = "
                    f"{typed_pointers.pointer(index, f'y_at + (row * inner + lo) * {index.size}')}"
                )
                with s.block("for i in range(m):"):
                    s.line(f"st_out(best_p, i, {expressions.stored(best_dtype, start)}, 1)")
                    s.line("st_out(y_p, i, 0, 0)")
                with s.block("for k in range(length):"):
                    s.line(
                        f"x_p = {typed_pointers.pointer(dtype, f'x_at + ((row * length + k) * inner + lo) * {size}')}"
                    )
                    with s.block("for i in range(m):"):
                        s.line(f"v = {_loaded(dtype, 'ld(x_p, i)')}")
                        s.line(f"best = {_loaded(best_dtype, 'ld_out(best_p, i, 1)')}")
                        s.line("was = ld_out(y_p, i, 0)")
                        s.line(f"wins = v {better} best")
                        s.line(
                            "st_out(best_p, i, "
                            f"{expressions.stored(best_dtype, 'select(wins, v, best)')}, 1)"
                        )
                        s.line(f"st_out(y_p, i, select(wins, {index.name}(k), was), 0)")
    return KernelSource(s.text(), title=f"{name} {dtype.name}", module=__name__)


def searched_extents(spec: NodeSpec) -> tuple[int, int, int]:
    """Return the elements before, along and behind the searched axis.

    Of an ArgMax or ArgMin. Raises Unsupported for an unknown, a wrong or an empty axis.
    """
    if 1 not in spec.constants:
        raise Unsupported("the axis is not known while planning")
    shape = spec.inputs[0].shape
    axis = int(np.asarray(spec.constants[1]).reshape(-1)[0])
    if not -len(shape) <= axis < len(shape):
        raise Unsupported(f"axis {axis} of {len(shape)}")  # as below
    axis %= len(shape)
    length = shape[axis]
    if length == 0:
        # the reference raises the error as TensorFlow does
        raise Unsupported(f"Reduction axis {axis} is empty in shape {list(shape)}")
    return prod(shape[:axis]), length, prod(shape[axis + 1 :])


@native("ArgMax", "ArgMin")
def _arg(spec: NodeSpec) -> NativeCall:
    x, y = spec.inputs[0], spec.outputs[0]
    if x.dtype.is_complex or not typed_pointers.is_supported(x.dtype):
        raise Unsupported(f"{spec.op} of {x.dtype.name}")
    outer, length, inner = searched_extents(spec)
    if y.size == 0:
        return NativeCall(())
    along_inner, short = inner == 1, length <= SHORT
    each = 0.3 if not along_inner else 0.8 if short else 0.15
    cost = (
        cost_model.FIXED_NS
        + x.size * each
        + (5.0 if short else 20.0) * outer
        + cost_model.traffic_ns(x.nbytes)
    )
    units = outer * (-(-inner // COLUMNS) if inner > 1 else 1)
    chunks = cost_model.chunks_for(cost, units)
    source = arg_source(spec.op == "ArgMax", x.dtype, y.dtype, along_inner)
    words: tuple[int | Pointer, ...] = (outer, length, inner, Pointer("in", 0), Pointer("out", 0))
    temps: tuple[int, ...] = ()
    if inner > 1:
        words += (Pointer("temp", 0), COLUMNS * 8)
        temps = (COLUMNS * 8 * chunks,)
    launch = Launch(source, words, chunks=chunks, cost_ns=cost)
    return NativeCall((launch,), temp_bytes=temps, bytes_moved=x.nbytes + y.nbytes, flops=x.size)
