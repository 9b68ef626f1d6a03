"""Emit transposes and softmax's column steps on blocks of columns.

A block's columns are held in the lanes of a few vectors. Only the compiler process imports this
module: it needs Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tfjit.kernels.cpu.gemm.micro_kernels_ir import VectorBuilder, intrinsic_of, loop

_I1, _I32, _I64 = (ir.IntType(bits) for bits in (1, 32, 64))


def _const(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _transposed(b: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the columns of a square matrix of n vectors.

    A vector has n lanes. Blocks of 1, 2, 4 ... lanes change places.
    """
    n = len(rows)
    out = list(rows)
    step = 1
    while step < n:
        low = [e if not e & step else n + e - step for e in range(n)]
        high = [e + step if not e & step else n + e for e in range(n)]
        for i in range(n):
            if not i & step:
                x, y = out[i], out[i + step]
                out[i], out[i + step] = (
                    b.shuffle_vector(x, y, ir.Constant(ir.VectorType(_I32, n), order))
                    for order in (low, high)
                )
        step *= 2
    return out


def transpose_block(kind: str, lanes: int) -> Any:
    """Emit dst[c][r] = src[r][c] for r < width and c < columns.

    src has `rows` rows; rows below them count as zero. Arguments: src, src_stride, dst, dst_stride,
    rows, columns, width; strides in bytes, rows, columns and width at most `lanes`; rows may be 0
    or negative. No element beyond rows and columns is read, none beyond width and columns written.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        src, src_stride, dst, dst_stride, rows, columns, width = args
        v = VectorBuilder(b, kind, lanes)
        sources = [b.add(src, b.mul(src_stride, _const(r))) for r in range(lanes)]
        places = [b.add(dst, b.mul(dst_stride, _const(c))) for c in range(lanes)]
        none = ir.Constant(ir.VectorType(_I1, lanes), [0] * lanes)
        whole = b.icmp_signed(
            ">=", b.select(b.icmp_signed("<", rows, columns), rows, columns), _const(lanes)
        )
        whole = b.and_(whole, b.icmp_signed(">=", width, _const(lanes)))
        with b.if_else(whole) as (full, part):
            with full:
                for value, place in zip(
                    _transposed(b, [v.load(at) for at in sources]), places, strict=True
                ):
                    v.store(value, place)
            with part:
                read, written = v.mask(columns), v.mask(width)
                masks = [
                    b.select(b.icmp_signed("<", _const(r), rows), read, none) for r in range(lanes)
                ]
                values = _transposed(
                    b, [v.masked_load(at, mask) for at, mask in zip(sources, masks, strict=True)]
                )
                for c, (value, place) in enumerate(zip(values, places, strict=True)):
                    v.masked_store(
                        value,
                        place,
                        b.select(b.icmp_signed("<", _const(c), columns), written, none),
                    )

    return intrinsic_of(7, emit)


def column_reduce(kind: str, lanes: int, vectors: int, op: str) -> Any:
    """Emit total[c] = sum or maximum over rows of x[p][c].

    It runs over rows p < count for vectors * lanes columns of a packed x; NaN stays NaN. Arguments:
    x, count, total; both addresses vector-aligned. op: "sum", or "max", which is -inf for no rows.
    Sums are taken in blocks, so that their error does not grow with the number of rows.
    """
    unroll = 4
    block = 128  # rows in a block of a sum

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, count, total = args
        v = VectorBuilder(b, kind, lanes)
        row_bytes = vectors * v.bytes
        largest = v.function(f"llvm.maximum.v{lanes}{kind}", v.type, [v.type, v.type])
        start = v.splat_of(0) if op == "sum" else v.splat_of(float("-inf"))

        def join(a: ir.Value, c: ir.Value) -> ir.Value:
            return b.fadd(a, c) if op == "sum" else b.call(largest, [a, c])

        def steps(n: int) -> Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]:
            def body(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
                at, *acc = state
                for u in range(n):
                    for j in range(vectors):
                        acc[u * vectors + j] = join(
                            acc[u * vectors + j],
                            v.load(at, u * row_bytes + j * v.bytes, align=v.bytes),
                        )
                return [b.add(at, _const(n * row_bytes)), *acc]

            return body

        def some(i: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
            at, *whole = state
            left = b.sub(count, b.mul(i, _const(block)))
            rows = b.select(b.icmp_signed("<", left, _const(block)), left, _const(block))
            inner = [at, *[start] * (unroll * vectors)]
            inner = loop(b, b.sdiv(rows, _const(unroll)), inner, steps(unroll))
            at, *acc = loop(b, b.srem(rows, _const(unroll)), inner, steps(1))
            while len(acc) > vectors:
                half = len(acc) // 2
                acc = [join(p, q) for p, q in zip(acc[:half], acc[half:], strict=True)]
            return [at, *(join(p, q) for p, q in zip(whole, acc, strict=True))]

        blocks = b.sdiv(b.add(count, _const(block - 1)), _const(block))
        for j, value in enumerate(loop(b, blocks, [x, *[start] * vectors], some)[1:]):
            v.store(value, total, j * v.bytes, align=v.bytes)

    return intrinsic_of(3, emit)


def column_combine(kind: str, lanes: int, vectors: int, op: str) -> Any:
    """Emit x[p][c] - t[c] ("sub") or x[p][c] / t[c] ("div"), in place.

    It runs over rows p < count of vectors * lanes columns. Arguments: x, count, t; both addresses
    vector-aligned. LLVM unrolls a loop over so few columns into scalars instead.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, count, t = args
        v = VectorBuilder(b, kind, lanes)
        others = [v.load(t, j * v.bytes, align=v.bytes) for j in range(vectors)]

        def row(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
            (at,) = state
            for j, other in enumerate(others):
                value = v.load(at, j * v.bytes, align=v.bytes)
                value = b.fsub(value, other) if op == "sub" else b.fdiv(value, other)
                v.store(value, at, j * v.bytes, align=v.bytes)
            return [b.add(at, _const(vectors * v.bytes))]

        loop(b, count, [x], row)

    return intrinsic_of(3, emit)
