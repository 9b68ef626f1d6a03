"""Compute attention in one kernel.

The kernel computes the scores of a block of queries, adds the operands to them, and multiplies
their softmax with the values. A block of queries is held in the lanes of a few vectors. Keys are
the rows of the first product and values (transposed) those of the second, so both are read in
place. The softmax runs down the lanes without a sum across them, and its result is already the
packed operand of the second product. Only queries and result are transposed, a block at a time. No
score leaves the chunk's scratch, which holds one block: keys * lanes of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Literal

import numpy as np

from tfjit.framework.op_defs.op_traits import IDENTITY, MATRIX_PRODUCT, RESHAPE
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.gemm.micro_kernels import Tile, cover, matmul_tiles, row_limit, tile_of
from tfjit.kernels.cpu.gemm.operands import swapped
from tfjit.kernels.cpu.gemm.packing import depth_blocks, write_transposed_panel
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.cpu.template.iteration_space import (
    IndexMap,
    IterationSpaceBuilder,
    Operand,
    broadcast_map,
    c_strides,
    identity_map,
)
from tfjit.kernels.cpu.template.offset_table import offset_table
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup, Member, Ref
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import Launch, NativeCall, Pointer, Unsupported, Word
from tfjit.kernels.source import KernelSource, Source

MIN_QUERIES: Final = 4
"""Least number of queries.

Fewer waste more lanes than the scores' way through memory costs.
"""
_MAX_DEPTH: Final = 512  # largest depth of a query: one chain of sums
# size of a block of two vectors' scores that still fits into the second-level cache
_WIDE_BYTES: Final = 512 << 10
_SCRATCH_BYTES: Final = 64 << 20  # limit for all chunks
_SCORES: Final = 0  # output number of the scores, for LLVM's alias scopes

Pattern = Literal["scalar", "query", "key", "full"]


@dataclass(frozen=True, slots=True)
class Attention:
    """out = softmax(program(query . key^T, operands...)) . value, for all batch axes.

    space: (*batch, queries, keys). query, key, value, out: their strides run over (*batch, rows,
    columns), rows being queries or keys. operands: of the program after its first input, over
    `space`.
    """

    space: tuple[int, ...]
    depth: int
    width: int
    dtype: DType
    query: Operand
    key: Operand
    value: Operand
    out: tuple[int, ...]
    program: Program
    operands: tuple[Operand, ...]

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Return the axes that each operand varies along, without the batch."""
        names: dict[tuple[bool, bool], Pattern] = {
            (False, False): "scalar",
            (True, False): "query",
            (False, True): "key",
            (True, True): "full",
        }
        return tuple(names[o.strides[-2] != 0, o.strides[-1] != 0] for o in self.operands)


def attention_of(group: FusedGroup) -> Attention:
    """Return the attention that a group computes.

    The group's anchor is the second product. Raises Unsupported for a group that is no attention.
    """
    if any(
        n < 0
        for member in group.members
        for t in (*member.spec.inputs, *member.spec.outputs)
        for n in t.shape
    ):
        raise Unsupported("shapes are not known")
    second = group.members[group.anchor]
    softmax = _behind_views(group, second.inputs[0])
    if (
        softmax.member < 0
        or group.members[softmax.member].spec.op != "Softmax"
        or len(group.outputs) != 1
    ):
        raise Unsupported("no softmax before the second product")
    firsts = [
        k
        for k, member in enumerate(group.members)
        if member.spec.has_trait(MATRIX_PRODUCT) and k != group.anchor
    ]
    if len(firsts) != 1:
        raise Unsupported("not two products")
    product = Ref(firsts[0])
    first = group.members[product.member]
    space = group.tensor(product).shape
    if prod(space) == 0:
        raise Unsupported("nothing to compute")
    keys = space[-1]
    weights = group.tensor(softmax).shape
    if (
        not weights
        or weights[-1] != keys
        or group.tensor(second.inputs[0]).shape != space
        or swapped(second.spec)[0]
    ):
        raise Unsupported("the softmax does not run along the keys")
    dtype = group.tensor(product).dtype
    if any(
        group.tensor(ref).dtype is not dtype
        for ref in (*first.inputs, *second.inputs, Ref(group.anchor))
    ):
        raise Unsupported("products of several dtypes")
    builder = IterationSpaceBuilder(group, space, is_leaf=lambda ref: ref == product)
    builder.value(product, identity_map(len(space)))  # the first value, so that it is operand 0
    scores = group.members[softmax.member].inputs[0]
    iteration_space = builder.finish(
        [builder.value(scores, builder.whole(group.tensor(scores).shape))]
    )
    if iteration_space.operands[0].strides != tuple(
        0 if n == 1 else s for n, s in zip(space, c_strides(space, dtype.size))
    ):
        raise Unsupported("the scores are read at other places than their own")
    if any(o.ref.member != INPUT or o.offset for o in iteration_space.operands[1:]):
        raise Unsupported("an operand of the scores is computed inside the group")
    if (
        expressions.program_errors(iteration_space.program)
        or iteration_space.program.outputs == ()
        or _result_dtype(iteration_space.program) is not dtype
    ):
        raise Unsupported("scores of another dtype, or that can fail")
    batch = space[:-2]
    result = group.tensor(Ref(group.anchor)).shape
    if result[:-2] != batch:
        raise Unsupported("the values have more batches than the scores")
    adjoint = swapped(first.spec)[0], not swapped(first.spec)[1], swapped(second.spec)[1]
    depth = group.tensor(first.inputs[0]).shape[-2 if adjoint[0] else -1]
    query = _view(group, first.inputs[0], (*batch, space[-2], depth), adjoint[0])
    key = _view(group, first.inputs[1], (*batch, keys, depth), adjoint[1])
    value = _view(group, second.inputs[1], (*batch, keys, result[-1]), adjoint[2])
    out = _result_strides(group, group.outputs[0], dtype.size)
    return Attention(
        space,
        depth,
        result[-1],
        dtype,
        query,
        key,
        value,
        out,
        iteration_space.program,
        iteration_space.operands[1:],
    )


def _result_dtype(program: Program) -> DType:
    return [*program.inputs, *(op.dtype for op in program.ops)][program.outputs[0]]


def _behind_views(group: FusedGroup, ref: Ref) -> Ref:
    while ref.member >= 0 and group.members[ref.member].spec.has_trait(IDENTITY | RESHAPE):
        ref = group.members[ref.member].inputs[0]
    return ref


def _view(group: FusedGroup, ref: Ref, space: tuple[int, ...], swapped: bool) -> Operand:
    """Return an operand of a product, read through transposes before it.

    Its strides run over `space`.
    """
    index: IndexMap = identity_map(len(space))
    target = space
    if swapped:
        index, target = (*index[:-2], index[-1], index[-2]), (*space[:-2], space[-1], space[-2])
    builder = IterationSpaceBuilder(group, space)
    computed, number = builder.value(ref, broadcast_map(index, group.tensor(ref).shape, target))
    operand = None if computed else builder.finish([(False, number)]).operands[number]
    if operand is None or operand.ref.member != INPUT:
        raise Unsupported("an input of a product is computed inside the group")
    return operand


def _result_strides(group: FusedGroup, ref: Ref, size: int) -> tuple[int, ...]:
    """Return strides of the group's output over the second product's axes.

    Transposes after the product are undone.
    """
    strides = c_strides(group.tensor(ref).shape, size)
    while ref != Ref(group.anchor):
        member = group.members[ref.member]
        if member.spec.op == "Transpose" and ref.member > group.anchor:
            order = [
                int(axis) % len(strides)
                for axis in np.asarray(_constant(group, member)).reshape(-1)
            ]
            moved = [0] * len(strides)
            for axis, stride in zip(order, strides):
                moved[axis] = stride
            strides = tuple(moved)
        elif not member.spec.has_trait(IDENTITY):
            raise Unsupported(f"{member.spec.op} {member.spec.name} after the second product")
        ref = member.inputs[0]
    return strides


def _constant(group: FusedGroup, member: Member) -> np.ndarray:
    ref = member.inputs[1]
    return group.constants[ref.index] if ref.member < INPUT else member.spec.constants[1]


_WORDS: Final = (
    "units", "blocks", "queries", "keys", "depth", "dims", "table", "nothing", "scratch", "scratch_bytes", "key_part",
    "q", "q_stride", "k", "k_row", "k_stride", "v", "v_row", "v_stride", "v_part", "o", "o_row",
    "k_tiles", "k_height", "k_tall", "k_tall_tile", "k_low_tile", "v_tiles", "v_height", "v_tall", "v_tall_tile", "v_low_tile",
)  # fmt: skip
_PLACES: Final = 4  # The table's columns before those of the operands: query, key, value, out.


@functools.cache
def attention_source(
    tile: Tile,
    vectors: int,
    dtype: DType,
    query_transposed: bool,
    program: Program,
    patterns: tuple[Pattern, ...],
) -> KernelSource:
    """Write the kernel.

    Words: those of _WORDS, then address, query stride and key stride of every operand. table: a row
    of byte offsets a head. query_transposed: a query's terms are contiguous, else the queries are.
    """
    s = Source()
    lanes = vectors * tile.lanes
    row = lanes * tile.size
    ops = "".join(f"+{op.op.lower()}" for op in program.ops)
    s.line(f"# attention {tile.kind} {tile.isa}, blocks of {lanes} queries{ops}")
    for line in expressions.IMPORTS:
        s.line(line)
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line(
        "from tfjit.kernels.cpu.gemm.column_ir import column_combine, column_reduce, "
        "transpose_block"
    )
    s.line("from tfjit.kernels.cpu.gemm.micro_kernels_ir import call_tile, copy_row")
    s.line(f"turn = transpose_block({tile.kind!r}, {tile.lanes})")
    s.line(f"copy_columns = copy_row({tile.kind!r}, {tile.lanes}, {vectors})")
    s.line(f"largest = column_reduce({tile.kind!r}, {tile.lanes}, {vectors}, 'max')")
    s.line(f"total = column_reduce({tile.kind!r}, {tile.lanes}, {vectors}, 'sum')")
    s.line(f"lower = column_combine({tile.kind!r}, {tile.lanes}, {vectors}, 'sub')")
    s.line(f"divide = column_combine({tile.kind!r}, {tile.lanes}, {vectors}, 'div')")
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(_WORDS):
            s.line(f"{name} = word(args, {i + 2})")
        at = len(_WORDS) + 2
        for k, pattern in enumerate(patterns):
            s.line(f"x{k}_base = word(args, {at + 3 * k})")
            if pattern != "scalar":
                s.line(f"x{k}_query = word(args, {at + 3 * k + 1})")
                s.line(f"x{k}_key = word(args, {at + 3 * k + 2})")
        s.line("turned_q = scratch + chunk * scratch_bytes")
        s.line(f"scores = turned_q + depth * {row}")
        s.line(f"mixed = scores + keys * {row}")
        s.line(f"top = mixed + dims * {row}")
        s.line(f"whole = top + {row}")
        s.line(f"free = whole + {row}")
        s.line("first = units * chunk // nchunks")
        with s.block("for unit in range(units * (chunk + 1) // nchunks - first):"):
            s.line("head = (first + unit) // blocks")
            s.line(f"query = (first + unit - head * blocks) * {lanes}")
            s.line(f"rows = min({lanes}, queries - query)")
            s.line(f"entry = table + head * {8 * (_PLACES + len(patterns))}")
            _write_queries(s, tile, query_transposed, row)
            s.line("k_at = k + word(entry, 1)")
            _write_tiles(s, "k", "k_at", "depth", "turned_q", "scores", row, lanes, "0")
            _write_scores(s, dtype, program, patterns, tile, lanes)
            s.line("v_at = v + word(entry, 2)")
            s.line("done = 0")
            with s.block("while done < keys:"):
                s.line("terms = min(key_part, keys - done)")
                _write_tiles(
                    s,
                    "v",
                    "v_at + done * v_part",
                    "terms",
                    f"scores + done * {row}",
                    "mixed",
                    row,
                    lanes,
                    "done",
                )
                s.line("done += terms")
            _write_result(s, tile, lanes)
    return KernelSource(
        s.text(),
        title=f"attention{ops} {tile.kind}",
        interleave=cost_model.INTERLEAVE,
        module=__name__,
    )


def _write_queries(s: Source, tile: Tile, query_transposed: bool, row: int) -> None:
    if query_transposed:
        s.line("q_at = q + word(entry, 0) + query * q_stride")
        write_transposed_panel(s, tile, "q_at", "q_stride", "rows", "depth", "turned_q", str(row))
        return
    s.line(f"q_at = q + word(entry, 0) + query * {tile.size}")
    with s.block("for i in range(depth):"):
        s.line(f"copy_columns(turned_q + i * {row}, q_at + i * q_stride, rows)")


def _write_tiles(
    s: Source, side: str, a: str, terms: str, b: str, c: str, row: int, lanes: int, accumulate: str
) -> None:
    s.line(f"a_tile = {a}")
    s.line(f"c_tile = {c}")
    with s.block(f"for t in range({side}_tiles):"):
        for label, name, height in (
            ("if t < {0}_tall:", "tall", "{0}_height"),
            ("else:", "low", "({0}_height - 1)"),
        ):
            with s.block(label.format(side)):
                arguments = (
                    f"a_tile, {side}_stride, nothing, 1, {terms}, {b}, c_tile, {row}, "
                    f"{lanes}, {accumulate}"
                )
                s.line(f"call_tile({side}_{name}_tile, {arguments})")
                s.line(f"a_tile += {height.format(side)} * {side}_row")
                s.line(f"c_tile += {height.format(side)} * {row}")


def _write_scores(
    s: Source, dtype: DType, program: Program, patterns: Sequence[Pattern], tile: Tile, lanes: int
) -> None:
    """Append the program over the scores, and their exponentials.

    The exponent is the difference to the largest score of the query. Loops run over all elements of
    the block: LLVM unrolls a loop over the few lanes of a row into scalars.
    """
    if program.ops:
        s.line("buffer = free")
        for k, pattern in enumerate(patterns):
            _write_operand(s, k, pattern, program.inputs[k + 1], tile, lanes)
        s.line(f"s_p = {typed_pointers.pointer(dtype, 'scores')}")
        with s.block(f"for j in range(keys * {lanes}):"):
            s.line(f"acc = ld_out(s_p, j, {_SCORES})")
            for k, pattern in enumerate(patterns):
                if pattern != "scalar":
                    s.line(f"x{k} = {expressions.loaded(program.inputs[k + 1], f'ld(x{k}_p, j)')}")
            (result,) = expressions.emit_program(
                s, program, ["acc", *(f"x{k}" for k in range(len(patterns)))]
            )
            s.line(f"st_out(s_p, j, {result}, {_SCORES})")
    s.line("largest(scores, keys, top)")
    s.line("lower(scores, keys, top)")
    s.line(f"s_p = {typed_pointers.pointer(dtype, 'scores')}")
    with s.block(f"for j in range(keys * {lanes}):"):
        s.line(f"acc = ld_out(s_p, j, {_SCORES})")
        power = Program((dtype,), (ScalarOp("Exp", (0,), dtype),), (1,))
        (result,) = expressions.emit_program(s, power, ["acc"], prefix="e")
        s.line(f"st_out(s_p, j, {result}, {_SCORES})")
    s.line("total(scores, keys, whole)")


def _loaded(dtype: DType, address: str) -> str:
    return expressions.loaded(dtype, f"ld({typed_pointers.pointer(dtype, address)}, 0)")


def _write_operand(
    s: Source, k: int, pattern: Pattern, dtype: DType, tile: Tile, lanes: int
) -> None:
    """Define x<k> (scalar), or x<k>_p: the block's part of an operand.

    The part has the layout of the scores.
    """
    s.line(f"x{k}_at = x{k}_base + word(entry, {_PLACES + k})")
    if pattern == "scalar":
        s.line(f"x{k} = {_loaded(dtype, f'x{k}_at')}")
        return
    row = lanes * dtype.size

    def element_by_element() -> None:
        with s.block("for i in range(keys):"):
            s.line(f"to_p = {typed_pointers.pointer(dtype, f'buffer + i * {row}')}")
            s.line(f"from_p = {typed_pointers.pointer(dtype, f'x{k}_at + i * x{k}_key')}")
            if pattern == "key":
                s.line("other = ld_any(from_p, 0)")
                with s.block(f"for j in range({lanes}):"):
                    s.line("st_any(to_p, j, other)")
            else:
                with s.block("for j in range(rows):"):
                    s.line(f"st_any(to_p, j, ld_any_at(from_p, j * x{k}_query))")
                s.line(
                    f"fill_bytes(buffer + i * {row} + rows * {dtype.size}, 0, ({lanes} - rows) * "
                    f"{dtype.size})"
                )

    if pattern != "key":
        s.line(f"x{k}_at += query * x{k}_query")
    if pattern == "full" and dtype.is_floating and dtype.size == tile.size:
        with s.block(f"if x{k}_key == {tile.size}:"):
            write_transposed_panel(
                s, tile, f"x{k}_at", f"x{k}_query", "rows", "keys", "buffer", str(row)
            )
        with s.block("else:"):
            element_by_element()
    else:
        element_by_element()
    s.line(f"x{k}_p = {typed_pointers.pointer(dtype, 'buffer')}")
    s.line(f"buffer = (buffer + keys * {row} + 63) // 64 * 64")


def _write_result(s: Source, tile: Tile, lanes: int) -> None:
    """Divide by the sums, and transpose the block into result rows."""
    row = lanes * tile.size
    s.line("divide(mixed, dims, whole)")
    s.line("o_at = o + word(entry, 3) + query * o_row")
    s.line("r0 = 0")
    with s.block("while r0 < rows:"):
        s.line("d0 = 0")
        with s.block("while d0 < dims:"):
            source, target = (
                f"mixed + d0 * {row} + r0 * {tile.size}",
                f"o_at + r0 * o_row + d0 * {tile.size}",
            )
            columns = f"min(dims - d0, {tile.lanes})"
            s.line(
                f"turn({source}, {row}, {target}, o_row, {columns}, min(rows - r0, {tile.lanes}), "
                f"{columns})"
            )
            s.line(f"d0 += {tile.lanes}")
        s.line(f"r0 += {tile.lanes}")


def attention_call(group: FusedGroup) -> NativeCall:
    """Return the launches of an attention group.

    Raises Unsupported for groups that the template does not serve.
    """
    plan = attention_of(group)
    tile = tile_of(plan.dtype)
    size = tile.size
    *batch, queries, keys = plan.space
    if plan.depth * plan.width == 0:
        raise Unsupported("nothing to compute")
    if queries < MIN_QUERIES:
        raise Unsupported(f"{queries} queries")
    if plan.depth > _MAX_DEPTH:
        raise Unsupported(f"queries of {plan.depth} terms")
    query_transposed = plan.query.strides[-1] in (0, size)
    if not query_transposed and plan.query.strides[-2] not in (0, size):
        raise Unsupported("neither the queries nor their terms lie side by side")
    if plan.out[-1] != size and plan.width > 1:
        raise Unsupported("the terms of the result do not lie side by side")
    vectors = (
        1
        if queries <= tile.lanes
        or _waste(queries, 2 * tile.lanes) > 1.2 * _waste(queries, tile.lanes)
        else 2
    )
    if keys * 2 * tile.lanes * size > _WIDE_BYTES:
        vectors = 1
    lanes = vectors * tile.lanes
    key_transposed, key_stride = _side(plan.key, size)
    # The second product sums over keys: its rows are the terms of a value.
    *outer, key_bytes, term_bytes = plan.value.strides
    value = replace(plan.value, strides=(*outer, term_bytes, key_bytes))
    value_transposed, value_stride = _side(value, size)

    call = CallBuilder()
    heads, blocks = prod(batch), -(-queries // lanes)
    table = offset_table(call, batch, [strides[:-2] for strides in _strides(plan)])
    key_rows = cover(keys, row_limit(tile, plan.key.strides[-2], key_transposed))
    value_rows = cover(plan.width, row_limit(tile, value.strides[-2], value_transposed))
    part = depth_blocks(1, keys)[0][3]
    spread = [
        o.dtype.size for o, pattern in zip(plan.operands, plan.patterns) if pattern != "scalar"
    ]
    row = lanes * size
    scratch = (plan.depth + keys + plan.width + 2) * row + sum(
        keys * lanes * size + 64 for size in spread
    )
    scratch = -(-scratch // 64) * 64
    cost = _cost_ns(tile, plan, vectors, heads * blocks)
    chunks = max(1, min(chunk_count(cost, heads * blocks), max(2, _SCRATCH_BYTES // scratch)))
    words: list[Word] = [
        heads * blocks,
        blocks,
        queries,
        keys,
        plan.depth,
        plan.width,
        table,
        call.table([0]),
    ]
    words += [call.temp(scratch * chunks), scratch, part]
    words += [
        Pointer("in", plan.query.ref.index, plan.query.offset),
        plan.query.strides[-2 if query_transposed else -1],
    ]
    words += [Pointer("in", plan.key.ref.index, plan.key.offset), plan.key.strides[-2], key_stride]
    words += [
        Pointer("in", value.ref.index, value.offset),
        value.strides[-2],
        value_stride,
        value.strides[-1],
    ]
    words += [Pointer("out", 0), plan.out[-2]]
    for rows, is_transposed in ((key_rows, key_transposed), (value_rows, value_transposed)):
        words += [
            rows.count,
            rows.height,
            rows.tall,
            *rows.pointers(matmul_tiles(tile, vectors, is_transposed), vectors),
        ]
    for operand in plan.operands:
        words += [
            Pointer("in", operand.ref.index, operand.offset),
            operand.strides[-2],
            operand.strides[-1],
        ]
    source = attention_source(
        tile, vectors, plan.dtype, query_transposed, plan.program, plan.patterns
    )
    call.launch(Launch(source, tuple(words), chunks=chunks, cost_ns=cost))
    moved = sum(t.nbytes for t in (*group.inputs, group.tensor(group.outputs[0])))
    return call.finish(moved, 2 * prod(plan.space) * (plan.depth + plan.width))


def _waste(queries: int, lanes: int) -> int:
    """Return the padded number of queries in blocks of `lanes`."""
    return -(-queries // lanes) * lanes


def _side(operand: Operand, size: int) -> tuple[bool, int]:
    """Return whether an operand's rows are contiguous, and its step.

    The step is the bytes between rows (or terms), as the micro-kernel takes it.
    """
    row, step = operand.strides[-2:]
    if step in (0, size):
        return False, row
    if row in (0, size):
        return True, step
    raise Unsupported("neither rows nor terms of an operand lie side by side")


def _strides(plan: Attention) -> list[tuple[int, ...]]:
    return [
        plan.query.strides,
        plan.key.strides,
        plan.value.strides,
        plan.out,
        *(o.strides for o in plan.operands),
    ]


def _cost_ns(tile: Tile, plan: Attention, vectors: int, units: int) -> float:
    keys = plan.space[-1]
    cells = keys * vectors * tile.lanes
    products = keys * vectors * (plan.depth + plan.width) / 3.5
    exponential = cost_model.op_ns("Exp", tile.size) + cost_model.program_ns(plan.program) + 0.1
    return cost_model.FIXED_NS + units * (
        200.0 + products * (1.0 if tile.fused else 2.0) + cells * exponential
    )
