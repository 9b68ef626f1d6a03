"""Multiply a matrix and a vector, with the matrix read in place.

Rows are multiplied by dot products, or columns as a sum of rows. Nothing is packed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, TensorSpec
from tfjit.kernels.source import KernelSource, Source

_KINDS: Final = {"float32": "f32", "float64": "f64"}
_DOTS: Final = 4
"""Rows in one pass over the vector."""
_SUMMED: Final = 8
"""Rows added in one pass over the result."""
_STEP: Final = 16  # columns of a chunk come in multiples of this many elements


def is_matvec(node: NodeSpec, known: Collection[int]) -> bool:
    """Return whether a MatMul is a matrix-vector product.

    known: inputs known while planning. A known matrix is packed then, and a row is multiplied
    faster by a packed matrix.
    """
    a, b = node.inputs[:2]
    if (
        a.dtype.name not in _KINDS
        or b.dtype is not a.dtype
        or len(a.shape) != 2
        or len(b.shape) != 2
    ):
        return False
    m = a.shape[1 if node.attrs.get("transpose_a") else 0]
    n = b.shape[0 if node.attrs.get("transpose_b") else 1]
    return n == 1 or (m == 1 and 1 not in known)


def matvec_call(node: NodeSpec) -> NativeCall:
    """Return the call of a MatMul for which `is_matvec` holds."""
    a, b, out = node.inputs[0], node.inputs[1], node.outputs[0]
    by_column = out.shape[1] == 1  # True: a times a column. False: a row times b.
    matrix, index = (a, 0) if by_column else (b, 1)
    # True if a row of the matrix in memory is multiplied with the whole vector.
    along_rows = (
        not node.attrs.get("transpose_a") if by_column else bool(node.attrs.get("transpose_b"))
    )
    return _call(matrix, index, along_rows, out)


def _call(matrix: TensorSpec, index: int, along_rows: bool, out: TensorSpec) -> NativeCall:
    rows, columns = matrix.shape
    kind, size = _KINDS[matrix.dtype.name], matrix.dtype.size
    cost = cost_model.FIXED_NS + max(
        cost_model.traffic_ns(matrix.nbytes), rows * columns * size / 64
    )
    launch = Launch(
        _dots(kind, size) if along_rows else _sums(kind, size),
        (rows, columns, Pointer("in", index), Pointer("in", 1 - index), Pointer("out", 0)),
        chunks=cost_model.chunks_for(cost, max(1, (rows if along_rows else columns) // _STEP)),
        cost_ns=cost,
    )
    return NativeCall((launch,), bytes_moved=matrix.nbytes + out.nbytes, flops=2 * rows * columns)


def _begin(title: str, kind: str) -> Source:
    """Begin a kernel with words rows, columns, matrix, vector, result."""
    s = Source()
    s.line(f"# {title} {kind}")
    s.line("from numba import float32, float64")
    s.line()
    s.line("from tfjit.kernels.codegen.accumulate import add_any_order")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    return s


def _dots(kind: str, size: int) -> KernelSource:
    """Write out[i] = sum over j of matrix[i, j] vector[j].

    A chunk is a run of rows.
    """
    s = _begin("dot products of rows", kind)
    zero = f"{'float32' if size == 4 else 'float64'}(0)"

    def rows(first: str, count: int) -> None:
        for k in range(count):
            s.line(f"p{k} = ptr_{kind}(matrix + ({first} + {k}) * columns * {size})")
            s.line(f"s{k} = {zero}")
        with s.block("for j in range(columns):"):
            s.line("x = ld(v, j)")
            for k in range(count):
                s.line(f"s{k} = add_any_order(s{k}, ld(p{k}, j) * x)")
        for k in range(count):
            s.line(f"st(out, {first} + {k}, s{k})")

    with s.block("def kernel(args, chunk, nchunks):"):
        s.line("rows, columns, matrix = word(args, 2), word(args, 3), word(args, 4)")
        s.line(f"v, out = ptr_{kind}(word(args, 5)), ptr_{kind}(word(args, 6))")
        s.line("lo = rows * chunk // nchunks")
        s.line("count = rows * (chunk + 1) // nchunks - lo")
        with s.block(f"for g in range(count // {_DOTS}):"):
            s.line(f"at = lo + {_DOTS} * g")
            rows("at", _DOTS)
        s.line(f"first = lo + count // {_DOTS} * {_DOTS}")
        with s.block(f"for g in range(count % {_DOTS}):"):
            s.line("at = first + g")
            rows("at", 1)
    return KernelSource(s.text(), title=f"dot products of rows {kind}", module=__name__)


def _sums(kind: str, size: int) -> KernelSource:
    """Write out[j] = sum over i of vector[i] matrix[i, j].

    A chunk is a run of columns.
    """
    s = _begin("sum of scaled rows", kind)
    zero = f"{'float32' if size == 4 else 'float64'}(0)"

    def rows(first: str, count: int) -> None:
        for k in range(count):
            s.line(f"p{k} = ptr_{kind}(matrix + (({first} + {k}) * columns + lo) * {size})")
            s.line(f"x{k} = ld(v, {first} + {k})")
        terms = [f"ld(p{k}, j) * x{k}" for k in range(count)]
        while len(terms) > 1:  # add in pairs: short chains of additions
            terms = [f"({' + '.join(terms[k : k + 2])})" for k in range(0, len(terms), 2)]
        with s.block("for j in range(count):"):
            s.line(f"st_out(out, j, ld_out(out, j, 0) + {terms[0]}, 0)")

    with s.block("def kernel(args, chunk, nchunks):"):
        s.line("rows, columns, matrix = word(args, 2), word(args, 3), word(args, 4)")
        s.line(f"parts = (columns + {_STEP - 1}) // {_STEP}")
        s.line(f"lo = parts * chunk // nchunks * {_STEP}")
        s.line(f"count = min(parts * (chunk + 1) // nchunks * {_STEP}, columns) - lo")
        s.line(f"v, out = ptr_{kind}(word(args, 5)), ptr_{kind}(word(args, 6) + lo * {size})")
        with s.block("for j in range(count):"):
            s.line(f"st_out(out, j, {zero}, 0)")
        with s.block(f"for g in range(rows // {_SUMMED}):"):
            s.line(f"at = {_SUMMED} * g")
            rows("at", _SUMMED)
        s.line(f"first = rows // {_SUMMED} * {_SUMMED}")
        with s.block(f"for g in range(rows % {_SUMMED}):"):
            s.line("at = first + g")
            rows("at", 1)
    return KernelSource(s.text(), title=f"sum of scaled rows {kind}", module=__name__)
