"""Emit the micro-kernels of matmul, convolution and pooling as LLVM IR.

Each works on byte addresses held as integers and keeps its accumulators in SSA values, so that no
aliasing question reaches LLVM. Only the compiler process imports this module: it needs Numba.
`micro_kernels.py` writes the text that uses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_FLOATS = {"f32": (ir.FloatType(), 4), "f64": (ir.DoubleType(), 8)}
_UNROLL = 4
_LINE = 64  # bytes of a cache line


def _const(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


class VectorBuilder:
    """Builder of operations on vectors of `lanes` elements of `kind`.

    kind is "f32" or "f64"; addresses are int64 values.
    """

    def __init__(self, builder: ir.IRBuilder, kind: str, lanes: int, fused: bool = True) -> None:
        self.b = builder
        self.kind = kind
        self.fused = fused
        self.lanes = lanes
        self.element, self.size = _FLOATS[kind]
        self.type = ir.VectorType(self.element, lanes)
        self.bytes = lanes * self.size

    def splat_of(self, value: float) -> ir.Constant:
        """Return a vector of one number."""
        zero = value == 0 and math.copysign(1, value) > 0
        return ir.Constant(self.type, None if zero else [float(value)] * self.lanes)

    def function(self, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
        """Declare an LLVM intrinsic.

        llvmlite's declare_intrinsic does not know vector types, so names come spelled out.
        """
        return cgutils.get_or_insert_function(
            self.b.module, ir.FunctionType(result, arguments), name
        )

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """Return x * y + z.

        It is rounded once where the CPU can (`fused`); elsewhere that would be a library call.
        """
        if not self.fused:
            return self.b.fadd(self.b.fmul(x, y), z)
        return self.b.call(
            self.function(f"llvm.fma.v{self.lanes}{self.kind}", self.type, [self.type] * 3),
            [x, y, z],
        )

    def splat(self, value: ir.Value, into: ir.VectorType | None = None) -> ir.Value:
        """Return a vector of one scalar."""
        kind = into or self.type
        empty = ir.Constant(kind, ir.Undefined)
        first = self.b.insert_element(empty, value, ir.Constant(_I32, 0))
        # None is "zeroinitializer": a list of zeros would be formatted for each splat
        mask = ir.Constant(ir.VectorType(_I32, self.lanes), None)
        return self.b.shuffle_vector(first, empty, mask)

    def _pointer(self, address: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
        moved = self.b.add(address, _const(offset)) if offset else address
        return self.b.inttoptr(moved, kind.as_pointer())

    def load(self, address: ir.Value, offset: int = 0, align: int | None = None) -> ir.Value:
        """Load a vector at address + offset.

        Without `align` the address may be any multiple of the element size.
        """
        return self.b.load(self._pointer(address, offset, self.type), align=align or self.size)

    def store(
        self, value: ir.Value, address: ir.Value, offset: int = 0, align: int | None = None
    ) -> None:
        """Write a vector."""
        self.b.store(value, self._pointer(address, offset, self.type), align=align or self.size)

    def broadcast(self, address: ir.Value, offset: int = 0) -> ir.Value:
        """Return a vector of the one element at address + offset."""
        return self.splat(
            self.b.load(self._pointer(address, offset, self.element), align=self.size)
        )

    def mask(self, count: ir.Value) -> ir.Value:
        """Return the lanes below `count`, an int64 that may be negative."""
        indices = ir.VectorType(_I32, self.lanes)
        return self.b.icmp_signed(
            "<",
            ir.Constant(indices, list(range(self.lanes))),
            self.splat(self.b.trunc(count, _I32), indices),
        )

    def prefetch_to_write(self, address: ir.Value, offset: int = 0) -> None:
        """Prefetch the line at address + offset for writing.

        It comes into the first-level cache.
        """
        pointer = _I8.as_pointer()
        hint = self.function("llvm.prefetch.p0", ir.VoidType(), [pointer, _I32, _I32, _I32])
        self.b.call(
            hint,
            [
                self._pointer(address, offset, _I8),
                *(ir.Constant(_I32, value) for value in (1, 3, 1)),
            ],
        )

    def masked_store(
        self, value: ir.Value, address: ir.Value, mask: ir.Value, offset: int = 0
    ) -> None:
        """Write the lanes of the mask."""
        pointer = self.type.as_pointer()
        store = self.function(
            f"llvm.masked.store.v{self.lanes}{self.kind}.p0",
            ir.VoidType(),
            [self.type, pointer, _I32, mask.type],
        )
        self.b.call(
            store,
            [value, self._pointer(address, offset, self.type), ir.Constant(_I32, self.size), mask],
        )

    def masked_load(self, address: ir.Value, mask: ir.Value, offset: int = 0) -> ir.Value:
        """Load the lanes of the mask.

        The other lanes are zero and not read.
        """
        pointer = self.type.as_pointer()
        load = self.function(
            f"llvm.masked.load.v{self.lanes}{self.kind}.p0",
            self.type,
            [pointer, _I32, mask.type, self.type],
        )
        return self.b.call(
            load,
            [
                self._pointer(address, offset, self.type),
                ir.Constant(_I32, self.size),
                mask,
                self.splat_of(0),
            ],
        )


def loop(
    b: ir.IRBuilder,
    count: ir.Value,
    carried: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
) -> list[ir.Value]:
    """Emit for i in range(count): carried = body(i, carried).

    Carried values are phi nodes, so they stay in registers.
    """
    before = b.block
    head, inside, after = (b.append_basic_block(name) for name in ("head", "inside", "after"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(_I64)
    phis = [b.phi(value.type) for value in carried]
    b.cbranch(b.icmp_signed("<", i, count), inside, after)
    b.position_at_end(inside)
    new = [b.add(i, _const(1)), *body(i, phis)]
    for phi, start, value in zip([i, *phis], [_const(0), *carried], new, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(after)
    return phis


def over_vectors(
    v: VectorBuilder, count: ir.Value, body: Callable[[ir.Value, ir.Value | None], None]
) -> None:
    """Emit a body for every whole vector, then one with a mask.

    The first is body(byte offset, None); the remaining elements of `count` get body(byte offset,
    mask).
    """
    b = v.b
    full, rest = b.sdiv(count, _const(v.lanes)), b.srem(count, _const(v.lanes))

    def whole(i: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
        body(b.mul(i, _const(v.bytes)), None)
        return []

    loop(b, full, [], whole)
    with b.if_then(b.icmp_signed(">", rest, _const(0))):
        body(b.mul(full, _const(v.bytes)), v.mask(rest))


def _load_word(b: ir.IRBuilder, address: ir.Value, index: ir.Value | int = 0) -> ir.Value:
    offset = _const(8 * index) if isinstance(index, int) else b.mul(index, _const(8))
    return b.load(b.inttoptr(b.add(address, offset), _I64.as_pointer()))


def intrinsic_of(arity: int, emit: Callable[[ir.IRBuilder, Sequence[ir.Value]], None]) -> Any:
    """Return a Numba intrinsic void(intp * arity) that emits IR by `emit`."""
    names = ", ".join(f"a{i}" for i in range(arity))

    def generate(ctx: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
        emit(builder, args)
        return ctx.get_dummy_value()

    scope: dict[str, Any] = {"signature": types.void(*[types.intp] * arity), "generate": generate}
    # @intrinsic counts the named arguments
    exec(f"def typed(tyctx, {names}):\n    return signature, generate", scope)
    return intrinsic(scope["typed"])


def matmul_tile(
    kind: str,
    lanes: int,
    height: int,
    vectors: int,
    transposed: bool = False,
    fused: bool = True,
    packed: bool = True,
) -> Any:
    """Emit a tile of C (+)= A . panel.

    c[height][vectors * lanes] (+)= sum over segments s < nseg, q < k of A[s, q, row] * panel[s * k
    + q][:].

    Arguments: a, stride_a, offsets, nseg, k, panel, c, stride_c, ncols, accumulate. A's element is
    at a + offsets[s] + row * stride_a + q * size; with `transposed` at a + offsets[s] + row * size
    + q * stride_a. panel is packed, vector-aligned, [nseg * k][vectors * lanes]. Columns from ncols
    on are not stored. accumulate: 0 stores the sum, otherwise adds it to c. Few rows get several
    accumulators a tile, or the FMA's latency would show. Without `packed` panel is part of an
    ordinary matrix: offsets[nseg] is the bytes from one of its rows to the next, and columns from
    ncols on are not read.
    """
    # Chunks mix two neighbouring heights, which must sum in one order, or bits would depend on the
    # number of chunks. Where there is no FMA the tallest tile has four rows only.
    enough = 8 if fused else 6
    sets = next(n for n in (1, 2, 4) if n == 4 or height * vectors * n >= enough)

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        a, stride_a, offsets, nseg, k, panel, c, stride_c, ncols, accumulate = args
        v = VectorBuilder(b, kind, lanes, fused)
        row_bytes = vectors * v.bytes
        rows = [b.mul(stride_a, _const(r)) for r in range(height)] if not transposed else []
        tile = height * vectors

        def steps(
            count: int, masks: list[ir.Value] | None
        ) -> Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]:
            def body(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
                at, panel_at, *acc = state
                for u in range(count):
                    if packed:
                        columns = [
                            v.load(panel_at, u * row_bytes + j * v.bytes, align=v.bytes)
                            for j in range(vectors)
                        ]
                    elif masks is None:
                        columns = [v.load(panel_at, j * v.bytes) for j in range(vectors)]
                    else:
                        columns = [
                            v.masked_load(panel_at, masks[j], j * v.bytes) for j in range(vectors)
                        ]
                    first = (u % sets) * tile
                    for r in range(height):
                        if transposed:
                            value = v.broadcast(at, r * v.size)
                        else:
                            value = v.broadcast(b.add(at, rows[r]), u * v.size)
                        for j in range(vectors):
                            n = first + r * vectors + j
                            acc[n] = v.fma(value, columns[j], acc[n])
                    if transposed:
                        at = b.add(at, stride_a)
                    if not packed:
                        panel_at = b.add(panel_at, stride_b)
                if not transposed:
                    at = b.add(at, _const(v.size * count))
                return [
                    at,
                    b.add(panel_at, _const(row_bytes * count)) if packed else panel_at,
                    *acc,
                ]

            return body

        quads, rest = b.sdiv(k, _const(_UNROLL)), b.srem(k, _const(_UNROLL))
        stride_b = None if packed else _load_word(b, offsets, nseg)

        def total(masks: list[ir.Value] | None) -> list[ir.Value]:
            def segment(i: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
                inner = [b.add(a, _load_word(b, offsets, i)), *state]
                inner = loop(b, quads, inner, steps(_UNROLL, masks))
                return loop(b, rest, inner, steps(1, masks))[1:]

            sums = loop(b, nseg, [panel, *[v.splat_of(0)] * (tile * sets)], segment)[1:]
            while len(sums) > tile:
                half = len(sums) // 2
                sums = [b.fadd(x, y) for x, y in zip(sums[:half], sums[half:], strict=True)]
            return sums

        def write(sums: list[ir.Value], masks: list[ir.Value] | None, add: bool) -> None:
            for r in range(height):
                row = b.add(c, b.mul(stride_c, _const(r)))
                for j in range(vectors):
                    value = sums[r * vectors + j]
                    if masks is None:
                        if add:
                            value = b.fadd(v.load(row, j * v.bytes), value)
                        v.store(value, row, j * v.bytes)
                    else:
                        if add:
                            value = b.fadd(v.masked_load(row, masks[j], j * v.bytes), value)
                        v.masked_store(value, row, masks[j], j * v.bytes)

        # prefetch the result's lines from farther caches while the sum is computed
        for r in range(height):
            for line in range(0, row_bytes, _LINE):
                v.prefetch_to_write(b.add(c, b.mul(stride_c, _const(r))), line)
        # Packed columns beyond ncols are zero, so that one sum serves both; a matrix in place must
        # not be read there.
        common = total(None) if packed else None
        with b.if_else(b.icmp_signed(">=", ncols, _const(vectors * lanes))) as (full, part):
            for branch in (full, part):
                with branch:
                    masks = (
                        None
                        if branch is full
                        else [v.mask(b.sub(ncols, _const(j * lanes))) for j in range(vectors)]
                    )
                    sums = total(masks) if common is None else common
                    with b.if_else(b.icmp_signed("!=", accumulate, _const(0))) as (more, new):
                        with more:
                            write(sums, masks, True)
                        with new:
                            write(sums, masks, False)

    return intrinsic_of(10, emit)


def dot_tile(kind: str, lanes: int, height: int, fused: bool = True) -> Any:
    """Emit the micro-kernel for one column.

    c[height] (+)= sum over segments s < nseg, q < k of A[s, q, row] * column[s * k + q]. Arguments
    as for `matmul_tile`; ncols is 1. Vectors run along the sum, so that one column does not waste
    their lanes.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        a, stride_a, offsets, nseg, k, column, c, stride_c, _, accumulate = args
        v = VectorBuilder(b, kind, lanes, fused)
        rows = [b.mul(stride_a, _const(r)) for r in range(height)]
        whole, rest = b.sdiv(k, _const(lanes)), b.srem(k, _const(lanes))
        mask = v.mask(rest)

        def step(masked: bool) -> Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]:
            def body(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
                at, column_at, *acc = state
                other = v.masked_load(column_at, mask) if masked else v.load(column_at)
                for r in range(height):
                    place = b.add(at, rows[r])
                    acc[r] = v.fma(
                        v.masked_load(place, mask) if masked else v.load(place), other, acc[r]
                    )
                return [b.add(at, _const(v.bytes)), b.add(column_at, _const(v.bytes)), *acc]

            return body

        def segment(i: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
            at = b.add(a, _load_word(b, offsets, i))
            start = b.add(column, b.mul(i, b.mul(k, _const(v.size))))
            inner = loop(b, whole, [at, start, *state], step(False))
            some = b.zext(b.icmp_signed(">", rest, _const(0)), _I64)
            return loop(b, some, inner, step(True))[2:]

        sums = loop(b, nseg, [v.splat_of(0)] * height, segment)
        total = v.function(
            f"llvm.vector.reduce.fadd.v{lanes}{kind}", v.element, [v.element, v.type]
        )
        more = b.icmp_signed("!=", accumulate, _const(0))
        for r in range(height):
            value = b.call(total, [ir.Constant(v.element, -0.0), sums[r]], fastmath=("reassoc",))
            place = b.inttoptr(b.add(c, b.mul(stride_c, _const(r))), v.element.as_pointer())
            with b.if_else(more) as (add, new):
                with add:
                    b.store(b.fadd(b.load(place, align=v.size), value), place, align=v.size)
                with new:
                    b.store(value, place, align=v.size)

    return intrinsic_of(10, emit)


def copy_row(kind: str, lanes: int, vectors: int) -> Any:
    """Emit the copy of one row of a packed panel.

    It writes vectors * lanes elements at dst: ncols come from src and the rest are zero. Arguments:
    dst, src, ncols. dst is vector-aligned; src is not read beyond ncols.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        dst, src, ncols = args
        v = VectorBuilder(b, kind, lanes)
        with b.if_else(b.icmp_signed(">=", ncols, _const(vectors * lanes))) as (full, part):
            with full:
                for j in range(vectors):
                    v.store(v.load(src, j * v.bytes), dst, j * v.bytes, align=v.bytes)
            with part:
                for j in range(vectors):
                    row = v.masked_load(src, v.mask(b.sub(ncols, _const(j * lanes))), j * v.bytes)
                    v.store(row, dst, j * v.bytes, align=v.bytes)

    return intrinsic_of(3, emit)


def call_address(arity: int) -> Any:
    """Return an intrinsic that calls void(intp * arity) at an address.

    The address is its first argument.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        kind = ir.FunctionType(ir.VoidType(), [_I64] * arity)
        b.call(b.inttoptr(args[0], kind.as_pointer()), list(args[1:]))

    return intrinsic_of(arity + 1, emit)


call_tile = call_address(10)


def channelwise_rows(kind: str, lanes: int, height: int, columns: int, fused: bool = True) -> Any:
    """Emit `channelwise_tile` with op "fma" for rows of neighbouring taps.

    Taps come in rows of `columns` neighbours, x_step apart like the tile's pixels. Neighbouring
    pixels share most of their inputs, so every value is loaded once a row of taps. ntaps is a
    multiple of columns.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, x_step, taps, ntaps, w, y, y_step, channels = args
        v = VectorBuilder(b, kind, lanes, fused)
        places = [b.mul(x_step, _const(i)) for i in range(height + columns - 1)]
        lines = b.sdiv(ntaps, _const(columns))

        def vector(offset: ir.Value, mask: ir.Value | None) -> None:
            x_at, w_at, y_at = b.add(x, offset), b.add(w, offset), b.add(y, offset)

            def load(address: ir.Value) -> ir.Value:
                return v.load(address) if mask is None else v.masked_load(address, mask)

            def line(i: ir.Value, acc: list[ir.Value]) -> Sequence[ir.Value]:
                entry = b.add(taps, b.mul(i, _const(16 * columns)))
                at = b.add(x_at, _load_word(b, entry))
                weights = [
                    load(b.add(w_at, _load_word(b, entry, 2 * t + 1))) for t in range(columns)
                ]
                acc = list(acc)
                for c, place in enumerate(places):
                    value = load(b.add(at, place))
                    for t in range(max(0, c - height + 1), min(columns, c + 1)):
                        acc[c - t] = v.fma(value, weights[t], acc[c - t])
                return acc

            acc = loop(b, lines, [v.splat_of(0)] * height, line)
            for p in range(height):
                place = b.add(y_at, b.mul(y_step, _const(p)))
                if mask is None:
                    v.store(acc[p], place)
                else:
                    v.masked_store(acc[p], place, mask)

        over_vectors(v, channels, vector)

    return intrinsic_of(8, emit)


_LOWEST = {"f32": -3.4028234663852886e38, "f64": -1.7976931348623157e308}


def channelwise_tile(kind: str, lanes: int, height: int, op: str, fused: bool = True) -> Any:
    """Emit y[p][c] = combination over taps t of x[p + taps[t]][c].

    It runs over `height` pixels p and all channels c. Arguments: x, x_step, taps, ntaps, w, y,
    y_step, channels. x_step, y_step: bytes from one pixel of the tile to the next. taps: int64
    pairs (byte offset in x, byte offset in w). op: "fma" sums x * w (depthwise convolution), "max"
    takes the largest, NaN never winning and the lowest finite number at least, "mean" divides the
    sum by ntaps.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, x_step, taps, ntaps, w, y, y_step, channels = args
        v = VectorBuilder(b, kind, lanes, fused)
        pixels = [b.mul(x_step, _const(p)) for p in range(height)]

        def vector(offset: ir.Value, mask: ir.Value | None) -> None:
            x_at, w_at, y_at = b.add(x, offset), b.add(w, offset), b.add(y, offset)

            def load(address: ir.Value) -> ir.Value:
                return v.load(address) if mask is None else v.masked_load(address, mask)

            def tap(i: ir.Value, acc: list[ir.Value]) -> Sequence[ir.Value]:
                entry = b.add(taps, b.mul(i, _const(16)))
                at = b.add(x_at, _load_word(b, entry))
                weight = load(b.add(w_at, _load_word(b, entry, 1))) if op == "fma" else None
                new = []
                for p in range(height):
                    value = load(b.add(at, pixels[p]))
                    if weight is not None:
                        new.append(v.fma(value, weight, acc[p]))
                    elif op == "max":
                        new.append(b.select(b.fcmp_ordered(">", value, acc[p]), value, acc[p]))
                    else:
                        new.append(b.fadd(value, acc[p]))
                return new

            start = v.splat_of(_LOWEST[kind] if op == "max" else 0)
            acc = loop(b, ntaps, [start] * height, tap)
            if op == "mean":
                count = v.splat(b.sitofp(ntaps, v.element))
                acc = [b.fdiv(value, count) for value in acc]
            for p in range(height):
                place = b.add(y_at, b.mul(y_step, _const(p)))
                if mask is None:
                    v.store(acc[p], place)
                else:
                    v.masked_store(acc[p], place, mask)

        over_vectors(v, channels, vector)

    return intrinsic_of(8, emit)


call_channelwise = call_address(8)


def scatter_pixel(kind: str, lanes: int, op: str) -> Any:
    """Emit the backward step of one window.

    dx[taps[t]][c] += share of dy[c], for all channels c. Arguments: x, taps, ntaps, dy, dx,
    channels; taps as for `channelwise_tile`. op: "max" gives all to the first tap that holds the
    maximum of x. (NaN never is the maximum; if no value is above the lowest finite number, the
    first tap gets all.) "mean" gives every tap dy / ntaps and reads no x.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, taps, ntaps, dy, dx, channels = args
        v = VectorBuilder(b, kind, lanes)
        index_type = ir.VectorType(ir.IntType(8 * v.size), lanes)

        def vector(offset: ir.Value, mask: ir.Value | None) -> None:
            def load(address: ir.Value) -> ir.Value:
                return v.load(address) if mask is None else v.masked_load(address, mask)

            def index_of(i: ir.Value) -> ir.Value:
                return v.splat(b.trunc(i, index_type.element) if v.size < 8 else i, index_type)

            x_at, dx_at = b.add(x, offset), b.add(dx, offset)
            share = load(b.add(dy, offset))
            if op == "mean":
                share = b.fdiv(share, v.splat(b.sitofp(ntaps, v.element)))
                first = None
            else:

                def compare(i: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
                    best, chosen = state
                    value = load(b.add(x_at, _load_word(b, b.add(taps, b.mul(i, _const(16))))))
                    better = b.fcmp_ordered(">", value, best)
                    return [b.select(better, value, best), b.select(better, index_of(i), chosen)]

                first = loop(
                    b,
                    ntaps,
                    [v.splat_of(_LOWEST[kind]), ir.Constant(index_type, [0] * lanes)],
                    compare,
                )[1]

            def give(i: ir.Value, _: list[ir.Value]) -> Sequence[ir.Value]:
                place = b.add(dx_at, _load_word(b, b.add(taps, b.mul(i, _const(16)))))
                part = share
                if first is not None:
                    part = b.select(b.icmp_signed("==", first, index_of(i)), share, v.splat_of(0))
                value = b.fadd(load(place), part)
                if mask is None:
                    v.store(value, place)
                else:
                    v.masked_store(value, place, mask)
                return []

            loop(b, ntaps, [], give)

        over_vectors(v, channels, vector)

    return intrinsic_of(6, emit)


def multiply_reduce(kind: str, lanes: int, fused: bool = True) -> Any:
    """Emit total[c] += sum over p < count of x[p][c] * y[p][c].

    It runs over all channels c. Arguments: x, x_step, y, y_step, count, total, channels; steps are
    bytes from one p to the next.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, x_step, y, y_step, count, total, channels = args
        v = VectorBuilder(b, kind, lanes, fused)
        quads, rest = b.sdiv(count, _const(_UNROLL)), b.srem(count, _const(_UNROLL))

        def vector(offset: ir.Value, mask: ir.Value | None) -> None:
            def load(address: ir.Value) -> ir.Value:
                return v.load(address) if mask is None else v.masked_load(address, mask)

            def steps(n: int) -> Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]:
                def body(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
                    x_at, y_at, *acc = state
                    for u in range(n):
                        acc[u] = v.fma(load(x_at), load(y_at), acc[u])
                        x_at, y_at = b.add(x_at, x_step), b.add(y_at, y_step)
                    return [x_at, y_at, *acc]

                return body

            state = [b.add(x, offset), b.add(y, offset), *[v.splat_of(0)] * _UNROLL]
            state = loop(b, quads, state, steps(_UNROLL))
            acc = loop(b, rest, state, steps(1))[2:]
            place = b.add(total, offset)
            value = b.fadd(load(place), b.fadd(b.fadd(acc[0], acc[1]), b.fadd(acc[2], acc[3])))
            if mask is None:
                v.store(value, place)
            else:
                v.masked_store(value, place, mask)

        over_vectors(v, channels, vector)

    return intrinsic_of(7, emit)
