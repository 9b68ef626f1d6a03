"""Build searches for the places of values in sorted rows."""

from __future__ import annotations

from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import write_imports
from tfjit.kernels.ir.symbolic_size import predicted
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

_STEP_NS: Final = 1.5


def search_source(dtype: DType, out: str, upper: bool) -> KernelSource:
    """Write the search of values; upper: behind equal elements.

    Words: sorted rows, values, output, number of values, values of a row, elements of a sorted row.
    The range of a search is halved by selects, since its branches are hard to predict.
    """
    s = Source()
    write_imports(s, f"{'upper' if upper else 'lower'} bounds of {dtype.name}")
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("rows", "values", "out", "total", "width", "length")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"row_p = {typed_pointers.pointer(dtype, 'rows')}")
        s.line(f"value_p = {typed_pointers.pointer(dtype, 'values')}")
        s.line(f"out_p = ptr_{out}(out)")
        s.line("first = total * chunk // nchunks")
        element = expressions.loaded(dtype, "ld(row_p, base + low + half)")
        before = f"not (value < {element})" if upper else f"{element} < value"
        with s.block("for i in range(total * (chunk + 1) // nchunks - first):"):
            s.line(f"value = {expressions.loaded(dtype, 'ld(value_p, first + i)')}")
            s.line("base = (first + i) // width * length")
            s.line("low = 0")
            s.line("count = length")
            with s.block("while count > 0:"):
                s.line("half = count >> 1")
                s.line(f"before = {before}")
                s.line("low = select(before, low + half + 1, low)")
                s.line("count = select(before, count - half - 1, half)")
            s.line("st(out_p, first + i, low)")
    return KernelSource(s.text(), title="bounds in sorted rows", module=__name__)


@native("LowerBound", "UpperBound")
def _bounds(spec: NodeSpec) -> NativeCall:
    rows, values, out = *spec.inputs, spec.outputs[0]
    if len(rows.shape) != 2 or len(values.shape) != 2 or rows.shape[0] != values.shape[0]:
        raise Unsupported("shapes do not fit: the reference tells")
    if not typed_pointers.is_supported(rows.dtype) or rows.dtype.is_complex:
        raise Unsupported(f"searches in {rows.dtype.name}")
    if out.dtype not in (d.int32, d.int64):
        raise Unsupported(f"places of {out.dtype.name}")
    steps = int(predicted(rows.shape[1])).bit_length()
    cost = cost_model.FIXED_NS + _STEP_NS * (1 + steps) * predicted(values.size)
    words: tuple[Word, ...] = (Pointer("in", 0), Pointer("in", 1), Pointer("out", 0), values.size,
                               values.shape[1], rows.shape[1])  # fmt: skip
    source = search_source(
        rows.dtype, "i32" if out.dtype is d.int32 else "i64", spec.op == "UpperBound"
    )
    chunks = cost_model.chunks_for(cost, values.size)
    launch = Launch(source, words, chunks=chunks, cost_ns=cost)
    return NativeCall((launch,), bytes_moved=predicted(rows.nbytes + values.nbytes + out.nbytes))
