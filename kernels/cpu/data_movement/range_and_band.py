"""Build Range and the band of a matrix from positions."""

from __future__ import annotations

from math import prod

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source


def range_source(dtype: DType) -> KernelSource:
    """Write Range.

    Words: length, start, delta, output. Element i is start + i * delta in the type itself.
    """
    s = Source()
    s.line(f"# range of {dtype.name}")
    for line in (*expressions.IMPORTS, "from tfjit.kernels.codegen.intrinsics import *", "", ""):
        s.line(line)
    name = expressions.register_type(dtype)
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, word in enumerate(("length", "start_at", "delta_at", "out")):
            s.line(f"{word} = word(args, {2 + k})")
        s.line("lo = length * chunk // nchunks")
        s.line("m = length * (chunk + 1) // nchunks - lo")
        s.line(f"start = ld({typed_pointers.pointer(dtype, 'start_at')}, 0)")
        s.line(f"delta = ld({typed_pointers.pointer(dtype, 'delta_at')}, 0)")
        s.line(f"out_p = {typed_pointers.pointer(dtype, f'out + lo * {dtype.size}')}")
        with s.block("for i in range(m):"):
            s.line(f"st(out_p, i, {name}(start + {name}(lo + i) * delta))")
    return KernelSource(s.text(), title="range", module=__name__)


@native("Range")
def _range(spec: NodeSpec) -> NativeCall:
    out = spec.outputs[0]
    if out.dtype not in (d.int32, d.int64, d.float32, d.float64) or len(out.shape) != 1:
        raise Unsupported(f"a range of {out.dtype.name}")
    if any(k not in spec.constants for k in range(3)):
        raise Unsupported("start, limit and delta are not known while planning")
    if not out.size:
        return NativeCall(())
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(out.nbytes) + 0.1 * out.size
    words: tuple[Word, ...] = (out.size, Pointer("in", 0), Pointer("in", 2), Pointer("out", 0))
    launch = Launch(
        range_source(out.dtype), words, chunks=cost_model.chunks_for(cost, out.size), cost_ns=cost
    )
    return NativeCall((launch,), bytes_moved=out.nbytes)


def band_source(size: int) -> KernelSource:
    """Write the band of a matrix.

    Words: rows of all matrices together, rows of one, bytes of a row, elements kept left of the
    diagonal, right of it, input, output.
    """
    s = Source()
    s.line(f"# band of matrices of elements of {size} bytes")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, word in enumerate(("total", "rows", "width", "below", "above", "src", "dst")):
            s.line(f"{word} = word(args, {2 + k})")
        s.line("first = total * chunk // nchunks")
        s.line("count = total * (chunk + 1) // nchunks - first")
        with s.block("for u in range(count):"):
            s.line("row = (first + u) % rows")
            s.line(f"lo = min(max(row - below, 0) * {size}, width)")
            s.line(f"hi = min((row + above + 1) * {size}, width)")
            s.line("at = (first + u) * width")
            s.line("fill_bytes(dst + at, 0, lo)")
            with s.block("if hi > lo:"):
                s.line("copy_bytes(dst + at + lo, src + at + lo, hi - lo)")
            s.line("hi = max(hi, lo)")
            s.line("fill_bytes(dst + at + hi, 0, width - hi)")
    return KernelSource(s.text(), title="band", module=__name__)


@native("MatrixBandPart", "BatchMatrixBandPart")
def _band_part(spec: NodeSpec) -> NativeCall:
    x = spec.inputs[0]
    if len(x.shape) < 2 or not x.size:
        raise Unsupported("no matrix")
    if any(k not in spec.constants for k in (1, 2)):
        raise Unsupported("the band is not known while planning")
    rows, columns = x.shape[-2:]
    below, above = (int(np.asarray(spec.constants[k]).reshape(-1)[0]) for k in (1, 2))
    if below > rows or above > columns:
        raise Unsupported("the band is wider than the matrix")
    size, total = x.dtype.size, prod(x.shape[:-1])
    typed_pointers.raw_pointer(size, "")
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(2 * x.nbytes) + 8.0 * total
    kept = (rows if below < 0 else below, columns if above < 0 else above)
    words: tuple[Word, ...] = (
        total,
        rows,
        columns * size,
        *kept,
        Pointer("in", 0),
        Pointer("out", 0),
    )
    launch = Launch(
        band_source(size), words, chunks=cost_model.chunks_for(cost, total), cost_ns=cost
    )
    return NativeCall((launch,), bytes_moved=2 * x.nbytes)
