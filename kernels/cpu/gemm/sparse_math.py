"""Build products of a sparse and a dense matrix."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

_INDEX: Final = {"int32": "i32", "int64": "i64"}
_DTYPES: Final = (d.float32, d.float64, d.int32)
_CHUNKS: Final = 8
"""Most chunks of a product: each chunk reads all indices."""
_ENTRY_NS: Final = 3.0
_REPORT_BYTES: Final = 16


class EntryMessage(str):
    """TensorFlow's message for an entry outside a sparse matrix.

    The detail is the address of [the entry's number, its index].
    """

    letter: str
    place: int
    limit: int

    def __new__(cls, letter: str, place: int, limit: int) -> EntryMessage:
        made = super().__new__(cls, f"an index is out of bounds (>={limit})")
        made.letter, made.place, made.limit = letter, place, limit
        return made

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        address = int(str(kwargs["detail"]))
        entry, index = (ctypes.c_int64 * 2).from_address(address)
        return (
            f"{self.letter} ({index}) from index[{entry},{self.place}] out of bounds "
            f"(>={self.limit})"
        )


def product_source(dtype: DType, index: str, adjoint: bool) -> KernelSource:
    """Write a product of a sparse and a dense matrix.

    Words: entries, columns, rows, inner size, report memory, indices [entries, 2], values, dense
    [inner size, columns], output [rows, columns]. A chunk computes some rows of the output.
    """
    s = Source()
    kind = "adjoint sparse" if adjoint else "sparse"
    s.line(f"# {kind} matrix of {dtype.name} by {index}, times a dense matrix")
    for line in (*expressions.IMPORTS, "from tfjit.kernels.codegen.intrinsics import *", "", ""):
        s.line(line)
    size = dtype.size
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(
            ("total", "columns", "rows", "inner", "reports", "indices", "values", "dense", "out")
        ):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"report = reports + chunk * {_REPORT_BYTES}")
        s.line(f"index_p = ptr_{index}(indices)")
        s.line(f"value_p = {typed_pointers.pointer(dtype, 'values')}")
        s.line("lo = rows * chunk // nchunks")
        s.line("hi = rows * (chunk + 1) // nchunks")
        s.line(f"row_bytes = columns * {size}")
        s.line("fill_bytes(out + lo * row_bytes, 0, (hi - lo) * row_bytes)")
        s.line("failed = 0")
        with s.block("for u in range(total):"):
            row, column = (1, 0) if adjoint else (0, 1)
            s.line(f"m = int(ld(index_p, 2 * u + {row}))")
            s.line(f"k = int(ld(index_p, 2 * u + {column}))")
            for code, name, limit in ((1, "k", "inner"), (2, "m", "rows")):
                with (
                    s.block(f"{'if' if code == 1 else 'elif'} {name} < 0 or {name} >= {limit}:"),
                    s.block("if failed == 0:"),
                ):
                    s.line(f"failed = {code}")
                    s.line("store_word(report, u)")
                    s.line(f"store_word(report + 8, {name})")
            with s.block("elif m >= lo and m < hi:"):
                s.line(f"scale = {expressions.loaded(dtype, 'ld(value_p, u)')}")
                s.line(f"d_p = {typed_pointers.pointer(dtype, 'dense + k * row_bytes')}")
                s.line(f"t_p = {typed_pointers.pointer(dtype, 'out + m * row_bytes')}")
                with s.block("for i in range(columns):"):
                    s.line(f"v = {expressions.loaded(dtype, 'ld(d_p, i)')}")
                    s.line(f"t = {expressions.loaded(dtype, 'ld_out(t_p, i, 0)')}")
                    pair = (dtype, dtype)
                    s.line(f"p = {expressions.emit_op('Mul', ('scale', 'v'), pair, dtype)}")
                    value = expressions.emit_op("AddV2", ("t", "p"), pair, dtype)
                    s.line(f"st_out(t_p, i, {expressions.stored(dtype, value)}, 0)")
        for code in (1, 2):
            with s.block(f"{'if' if code == 1 else 'elif'} failed == {code}:"):
                s.line(f"fail(args, {code}, report)")
    return KernelSource(s.text(), title="sparse product", module=__name__)


@native("SparseTensorDenseMatMul")
def _sparse_dense_matmul(spec: NodeSpec) -> NativeCall:
    indices, values, shape, dense = spec.inputs
    out = spec.outputs[0]
    adjoint = bool(spec.attrs["adjoint_a"])
    if spec.attrs["adjoint_b"]:
        raise Unsupported("the dense matrix is transposed")
    if values.dtype not in _DTYPES or indices.dtype.name not in _INDEX:
        raise Unsupported(f"{values.dtype.name} by {indices.dtype.name}")
    if 2 not in spec.constants:
        raise Unsupported("the sparse matrix's shape is not known while planning")
    sizes = np.asarray(spec.constants[2]).tolist()
    row, column = (1, 0) if adjoint else (0, 1)
    if (
        shape.shape != (2,)
        or indices.shape != (*values.shape, 2)
        or len(dense.shape) != 2
        or dense.shape[0] != sizes[column]
        or out.shape != (sizes[row], dense.shape[1])
    ):
        raise Unsupported("shapes do not fit")
    columns = dense.shape[1]
    entry_ns = _ENTRY_NS + cost_model.traffic_ns(3 * columns * values.dtype.size)
    traffic = out.nbytes + indices.nbytes + values.nbytes
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(traffic) + entry_ns * values.size
    chunks = cost_model.chunks_for(cost, max(1, min(sizes[row], _CHUNKS)))
    words = (
        values.size, columns, sizes[row], sizes[column], Pointer("temp", 0), Pointer("in", 0),
        Pointer("in", 1), Pointer("in", 3), Pointer("out", 0),
    )  # fmt: skip
    kind = "InvalidArgumentError"
    errors = {
        1: (kind, EntryMessage("k", column, sizes[column])),
        2: (kind, EntryMessage("m", row, sizes[row])),
    }
    source = product_source(values.dtype, _INDEX[indices.dtype.name], adjoint)
    launch = Launch(source, words, chunks=chunks, cost_ns=cost, errors=errors)
    return NativeCall(
        (launch,),
        temp_bytes=(_REPORT_BYTES * chunks,),
        bytes_moved=traffic + values.size * columns * values.dtype.size,
        flops=2 * values.size * columns,
    )
