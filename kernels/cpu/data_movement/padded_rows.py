"""Build a search for distinct indices, with padding behind them.

The output has a size that is known before the run: that of the input, or the op's limit.
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.hashing import GOLDEN
from tfjit.kernels.cpu.template.indexed_rows import index_kind, padding, write_imports
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

_VALUE_NS: Final = 4.0
_LEAST_TABLE: Final = 16


def padded_unique_source(kind: str, place: str) -> KernelSource:
    """Write the kernel for values and places of two index kinds.

    Words: number of values, most distinct values, input, distinct values, places of the values
    among the distinct ones, hash table. The table has memory for four times as many places as there
    are values, and for `_LEAST_TABLE` more.
    """
    s = Source()
    write_imports(s, f"distinct {kind} with padding, and places by {place}")
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("total", "limit", "x", "rows", "idx", "table")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"x_p = ptr_{kind}(x)")
        s.line(f"row_p = ptr_{kind}(rows)")
        s.line(f"idx_p = ptr_{place}(idx)")
        s.line("table_p = ptr_i32(table)")
        s.line(f"size = {_LEAST_TABLE}")
        with s.block("while size < 2 * total:"):
            s.line("size = size * 2")
        with s.block("for u in range(size):"):
            s.line("st_any(table_p, u, -1)")
        s.line("count = 0")
        with s.block("for u in range(total):"):
            s.line("v = int(ld(x_p, u))")
            with s.block(f"if v == {padding(kind)}:"):
                s.line("v = v + 1")  # a value is no padding; neither of the two is a valid row
            s.line(f"h = v * ({GOLDEN})")
            s.line("at = (h >> 32) & (size - 1)")
            s.line("k = int(ld_any(table_p, at))")
            with s.block("while k >= 0 and int(ld_any(row_p, k)) != v:"):
                s.line("at = (at + 1) & (size - 1)")
                s.line("k = int(ld_any(table_p, at))")
            with s.block("if k < 0:"):
                s.line("k = 0")
                with s.block("if count < limit:"):
                    s.line("k = count")
                    s.line("st_any(table_p, at, k)")
                    s.line("st_any(row_p, k, v)")
                    s.line("count += 1")
            s.line("st_any(idx_p, u, k)")
        with s.block("for e in range(limit - count):"):
            s.line(f"st_any(row_p, count + e, {padding(kind)})")
    return KernelSource(s.text(), title=f"padded unique {kind}", module=__name__)


@native("_PaddedUnique")
def _padded_unique(spec: NodeSpec) -> NativeCall:
    (x,), (rows, idx) = spec.inputs, spec.outputs
    if len(x.shape) != 1:
        raise Unsupported("values are no vector")
    total = x.shape[0]
    moved = x.nbytes + rows.nbytes + idx.nbytes
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(moved) + _VALUE_NS * total
    limit = rows.shape[0]
    words = (
        total,
        limit,
        Pointer("in", 0),
        Pointer("out", 0),
        Pointer("out", 1),
        Pointer("temp", 0),
    )
    launch = Launch(padded_unique_source(index_kind(x), index_kind(idx)), words, cost_ns=cost)
    return NativeCall((launch,), temp_bytes=(16 * total + 4 * _LEAST_TABLE,), bytes_moved=moved)
