"""Emit the steps of reductions for generated text.

Only the compiler process imports this module. A float sum vectorises only if its additions may be
reordered, and a maximum is fast only if the sign of a zero is left open. Only these steps carry
such flags: all other operations in the loop keep the graph's order.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def add_any_order(tyctx: Any, total: Any, value: Any) -> Any:
    """Return total + value, where additions may be reordered.

    The operands are floats of one type; the order of a loop's additions does not matter.
    """
    if not isinstance(total, types.Float) or total != value:
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return builder.fadd(a[0], a[1], flags=("reassoc",))

    return total(total, total), emit


@intrinsic
def multiply_any_order(tyctx: Any, product: Any, value: Any) -> Any:
    """Return product * value, where multiplications may be reordered.

    The operands are floats of one type; the order of a loop's multiplications does not matter.
    """
    if not isinstance(product, types.Float) or product != value:
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return builder.fmul(a[0], a[1], flags=("reassoc",))

    return product(product, product), emit


def _extreme(name: str, a: Any, b: Any) -> Any:
    if not isinstance(a, types.Float) or a != b:
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, v: Any) -> ir.Value:
        llty = ctx.get_value_type(a)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(llty, [llty] * 2), f"llvm.{name}.f{a.bitwidth}"
        )
        return builder.call(function, v, fastmath=("nsz",))

    return a(a, a), emit


@intrinsic
def maximum_any_zero(tyctx: Any, top: Any, value: Any) -> Any:
    """Return the larger of two floats, NaN if either is NaN.

    Of +0 and -0 either may be returned, which halves the time of a loop.
    """
    return _extreme("maximum", top, value)


@intrinsic
def minimum_any_zero(tyctx: Any, top: Any, value: Any) -> Any:
    """Return the smaller of two floats, NaN if either is NaN.

    Of +0 and -0 either may be returned.
    """
    return _extreme("minimum", top, value)
