"""Steps of reductions for generated text; only the compiler process imports this module.

A float sum vectorises only if its additions may be reordered. That licence stands on these additions alone: everything else in the
loop keeps the graph's order.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def add_any_order(tyctx: Any, total: Any, value: Any) -> Any:
    """total + value (floats of one type), where the order of the additions of a loop does not matter."""
    if not isinstance(total, types.Float) or total != value:
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return builder.fadd(a[0], a[1], flags=("reassoc",))

    return total(total, total), emit


@intrinsic
def multiply_any_order(tyctx: Any, product: Any, value: Any) -> Any:
    """product * value (floats of one type), where the order of the multiplications of a loop does not matter."""
    if not isinstance(product, types.Float) or product != value:
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return builder.fmul(a[0], a[1], flags=("reassoc",))

    return product(product, product), emit
