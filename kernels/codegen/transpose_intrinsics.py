"""Transpose blocks in registers for generated text.

The text uses it for operands that are contiguous along different dims, and imports it by name. Only
the compiler process imports this module: it needs Numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tfjit.kernels.codegen.transpose_text import block_side

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _transposed_square(builder: ir.IRBuilder, rows: list[ir.Value]) -> list[ir.Value]:
    """Return the transpose of a square of vectors.

    Interleaving the first half of an array with its second half rotates the bits of each element's
    index by one; log2(side) rotations exchange row and column.
    """
    side = len(rows)
    pairs = [n for k in range(side) for n in (k, side + k)]
    low, high = (
        ir.Constant(ir.VectorType(_I32, side), half) for half in (pairs[:side], pairs[side:])
    )
    for _ in range(side.bit_length() - 1):
        mixed: list[ir.Value] = []
        for first, second in zip(rows[: side // 2], rows[side // 2 :]):
            mixed += [
                builder.shuffle_vector(first, second, low),
                builder.shuffle_vector(first, second, high),
            ]
        rows = mixed
    return rows


def _row(
    builder: ir.IRBuilder, address: ir.Value, step: ir.Value, number: int, kind: ir.Type
) -> ir.Value:
    return builder.inttoptr(
        builder.add(address, builder.mul(step, ir.Constant(_I64, number))), kind.as_pointer()
    )


def _first(builder: ir.IRBuilder, count: ir.Value, side: int) -> ir.Value:
    """Return the lanes below `count`, as a mask."""
    lanes = ir.VectorType(_I64, side)
    spread = builder.insert_element(ir.Constant(lanes, ir.Undefined), count, ir.Constant(_I32, 0))
    spread = builder.shuffle_vector(
        spread, ir.Constant(lanes, ir.Undefined), ir.Constant(ir.VectorType(_I32, side), [0] * side)
    )
    return builder.icmp_signed("<", ir.Constant(lanes, list(range(side))), spread)


def _kept(builder: ir.IRBuilder, number: int, limit: ir.Value, count: ir.Value) -> ir.Value:
    """Return `count` for a row below the limit, else 0."""
    return builder.select(
        builder.icmp_signed("<", ir.Constant(_I64, number), limit), count, ir.Constant(_I64, 0)
    )


@intrinsic
def turn(
    tyctx: Any, dst: Any, dst_step: Any, src: Any, src_step: Any, rows: Any, columns: Any, size: Any
) -> Any:
    """Transpose a block of at most block_side(size) rows and columns.

    Element dst + r * dst_step + c * size is set to the one at src + c * src_step + r * size, for r
    < rows and c < columns. size, the element's bytes, is a literal. Nothing else is read or
    written. Makes no promise about aliases.
    """
    if not isinstance(size, types.IntegerLiteral):
        return None
    width = int(size.literal_value)
    side = block_side(width)
    element = ir.IntType(8 * width)
    kind = ir.VectorType(element, side)
    lanes = ir.VectorType(ir.IntType(1), side)

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        to, to_step, of, of_step, height, length = a[:6]
        full = ir.Constant(_I64, side)
        whole = builder.and_(
            builder.icmp_signed(">=", height, full), builder.icmp_signed(">=", length, full)
        )
        with builder.if_else(whole, likely=True) as (then, otherwise):
            with then:
                block = [
                    builder.load(_row(builder, of, of_step, c, kind), align=1) for c in range(side)
                ]
                for r, value in enumerate(_transposed_square(builder, block)):
                    builder.store(value, _row(builder, to, to_step, r, kind), align=1)
            with otherwise:
                suffix = f"v{side}i{8 * width}.p0"
                load_kind = ir.FunctionType(kind, [kind.as_pointer(), _I32, lanes, kind])
                store_kind = ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), _I32, lanes])
                load = cgutils.get_or_insert_function(
                    builder.module, load_kind, f"llvm.masked.load.{suffix}"
                )
                store = cgutils.get_or_insert_function(
                    builder.module, store_kind, f"llvm.masked.store.{suffix}"
                )
                nothing = ir.Constant(kind, None)
                part = []
                for c in range(side):
                    mask = _first(builder, _kept(builder, c, length, height), side)
                    part.append(
                        builder.call(
                            load,
                            [
                                _row(builder, of, of_step, c, kind),
                                ir.Constant(_I32, 1),
                                mask,
                                nothing,
                            ],
                        )
                    )
                for r, value in enumerate(_transposed_square(builder, part)):
                    mask = _first(builder, _kept(builder, r, height, length), side)
                    builder.call(
                        store,
                        [value, _row(builder, to, to_step, r, kind), ir.Constant(_I32, 1), mask],
                    )
        return ctx.get_dummy_value()

    return types.void(
        types.intp, types.intp, types.intp, types.intp, types.intp, types.intp, size
    ), emit


__all__ = ["turn"]
