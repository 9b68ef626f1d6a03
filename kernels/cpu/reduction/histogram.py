"""Build histograms with bins of one width.

Each chunk counts into its own memory; a second launch adds these counts up.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import write_imports
from tfjit.kernels.ir.symbolic_size import predicted
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

_VALUE_NS: Final = 2.0
_MAX_CHUNKS: Final = 8
_ERRORS: Final = {1: ("InvalidArgumentError", "Histogram values must not contain NaN")}


def histogram_source(dtype: DType, out: str) -> KernelSource:
    """Write a histogram; out: kind of the counts.

    Words: values, their number, lowest value and width of a bin (float64), bins, memory for counts,
    chunks, output.
    """
    s = Source()
    write_imports(s, f"histogram of {dtype.name}")
    names = ("values", "total", "bins", "counts", "parts", "out")
    for entry in ("kernel", "add"):
        with s.block(f"def {entry}(args, chunk, nchunks):"):
            for k, name in enumerate(names):
                s.line(f"{name} = word(args, {2 + k})")
            _write_counting(s, dtype) if entry == "kernel" else _write_sum(s, out)
        s.line()
        s.line()
    return KernelSource(s.text(), ("kernel", "add"), title="histogram", module=__name__)


def _write_counting(s: Source, dtype: DType) -> None:
    s.line(f"low = f64_word(args, {2 + 6})")
    s.line(f"width = f64_word(args, {2 + 7})")
    s.line("last = float64(bins - 1)")
    s.line(f"value_p = {typed_pointers.pointer(dtype, 'values')}")
    s.line("count_p = ptr_i64(counts + chunk * bins * 8)")
    with s.block("for b in range(bins):"):
        s.line("st_out(count_p, b, 0, 1)")
    s.line("first = total * chunk // nchunks")
    s.line("wrong = 0")
    with s.block("for i in range(total * (chunk + 1) // nchunks - first):"):
        s.line("place = floor((float64(ld(value_p, first + i)) - low) / width)")
        s.line("wrong |= int(place != place)")
        s.line("bin = int64(select(place >= last, last, select(place >= 0.0, place, 0.0)))")
        s.line("st_out(count_p, bin, ld_out(count_p, bin, 1) + 1, 1)")
    with s.block("if wrong != 0:"):
        s.line("fail(args, 1, 0)")


def _write_sum(s: Source, out: str) -> None:
    s.line("count_p = ptr_i64(counts)")
    s.line(f"out_p = ptr_{out}(out)")
    with s.block("for b in range(bins):"):
        s.line("found = 0")
        with s.block("for part in range(parts):"):
            s.line("found += ld(count_p, part * bins + b)")
        s.line("st(out_p, b, found)")


@native("HistogramFixedWidth")
def _histogram(spec: NodeSpec) -> NativeCall:
    values, out = spec.inputs[0], spec.outputs[0]
    if 1 not in spec.constants or 2 not in spec.constants:
        raise Unsupported("range or number of the bins is not known while planning")
    limits, bins = np.asarray(spec.constants[1]), int(spec.constants[2])
    if limits.shape != (2,) or not limits[0] < limits[1] or bins <= 0 or out.shape != (bins,):
        raise Unsupported("the arguments do not fit: the reference tells")
    low, high = (float(limit) for limit in limits)
    width = (high - low) / bins
    if not np.isfinite(width) or not width > 0.0:
        raise Unsupported("bins of no width")
    if out.dtype not in (d.int32, d.int64):
        raise Unsupported(f"counts of {out.dtype.name}")
    cost = cost_model.FIXED_NS + _VALUE_NS * predicted(values.size)
    chunks = min(cost_model.chunks_for(cost, values.size), _MAX_CHUNKS)
    bits = (int(np.float64(number).view(np.int64)) for number in (low, width))
    words: tuple[Word, ...] = (
        *(Pointer("in", 0), values.size, bins, Pointer("temp", 0), chunks, Pointer("out", 0)),
        *bits,
    )
    source = histogram_source(values.dtype, "i32" if out.dtype is d.int32 else "i64")
    count = Launch(source, words, chunks=chunks, cost_ns=cost, errors=_ERRORS)
    add = Launch(source, words, entry="add", cost_ns=cost_model.FIXED_NS + bins * chunks)
    return NativeCall(
        (count, add), temp_bytes=(8 * bins * chunks,), bytes_moved=predicted(values.nbytes)
    )
