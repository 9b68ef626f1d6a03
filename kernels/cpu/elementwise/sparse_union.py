"""Build sums and extremes of two sparse tensors.

Their sorted coordinates are merged.
"""

from __future__ import annotations

import functools
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import write_imports
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

_DTYPES: Final = (d.float32, d.float64, d.int32, d.int64)
_MAX_RANK: Final = 4
_ENTRY_NS: Final = 5.0
_WORDS: Final = (
    "count_a", "count_b", "a", "a_values", "a_shape", "b", "b_values", "b_shape", "out",
    "out_values",
)  # fmt: skip


def _value(op: str, x: str, y: str) -> str:
    if op == "SparseAdd":
        return f"{x} + {y}"
    sign = ">=" if op == "SparseSparseMaximum" else "<="
    return f"select({x} != {x} or {x} {sign} {y}, {x}, {y})"


def _sorts_before(x: str, y: str, rank: int) -> str:
    text = f"{x}{rank - 1} < {y}{rank - 1}"
    for k in reversed(range(rank - 1)):
        text = f"{x}{k} < {y}{k} or ({x}{k} == {y}{k} and ({text}))"
    return text


@functools.cache
def union_source(op: str, dtype: DType, rank: int) -> KernelSource:
    """Write the merge of two lists of coordinates with their values.

    Words: those of _WORDS; of a sum the threshold (an address) and the output's shape. A sum below
    the threshold is left out. A coordinate that one tensor lacks is 0 there. The detail is the
    number of results, -1 where the reference tells of an error.
    """
    adds = op == "SparseAdd"
    s = Source()
    write_imports(s, f"{op} of {dtype.name}, rank {rank}")
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(_WORDS):
            s.line(f"{name} = word(args, {2 + k})")
        for name in ("a", "a_shape", "b", "b_shape", "out"):
            s.line(f"{name}_p = ptr_i64({name})")
        for name in ("a_values", "b_values", "out_values"):
            s.line(f"{name}_p = {typed_pointers.pointer(dtype, name)}")
        s.line(f"zero = {dtype.name}(0)")
        s.line("bad = 0")
        for k in range(rank):
            s.line(f"size{k} = ld(a_shape_p, {k})")
            s.line(f"bad |= int(size{k} != ld(b_shape_p, {k}))")
        if adds:
            next_word = 2 + len(_WORDS)
            pointer = typed_pointers.pointer(dtype, f"word(args, {next_word})")
            s.line(f"threshold = ld({pointer}, 0)")
            for k in range(rank):
                s.line(f"st_any(ptr_i64(word(args, {next_word + 1})), {k}, size{k})")
        else:
            for name in ("a", "b"):
                with s.block(f"for i in range(count_{name}):"):
                    for k in range(rank):
                        s.line(f"at = ld({name}_p, i * {rank} + {k})")
                        s.line(f"bad |= int(at < 0) | int(at >= size{k})")
        s.line("i = 0")
        s.line("j = 0")
        s.line("count = 0")
        with s.block("while bad == 0 and (i < count_a or j < count_b):"):
            s.line("from_a = i < count_a")
            s.line("from_b = j < count_b")
            with s.block("if from_a and from_b:"):
                for k in range(rank):
                    s.line(f"x{k} = ld(a_p, i * {rank} + {k})")
                    s.line(f"y{k} = ld(b_p, j * {rank} + {k})")
                s.line(f"from_b = not ({_sorts_before('x', 'y', rank)})")
                s.line(f"from_a = not ({_sorts_before('y', 'x', rank)})")
            s.line("kept = 1")
            with s.block("if from_a:"):
                _write_coordinates(s, "a_p", "i", rank)
                s.line("value = ld(a_values_p, i)")
                s.line("i += 1")
                with s.block("if from_b:"):
                    s.line("other = ld(b_values_p, j)")
                    s.line("j += 1")
                    s.line(f"value = {dtype.name}({_value(op, 'value', 'other')})")
                    if adds:
                        s.line("size = select(value < zero, -value, value)")
                        s.line(f"kept = int({dtype.name}(size) >= threshold)")
                if not adds:
                    with s.block("else:"):
                        s.line(f"value = {_value(op, 'value', 'zero')}")
            with s.block("else:"):
                _write_coordinates(s, "b_p", "j", rank)
                s.line("value = ld(b_values_p, j)")
                if not adds:
                    s.line(f"value = {_value(op, 'zero', 'value')}")
                s.line("j += 1")
            s.line("st_out(out_values_p, count, value, 1)")
            s.line("count += kept")
        s.line("store_word(args + 8, count if bad == 0 else -1)")
    return KernelSource(s.text(), title=f"{op} {dtype.name}", module=__name__)


def _write_coordinates(s: Source, source: str, at: str, rank: int) -> None:
    for k in range(rank):
        s.line(f"st(out_p, count * {rank} + {k}, ld({source}, {at} * {rank} + {k}))")


@bounded("SparseAdd", "SparseSparseMaximum", "SparseSparseMinimum")
def _union(spec: NodeSpec) -> BoundedCall:
    a, a_values, a_shape, b, b_values, b_shape = spec.inputs[:6]
    dtype = a_values.dtype
    if dtype not in _DTYPES or b_values.dtype is not dtype:
        raise Unsupported(f"{spec.op} of {dtype.name}")
    if len(a.shape) != 2 or not 0 < a.shape[1] <= _MAX_RANK:
        raise Unsupported("shapes do not fit: the reference tells")
    rank = a.shape[1]
    shapes = [(t.shape[0], rank) for t in (a_values, b_values) if len(t.shape) == 1]
    if shapes != [a.shape, b.shape] or not a_shape.shape == b_shape.shape == (rank,):
        raise Unsupported("shapes do not fit: the reference tells")
    most = a.shape[0] + b.shape[0]
    words: list[Word] = [a.shape[0], b.shape[0], *(Pointer("in", k) for k in range(6))]
    words += [Pointer("out", 0), Pointer("out", 1)]
    outputs = [TensorSpec(d.int64, (most, rank)), TensorSpec(dtype, (most,))]
    if spec.op == "SparseAdd":
        threshold = spec.inputs[6]
        if threshold.shape != () or threshold.dtype is not dtype:
            raise Unsupported("shapes do not fit: the reference tells")
        words += [Pointer("in", 6), Pointer("out", 2)]
        outputs.append(TensorSpec(d.int64, (rank,)))
    cost = cost_model.FIXED_NS + _ENTRY_NS * most
    launch = Launch(union_source(spec.op, dtype, rank), tuple(words), cost_ns=cost)
    return BoundedCall(launch, tuple(outputs), counted=(0, 1))
