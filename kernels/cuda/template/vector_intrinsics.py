"""Emit vector access: up to 16 bytes at once."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.cuda.extending import intrinsic

from tfjit.kernels.cuda.template.intrinsic_emission import (
    F32,
    F64,
    GLOBAL,
    I32,
    Context,
    Type,
    Typed,
    Values,
)
from tfjit.kernels.cuda.template.memory_intrinsics import in_global, read_only_load


def _vector(item: ir.Type, count: int) -> ir.Type:
    """Return the type under which elements move together.

    Elements below 32 bits travel as words, since the compiler would split vectors of them.
    """
    bits = 8 * {F32: 4, F64: 8}.get(item, 0) or item.width
    if bits >= 32:
        return ir.VectorType(item, count)
    total = bits * count
    return ir.VectorType(I32, total // 32) if total > 32 else ir.IntType(total)


def _packed(builder: ir.IRBuilder, values: list[ir.Value], item: ir.Type) -> list[ir.Value]:
    """Return elements below 32 bits as words.

    NVVM splits a bitcast of their vector.
    """
    if item in (F32, F64) or item.width >= 32:
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
            builder.extract_element(moved, ir.Constant(I32, k)) for k in range(moved.type.count)
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
    pointer = builder.gep(in_global(builder, p), [i])
    return builder.bitcast(pointer, ir.PointerType(moved, GLOBAL))


def _aligned(access: ir.Instruction, item: ir.Type, count: int) -> ir.Instruction:
    access.align = count * ({F32: 4, F64: 8}.get(item, 0) or item.width // 8)
    return access


def _vector_loader(p: Type, count: int, read_only: bool) -> Typed:
    if not isinstance(p, types.CPointer) or isinstance(p.dtype, types.Complex | types.Boolean):
        return None

    def emit(ctx: Context, builder: ir.IRBuilder, sig: object, a: Values) -> ir.Value:
        item = ctx.get_data_type(p.dtype)
        moved = _vector(item, count)
        load = _aligned(builder.load(_at_vector(builder, a[0], a[1], moved)), item, count)
        value = read_only_load(builder, load, read_only)
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
                value = builder.insert_element(value, part, ir.Constant(I32, k))
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
