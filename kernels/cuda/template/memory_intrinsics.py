"""Emit pointers, access to one element of memory, and atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir
from numba import (
    boolean,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from numba.core import types
from numba.cuda.extending import intrinsic

from tfjit.kernels.cuda.template.intrinsic_emission import (
    GLOBAL,
    I8,
    I64,
    Context,
    Type,
    Typed,
    Values,
    call,
)

_SHARED: Final = 3  # address space


def _pointer_maker(kind: str, dtype: Type) -> object:
    pointer = types.CPointer(dtype)

    def typing(tyctx: object, address: Type) -> Typed:
        def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
            return builder.inttoptr(a[0], ctx.get_value_type(pointer))

        return pointer(types.int64), emit

    typing.__name__ = f"ptr_{kind}"
    return intrinsic(typing)


def _shared_maker(kind: str, dtype: Type) -> object:
    pointer = types.CPointer(dtype)

    def typing(tyctx: object, n: Type) -> Typed:
        if not isinstance(n, types.IntegerLiteral):
            return None  # Numba calls again with the literal type

        def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
            item = ctx.get_data_type(dtype)
            array = ir.GlobalVariable(
                builder.module,
                ir.ArrayType(item, n.literal_value),
                builder.module.get_unique_name(f"shared_{kind}"),
                _SHARED,
            )
            array.linkage = "internal"
            array.align = 16
            array.initializer = ir.Constant(array.type.pointee, ir.Undefined)
            zero = ir.Constant(I64, 0)
            return builder.addrspacecast(builder.gep(array, [zero, zero]), item.as_pointer())

        return pointer(n), emit

    typing.__name__ = f"shared_{kind}"
    return intrinsic(typing)


_KINDS: Final[dict[str, Type]] = {
    "f32": float32, "f64": float64, "i8": int8, "i16": int16, "i32": int32, "i64": int64,
    "u8": uint8, "u16": uint16, "u32": uint32, "u64": uint64, "b8": boolean, "c64": complex64,
    "c128": complex128,
}  # fmt: skip
for _kind, _dtype in _KINDS.items():
    globals()[f"ptr_{_kind}"] = _pointer_maker(_kind, _dtype)
    globals()[f"shared_{_kind}"] = _shared_maker(_kind, _dtype)


def in_global(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """Return a pointer as one into global memory."""
    return builder.addrspacecast(pointer, ir.PointerType(pointer.type.pointee, GLOBAL))


def _same(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    # the compiler finds the address space of a shared array by itself
    return pointer


Space = Callable[[ir.IRBuilder, ir.Value], ir.Value]


def read_only_load(builder: ir.IRBuilder, load: ir.Instruction, read_only: bool) -> ir.Instruction:
    """Return a load; `read_only` lets it go through the read-only cache."""
    if read_only:
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


def _loader(p: Type, space: Space, read_only: bool = False) -> Typed:
    if not isinstance(p, types.CPointer):
        return None
    ty = p.dtype

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        if isinstance(ty, types.Complex):
            part = ctx.get_value_type(ty.underlying_float)
            base = builder.bitcast(builder.gep(a[0], [a[1]]), part.as_pointer())
            base = space(builder, base)
            value = ctx.make_complex(builder, ty)
            value.real = read_only_load(builder, builder.load(base), read_only)
            second = builder.gep(base, [ir.Constant(I64, 1)])
            value.imag = read_only_load(builder, builder.load(second), read_only)
            return value._getvalue()
        pointer = builder.gep(space(builder, a[0]), [a[1]])
        value = read_only_load(builder, builder.load(pointer), read_only)
        if isinstance(ty, types.Boolean):
            return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
        return value

    return ty(p, types.int64), emit


def _storer(p: Type, space: Space) -> Typed:
    if not isinstance(p, types.CPointer):
        return None
    ty = p.dtype

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        if isinstance(ty, types.Complex):
            part = ctx.get_value_type(ty.underlying_float)
            base = builder.bitcast(builder.gep(a[0], [a[1]]), part.as_pointer())
            base = space(builder, base)
            pair = ctx.make_complex(builder, ty, a[2])
            builder.store(pair.real, base)
            builder.store(pair.imag, builder.gep(base, [ir.Constant(I64, 1)]))
            return ctx.get_dummy_value()
        value = builder.zext(a[2], I8) if isinstance(ty, types.Boolean) else a[2]
        builder.store(value, builder.gep(space(builder, a[0]), [a[1]]))
        return ctx.get_dummy_value()

    return types.void(p, types.int64, ty), emit


@intrinsic
def ld(tyctx: object, p: Type, i: Type) -> Typed:
    """Return element i of p in global memory."""
    return _loader(p, in_global)


@intrinsic
def ld_ro(tyctx: object, p: Type, i: Type) -> Typed:
    """Return element i of p, memory that no thread writes meanwhile."""
    return _loader(p, in_global, read_only=True)


@intrinsic
def ld_shared(tyctx: object, p: Type, i: Type) -> Typed:
    """Return element i of a shared array."""
    return _loader(p, _same)


@intrinsic
def st(tyctx: object, p: Type, i: Type, v: Type) -> Typed:
    """Store v, cast to the element type, at element i of p."""
    return _storer(p, in_global)


@intrinsic
def st_shared(tyctx: object, p: Type, i: Type, v: Type) -> Typed:
    """Store v at element i of a shared array."""
    return _storer(p, _same)


def _atomic(p: Type, v: Type, operation: str) -> Typed:
    if not isinstance(p, types.CPointer):
        return None
    ty = p.dtype

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        pointer = builder.gep(a[0], [a[1]])
        if isinstance(ty, types.Float):
            if operation == "add":
                name = f"llvm.nvvm.atomic.load.add.f{ty.bitwidth}.p0f{ty.bitwidth}"
            else:
                # numba-cuda replaces the declaration by a loop
                name = f"___numba_atomic_{'float' if ty.bitwidth == 32 else 'double'}_{operation}"
            call(builder, ctx.get_value_type(ty), name, [pointer, a[2]])
        else:
            kind = operation if operation == "add" or ty.signed else f"u{operation}"
            builder.atomic_rmw(kind, pointer, a[2], "monotonic")
        return ctx.get_dummy_value()

    return types.void(p, types.int64, ty), emit


@intrinsic
def atomic_add(tyctx: object, p: Type, i: Type, v: Type) -> Typed:
    """Add v to element i of p, of 32 or 64 bits."""
    return _atomic(p, v, "add")


@intrinsic
def atomic_max(tyctx: object, p: Type, i: Type, v: Type) -> Typed:
    """Raise element i of p to at least v.

    NaN is not kept.
    """
    return _atomic(p, v, "max")


@intrinsic
def atomic_min(tyctx: object, p: Type, i: Type, v: Type) -> Typed:
    """Lower element i of p to at most v.

    NaN is not kept.
    """
    return _atomic(p, v, "min")
