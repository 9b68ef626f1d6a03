"""Build a search for distinct values by a hash table."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.hashing import GOLDEN
from tfjit.kernels.cpu.template.indexed_rows import INDEX, write_imports
from tfjit.kernels.registry import (
    BoundedCall,
    Launch,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    bounded,
)
from tfjit.kernels.source import KernelSource, Source

_VALUE_NS: Final = 5.0
_FIRST_BITS: Final = 10
"""Logarithm of the places of the first hash table."""
_GROWTH_BITS: Final = 2
_MOST_VALUES: Final = (1 << 31) - 1
_LOW: Final = 0xFFFFFFFF


def unique_source(kind: str, place: str, counts: bool) -> KernelSource:
    """Write the kernel for one kind of values and one of places.

    Words: values, bits of the largest table, the table's memory, input, distinct values in order of
    first occurrence, places of the values among these, and their numbers with `counts`. The detail
    is the number of distinct values.

    A place of the table is -1, or a value's place among the distinct ones above the low half of its
    hash. That half tells values of 32 bits apart. The table grows with the distinct values, so that
    a few of them stay in the first cache.
    """
    s = Source()
    write_imports(s, f"distinct {kind}, places by {place}{' and counts' if counts else ''}")
    names = ["total", "most_bits", "table", "x", "found", "idx", *(["counts"] if counts else [])]
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(names):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"x_p = ptr_{kind}(x)")
        s.line(f"found_p = ptr_{kind}(found)")
        s.line(f"idx_p = ptr_{place}(idx)")
        if counts:
            s.line(f"count_p = ptr_{place}(counts)")
        s.line("table_p = ptr_i64(table)")
        s.line(f"bits = min(most_bits, {_FIRST_BITS})")
        s.line("fill_bytes(table, 255, ishl(8, bits))")
        s.line("mask = ishl(1, bits) - 1")
        s.line("shift = 64 - bits")
        s.line("count = 0")
        with s.block("for u in range(total):"):
            s.line("v = int(ld(x_p, u))")
            s.line(f"h = v * ({GOLDEN})")
            s.line("at = (h >> shift) & mask")
            s.line("entry = ld_any(table_p, at)")
            other = f"(entry & {_LOW}) != (h & {_LOW})"
            if kind == "i64":
                other = f"({other} or int(ld_any(found_p, entry >> 32)) != v)"
            with s.block(f"while entry >= 0 and {other}:"):
                s.line("at = (at + 1) & mask")
                s.line("entry = ld_any(table_p, at)")
            with s.block("if entry < 0:"):
                s.line("k = count")
                s.line("count += 1")
                s.line(f"st_any(table_p, at, (k << 32) | (h & {_LOW}))")
                s.line("st_any(found_p, k, v)")
                if counts:
                    s.line("st_any(count_p, k, 0)")
                with s.block("if 2 * count > mask and bits < most_bits:"):
                    _write_growth(s)
            with s.block("else:"):
                s.line("k = entry >> 32")
            s.line("st_any(idx_p, u, k)")
            if counts:
                s.line("st_any(count_p, k, int(ld_any(count_p, k)) + 1)")
        s.line("store_word(args + 8, count)")
    return KernelSource(s.text(), title=f"unique {kind}", module=__name__)


def _write_growth(s: Source) -> None:
    """Make the table larger; put the distinct values into it again."""
    s.line(f"bits = min(most_bits, bits + {_GROWTH_BITS})")
    s.line("fill_bytes(table, 255, ishl(8, bits))")
    s.line("mask = ishl(1, bits) - 1")
    s.line("shift = 64 - bits")
    with s.block("for e in range(count):"):
        s.line(f"g = int(ld_any(found_p, e)) * ({GOLDEN})")
        s.line("to = (g >> shift) & mask")
        with s.block("while ld_any(table_p, to) >= 0:"):
            s.line("to = (to + 1) & mask")
        s.line(f"st_any(table_p, to, (e << 32) | (g & {_LOW}))")


@bounded("Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2")
def _unique(spec: NodeSpec) -> BoundedCall:
    x = spec.inputs[0]
    if len(x.shape) != 1 or x.dtype.name not in INDEX or x.size > _MOST_VALUES:
        raise Unsupported(f"distinct values of {x.dtype.name} of rank {len(x.shape)}")
    if spec.op.endswith("V2") and spec.inputs[1].shape != (0,):
        axis = spec.constants.get(1)
        if axis is None or np.shape(axis) != (1,) or int(axis[0]) not in (0, -1):
            raise Unsupported("the axis is not known while planning")
    total, counts = x.shape[0], "Counts" in spec.op
    place = TensorSpec(spec.attrs["out_idx"], x.shape)
    bits = max((2 * total - 1).bit_length(), 1)
    outputs = (x, place, *((place,) if counts else ()))
    words: tuple[Word, ...] = (
        total, bits, Pointer("temp", 0), Pointer("in", 0),
        *(Pointer("out", k) for k in range(len(outputs))),
    )  # fmt: skip
    source = unique_source(INDEX[x.dtype.name], INDEX[place.dtype.name], counts)
    cost = cost_model.FIXED_NS + _VALUE_NS * total
    return BoundedCall(
        Launch(source, words, cost_ns=cost),
        outputs,
        counted=(0, 2) if counts else (0,),
        temp_bytes=(8 << bits,),
    )
