"""Emit the inner step of matrix products.

There are loads that stay inside an operand, too. Texts of products import this module beside
`intrinsics`. `simulated_tile_intrinsics` has the same names for host memory.

A thread's products are a tuple, row after row. The compiler keeps a tuple in registers as long as
every index into it is a constant, so a whole step is one intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from llvmlite import ir
from numba.core import cgutils, types
from numba.cuda.extending import intrinsic

from tfjit.kernels.cuda.gemm.tile_intrinsic_names import NAMES

__all__ = list(NAMES)

# types, contexts and values of Numba, which has no stubs
Numba: TypeAlias = Any

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_GLOBAL: Final = 1
_SHARED: Final = 3
_VECTOR_BYTES: Final = 16


def _int(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _bytes(item: ir.Type) -> int:
    if isinstance(item, ir.IntType):
        return int(item.width) // 8
    return 8 if isinstance(item, ir.DoubleType) else 4


def _literals(*given: Numba) -> tuple[int, ...] | None:
    if not all(isinstance(value, types.IntegerLiteral) for value in given):
        return None
    return tuple(value.literal_value for value in given)


def _base(builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, space: int) -> ir.Value:
    item = pointer.type.pointee
    return builder.gep(builder.addrspacecast(pointer, ir.PointerType(item, space)), [index])


def _shared_vector(builder: ir.IRBuilder, base: ir.Value, at: int, count: int) -> list[ir.Value]:
    """Load `count` elements, `at` behind the base, by one load."""
    item = base.type.pointee
    place = builder.gep(base, [_int(at)])
    place = builder.bitcast(place, ir.PointerType(ir.VectorType(item, count), _SHARED))
    load = builder.load(place)
    load.align = count * _bytes(item)
    return [builder.extract_element(load, ir.Constant(_I32, k)) for k in range(count)]


@intrinsic
def multiply_slab(
    tyctx: Numba, products: Numba, a: Numba, a_at: Numba, b: Numba, b_at: Numba, depth: Numba,
    rows: Numba, columns: Numba, a_pitch: Numba, b_pitch: Numba, a_spread: Numba, b_spread: Numba,
) -> Numba:  # fmt: skip
    """Return products + a^T b of `depth` rows of two shared arrays.

    a_at, b_at: the thread's first elements. It has rows x columns products, in runs of 16 bytes
    along both axes; the runs begin `a_spread` and `b_spread` elements after each other. a_pitch,
    b_pitch: elements from one row of the arrays to the next.
    """
    sizes = _literals(depth, rows, columns, a_pitch, b_pitch, a_spread, b_spread)
    if sizes is None or not isinstance(products, types.UniTuple):
        return None
    terms, m, n, pitch_a, pitch_b, spread_a, spread_b = sizes
    item = products.dtype

    def emit(ctx: Numba, builder: ir.IRBuilder, sig: Numba, args: Numba) -> ir.Value:
        kind = ctx.get_data_type(item)
        run = _VECTOR_BYTES // _bytes(kind)
        sums = [builder.extract_value(args[0], k) for k in range(m * n)]
        a_base = _base(builder, args[1], args[2], _SHARED)
        b_base = _base(builder, args[3], args[4], _SHARED)
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.f{8 * _bytes(kind)}"
        )
        for term in range(terms):
            left = [
                value
                for k in range(m // run)
                for value in _shared_vector(builder, a_base, term * pitch_a + k * spread_a, run)
            ]
            right = [
                value
                for k in range(n // run)
                for value in _shared_vector(builder, b_base, term * pitch_b + k * spread_b, run)
            ]
            for i, x in enumerate(left):
                for j, y in enumerate(right):
                    sums[i * n + j] = builder.call(fma, [x, y, sums[i * n + j]])
        return cgutils.pack_array(builder, sums)

    return products(products, a, types.int64, b, types.int64, *sig_of(sizes)), emit


def sig_of(sizes: tuple[int, ...]) -> list[Numba]:
    """Return the types of literal arguments."""
    return [types.literal(value) for value in sizes]


@intrinsic
def zeros(tyctx: Numba, like: Numba, count: Numba) -> Numba:
    """Return a tuple of zeros of the type of `like`."""
    sizes = _literals(count)
    if sizes is None or not isinstance(like, types.Float):
        return None
    result = types.UniTuple(like, sizes[0])

    def emit(ctx: Numba, builder: ir.IRBuilder, sig: Numba, args: Numba) -> ir.Value:
        zero = ir.Constant(ctx.get_data_type(like), 0.0)
        return cgutils.pack_array(builder, [zero] * sizes[0])

    return result(like, *sig_of(sizes)), emit


@intrinsic
def scale_rows(tyctx: Numba, products: Numba, f0: Numba, f1: Numba, f2: Numba, f3: Numba) -> Numba:
    """Return products with each of their 4 rows multiplied by a factor."""
    if not isinstance(products, types.UniTuple) or products.count % 4:
        return None
    item = products.dtype

    def emit(ctx: Numba, builder: ir.IRBuilder, sig: Numba, args: Numba) -> ir.Value:
        columns = products.count // 4
        scaled = [
            builder.fmul(builder.extract_value(args[0], k), args[1 + k // columns])
            for k in range(products.count)
        ]
        return cgutils.pack_array(builder, scaled)

    return products(products, item, item, item, item), emit


@intrinsic
def run_of(tyctx: Numba, products: Numba, number: Numba, count: Numba) -> Numba:
    """Return `count` products from number * count on.

    A jump picks the registers: an index that is not constant would put the tuple into memory.
    """
    sizes = _literals(count)
    if sizes is None or not isinstance(products, types.UniTuple):
        return None
    (run,) = sizes
    item = products.dtype
    result = types.UniTuple(item, run)

    def emit(ctx: Numba, builder: ir.IRBuilder, sig: Numba, args: Numba) -> ir.Value:
        runs = products.count // run
        values = [builder.extract_value(args[0], k) for k in range(runs * run)]
        picked = [builder.append_basic_block(f"run{k}") for k in range(runs)]
        after = builder.append_basic_block("picked")
        jump = builder.switch(builder.trunc(args[1], _I32), picked[0])
        for k, target in enumerate(picked):
            if k:
                jump.add_case(ir.Constant(_I32, k), target)
            builder.position_at_end(target)
            builder.branch(after)
        builder.position_at_end(after)
        parts = []
        for j in range(run):
            value = builder.phi(ctx.get_data_type(item))
            for k, target in enumerate(picked):
                value.add_incoming(values[k * run + j], target)
            parts.append(value)
        return cgutils.pack_array(builder, parts)

    return result(products, types.int64, *sig_of(sizes)), emit


Inside = Callable[[ir.IRBuilder, list[ir.Value]], ir.Value]


def _guarded(p: Numba, count: int, conditions: int, inside: Inside) -> Numba:
    """Return a load behind a condition on arguments 2 and on."""
    if not isinstance(p, types.CPointer) or isinstance(p.dtype, types.Complex | types.Boolean):
        return None
    result = types.UniTuple(p.dtype, count) if count > 1 else p.dtype

    def emit(ctx: Numba, builder: ir.IRBuilder, sig: Numba, args: Numba) -> ir.Value:
        item = ctx.get_data_type(p.dtype)
        moved = _moved(item, count)
        holds = inside(builder, list(args[2:]))
        before = builder.block
        with builder.if_then(holds):
            place = _base(builder, args[0], args[1], _GLOBAL)
            load = builder.load(builder.bitcast(place, ir.PointerType(moved, _GLOBAL)))
            load.align = count * _bytes(item)
            load.set_metadata("invariant.load", builder.module.add_metadata([]))
            loaded = builder.block
        value = builder.phi(moved)
        value.add_incoming(load, loaded)
        value.add_incoming(ir.Constant(moved, None), before)
        if count == 1:
            return value
        elements = builder.bitcast(value, ir.VectorType(item, count))
        parts = [builder.extract_element(elements, ir.Constant(_I32, k)) for k in range(count)]
        return cgutils.pack_array(builder, parts)

    return result(p, types.int64, *[types.int64] * conditions), emit


def _below(builder: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
    return builder.icmp_signed("<", args[0], args[1])


def _in_image(builder: ir.IRBuilder, args: list[ir.Value]) -> ir.Value:
    # as unsigned numbers, negative places are large
    row = builder.icmp_unsigned("<", args[2], args[3])
    column = builder.icmp_unsigned("<", args[4], args[5])
    return builder.and_(_below(builder, args), builder.and_(row, column))


def _moved(item: ir.Type, count: int) -> ir.Type:
    """Return the type of one load.

    Elements below 32 bits travel as words.
    """
    if count == 1:
        return item
    total = 8 * _bytes(item) * count
    if _bytes(item) >= 4:
        return ir.VectorType(item, count)
    return ir.VectorType(_I32, total // 32) if total > 32 else ir.IntType(total)


@intrinsic
def ld_below(tyctx: Numba, p: Numba, i: Numba, at: Numba, limit: Numba) -> Numba:
    """Return element i of p if at < limit, else 0.

    No thread writes p.
    """
    return _guarded(p, 1, 2, _below)


@intrinsic
def ld_below2(tyctx: Numba, p: Numba, i: Numba, at: Numba, limit: Numba) -> Numba:
    """Return `ld_below` of 2 elements by one load."""
    return _guarded(p, 2, 2, _below)


@intrinsic
def ld_below4(tyctx: Numba, p: Numba, i: Numba, at: Numba, limit: Numba) -> Numba:
    """Return `ld_below` of 4 elements by one load."""
    return _guarded(p, 4, 2, _below)


@intrinsic
def ld_inside(
    tyctx: Numba,
    p: Numba,
    i: Numba,
    at: Numba,
    limit: Numba,
    row: Numba,
    rows: Numba,
    column: Numba,
    columns: Numba,
) -> Numba:
    """Return `ld_below` of an element of an image, else 0.

    It is inside where row < rows and column < columns; negative places are outside.
    """
    return _guarded(p, 1, 6, _in_image)


@intrinsic
def ld_inside2(
    tyctx: Numba,
    p: Numba,
    i: Numba,
    at: Numba,
    limit: Numba,
    row: Numba,
    rows: Numba,
    column: Numba,
    columns: Numba,
) -> Numba:
    """Return `ld_inside` of 2 elements by one load."""
    return _guarded(p, 2, 6, _in_image)


@intrinsic
def ld_inside4(
    tyctx: Numba,
    p: Numba,
    i: Numba,
    at: Numba,
    limit: Numba,
    row: Numba,
    rows: Numba,
    column: Numba,
    columns: Numba,
) -> Numba:
    """Return `ld_inside` of 4 elements by one load."""
    return _guarded(p, 4, 6, _in_image)


def _shared_storer(p: Numba, count: int) -> Numba:
    if not isinstance(p, types.CPointer):
        return None

    def emit(ctx: Numba, builder: ir.IRBuilder, sig: Numba, args: Numba) -> ir.Value:
        item = ctx.get_data_type(p.dtype)
        kind = ir.VectorType(item, count)
        value = ir.Constant(kind, ir.Undefined)
        for k, part in enumerate(args[2:]):
            value = builder.insert_element(value, part, ir.Constant(_I32, k))
        place = _base(builder, args[0], args[1], _SHARED)
        store = builder.store(value, builder.bitcast(place, ir.PointerType(kind, _SHARED)))
        store.align = min(_VECTOR_BYTES, count * _bytes(item))
        return ctx.get_dummy_value()

    return types.void(p, types.int64, *[p.dtype] * count), emit


@intrinsic
def st_shared2(tyctx: Numba, p: Numba, i: Numba, v0: Numba, v1: Numba) -> Numba:
    """Store 2 values in a shared array by one store."""
    return _shared_storer(p, 2)


@intrinsic
def st_shared4(
    tyctx: Numba, p: Numba, i: Numba, v0: Numba, v1: Numba, v2: Numba, v3: Numba
) -> Numba:
    """Store 4 values in a shared array by one store."""
    return _shared_storer(p, 4)
