"""Emit the places of threads, their barrier, and exchange within a warp."""

from __future__ import annotations

from typing import Final

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import Signature
from numba.cuda.extending import intrinsic

from tfjit.kernels.cuda.template.intrinsic_emission import (
    F32,
    F64,
    I1,
    I32,
    I64,
    Context,
    Emit,
    Type,
    Typed,
    Values,
    call,
)

_WARP_MASK: Final = 0xFFFFFFFF


def _special_register(name: str) -> tuple[Signature, Emit]:
    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        value = call(builder, I32, f"llvm.nvvm.read.ptx.sreg.{name}", [])
        return builder.zext(value, I64)

    return types.int64(), emit


@intrinsic
def thread(tyctx: object) -> Typed:
    """Return the number of the thread in its block."""
    return _special_register("tid.x")


@intrinsic
def block(tyctx: object) -> Typed:
    """Return the number of the block in the grid."""
    return _special_register("ctaid.x")


@intrinsic
def threads(tyctx: object) -> Typed:
    """Return the number of threads of a block."""
    return _special_register("ntid.x")


@intrinsic
def blocks(tyctx: object) -> Typed:
    """Return the number of blocks of the grid."""
    return _special_register("nctaid.x")


@intrinsic
def thread_y(tyctx: object) -> Typed:
    """Return the thread's index along y in its block."""
    return _special_register("tid.y")


@intrinsic
def block_y(tyctx: object) -> Typed:
    """Return the block's index along y in the grid."""
    return _special_register("ctaid.y")


@intrinsic
def block_z(tyctx: object) -> Typed:
    """Return the block's index along z in the grid."""
    return _special_register("ctaid.z")


@intrinsic
def unit(tyctx: object) -> Typed:
    """Return the number of the thread in the grid."""

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        number, size, index = (
            _special_register(name)[1](ctx, builder, sig, a)
            for name in ("ctaid.x", "ntid.x", "tid.x")
        )
        return builder.add(builder.mul(number, size), index)

    return types.int64(), emit


@intrinsic
def units(tyctx: object) -> Typed:
    """Return the number of threads of the grid."""

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        number, size = (
            _special_register(name)[1](ctx, builder, sig, a) for name in ("nctaid.x", "ntid.x")
        )
        return builder.mul(number, size)

    return types.int64(), emit


@intrinsic
def advance(tyctx: object, u: Type, step: Type) -> Typed:
    """Return u + step, a thread's next index in a grid-stride loop.

    The compiler cannot see through it: to unroll the loop it would divide for the trip count, which
    takes longer than the few iterations of a thread.
    """

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        kind = ir.FunctionType(I64, [I64, I64])
        return builder.call(ir.InlineAsm(kind, "add.s64 $0, $1, $2;", "=l,l,l"), a)

    return types.int64(types.int64, types.int64), emit


@intrinsic
def sync_threads(tyctx: object) -> Typed:
    """Wait for all threads of the block."""

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        call(builder, ir.VoidType(), "llvm.nvvm.barrier0", [])
        return ctx.get_dummy_value()

    return types.void(), emit


def _shuffled(builder: ir.IRBuilder, bits: ir.Value, lane: ir.Value, mode: int) -> ir.Value:
    """Shuffle an integer of 32 or 64 bits."""
    if bits.type.width == 64:
        high = builder.trunc(builder.lshr(bits, ir.Constant(I64, 32)), I32)
        low = _shuffled(builder, builder.trunc(bits, I32), lane, mode)
        high = builder.zext(_shuffled(builder, high, lane, mode), I64)
        return builder.or_(builder.shl(high, ir.Constant(I64, 32)), builder.zext(low, I64))
    args = [
        ir.Constant(I32, _WARP_MASK),
        ir.Constant(I32, mode),
        bits,
        lane,
        ir.Constant(I32, 31),
    ]
    pair = call(builder, ir.LiteralStructType((I32, I1)), "llvm.nvvm.shfl.sync.i32", args)
    return builder.extract_value(pair, 0)


def _shuffle(v: Type, mode: int) -> Typed:
    def one(builder: ir.IRBuilder, value: ir.Value, lane: ir.Value) -> ir.Value:
        kind = value.type
        if kind in (F32, F64):
            bits = builder.bitcast(value, I32 if kind == F32 else I64)
            return builder.bitcast(_shuffled(builder, bits, lane, mode), kind)
        if kind.width < 32:
            wide = _shuffled(builder, builder.zext(value, I32), lane, mode)
            return builder.trunc(wide, kind)
        return _shuffled(builder, value, lane, mode)

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        lane = builder.trunc(a[1], I32)
        if isinstance(v, types.Complex):
            pair = ctx.make_complex(builder, v, a[0])
            pair.real, pair.imag = one(builder, pair.real, lane), one(builder, pair.imag, lane)
            return pair._getvalue()
        return one(builder, a[0], lane)

    return v(v, types.int64), emit


@intrinsic
def shuffle_xor(tyctx: object, v: Type, mask: Type) -> Typed:
    """Return v of the warp's thread at the own number ^ mask.

    All threads of the block call it.
    """
    return _shuffle(v, 3)


@intrinsic
def shuffle_down(tyctx: object, v: Type, distance: Type) -> Typed:
    """Return v of the thread that is `distance` behind in the warp.

    Without one, the own v. All threads of the block call it.
    """
    return _shuffle(v, 2)
