"""Emit the micro-kernel of filter gradients.

It sums outer products over a box of pixels; both operands are read in place. For the compiler
process only, like micro_kernels_ir.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir

from tfjit.kernels.cpu.gemm.micro_kernels_ir import VectorBuilder, call_address, intrinsic_of, loop

OUTER_ARGUMENTS: Final = 15
_UNROLL: Final = 2


def outer_tile(kind: str, lanes: int, height: int, vectors: int, masked: bool, fused: bool) -> Any:
    """Emit c[height][ncols] (+)= sum of outer products of pixels.

    The sum runs over images i, rows r, columns q of x[i, r, q, :height] by y[i, r, q, :ncols].
    Arguments: x, x_image, x_row, x_step, y, y_image, y_row, y_step, images, rows, columns, c,
    stride_c, ncols, accumulate; the strides are in bytes, the elements of x and of y contiguous.
    masked: ncols may be less than vectors * lanes; y is not read and c not written beyond.
    accumulate: 0 stores the sum, otherwise adds it to c. Small tiles get several accumulators, or
    the FMA's latency would show.
    """
    sets = next(n for n in (1, 2, 4) if n == 4 or height * vectors * n >= 8)

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        (
            x,
            x_image,
            x_row,
            x_step,
            y,
            y_image,
            y_row,
            y_step,
            images,
            rows,
            columns,
            c,
            stride_c,
            ncols,
            accumulate,
        ) = args
        v = VectorBuilder(b, kind, lanes, fused)
        tile = height * vectors
        word = ir.IntType(64)

        def const(value: int) -> ir.Constant:
            return ir.Constant(word, value)

        masks = (
            [v.mask(b.sub(ncols, const(j * lanes))) for j in range(vectors)]
            if masked
            else [None] * vectors
        )

        def read(address: ir.Value, j: int) -> ir.Value:
            mask = masks[j]
            return (
                v.load(address, j * v.bytes)
                if mask is None
                else v.masked_load(address, mask, j * v.bytes)
            )

        def steps(count: int) -> Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]:
            def body(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
                x_at, y_at, *acc = state
                for u in range(count):
                    given = [read(y_at, j) for j in range(vectors)]
                    first = (u % sets) * tile
                    for r in range(height):
                        value = v.broadcast(x_at, r * v.size)
                        for j in range(vectors):
                            n = first + r * vectors + j
                            acc[n] = v.fma(value, given[j], acc[n])
                    x_at, y_at = b.add(x_at, x_step), b.add(y_at, y_step)
                return [x_at, y_at, *acc]

            return body

        quads, rest = b.sdiv(columns, const(_UNROLL)), b.srem(columns, const(_UNROLL))

        def image(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
            def row(_: ir.Value, inner: list[ir.Value]) -> Sequence[ir.Value]:
                acc = loop(b, quads, inner, steps(_UNROLL))
                acc = loop(b, rest, acc, steps(1))[2:]
                return [b.add(inner[0], x_row), b.add(inner[1], y_row), *acc]

            acc = loop(b, rows, state, row)[2:]
            return [b.add(state[0], x_image), b.add(state[1], y_image), *acc]

        sums = loop(b, images, [x, y, *[v.splat_of(0)] * (tile * sets)], image)[2:]
        while len(sums) > tile:
            half = len(sums) // 2
            sums = [b.fadd(p, q) for p, q in zip(sums[:half], sums[half:], strict=True)]
        with b.if_else(b.icmp_signed("!=", accumulate, const(0))) as (more, new):
            for branch in (more, new):
                with branch:
                    for r in range(height):
                        at = b.add(c, b.mul(stride_c, const(r)))
                        for j, mask in enumerate(masks):
                            value = sums[r * vectors + j]
                            if branch is more:
                                value = b.fadd(read(at, j), value)
                            if mask is None:
                                v.store(value, at, j * v.bytes)
                            else:
                                v.masked_store(value, at, mask, j * v.bytes)

    return intrinsic_of(OUTER_ARGUMENTS, emit)


call_outer = call_address(OUTER_ARGUMENTS)
