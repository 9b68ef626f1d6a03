"""Build elementwise arithmetic of a sparse tensor with a dense one."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import write_imports
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

_DTYPES: Final = (d.float32, d.float64, d.int32, d.int64)
_SCALAR_OPS: Final = {
    "SparseDenseCwiseAdd": "AddV2",
    "SparseDenseCwiseMul": "Mul",
    "SparseDenseCwiseDiv": "RealDiv",
}
_MAX_RANK: Final = 8
_ENTRY_NS: Final = 1.0
_OUTSIDE: Final = "Provided indices are out-of-bounds w.r.t. dense side with broadcasted shape"


def values_with_dense_source(op: str, dtype: DType, rank: int) -> KernelSource:
    """Write a scalar op over sparse values and dense elements.

    A value meets the dense element at its place.

    Words: entries, indices [entries, rank], values, dense, output, `rank` sizes, and `rank` strides
    of the dense tensor in elements, 0 along broadcast axes. A chunk computes some entries.
    """
    s = Source()
    write_imports(s, f"{op} of {dtype.name} values of rank {rank} and a dense tensor")
    names = ["total", "indices", "values", "dense", "out"]
    names += [f"size{k}" for k in range(rank)] + [f"stride{k}" for k in range(rank)]
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(names):
            s.line(f"{name} = word(args, {2 + k})")
        s.line("first = total * chunk // nchunks")
        s.line("count = total * (chunk + 1) // nchunks - first")
        s.line(f"index_p = ptr_i64(indices + {8 * rank} * first)")
        for name in ("values", "out"):
            address = f"{name} + first * {dtype.size}"
            s.line(f"{name}_p = {typed_pointers.pointer(dtype, address)}")
        s.line(f"dense_p = {typed_pointers.pointer(dtype, 'dense')}")
        s.line("bad = 0")
        with s.block("for u in range(count):"):
            for k in range(rank):
                s.line(f"k{k} = ld(index_p, u * {rank} + {k})")
                s.line(f"bad |= int(k{k} < 0) | int(k{k} >= size{k})")
        with s.block("if bad != 0:"):
            s.line("fail(args, 1, 0)")
            s.line("return")
        with s.block("for u in range(count):"):
            place = " + ".join(f"ld(index_p, u * {rank} + {k}) * stride{k}" for k in range(rank))
            s.line(f"x = {expressions.loaded(dtype, 'ld(values_p, u)')}")
            s.line(f"y = {expressions.loaded(dtype, f'ld(dense_p, {place})')}")
            value = expressions.emit_op(op, ("x", "y"), (dtype, dtype), dtype)
            s.line(f"st(out_p, u, {expressions.stored(dtype, value)})")
    return KernelSource(s.text(), title="sparse values with dense", module=__name__)


@native(*_SCALAR_OPS)
def _values_with_dense(spec: NodeSpec) -> NativeCall:
    indices, values, _, dense = spec.inputs
    dtype, op = values.dtype, _SCALAR_OPS[spec.op]
    if dtype not in _DTYPES or (op == "RealDiv" and dtype.is_integer):
        raise Unsupported(f"{spec.op} of {dtype.name}")
    if 2 not in spec.constants:
        raise Unsupported("the sparse tensor's shape is not known while planning")
    sizes = np.asarray(spec.constants[2]).tolist()
    rank = len(sizes)
    apart = rank - len(dense.shape)
    if (
        not 0 < rank <= _MAX_RANK
        or apart < 0
        or indices.shape != (*values.shape, rank)
        or len(values.shape) != 1
        or any(n not in (1, m) for n, m in zip(dense.shape, sizes[apart:], strict=True))
    ):
        raise Unsupported("shapes do not fit")
    strides, step = [0] * rank, 1
    for k in reversed(range(len(dense.shape))):
        strides[apart + k] = step if dense.shape[k] > 1 else 0
        step *= dense.shape[k]
    moved = indices.nbytes + 3 * values.nbytes
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(moved) + _ENTRY_NS * values.size
    words: tuple[Word, ...] = (
        values.size, Pointer("in", 0), Pointer("in", 1), Pointer("in", 3), Pointer("out", 0),
        *sizes, *strides,
    )  # fmt: skip
    launch = Launch(
        values_with_dense_source(op, dtype, rank),
        words,
        chunks=cost_model.chunks_for(cost, values.size),
        cost_ns=cost,
        errors={1: ("InvalidArgumentError", _OUTSIDE)},
    )
    return NativeCall((launch,), in_place=((0, 1),), bytes_moved=moved)
