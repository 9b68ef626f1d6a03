"""Emit memory access, exchange and atomics of CUDA kernels.

Kernel texts do `from tfjit.kernels.cuda.template.intrinsics import *`. Only the compiler process
imports this module: it needs numba-cuda. `simulated_intrinsics` has the same names for host memory.

Every argument of a kernel is an int64. Pointers are made of addresses, and an index counts
elements. `ld`, `st` and their vector forms are for global memory; `ld_shared` and `st_shared` for
the arrays of `shared_*`. `ld_ro` goes through the read-only cache, for memory that no thread writes
while the kernel runs. Vector forms read or write 2, 4, 8 or 16 elements of at most 16 bytes in all,
and need an address that is a multiple of these bytes.

A product of floats keeps its own rounding: the compiler never makes `a * b + c` a fused
multiply-add, so that results do not depend on the nodes that share a kernel. `fma(a, b, c)` is one.

Integer arithmetic in a text is int64 arithmetic; a 64-bit division takes about five times as long
as one of 32 bits, so there are `div_u32` and `rem_u32` for indices below 2^32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir
from numba import (
    boolean,
    complex64,
    complex128,
    cuda,
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
)  # fmt: skip
from numba.core import cgutils, types
from numba.core.base import BaseContext as Context
from numba.core.typing.templates import Signature
from numba.cuda.extending import intrinsic, lower_builtin  # type: ignore[attr-defined]

from tfjit.kernels.cuda.template.intrinsic_names import NAMES

__all__ = list(NAMES)

_I1, _I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()
_GLOBAL: Final = 1
_SHARED: Final = 3
_WARP_MASK: Final = 0xFFFFFFFF

Type = types.Type
Values = Sequence[ir.Value]
Emit = Callable[[Context, ir.IRBuilder, object, Values], ir.Value]
Typed = tuple[Signature, Emit] | None
"""Signature and emitter of an intrinsic; None for other types."""


def _call(builder: ir.IRBuilder, result: ir.Type, name: str, args: list[ir.Value]) -> ir.Value:
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def device_function(function: Callable[..., object]) -> object:
    """Let kernels of the same text call a function.

    Numba puts its statements in place of the call: to compile it by itself would take a driver.
    """
    return cuda.jit(device=True, inline="always")(function)


# threads


def _special_register(name: str) -> tuple[Signature, Emit]:
    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        value = _call(builder, _I32, f"llvm.nvvm.read.ptx.sreg.{name}", [])
        return builder.zext(value, _I64)

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
        kind = ir.FunctionType(_I64, [_I64, _I64])
        return builder.call(ir.InlineAsm(kind, "add.s64 $0, $1, $2;", "=l,l,l"), a)

    return types.int64(types.int64, types.int64), emit


@intrinsic
def sync_threads(tyctx: object) -> Typed:
    """Wait for all threads of the block."""

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        _call(builder, ir.VoidType(), "llvm.nvvm.barrier0", [])
        return ctx.get_dummy_value()

    return types.void(), emit


# memory


def _in_global(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    return builder.addrspacecast(pointer, ir.PointerType(pointer.type.pointee, _GLOBAL))


def _same(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    # the compiler finds the address space of a shared array by itself
    return pointer


Space = Callable[[ir.IRBuilder, ir.Value], ir.Value]


def _read_only(builder: ir.IRBuilder, load: ir.Instruction, read_only: bool) -> ir.Instruction:
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
            value.real = _read_only(builder, builder.load(base), read_only)
            second = builder.gep(base, [ir.Constant(_I64, 1)])
            value.imag = _read_only(builder, builder.load(second), read_only)
            return value._getvalue()
        pointer = builder.gep(space(builder, a[0]), [a[1]])
        value = _read_only(builder, builder.load(pointer), read_only)
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
            builder.store(pair.imag, builder.gep(base, [ir.Constant(_I64, 1)]))
            return ctx.get_dummy_value()
        value = builder.zext(a[2], _I8) if isinstance(ty, types.Boolean) else a[2]
        builder.store(value, builder.gep(space(builder, a[0]), [a[1]]))
        return ctx.get_dummy_value()

    return types.void(p, types.int64, ty), emit


@intrinsic
def ld(tyctx: object, p: Type, i: Type) -> Typed:
    """Return element i of p in global memory."""
    return _loader(p, _in_global)


@intrinsic
def ld_ro(tyctx: object, p: Type, i: Type) -> Typed:
    """Return element i of p, memory that no thread writes meanwhile."""
    return _loader(p, _in_global, read_only=True)


@intrinsic
def ld_shared(tyctx: object, p: Type, i: Type) -> Typed:
    """Return element i of a shared array."""
    return _loader(p, _same)


@intrinsic
def st(tyctx: object, p: Type, i: Type, v: Type) -> Typed:
    """Store v, cast to the element type, at element i of p."""
    return _storer(p, _in_global)


@intrinsic
def st_shared(tyctx: object, p: Type, i: Type, v: Type) -> Typed:
    """Store v at element i of a shared array."""
    return _storer(p, _same)


def _vector(item: ir.Type, count: int) -> ir.Type:
    """Return the type under which elements move together.

    Elements below 32 bits travel as words, since the compiler would split vectors of them.
    """
    bits = 8 * {_F32: 4, _F64: 8}.get(item, 0) or item.width
    if bits >= 32:
        return ir.VectorType(item, count)
    total = bits * count
    return ir.VectorType(_I32, total // 32) if total > 32 else ir.IntType(total)


def _packed(builder: ir.IRBuilder, values: list[ir.Value], item: ir.Type) -> list[ir.Value]:
    """Return elements below 32 bits as words.

    NVVM splits a bitcast of their vector.
    """
    if item in (_F32, _F64) or item.width >= 32:
        return values
    each = min(32 // item.width, len(values))
    word = ir.IntType(each * item.width)
    packed = []
    for start in range(0, len(values), each):
        total = builder.zext(values[start], word)
        for k in range(1, each):
            part = builder.zext(values[start + k], word)
            part = builder.shl(part, ir.Constant(word, k * item.width))
            total = builder.or_(total, part)
        packed.append(total)
    return packed


def _unpacked(builder: ir.IRBuilder, moved: ir.Value, item: ir.Type, count: int) -> list[ir.Value]:
    """Return the elements of a loaded vector; the inverse of `_packed`."""
    if isinstance(moved.type, ir.VectorType):
        words = [
            builder.extract_element(moved, ir.Constant(_I32, k)) for k in range(moved.type.count)
        ]
    else:
        words = [moved]
    if len(words) == count:
        return words
    each = count // len(words)
    word = words[0].type
    parts = []
    for value in words:
        for k in range(each):
            shifted = builder.lshr(value, ir.Constant(word, k * item.width)) if k else value
            parts.append(builder.trunc(shifted, item))
    return parts


def _at_vector(builder: ir.IRBuilder, p: ir.Value, i: ir.Value, moved: ir.Type) -> ir.Value:
    pointer = builder.gep(_in_global(builder, p), [i])
    return builder.bitcast(pointer, ir.PointerType(moved, _GLOBAL))


def _aligned(access: ir.Instruction, item: ir.Type, count: int) -> ir.Instruction:
    access.align = count * ({_F32: 4, _F64: 8}.get(item, 0) or item.width // 8)
    return access


def _vector_loader(p: Type, count: int, read_only: bool) -> Typed:
    if not isinstance(p, types.CPointer) or isinstance(p.dtype, types.Complex | types.Boolean):
        return None

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        item = ctx.get_data_type(p.dtype)
        moved = _vector(item, count)
        load = _aligned(builder.load(_at_vector(builder, a[0], a[1], moved)), item, count)
        value = _read_only(builder, load, read_only)
        return cgutils.pack_array(builder, _unpacked(builder, value, item, count))

    return types.UniTuple(p.dtype, count)(p, types.int64), emit


def _vector_storer(p: Type, values: tuple[Type, ...]) -> Typed:
    if not isinstance(p, types.CPointer) or isinstance(p.dtype, types.Complex | types.Boolean):
        return None
    count = len(values)

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        item = ctx.get_data_type(p.dtype)
        moved = _vector(item, count)
        words = _packed(builder, list(a[2:]), item)
        if isinstance(moved, ir.VectorType):
            value = ir.Constant(moved, ir.Undefined)
            for k, part in enumerate(words):
                value = builder.insert_element(value, part, ir.Constant(_I32, k))
        else:
            (value,) = words
        _aligned(builder.store(value, _at_vector(builder, a[0], a[1], moved)), item, count)
        return ctx.get_dummy_value()

    return types.void(p, types.int64, *[p.dtype] * count), emit


@intrinsic
def ld_vec2(tyctx: object, p: Type, i: Type) -> Typed:
    """Return elements i and i + 1 of p by one load."""
    return _vector_loader(p, 2, False)


@intrinsic
def ld_vec4(tyctx: object, p: Type, i: Type) -> Typed:
    """Return 4 elements of p from i on by one load."""
    return _vector_loader(p, 4, False)


@intrinsic
def ld_vec8(tyctx: object, p: Type, i: Type) -> Typed:
    """Return 8 elements of p from i on by one load."""
    return _vector_loader(p, 8, False)


@intrinsic
def ld_vec16(tyctx: object, p: Type, i: Type) -> Typed:
    """Return 16 elements of p from i on by one load."""
    return _vector_loader(p, 16, False)


@intrinsic
def ld_ro_vec2(tyctx: object, p: Type, i: Type) -> Typed:
    """Return `ld_vec2` of memory that no thread writes."""
    return _vector_loader(p, 2, True)


@intrinsic
def ld_ro_vec4(tyctx: object, p: Type, i: Type) -> Typed:
    """Return `ld_vec4` of memory that no thread writes."""
    return _vector_loader(p, 4, True)


@intrinsic
def ld_ro_vec8(tyctx: object, p: Type, i: Type) -> Typed:
    """Return `ld_vec8` of memory that no thread writes."""
    return _vector_loader(p, 8, True)


@intrinsic
def ld_ro_vec16(tyctx: object, p: Type, i: Type) -> Typed:
    """Return `ld_vec16` of memory that no thread writes."""
    return _vector_loader(p, 16, True)


@intrinsic
def st_vec2(tyctx: object, p: Type, i: Type, v0: Type, v1: Type) -> Typed:
    """Store 2 values from element i of p on by one store."""
    return _vector_storer(p, (v0, v1))


@intrinsic
def st_vec4(tyctx: object, p: Type, i: Type, v0: Type, v1: Type, v2: Type, v3: Type) -> Typed:
    """Store 4 values from element i of p on by one store."""
    return _vector_storer(p, (v0, v1, v2, v3))


@intrinsic
def st_vec8(
    tyctx: object, p: Type, i: Type, v0: Type, v1: Type, v2: Type, v3: Type, v4: Type,
    v5: Type, v6: Type, v7: Type,
) -> Typed:  # fmt: skip
    """Store 8 values from element i of p on by one store."""
    return _vector_storer(p, (v0, v1, v2, v3, v4, v5, v6, v7))


@intrinsic
def st_vec16(
    tyctx: object, p: Type, i: Type, v0: Type, v1: Type, v2: Type, v3: Type, v4: Type,
    v5: Type, v6: Type, v7: Type, v8: Type, v9: Type, v10: Type, v11: Type, v12: Type,
    v13: Type, v14: Type, v15: Type,
) -> Typed:  # fmt: skip
    """Store 16 values from element i of p on by one store."""
    values = (v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13, v14, v15)
    return _vector_storer(p, values)


# pointers of each kind: `ptr_f32(address)` and `shared_f32(n)`


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
            zero = ir.Constant(_I64, 0)
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


# exchange between the threads of a warp


def _shuffled(builder: ir.IRBuilder, bits: ir.Value, lane: ir.Value, mode: int) -> ir.Value:
    """Shuffle an integer of 32 or 64 bits."""
    if bits.type.width == 64:
        high = builder.trunc(builder.lshr(bits, ir.Constant(_I64, 32)), _I32)
        low = _shuffled(builder, builder.trunc(bits, _I32), lane, mode)
        high = builder.zext(_shuffled(builder, high, lane, mode), _I64)
        return builder.or_(builder.shl(high, ir.Constant(_I64, 32)), builder.zext(low, _I64))
    args = [
        ir.Constant(_I32, _WARP_MASK),
        ir.Constant(_I32, mode),
        bits,
        lane,
        ir.Constant(_I32, 31),
    ]
    pair = _call(builder, ir.LiteralStructType((_I32, _I1)), "llvm.nvvm.shfl.sync.i32", args)
    return builder.extract_value(pair, 0)


def _shuffle(v: Type, mode: int) -> Typed:
    def one(builder: ir.IRBuilder, value: ir.Value, lane: ir.Value) -> ir.Value:
        kind = value.type
        if kind in (_F32, _F64):
            bits = builder.bitcast(value, _I32 if kind == _F32 else _I64)
            return builder.bitcast(_shuffled(builder, bits, lane, mode), kind)
        if kind.width < 32:
            wide = _shuffled(builder, builder.zext(value, _I32), lane, mode)
            return builder.trunc(wide, kind)
        return _shuffled(builder, value, lane, mode)

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        lane = builder.trunc(a[1], _I32)
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


# atomics


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
            _call(builder, ctx.get_value_type(ty), name, [pointer, a[2]])
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


# numbers


def _division(bits: int, remainder: bool) -> Typed:
    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        divide = builder.urem if remainder else builder.udiv
        if bits == 64:
            return divide(a[0], a[1])
        return builder.zext(divide(builder.trunc(a[0], _I32), builder.trunc(a[1], _I32)), _I64)

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
    return _call(builder, kind, f"llvm.nvvm.mul.rn.{'f' if kind == _F32 else 'd'}", list(args))


for _operation in (operator.mul, operator.imul):
    for _float in (types.float32, types.float64):
        lower_builtin(_operation, _float, _float)(_rounded_product)


@intrinsic
def fma(tyctx: object, a: Type, b: Type, c: Type) -> Typed:
    """Return a * b + c with one rounding."""
    if not isinstance(a, types.Float):
        return None

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, args: Values) -> ir.Value:
        return _call(builder, args[0].type, f"llvm.fma.f{a.bitwidth}", list(args))

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
