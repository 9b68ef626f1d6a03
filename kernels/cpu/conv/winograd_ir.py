"""Emit the transforms of Winograd convolution as LLVM vector IR.

Only the compiler process imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tfjit.kernels.cpu.gemm.micro_kernels_ir import (
    VectorBuilder,
    call_address,
    intrinsic_of,
    loop,
    over_vectors,
)

_I64 = ir.IntType(64)
_ARITY = 9
Matrix = Sequence[Sequence[float]]
call_winograd = call_address(_ARITY)


def _const(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _combined(v: VectorBuilder, row: Sequence[float], values: Sequence[ir.Value]) -> ir.Value:
    """Return the sum of row[i] * values[i].

    A coefficient of 1 or -1 costs no multiplication.
    """
    total: ir.Value | None = None
    # a positive term first, so that the sum does not begin with a negation
    for factor, value in sorted(
        ((f, x) for f, x in zip(row, values, strict=True) if f), key=lambda term: term[0] < 0
    ):
        if total is None:
            total = value if factor == 1 else v.b.fmul(value, v.splat_of(factor))
        elif factor == 1:
            total = v.b.fadd(total, value)
        elif factor == -1:
            total = v.b.fsub(total, value)
        else:
            total = v.fma(value, v.splat_of(factor), total)
    assert total is not None, "a row of zeros"
    return total


def _both_sides(
    v: VectorBuilder, matrix: Matrix, square: Sequence[Sequence[ir.Value]]
) -> list[list[ir.Value]]:
    """Return matrix @ square @ matrix.T, of vectors."""
    left = [
        [_combined(v, row, [line[c] for line in square]) for c in range(len(square))]
        for row in matrix
    ]
    return [[_combined(v, row, line) for row in matrix] for line in left]


def input_transform(kind: str, lanes: int, matrix: Matrix, fused: bool = True) -> Any:
    """Emit v[i, j][c] = (matrix @ d @ matrix.T)[i, j].

    d is the patch d[r, s] = x[r, s][c], for all channels c. Arguments: x, row_step, pixel_step, v,
    position_step, channels, and three that are not used. Steps are bytes.
    """
    size = len(matrix)

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, row_step, pixel_step, target, position_step, channels = args[:6]
        v = VectorBuilder(b, kind, lanes, fused)
        places = [
            [b.add(b.mul(row_step, _const(r)), b.mul(pixel_step, _const(c))) for c in range(size)]
            for r in range(size)
        ]

        def vector(offset: ir.Value, mask: ir.Value | None) -> None:
            at = b.add(x, offset)
            patch = [
                [
                    v.load(b.add(at, place))
                    if mask is None
                    else v.masked_load(b.add(at, place), mask)
                    for place in line
                ]
                for line in places
            ]
            out = b.add(target, offset)
            for value in (value for line in _both_sides(v, matrix, patch) for value in line):
                if mask is None:
                    v.store(value, out)
                else:
                    v.masked_store(value, out, mask)
                out = b.add(out, position_step)

        over_vectors(v, channels, vector)

    return intrinsic_of(_ARITY, emit)


def output_transform(kind: str, lanes: int, matrix: Matrix, fused: bool = True) -> Any:
    """Emit y[i, j][k] = (matrix @ m @ matrix.T)[i, j].

    m is the products m[r, s][k], for i < rows, j < cols and all k < columns. Arguments: m,
    position_step, y, row_step, pixel_step, rows, cols, columns, flag. The int64 at `flag` becomes 1
    when a value is NaN or infinite, also one that is not stored.
    """
    size, results = len(matrix[0]), len(matrix)

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        m, position_step, y, row_step, pixel_step, rows, cols, columns, flag = args
        v = VectorBuilder(b, kind, lanes, fused)
        inside = {
            (r, c): b.and_(b.icmp_signed(">", rows, _const(r)), b.icmp_signed(">", cols, _const(c)))
            for r in range(results)
            for c in range(results)
        }

        def vector(offset: ir.Value, mask: ir.Value | None) -> None:
            at = b.add(m, offset)
            products = []
            for _ in range(size * size):
                products.append(v.load(at) if mask is None else v.masked_load(at, mask))
                at = b.add(at, position_step)
            found = _both_sides(
                v, matrix, [products[i * size : (i + 1) * size] for i in range(size)]
            )
            odd = v.splat_of(0)
            for r, line in enumerate(found):
                for c, value in enumerate(line):
                    # 0, or NaN from the first NaN or infinity on
                    odd = v.fma(value, v.splat_of(0), odd)
                    place = b.add(
                        b.add(y, offset),
                        b.add(b.mul(row_step, _const(r)), b.mul(pixel_step, _const(c))),
                    )
                    with b.if_then(inside[r, c], likely=True):
                        if mask is None:
                            v.store(value, place)
                        else:
                            v.masked_store(value, place, mask)
            lanes_of = ir.IntType(lanes)
            some = b.icmp_unsigned(
                "!=",
                b.bitcast(b.fcmp_unordered("uno", odd, odd), lanes_of),
                ir.Constant(lanes_of, 0),
            )
            with b.if_then(some, likely=False):
                b.store(_const(1), b.inttoptr(flag, _I64.as_pointer()))

        over_vectors(v, columns, vector)

    return intrinsic_of(_ARITY, emit)


def direct_pixel(kind: str, lanes: int, size: int, fused: bool = True) -> Any:
    """Emit the plain form of one pixel.

    y[k] = sum over r, s < size and channels c of x[r, s][c] * w[r, s, c][k], for all k < columns.
    Arguments: x, row_step, pixel_step, w, w_step, channels, y, columns, and one that is not used.
    w_step: bytes from one w[r, s, c] to the next.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, row_step, pixel_step, w, w_step, channels, y, columns, _ = args
        v = VectorBuilder(b, kind, lanes, fused)

        def vector(offset: ir.Value, mask: ir.Value | None) -> None:
            state = [b.add(w, offset), v.splat_of(0)]
            for r in range(size):
                for c in range(size):
                    at = b.add(x, b.add(b.mul(row_step, _const(r)), b.mul(pixel_step, _const(c))))
                    state = loop(b, channels, [at, *state], _tap(v, w_step, mask))[1:]
            if mask is None:
                v.store(state[1], b.add(y, offset))
            else:
                v.masked_store(state[1], b.add(y, offset), mask)

        over_vectors(v, columns, vector)

    return intrinsic_of(_ARITY, emit)


def _tap(
    v: VectorBuilder, w_step: ir.Value, mask: ir.Value | None
) -> Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]:
    def body(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
        at, w_at, acc = state
        weights = v.load(w_at) if mask is None else v.masked_load(w_at, mask)
        return [
            v.b.add(at, _const(v.size)),
            v.b.add(w_at, w_step),
            v.fma(v.broadcast(at), weights, acc),
        ]

    return body
