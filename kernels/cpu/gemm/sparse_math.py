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
_MAX_CHUNKS: Final = 8
_COLUMN_BYTES: Final = 128
"""Least bytes of a row of which each chunk gets some columns.

Each of these chunks reads all entries.
"""
_ENTRY_NS: Final = 3.0
_CHECK_NS: Final = 1.0
_NOTE_BYTES: Final = 32
"""Bytes of a chunk's note on its entries.

A note is [a wrong entry or -1, its index, the error, whether the rows fall].
"""


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

    The entry `check` looks at the places first.

    Words: entries, columns, rows, inner size, memory for notes, indices [entries, 2], values, dense
    [inner size, columns], output [rows, columns]. A chunk of `check` reads some of the entries. A
    chunk of `kernel` computes some rows of the output if the entries are in order of these, else
    some columns.
    """
    s = Source()
    kind = "adjoint sparse" if adjoint else "sparse"
    s.line(f"# {kind} matrix of {dtype.name} by {index}, times a dense matrix")
    for line in (*expressions.IMPORTS, "from tfjit.kernels.codegen.intrinsics import *", "", ""):
        s.line(line)
    with s.block("def check(args, chunk, nchunks):"):
        _write_check(s, index, adjoint)
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        _write_words(s, index)
        _write_report(s)
        _write_division(s, dtype, adjoint)
        _write_products(s, dtype, adjoint)
    return KernelSource(
        s.text(), entries=("check", "kernel"), title="sparse product", module=__name__
    )


def _write_words(s: Source, index: str) -> None:
    names = ("total", "columns", "rows", "inner", "notes", "indices", "values", "dense", "out")
    for k, name in enumerate(names):
        s.line(f"{name} = word(args, {2 + k})")
    s.line(f"index_p = ptr_{index}(indices)")


def _write_entry(s: Source, entry: str, adjoint: bool) -> None:
    row, column = (1, 0) if adjoint else (0, 1)
    s.line(f"m = int(ld(index_p, 2 * ({entry}) + {row}))")
    s.line(f"k = int(ld(index_p, 2 * ({entry}) + {column}))")


def _write_check(s: Source, index: str, adjoint: bool) -> None:
    """Write a note on the entries of a chunk."""
    _write_words(s, index)
    s.line("first = total * chunk // nchunks")
    s.line("count = total * (chunk + 1) // nchunks - first")
    s.line("bad = 0")
    s.line("falls = 0")
    with s.block("for u in range(count):"):
        _write_entry(s, "first + u", adjoint)
        s.line("bad |= int(m < 0) | int(m >= rows) | int(k < 0) | int(k >= inner)")
    s.line("begin = max(first, 1)")
    with s.block("for u in range(first + count - begin):"):
        at, before = (_row(f"begin + u{back}", adjoint) for back in ("", " - 1"))
        s.line(f"falls |= int({at} < {before})")
    s.line("store_word(notes, nchunks)")
    s.line(f"note = notes + 8 + chunk * {_NOTE_BYTES}")
    s.line("store_word(note, -1)")
    s.line("store_word(note + 24, falls)")
    with s.block("if bad != 0:"), s.block("for u in range(count):"):
        _write_entry(s, "first + u", adjoint)
        for code, name, limit in ((1, "k", "inner"), (2, "m", "rows")):
            with s.block(f"if {name} < 0 or {name} >= {limit}:"):
                s.line("store_word(note, first + u)")
                s.line(f"store_word(note + 8, {name})")
                s.line(f"store_word(note + 16, {code})")
                s.line("break")


def _write_report(s: Source) -> None:
    """Report the first wrong entry; set `falls`."""
    s.line("falls = 0")
    with s.block("for c in range(load_word(notes)):"):
        s.line(f"note = notes + 8 + c * {_NOTE_BYTES}")
        s.line("falls |= load_word(note + 24)")
        with s.block("if load_word(note) >= 0:"):
            with s.block("if load_word(note + 16) == 1:"):
                s.line("fail(args, 1, note)")
            with s.block("else:"):
                s.line("fail(args, 2, note)")
            s.line("return")


def _write_division(s: Source, dtype: DType, adjoint: bool) -> None:
    """Name the entries, rows and columns of a chunk."""
    for name, value in (
        ("begin", "0"), ("end", "total"), ("lo", "0"), ("hi", "rows"), ("first", "0"),
        ("width", "columns"),
    ):  # fmt: skip
        s.line(f"{name} = {value}")
    with s.block("if nchunks > 1 and falls == 0:"):
        for name, part in (("begin", "chunk"), ("end", "(chunk + 1)")):
            s.line(f"{name} = total * {part} // nchunks")
            at, before = (_row(f"{name}{back}", adjoint) for back in ("", " - 1"))
            with s.block(f"while {name} > 0 and {name} < total and {at} == {before}:"):
                s.line(f"{name} += 1")
        with s.block("if begin > 0:"):
            s.line(f"lo = {_row('begin - 1', adjoint)} + 1")
        with s.block("if end < total:"):
            s.line("hi = 0")
            with s.block("if end > 0:"):
                s.line(f"hi = {_row('end - 1', adjoint)} + 1")
    with s.block("elif nchunks > 1:"):
        s.line(f"parts = max(1, min(nchunks, columns * {dtype.size} // {_COLUMN_BYTES}))")
        with s.block("if chunk >= parts:"):
            s.line("return")
        s.line("first = columns * chunk // parts")
        s.line("width = columns * (chunk + 1) // parts - first")


def _row(entry: str, adjoint: bool) -> str:
    return f"int(ld(index_p, 2 * ({entry}) + {1 if adjoint else 0}))"


def _write_products(s: Source, dtype: DType, adjoint: bool) -> None:
    size = dtype.size
    s.line(f"value_p = {typed_pointers.pointer(dtype, 'values')}")
    s.line(f"row_bytes = columns * {size}")
    with s.block("if width == columns:"), s.block("if hi > lo:"):
        s.line("fill_bytes(out + lo * row_bytes, 0, (hi - lo) * row_bytes)")
    with s.block("else:"), s.block("for r in range(rows):"):
        s.line(f"fill_bytes(out + r * row_bytes + first * {size}, 0, width * {size})")
    with s.block("for e in range(end - begin):"):
        s.line("u = begin + e")
        _write_entry(s, "u", adjoint)
        s.line(f"scale = {expressions.loaded(dtype, 'ld(value_p, u)')}")
        for name, base, row in (("d_p", "dense", "k"), ("t_p", "out", "m")):
            address = f"{base} + {row} * row_bytes + first * {size}"
            s.line(f"{name} = {typed_pointers.pointer(dtype, address)}")
        with s.block("for i in range(width):"):
            s.line(f"v = {expressions.loaded(dtype, 'ld(d_p, i)')}")
            s.line(f"t = {expressions.loaded(dtype, 'ld_out(t_p, i, 0)')}")
            pair = (dtype, dtype)
            s.line(f"p = {expressions.emit_op('Mul', ('scale', 'v'), pair, dtype)}")
            value = expressions.emit_op("AddV2", ("t", "p"), pair, dtype)
            s.line(f"st_out(t_p, i, {expressions.stored(dtype, value)}, 0)")


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
    columns, total = dense.shape[1], values.size
    entry_ns = _ENTRY_NS + cost_model.traffic_ns(3 * columns * values.dtype.size)
    traffic = out.nbytes + indices.nbytes + values.nbytes
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(traffic) + entry_ns * total
    check_cost = cost_model.FIXED_NS + cost_model.traffic_ns(indices.nbytes) + _CHECK_NS * total
    # Canonical entries are in order of the matrix's rows, not of its columns.
    limit = columns * values.dtype.size // _COLUMN_BYTES if adjoint else sizes[row]
    chunks = cost_model.chunks_for(cost, limit if limit < _MAX_CHUNKS else _MAX_CHUNKS)
    check_chunks = cost_model.chunks_for(check_cost, _MAX_CHUNKS)
    words = (
        total, columns, sizes[row], sizes[column], Pointer("temp", 0), Pointer("in", 0),
        Pointer("in", 1), Pointer("in", 3), Pointer("out", 0),
    )  # fmt: skip
    kind = "InvalidArgumentError"
    errors = {
        1: (kind, EntryMessage("k", column, sizes[column])),
        2: (kind, EntryMessage("m", row, sizes[row])),
    }
    source = product_source(values.dtype, _INDEX[indices.dtype.name], adjoint)
    check = Launch(source, words, "check", chunks=check_chunks, cost_ns=check_cost)
    product = Launch(source, words, chunks=chunks, cost_ns=cost, errors=errors)
    return NativeCall(
        (check, product),
        temp_bytes=(8 + _NOTE_BYTES * check_chunks,),
        bytes_moved=traffic + total * columns * values.dtype.size,
        flops=2 * total * columns,
    )
