"""Emit arithmetic with a given rounding or width."""

from __future__ import annotations

import operator

from llvmlite import ir
from numba.core import types
from numba.cuda.extending import intrinsic, lower_builtin  # type: ignore[attr-defined]

from tfjit.kernels.cuda.template.intrinsic_emission import (
    F32,
    I32,
    I64,
    Context,
    Type,
    Typed,
    Values,
    call,
)


def _division(bits: int, remainder: bool) -> Typed:
    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        divide = builder.urem if remainder else builder.udiv
        if bits == 64:
            return divide(a[0], a[1])
        return builder.zext(divide(builder.trunc(a[0], I32), builder.trunc(a[1], I32)), I64)

    return types.int64(types.int64, types.int64), emit


@intrinsic
def div_u32(tyctx: object, a: Type, b: Type) -> Typed:
    """Return the quotient of two numbers from 0 to 2^32 - 1."""
    return _division(32, False)


@intrinsic
def rem_u32(tyctx: object, a: Type, b: Type) -> Typed:
    """Return the remainder of two numbers from 0 to 2^32 - 1."""
    return _division(32, True)


@intrinsic
def div_u64(tyctx: object, a: Type, b: Type) -> Typed:
    """Return the quotient of two numbers that are not negative."""
    return _division(64, False)


@intrinsic
def rem_u64(tyctx: object, a: Type, b: Type) -> Typed:
    """Return the remainder of two numbers that are not negative."""
    return _division(64, True)


def _bits(source: Type, target: Type) -> Typed:
    return target(source), lambda ctx, builder, sig, a: builder.bitcast(
        a[0], ctx.get_value_type(target)
    )


@intrinsic
def bits_f32(tyctx: object, bits: Type) -> Typed:
    """Return int32 bits as a float32."""
    return _bits(types.int32, types.float32)


@intrinsic
def f32_bits(tyctx: object, value: Type) -> Typed:
    """Return a float32 as int32 bits."""
    return _bits(types.float32, types.int32)


@intrinsic
def bits_f64(tyctx: object, bits: Type) -> Typed:
    """Return int64 bits as a float64."""
    return _bits(types.int64, types.float64)


@intrinsic
def f64_bits(tyctx: object, value: Type) -> Typed:
    """Return a float64 as int64 bits."""
    return _bits(types.float64, types.int64)


def _rounded_product(ctx: Context, builder: ir.IRBuilder, sig: object, args: Values) -> ir.Value:
    """Emit a product that is never contracted, in Numba's place."""
    kind = args[0].type
    return call(builder, kind, f"llvm.nvvm.mul.rn.{'f' if kind == F32 else 'd'}", list(args))


for _operation in (operator.mul, operator.imul):
    for _float in (types.float32, types.float64):
        lower_builtin(_operation, _float, _float)(_rounded_product)


@intrinsic
def fma(tyctx: object, a: Type, b: Type, c: Type) -> Typed:
    """Return a * b + c with one rounding."""
    if not isinstance(a, types.Float):
        return None

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, args: Values) -> ir.Value:
        return call(builder, args[0].type, f"llvm.fma.f{a.bitwidth}", list(args))

    return a(a, a, a), emit


@intrinsic
def select(tyctx: object, condition: Type, x: Type, y: Type) -> Typed:
    """Return x if the condition holds, else y, without a branch.

    x, y: of one type.
    """
    if x != y:
        return None
    return x(types.boolean, x, x), lambda ctx, builder, sig, a: builder.select(a[0], a[1], a[2])


def _integer_operation(a: Type, name: str) -> Typed:
    if not isinstance(a, types.Integer):
        return None
    return a(a, a), lambda ctx, builder, sig, args: getattr(builder, name)(*args)


@intrinsic
def iadd(tyctx: object, a: Type, b: Type) -> Typed:
    """Return a + b in the type of a, which wraps."""
    return _integer_operation(a, "add")


@intrinsic
def imul(tyctx: object, a: Type, b: Type) -> Typed:
    """Return a * b in the type of a, which wraps."""
    return _integer_operation(a, "mul")


@intrinsic
def iand(tyctx: object, a: Type, b: Type) -> Typed:
    """Return a & b in the type of a."""
    return _integer_operation(a, "and_")


@intrinsic
def ixor(tyctx: object, a: Type, b: Type) -> Typed:
    """Return a ^ b in the type of a."""
    return _integer_operation(a, "xor")


@intrinsic
def ishr(tyctx: object, a: Type, b: Type) -> Typed:
    """Return a >> b in the type of a, with its sign."""
    return _integer_operation(a, "ashr")
