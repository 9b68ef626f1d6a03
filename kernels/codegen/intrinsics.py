"""Emit memory access, bits and atomics below Numba's own language.

Import by name in generated text, as module globals (`from tfjit.kernels.codegen.intrinsics import
ld, ptr_f32, st, word`). Only the compiler process imports this module: it needs Numba.

A loop over two inputs and one output:

    def kernel(args, chunk, nchunks):
        n = word(args, 2)                          # words 0 and 1 are status and detail
        lo = n * chunk // nchunks
        m = n * (chunk + 1) // nchunks - lo
        # the pointers are made once: inttoptr inside the loop stops the vectoriser
        x = ptr_f32(word(args, 3) + 4 * lo)
        y = ptr_f32(word(args, 4) + 4 * lo)
        o = ptr_f32(word(args, 5) + 4 * lo)
        for i in range(m):  # range(m), never range(lo, hi): that keeps wrap-around checks
            st(o, i, ld(x, i) * ld(y, i))

Aliasing. `ld` promises that no store through `st`/`st_out` in this kernel changes the element that
it reads, at any other index or earlier in program order; so loops vectorise without overlap checks.
The promise holds for buffers the kernel only reads, and for an output written over an input when
the value stored at element i is computed from the input's element i (then the load cannot move
behind the store). It does NOT hold for a buffer the kernel writes in one place and reads in
another: read those with `ld_out(p, i, k)` (same k as the stores: aliases these only) or `ld_any`,
write them with `st_out` or `st_any` (no promise). An output that does not depend on an input must
not be declared in-place over it. Outputs k = 0..15 of `st_out(p, i, v, k)` promise to be distinct
buffers; `st` is k = 0.

`st*` casts the value to the element type (int64 to int32 wraps; float to int only when in range).
Boolean elements are one byte. Index arguments are int64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_I1, _I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()
MAX_SCOPES = 16


def _scopes(module: ir.Module, numbers: list[int]) -> ir.Value:
    domain = module.add_metadata([ir.MetaDataString(module, "tfjit")])
    return module.add_metadata(
        [module.add_metadata([ir.MetaDataString(module, f"out{n}"), domain]) for n in numbers]
    )


# The memory that an access touches: None = anything; -1 = never stored to by a scope; k >= 0 =
# scope k only.
def _tag(builder: ir.IRBuilder, access: Any, scope: int | None) -> Any:
    if scope is None:
        return access
    others = [n for n in range(MAX_SCOPES) if n != scope]
    access.set_metadata("noalias", _scopes(builder.module, others))
    if scope >= 0:
        access.set_metadata("alias.scope", _scopes(builder.module, [scope]))
    return access


def _load(
    ctx: Any, builder: ir.IRBuilder, ty: Any, pointer: ir.Value, scope: int | None
) -> ir.Value:
    if isinstance(ty, types.Complex):
        part = ctx.get_value_type(ty.underlying_float)
        halves = builder.bitcast(pointer, part.as_pointer())
        value = ctx.make_complex(builder, ty)
        value.real = _tag(builder, builder.load(halves), scope)
        value.imag = _tag(
            builder, builder.load(builder.gep(halves, [ir.Constant(_I64, 1)], inbounds=True)), scope
        )
        return value._getvalue()
    value = _tag(builder, builder.load(pointer), scope)
    if isinstance(ty, types.Boolean):
        return builder.icmp_unsigned("!=", value, ir.Constant(_I8, 0))
    return value


def _store(
    ctx: Any, builder: ir.IRBuilder, ty: Any, value: ir.Value, pointer: ir.Value, scope: int | None
) -> None:
    if isinstance(ty, types.Complex):
        part = ctx.get_value_type(ty.underlying_float)
        halves = builder.bitcast(pointer, part.as_pointer())
        pair = ctx.make_complex(builder, ty, value)
        _tag(builder, builder.store(pair.real, halves), scope)
        _tag(
            builder,
            builder.store(pair.imag, builder.gep(halves, [ir.Constant(_I64, 1)], inbounds=True)),
            scope,
        )
        return
    if isinstance(ty, types.Boolean):
        value = builder.zext(value, _I8)
    _tag(builder, builder.store(value, pointer), scope)


def _element(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value) -> ir.Value:
    return builder.gep(pointer, [index], inbounds=True)


def _at_byte(builder: ir.IRBuilder, pointer: ir.Value, offset: ir.Value) -> ir.Value:
    return builder.bitcast(
        builder.gep(builder.bitcast(pointer, _I8.as_pointer()), [offset], inbounds=True),
        pointer.type,
    )


Locate = Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value]


def _loader(p: Any, scope: int | None, locate: Locate, *extra: Any) -> Any:
    if not isinstance(p, types.CPointer):
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return _load(ctx, builder, p.dtype, locate(builder, a[0], a[1]), scope)

    return p.dtype(p, types.intp, *extra), emit


def _storer(p: Any, scope: int | None, locate: Locate, *extra: Any) -> Any:
    if not isinstance(p, types.CPointer):
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        _store(ctx, builder, p.dtype, a[2], locate(builder, a[0], a[1]), scope)
        return ctx.get_dummy_value()

    return types.void(p, types.intp, p.dtype, *extra), emit


def _scope_number(k: Any) -> int | None:
    if isinstance(k, types.IntegerLiteral) and 0 <= k.literal_value < MAX_SCOPES:
        return int(k.literal_value)
    return None  # Numba calls again with the literal type


@intrinsic
def ld(tyctx: Any, p: Any, i: Any) -> Any:
    """Return element i of p, a buffer that `st` does not change.

    The module's docstring gives the exact promise.
    """
    return _loader(p, -1, _element)


@intrinsic
def ld_any(tyctx: Any, p: Any, i: Any) -> Any:
    """Return element i of p; no promise about aliases."""
    return _loader(p, None, _element)


@intrinsic
def ld_out(tyctx: Any, p: Any, i: Any, k: Any) -> Any:
    """Return element i of p, written only by `st_out` number k.

    k is a literal. The promise covers this kernel.
    """
    scope = _scope_number(k)
    return None if scope is None else _loader(p, scope, _element, k)


@intrinsic
def ld_at(tyctx: Any, p: Any, offset: Any) -> Any:
    """Return `ld`'s element at a byte offset from p (strided input)."""
    return _loader(p, -1, _at_byte)


@intrinsic
def ld_any_at(tyctx: Any, p: Any, offset: Any) -> Any:
    """Return `ld_any`'s element at a byte offset from p."""
    return _loader(p, None, _at_byte)


@intrinsic
def st(tyctx: Any, p: Any, i: Any, v: Any) -> Any:
    """Store v, cast to the element type, at element i (output 0)."""
    return _storer(p, 0, _element)


@intrinsic
def st_any(tyctx: Any, p: Any, i: Any, v: Any) -> Any:
    """Store v at element i of p; no promise about aliases."""
    return _storer(p, None, _element)


@intrinsic
def st_out(tyctx: Any, p: Any, i: Any, v: Any, k: Any) -> Any:
    """Store v at element i of p, this kernel's buffer number k.

    k is a literal, 0..15.
    """
    scope = _scope_number(k)
    return None if scope is None else _storer(p, scope, _element, k)


@intrinsic
def st_at(tyctx: Any, p: Any, offset: Any, v: Any) -> Any:
    """Store like `st`, at a byte offset from p (strided output)."""
    return _storer(p, 0, _at_byte)


@intrinsic
def st_out_at(tyctx: Any, p: Any, offset: Any, v: Any, k: Any) -> Any:
    """Store like `st_out`, at a byte offset from p."""
    scope = _scope_number(k)
    return None if scope is None else _storer(p, scope, _at_byte, k)


@intrinsic
def st_any_at(tyctx: Any, p: Any, offset: Any, v: Any) -> Any:
    """Store like `st_any`, at a byte offset from p."""
    return _storer(p, None, _at_byte)


@intrinsic
def offset_by(tyctx: Any, p: Any, nbytes: Any) -> Any:
    """Return p moved by a number of bytes."""
    if not isinstance(p, types.CPointer):
        return None
    return p(p, types.intp), lambda ctx, builder, sig, a: _at_byte(builder, a[0], a[1])


def _pointer(dtype: Any) -> Any:
    pointer = types.CPointer(dtype)

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return builder.inttoptr(a[0], ctx.get_value_type(pointer))

    return pointer(types.intp), emit


@intrinsic
def ptr_f32(tyctx: Any, address: Any) -> Any:
    """Convert an address to a float32 pointer, once, outside the loop."""
    return _pointer(types.float32)


@intrinsic
def ptr_f64(tyctx: Any, address: Any) -> Any:
    """Convert an address to a float64 pointer."""
    return _pointer(types.float64)


@intrinsic
def ptr_i8(tyctx: Any, address: Any) -> Any:
    """Convert an address to an int8 pointer."""
    return _pointer(types.int8)


@intrinsic
def ptr_i16(tyctx: Any, address: Any) -> Any:
    """Convert an address to an int16 pointer."""
    return _pointer(types.int16)


@intrinsic
def ptr_i32(tyctx: Any, address: Any) -> Any:
    """Convert an address to an int32 pointer."""
    return _pointer(types.int32)


@intrinsic
def ptr_i64(tyctx: Any, address: Any) -> Any:
    """Convert an address to an int64 pointer."""
    return _pointer(types.int64)


@intrinsic
def ptr_u8(tyctx: Any, address: Any) -> Any:
    """Convert an address to a uint8 pointer."""
    return _pointer(types.uint8)


@intrinsic
def ptr_u16(tyctx: Any, address: Any) -> Any:
    """Convert an address to a uint16 pointer.

    float16 and bfloat16 are stored under it, too.
    """
    return _pointer(types.uint16)


@intrinsic
def ptr_u32(tyctx: Any, address: Any) -> Any:
    """Convert an address to a uint32 pointer."""
    return _pointer(types.uint32)


@intrinsic
def ptr_u64(tyctx: Any, address: Any) -> Any:
    """Convert an address to a uint64 pointer."""
    return _pointer(types.uint64)


@intrinsic
def ptr_b8(tyctx: Any, address: Any) -> Any:
    """Convert an address to a boolean pointer (one byte an element)."""
    return _pointer(types.boolean)


@intrinsic
def ptr_c64(tyctx: Any, address: Any) -> Any:
    """Convert an address to a complex64 pointer."""
    return _pointer(types.complex64)


@intrinsic
def ptr_c128(tyctx: Any, address: Any) -> Any:
    """Convert an address to a complex128 pointer."""
    return _pointer(types.complex128)


def _word_pointer(
    builder: ir.IRBuilder, address: ir.Value, index: ir.Value | None = None
) -> ir.Value:
    pointer = builder.inttoptr(address, _I64.as_pointer())
    return pointer if index is None else builder.gep(pointer, [index], inbounds=True)


@intrinsic
def word(tyctx: Any, args: Any, i: Any) -> Any:
    """Return int64 word i of a constant table.

    The table (an argument block, say) must not change while the kernel runs.
    """

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        value = builder.load(_word_pointer(builder, a[0], a[1]))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    return types.intp(types.intp, types.intp), emit


@intrinsic
def load_word(tyctx: Any, address: Any) -> Any:
    """Return the int64 at an address with changing contents (state)."""
    return types.intp(types.intp), lambda ctx, builder, sig, a: builder.load(
        _word_pointer(builder, a[0])
    )


@intrinsic
def store_word(tyctx: Any, address: Any, value: Any) -> Any:
    """Write an int64 at an address."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        builder.store(a[1], _word_pointer(builder, a[0]))
        return ctx.get_dummy_value()

    return types.void(types.intp, types.intp), emit


@intrinsic
def fail(tyctx: Any, args: Any, code: Any, detail: Any) -> Any:
    """Set status and detail of the argument block.

    Keep the call out of hot loops: remember the index, and fail once at the end.
    """

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        builder.store(a[2], _word_pointer(builder, a[0], ir.Constant(_I64, 1)))
        builder.store(a[1], _word_pointer(builder, a[0]))
        return ctx.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), emit


def _bits(source: Any, target: Any) -> Any:
    return target(source), lambda ctx, builder, sig, a: builder.bitcast(
        a[0], ctx.get_value_type(target)
    )


@intrinsic
def f32_word(tyctx: Any, args: Any, i: Any) -> Any:
    """Return the float32 immediate in the low bits of word i.

    It stands in the low 32 bits of the argument block's word.
    """

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        value = builder.load(_word_pointer(builder, a[0], a[1]))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return builder.bitcast(builder.trunc(value, _I32), _F32)

    return types.float32(types.intp, types.intp), emit


@intrinsic
def f64_word(tyctx: Any, args: Any, i: Any) -> Any:
    """Return the float64 immediate in word i of an argument block."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        value = builder.load(_word_pointer(builder, a[0], a[1]))
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return builder.bitcast(value, _F64)

    return types.float64(types.intp, types.intp), emit


@intrinsic
def bits_f32(tyctx: Any, bits: Any) -> Any:
    """Return int32 bits as a float32."""
    return _bits(types.int32, types.float32)


@intrinsic
def f32_bits(tyctx: Any, value: Any) -> Any:
    """Return a float32 as int32 bits."""
    return _bits(types.float32, types.int32)


@intrinsic
def bits_f64(tyctx: Any, bits: Any) -> Any:
    """Return int64 bits as a float64."""
    return _bits(types.int64, types.float64)


@intrinsic
def f64_bits(tyctx: Any, value: Any) -> Any:
    """Return a float64 as int64 bits."""
    return _bits(types.float64, types.int64)


def _float_call(name: str, arity: int, *args: Any) -> Any:
    ty = next((t for t in args if isinstance(t, types.Float)), None)
    if ty is None or len(args) != arity:
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        llty = ctx.get_value_type(ty)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(llty, [llty] * arity), f"llvm.{name}.f{ty.bitwidth}"
        )
        return builder.call(function, a)

    return ty(*[ty] * arity), emit


@intrinsic
def fma(tyctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c with one rounding."""
    return _float_call("fma", 3, a, b, c)


@intrinsic
def maximum(tyctx: Any, a: Any, b: Any) -> Any:
    """Return the larger value, NaN if either is NaN.

    +0 is larger than -0. Reductions with it vectorise.
    """
    return _float_call("maximum", 2, a, b)


@intrinsic
def minimum(tyctx: Any, a: Any, b: Any) -> Any:
    """Return the smaller value, NaN if either is NaN.

    -0 is smaller than +0. Reductions with it vectorise.
    """
    return _float_call("minimum", 2, a, b)


@intrinsic
def rint(tyctx: Any, a: Any) -> Any:
    """Round to the nearest integer, ties to even."""
    return _float_call("rint", 1, a)


@intrinsic
def floor(tyctx: Any, a: Any) -> Any:
    """Round down."""
    return _float_call("floor", 1, a)


@intrinsic
def ceil(tyctx: Any, a: Any) -> Any:
    """Round up."""
    return _float_call("ceil", 1, a)


@intrinsic
def trunc(tyctx: Any, a: Any) -> Any:
    """Round towards zero."""
    return _float_call("trunc", 1, a)


@intrinsic
def sqrt(tyctx: Any, a: Any) -> Any:
    """Return the square root, correctly rounded."""
    return _float_call("sqrt", 1, a)


@intrinsic
def fabs(tyctx: Any, a: Any) -> Any:
    """Return the magnitude; clears the sign of NaN too."""
    return _float_call("fabs", 1, a)


@intrinsic
def copysign(tyctx: Any, a: Any, b: Any) -> Any:
    """Return the magnitude of a with the sign of b."""
    return _float_call("copysign", 2, a, b)


@intrinsic
def select(tyctx: Any, condition: Any, a: Any, b: Any) -> Any:
    """Return a if condition else b, of one type, without a branch."""
    if a != b:
        a = b = tyctx.unify_types(a, b)
    if a is None:
        return None
    return a(types.boolean, a, a), lambda ctx, builder, sig, v: builder.select(v[0], v[1], v[2])


def _integer(op: str, signed_op: str | None, a: Any, b: Any) -> Any:
    if not (isinstance(a, types.Integer) and isinstance(b, types.Integer)):
        return None
    # The typed operand decides beside a literal; Numba's own rules would widen both to int64.
    ty: Any = (
        b if isinstance(a, types.IntegerLiteral) and not isinstance(b, types.IntegerLiteral) else a
    )
    ty = getattr(ty, "literal_type", ty)  # a typed integer now
    name = signed_op if signed_op is not None and ty.signed else op

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, v: Any) -> ir.Value:
        return getattr(builder, name)(v[0], v[1])

    return ty(ty, ty), emit


@intrinsic
def iadd(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a + b in a's own integer type, wrapping."""
    return _integer("add", None, a, b)


@intrinsic
def isub(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a - b in a's own integer type, wrapping."""
    return _integer("sub", None, a, b)


@intrinsic
def imul(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a * b in a's own integer type, wrapping."""
    return _integer("mul", None, a, b)


@intrinsic
def iand(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a & b in a's own integer type."""
    return _integer("and_", None, a, b)


@intrinsic
def ior(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a | b in a's own integer type."""
    return _integer("or_", None, a, b)


@intrinsic
def ixor(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a ^ b in a's own integer type."""
    return _integer("xor", None, a, b)


@intrinsic
def ishl(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a << b in a's own integer type.

    0 <= b < its width.
    """
    return _integer("shl", None, a, b)


@intrinsic
def ishr(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a >> b in a's own integer type.

    The shift is arithmetic for signed types. 0 <= b < its width.
    """
    return _integer("lshr", "ashr", a, b)


@intrinsic
def idiv(tyctx: Any, a: Any, b: Any) -> Any:
    """Return a / b rounded towards zero, in a's type.

    a and b are integers. b must be neither 0 nor, with the least a, -1.
    """
    return _integer("udiv", "sdiv", a, b)


@intrinsic
def irem(tyctx: Any, a: Any, b: Any) -> Any:
    """Return the remainder of `idiv`, with the sign of a.

    b is limited as in `idiv`.
    """
    return _integer("urem", "srem", a, b)


@intrinsic
def mulhi_u32(tyctx: Any, a: Any, b: Any) -> Any:
    """Return the high half of a product of two uint32 (Philox)."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, v: Any) -> ir.Value:
        product = builder.mul(builder.zext(v[0], _I64), builder.zext(v[1], _I64))
        return builder.trunc(builder.lshr(product, ir.Constant(_I64, 32)), _I32)

    return types.uint32(types.uint32, types.uint32), emit


@intrinsic
def mulhi_u64(tyctx: object, a: object, b: object) -> object:
    """Return the high half of a product of two uint64."""

    def emit(ctx: object, builder: ir.IRBuilder, sig: object, v: Sequence[ir.Value]) -> ir.Value:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(v[0], wide), builder.zext(v[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _I64)

    return types.uint64(types.uint64, types.uint64), emit


@intrinsic
def leading_zeros(tyctx: object, a: object) -> object:
    """Return the number of zero bits above the highest one.

    a: uint64, not zero."""

    def emit(ctx: object, builder: ir.IRBuilder, sig: object, v: Sequence[ir.Value]) -> ir.Value:
        return builder.ctlz(v[0], ir.Constant(_I1, 1))

    return types.int64(types.uint64), emit


@intrinsic
def popcount(tyctx: Any, a: Any) -> Any:
    """Return the number of one bits, in a's own integer type."""
    if not isinstance(a, types.Integer):
        return None
    return a(a), lambda ctx, builder, sig, v: builder.ctpop(v[0])


@intrinsic
def copy_bytes(tyctx: Any, dst: Any, src: Any, n: Any) -> Any:
    """Copy n bytes between addresses that do not overlap."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        pointer = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, _I64, _I1])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.memcpy.p0.p0.i64")
        builder.call(
            function,
            [
                builder.inttoptr(a[0], pointer),
                builder.inttoptr(a[1], pointer),
                a[2],
                ir.Constant(_I1, 0),
            ],
        )
        return ctx.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), emit


@intrinsic
def move_bytes(tyctx: Any, dst: Any, src: Any, n: Any) -> Any:
    """Copy n bytes between addresses that may overlap."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        pointer = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, _I64, _I1])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.memmove.p0.p0.i64")
        builder.call(
            function,
            [
                builder.inttoptr(a[0], pointer),
                builder.inttoptr(a[1], pointer),
                a[2],
                ir.Constant(_I1, 0),
            ],
        )
        return ctx.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), emit


@intrinsic
def fill_bytes(tyctx: Any, dst: Any, byte: Any, n: Any) -> Any:
    """Set n bytes at an address to one value (0..255)."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        pointer = _I8.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _I8, _I64, _I1])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.memset.p0.i64")
        builder.call(
            function,
            [builder.inttoptr(a[0], pointer), builder.trunc(a[1], _I8), a[2], ir.Constant(_I1, 0)],
        )
        return ctx.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), emit


@intrinsic
def atomic_load(tyctx: Any, address: Any) -> Any:
    """Return the int64 at an address, sequentially consistent."""
    return types.intp(types.intp), lambda ctx, builder, sig, a: builder.load_atomic(
        _word_pointer(builder, a[0]), "seq_cst", 8
    )


@intrinsic
def atomic_store(tyctx: Any, address: Any, value: Any) -> Any:
    """Write an int64, sequentially consistent."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        builder.store_atomic(a[1], _word_pointer(builder, a[0]), "seq_cst", 8)
        return ctx.get_dummy_value()

    return types.void(types.intp, types.intp), emit


@intrinsic
def atomic_add(tyctx: Any, address: Any, value: Any) -> Any:
    """Add to an int64; return its previous value."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return builder.atomic_rmw("add", _word_pointer(builder, a[0]), a[1], "seq_cst")

    return types.intp(types.intp, types.intp), emit


@intrinsic
def atomic_xchg(tyctx: Any, address: Any, value: Any) -> Any:
    """Replace an int64; return its previous value."""

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        return builder.atomic_rmw("xchg", _word_pointer(builder, a[0]), a[1], "seq_cst")

    return types.intp(types.intp, types.intp), emit


@intrinsic
def stack_like(tyctx: Any, p: Any, n: Any) -> Any:
    """Return stack memory for n elements of p's type.

    n is a literal; the memory is 64-byte aligned. Memory that is only accessed in fully unrolled
    loops becomes registers.
    """
    if not (isinstance(p, types.CPointer) and isinstance(n, types.IntegerLiteral)):
        return None

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        pointer = ctx.get_value_type(p)
        with builder.goto_entry_block():
            space = builder.alloca(ir.ArrayType(pointer.pointee, n.literal_value))
            space.align = 64
            return builder.bitcast(space, pointer)

    return p(p, n), emit


@intrinsic
def call(tyctx: Any, address: Any, *arguments: Any) -> Any:
    """Call the C function void(intp, ...) at an address.

    It takes any number of integers (micro-kernels).
    """
    count = len(arguments)
    argument_types = (
        types.StarArgTuple.from_types([types.intp] * count) if count else types.StarArgTuple(())
    )

    def emit(ctx: Any, builder: ir.IRBuilder, sig: Any, a: Any) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [_I64] * count)
        builder.call(
            builder.inttoptr(a[0], kind.as_pointer()),
            [builder.extract_value(a[1], n) for n in range(count)],
        )
        return ctx.get_dummy_value()

    return types.void(types.intp, argument_types), emit


@intrinsic
def call_value(tyctx: object, address: object, first: object, second: object) -> object:
    """Call the C function intp(intp, intp) at an address; return its result."""

    def emit(ctx: object, builder: ir.IRBuilder, sig: object, a: Sequence[ir.Value]) -> ir.Value:
        kind = ir.FunctionType(_I64, [_I64, _I64])
        return builder.call(builder.inttoptr(a[0], kind.as_pointer()), [a[1], a[2]])

    return types.intp(types.intp, types.intp, types.intp), emit


__all__ = [
    "atomic_add", "atomic_load", "atomic_store", "atomic_xchg", "bits_f32", "bits_f64", "call", "call_value", "ceil", "copy_bytes",
    "copysign", "f32_bits", "f32_word", "f64_bits", "f64_word", "fabs", "fail", "fill_bytes",
    "floor", "fma", "iadd", "iand", "idiv", "imul", "ior", "irem", "ishl", "ishr", "isub", "ixor", "ld", "ld_any", "ld_any_at", "ld_at",
    "ld_out", "leading_zeros", "load_word", "maximum", "minimum", "move_bytes", "mulhi_u32", "mulhi_u64", "offset_by", "popcount", "ptr_b8", "ptr_c128", "ptr_c64",
    "ptr_f32", "ptr_f64", "ptr_i16", "ptr_i32", "ptr_i64", "ptr_i8", "ptr_u16", "ptr_u32", "ptr_u64", "ptr_u8", "rint", "select", "sqrt",
    "st", "st_any", "st_any_at", "st_at", "st_out", "st_out_at", "stack_like", "store_word", "trunc", "word",
]  # fmt: skip
