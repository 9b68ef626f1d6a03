"""Compute attention in one kernel.

It is softmax(program(q k^T, operands...)) v, without scores in memory. A block takes a few queries
of a head, and walks over the keys. It multiplies its queries with a slab of keys, applies the
operands to the scores, and keeps each query's largest score and sum of exponentials so far. A
larger score scales down the sums that came before it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.gemm.attention import Attention, Pattern, attention_of
from tfjit.kernels.cuda.gemm.product_text import write_header
from tfjit.kernels.cuda.gemm.tiles import accumulator
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.launches import CudaLaunch, source
from tfjit.kernels.registry import NativeCall, Pointer, Unsupported, Word
from tfjit.kernels.source import KernelSource, Source

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.iteration_space import Operand
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.ir.scalar_program import Program

_KEYS: Final = 32  # of a slab
_LANES: Final = 8  # threads that share a query
_RUN: Final = 4  # float32 of one load
_MOST_DEPTH: Final = 128
_LEAST_QUERIES: Final = 8
_TERMS: Final = 16  # of one unrolled step of the scores


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """The part of an attention that its text depends on.

    queries: of a block. depth, width: of queries and of values, rounded up. shared: keys and values
    take turns in one buffer. wide: queries, keys, values, result are loaded and stored by 4.
    """

    dtype: DType
    queries: int
    depth: int
    width: int
    shared: bool
    wide: tuple[bool, bool, bool, bool]

    @property
    def threads(self) -> int:
        """Return the threads of a block; each has 4 queries."""
        return self.queries // _RUN * _LANES


_WORDS: Final = (
    "blocks", "queries", "keys", "depth", "width", "table", "q_address", "q_row", "q_step",
    "k_address", "k_row", "k_step", "v_address", "v_row", "v_step", "o_address", "o_row", "o_step",
)  # fmt: skip
_PLACES: Final = 4  # columns of the table before those of the operands


@functools.cache
def attention_source(
    shape: AttentionShape, program: Program, patterns: tuple[Pattern, ...]
) -> KernelSource:
    """Write the kernel.

    Words: those of _WORDS, then address, query stride and key stride of every operand. table: a row
    of first elements a head. All strides count elements.
    """
    words = list(_WORDS)
    for k in range(len(patterns)):
        words += [f"x{k}_address", f"x{k}_query", f"x{k}_key"]
    ops = "".join(f"+{op.op.lower()}" for op in program.ops)
    s = Source()
    write_header(s, f"attention {shape.dtype.name} {shape}{ops}")
    pitch, key_pitch, value_pitch = shape.queries + _RUN, _KEYS + _RUN, shape.width + _RUN
    key_elements, value_elements = shape.depth * key_pitch, _KEYS * value_pitch
    with s.block(f"def kernel({', '.join(words)}):"):
        s.line("t = thread()")
        s.line("head = div_u32(block(), blocks)")
        s.line(f"first = (block() - head * blocks) * {shape.queries}")
        s.line(f"entry = ptr_i64(table + head * {8 * (_PLACES + len(patterns))})")
        for k, name in enumerate("qkvo"):
            s.line(f"{name}_p = {element_kinds.pointer(shape.dtype, f'{name}_address')}")
            s.line(f"{name}_at = ld_ro(entry, {k})")
        for k in range(len(patterns)):
            pointer = element_kinds.pointer(program.inputs[1 + k], f"x{k}_address")
            s.line(f"x{k}_p = {pointer}")
            s.line(f"x{k}_at = ld_ro(entry, {_PLACES + k})")
        s.line(f"sq = shared_f32({shape.depth * pitch})")
        s.line(f"sp = shared_f32({_KEYS * pitch})")
        if shape.shared:
            s.line(f"sk = shared_f32({max(key_elements, value_elements)})")
            s.line("sv = sk")
        else:
            s.line(f"sk = shared_f32({key_elements})")
            s.line(f"sv = shared_f32({value_elements})")
        s.line(f"row = div_u32(t, {_LANES})")
        s.line(f"lane = t - row * {_LANES}")
        s.line(f"query = first + row * {_RUN}")
        _write_lines(s, shape, "q", "queries", "first", shape.queries, pitch)
        for i in range(_RUN):
            s.line(f"top{i} = float32(-1e999)")
            s.line(f"sum{i} = float32(0.0)")
        s.line(f"mixed = zeros(float32(0.0), {_RUN * shape.width // _LANES})")
        s.line("key_first = 0")
        with s.block("while key_first < keys:"):
            s.line("sync_threads()")
            _write_lines(s, shape, "k", "keys", "key_first", _KEYS, key_pitch)
            if not shape.shared:
                _write_values(s, shape, value_pitch)
            s.line("sync_threads()")
            _write_scores(s, shape, program, patterns, pitch, key_pitch)
            _write_exponentials(s, pitch)
            s.line("sync_threads()")
            if shape.shared:
                _write_values(s, shape, value_pitch)
                s.line("sync_threads()")
            s.line(
                f"mixed = multiply_slab(mixed, sp, row * {_RUN}, sv, lane * {_RUN}, {_KEYS}, "
                f"{_RUN}, {shape.width // _LANES}, {pitch}, {value_pitch}, {shape.queries}, "
                f"{_RUN * _LANES})"
            )
            s.line(f"key_first += {_KEYS}")
        _write_result(s, shape)
    return source(s.text(), len(words), f"attention{ops} {shape.dtype.name}", __name__)


def _write_lines(
    s: Source, shape: AttentionShape, name: str, count: str, first: str, lines: int, pitch: int
) -> None:
    """Copy queries or keys into shared memory, terms by lines.

    Neighbouring threads copy neighbouring lines, so that their stores fall on different banks.
    """
    vector = _RUN if shape.wide["qk".index(name)] else 1
    with s.block(f"for load in range({lines * shape.depth // vector // shape.threads}):"):
        s.line(f"number = t + load * {shape.threads}")
        s.line(f"term = div_u32(number, {lines}) * {vector}")
        s.line(f"line = rem_u32(number, {lines})")
        s.line(f"limit = depth if {first} + line < {count} else 0")
        s.line(f"at = {name}_at + ({first} + line) * {name}_row + term * {name}_step")
        names = [f"e{k}" for k in range(vector)]
        suffix = "" if vector == 1 else str(vector)
        s.line(f"{', '.join(names)} = ld_below{suffix}({name}_p, at, term, limit)")
        for k, value in enumerate(names):
            value = expressions.loaded(shape.dtype, value)
            s.line(f"st_shared(s{name}, (term + {k}) * {pitch} + line, {value})")


def _write_values(s: Source, shape: AttentionShape, pitch: int) -> None:
    """Copy values into shared memory, keys by columns."""
    vector = _RUN if shape.wide[2] else 1
    across = shape.width // vector
    with s.block(f"for load in range({_KEYS * across // shape.threads}):"):
        s.line(f"number = t + load * {shape.threads}")
        s.line(f"line = div_u32(number, {across})")
        s.line(f"column = (number - line * {across}) * {vector}")
        s.line("limit = width if key_first + line < keys else 0")
        s.line("at = v_at + (key_first + line) * v_row + column * v_step")
        names = [f"e{k}" for k in range(vector)]
        values = [expressions.loaded(shape.dtype, name) for name in names]
        suffix = "" if vector == 1 else str(vector)
        s.line(f"{', '.join(names)} = ld_below{suffix}(v_p, at, column, limit)")
        s.line(f"st_shared{suffix}(sv, line * {pitch} + column, {', '.join(values)})")


def _write_scores(
    s: Source,
    shape: AttentionShape,
    program: Program,
    patterns: Sequence[Pattern],
    pitch: int,
    key_pitch: int,
) -> None:
    """Compute the thread's scores.

    They are named s{query}_{key}; keys behind the last have the score -inf.
    """
    s.line(f"scores = zeros(float32(0.0), {_RUN * _RUN})")
    with s.block(f"for step in range({shape.depth // _TERMS}):"):
        s.line(
            f"scores = multiply_slab(scores, sq, step * {_TERMS * pitch} + row * {_RUN}, sk, "
            f"step * {_TERMS * key_pitch} + lane * {_RUN}, {_TERMS}, {_RUN}, {_RUN}, {pitch}, "
            f"{key_pitch}, {shape.queries}, {_KEYS})"
        )
    s.line(f"key = key_first + lane * {_RUN}")
    for i in range(_RUN):
        s.line(f"at_query{i} = min(query + {i}, queries - 1)")
        s.line(f"at_key{i} = min(key + {i}, keys - 1)")
    for k, pattern in enumerate(patterns):
        if pattern == "scalar":
            s.line(f"x{k} = {_operand(program, k, f'x{k}_at')}")
    for i in range(_RUN):
        for j in range(_RUN):
            names = [f"scores[{i * _RUN + j}]"]
            if shape.dtype is not d.float32:
                short = "bf16" if shape.dtype is d.bfloat16 else "f16"
                names = [f"vm.round_{short}_f32({names[0]})"]
            s.line(f"c{i}_{j} = {names[0]}")
            names = [f"c{i}_{j}"]
            for k, pattern in enumerate(patterns):
                if pattern == "scalar":
                    names.append(f"x{k}")
                    continue
                place = f"x{k}_at + at_query{i} * x{k}_query + at_key{j} * x{k}_key"
                s.line(f"x{k}_{i}_{j} = {_operand(program, k, place)}")
                names.append(f"x{k}_{i}_{j}")
            (result,) = expressions.emit_program(s, program, names, prefix=f"v{i}_{j}_")
            s.line(f"s{i}_{j} = select(key + {j} < keys, {result}, float32(-1e999))")


def _operand(program: Program, k: int, place: str) -> str:
    return expressions.loaded(program.inputs[1 + k], f"ld_ro(x{k}_p, {place})")


def _write_exponentials(s: Source, pitch: int) -> None:
    """Store the exponentials of the scores.

    The largest scores are brought up to date, and earlier sums are scaled down to them.
    """
    for i in range(_RUN):
        s.line(f"best{i} = top{i}")
        for j in range(_RUN):
            s.line(f"best{i} = select(s{i}_{j} > best{i}, s{i}_{j}, best{i})")
        for distance in (4, 2, 1):
            s.line(f"other = shuffle_xor(best{i}, {distance})")
            s.line(f"best{i} = select(other > best{i}, other, best{i})")
        # With no score above -inf so far the difference of two infinities would be NaN.
        s.line(f"base = select(best{i} == float32(-1e999), float32(0.0), best{i})")
        s.line(f"fade{i} = vm.exp_f32(top{i} - base)")
        s.line(f"top{i} = best{i}")
        s.line(f"sum{i} = sum{i} * fade{i}")
        for j in range(_RUN):
            s.line(f"p{i}_{j} = vm.exp_f32(s{i}_{j} - base)")
            s.line(f"sum{i} += p{i}_{j}")
    s.line("mixed = scale_rows(mixed, fade0, fade1, fade2, fade3)")
    for j in range(_RUN):
        values = ", ".join(f"p{i}_{j}" for i in range(_RUN))
        s.line(f"st_shared4(sp, (lane * {_RUN} + {j}) * {pitch} + row * {_RUN}, {values})")


def _write_result(s: Source, shape: AttentionShape) -> None:
    """Divide by the sums, and store the thread's results."""
    for i in range(_RUN):
        for distance in (4, 2, 1):
            s.line(f"sum{i} += shuffle_xor(sum{i}, {distance})")
        s.line(f"share{i} = float32(1.0) / sum{i}")
    s.line("mixed = scale_rows(mixed, share0, share1, share2, share3)")
    across = shape.width // _LANES // _RUN
    with s.block(f"for number in range({_RUN * across}):"):
        s.line(f"e0, e1, e2, e3 = run_of(mixed, number, {_RUN})")
        s.line(f"line = number // {across}")
        s.line(f"column = (number - line * {across}) * {_RUN * _LANES} + lane * {_RUN}")
        s.line("at = o_at + (query + line) * o_row + column * o_step")
        values = [expressions.stored(shape.dtype, f"e{k}") for k in range(_RUN)]
        with s.block("if query + line < queries:"):
            if shape.wide[3]:
                with s.block("if column < width:"):
                    s.line(f"st_vec{_RUN}(o_p, at, {', '.join(values)})")
            else:
                for k, value in enumerate(values):
                    with s.block(f"if column + {k} < width:"):
                        s.line(f"st(o_p, at + {k} * o_step, {value})")


def _elements(strides: Sequence[int], offset: int, size: int) -> list[int]:
    """Return strides and offset in elements. Raises Unsupported."""
    if any(number % size for number in (*strides, offset)):
        raise Unsupported("an operand lies between elements")
    return [stride // size for stride in strides]


def _is_wide(strides: Sequence[int], offset: int, length: int, size: int) -> bool:
    """Return whether runs of 4 elements are contiguous and aligned."""
    *outer, last = strides
    return last == size and all(n % (_RUN * size) == 0 for n in (*outer, offset, length * size))


def attention_group_call(
    group: FusedGroup, known: Mapping[int, np.ndarray] | None = None
) -> NativeCall:
    """Return the launch of an attention group.

    known: values of external inputs, which change nothing here. Raises Unsupported for groups that
    the kernel does not serve.
    """
    plan = attention_of(group)
    if accumulator(plan.dtype) is not d.float32:
        raise Unsupported(f"attention of {plan.dtype.name}")
    *batch, queries, keys = plan.space
    if prod(plan.space) * plan.depth * plan.width == 0:
        raise Unsupported("nothing to compute")
    if queries < _LEAST_QUERIES:
        raise Unsupported(f"{queries} queries, fewer than {_LEAST_QUERIES}")
    if max(plan.depth, plan.width) > _MOST_DEPTH:
        raise Unsupported(f"queries of {plan.depth} and values of {plan.width} terms")
    shape = _shape(plan)
    size = plan.dtype.size
    heads, blocks = prod(batch), -(-queries // shape.queries)
    places = [
        (plan.query.strides, plan.query.offset, size),
        (plan.key.strides, plan.key.offset, size),
        (plan.value.strides, plan.value.offset, size),
        (plan.out, 0, size),
        *((o.strides, o.offset, o.dtype.size) for o in plan.operands),
    ]
    elements = [_elements(*place) for place in places]
    table = np.array(
        [_starts(batch, strides[:-2]) for strides in elements], np.int64
    ).T.copy()  # a row a head
    words: list[Word] = [
        *(blocks, queries, keys, plan.depth, plan.width, Pointer("const", 0)),
    ]
    sources = (
        *(_input(operand) for operand in (plan.query, plan.key, plan.value)),
        Pointer("out", 0),
        *(_input(operand) for operand in plan.operands),
    )
    for pointer, strides in zip(sources, elements):
        words += [pointer, strides[-2], strides[-1]]
    launch = CudaLaunch(
        attention_source(shape, plan.program, plan.patterns),
        tuple(words),
        grid=(heads * blocks, 1, 1),
        block=(shape.threads, 1, 1),
    )
    moved = sum(t.nbytes for t in (*group.inputs, group.tensor(group.outputs[0])))
    return NativeCall(
        (launch,),
        constants=(table,),
        bytes_moved=moved,
        flops=2 * prod(plan.space) * (plan.depth + plan.width),
    )


def _input(operand: Operand) -> Pointer:
    return Pointer("in", operand.ref.index, operand.offset)


def _shape(plan: Attention) -> AttentionShape:
    """Return the shape of the tile.

    It has 64 queries where queries and values have up to 64 terms, else 32.
    """
    small = max(plan.depth, plan.width) <= 64
    size = plan.dtype.size
    return AttentionShape(
        plan.dtype,
        64 if small else 32,
        -(-plan.depth // _TERMS) * _TERMS,
        -(-plan.width // (_RUN * _LANES)) * _RUN * _LANES,
        not small,
        (
            _is_wide(plan.query.strides, plan.query.offset, plan.depth, size),
            _is_wide(plan.key.strides, plan.key.offset, plan.depth, size),
            _is_wide(plan.value.strides, plan.value.offset, plan.width, size),
            _is_wide(plan.out, 0, plan.width, size),
        ),
    )


def _starts(batch: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the first element of every matrix of a batch."""
    found = [0]
    for n, stride in zip(batch, strides):
        found = [start + k * stride for start in found for k in range(n)]
    return found


__all__ = ["AttentionShape", "attention_group_call", "attention_source"]
