"""Fused elementwise loops: any number of inputs and outputs over one iteration space, with every broadcast and stride pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tfjit.framework import elementwise
from tfjit.framework.dtypes import DType
from tfjit.kernels import expressions
from tfjit.kernels.cpu import access, costs
from tfjit.kernels.cpu.epilogue import repeat_source
from tfjit.kernels.cpu.region import (
    RESHAPING,
    Operand,
    Region,
    RegionBuilder,
    c_strides,
    collapse,
    identity_map,
    single,
    split_shape,
)
from tfjit.kernels.group import INPUT, FusedGroup, node_suffix
from tfjit.kernels.program import Program
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

CONTIGUOUS: Final = "c"
HOISTED: Final = "s"
STRIDED: Final = "g"
MAX_OUTPUTS: Final = 15
"""Distinct buffers that a kernel's stores may promise to be (kernels/intrinsics.py)."""

NARROW: Final = 64
FOLD_WIDTH: Final = 512
"""Rows shorter than NARROW are taken several at a time, up to so many elements."""

HEADER: Final = (*expressions.IMPORTS, "from tfjit.kernels.intrinsics import *", "", "")


@dataclass(frozen=True, slots=True)
class LoopOperand:
    """An input or output of a loop's text. name: in the text; pattern: its way along the inner dim; output: its number, or -1."""

    name: str
    dtype: DType
    pattern: str
    output: int = -1


def inner_pattern(stride: int, dtype: DType) -> str:
    """How an operand moves along the inner dimension: side by side, not at all (read once a row), or by a stride."""
    if stride == dtype.size:
        return CONTIGUOUS
    return HOISTED if stride == 0 else STRIDED


def loop_source(program: Program, rank: int, operands: Sequence[LoopOperand], title: str = "") -> KernelSource:
    """The kernel of a loop over `rank` dims. operands: the program's inputs, then its outputs.

    Argument words: the sizes of its dims, the number of parts the inner dim is cut into (rank > 1), then for each operand its
    address, for rank > 1 its byte strides along the outer dims, and for a strided one its inner stride.
    """
    s = Source()
    s.line(f"# {rank}-d loop: {' '.join(op.op for op in program.ops) or 'copy'}")
    for line in HEADER:
        s.line(line)
    fails = bool(expressions.program_errors(program))
    inner = rank - 1
    with s.block("def kernel(args, chunk, nchunks):"):
        if fails:
            s.line("bad = 0")
        for d in range(rank):
            s.line(f"n{d} = word(args, {2 + d})")
        at = 2 + rank + (rank > 1)
        base: dict[str, str] = {}
        for o in operands:
            base[o.name] = f"word(args, {at})"
            if rank > 1:
                s.line(f"{o.name}_at = {base[o.name]}")
                base[o.name] = " + ".join([f"{o.name}_at", *(f"i{d} * {o.name}_s{d}" for d in range(inner))])
            for d in range(inner):
                s.line(f"{o.name}_s{d} = word(args, {at + 1 + d})")
            at += 1 + inner
            if o.pattern == STRIDED:
                s.line(f"{o.name}_step = word(args, {at})")
                at += 1
        if rank == 1:
            s.line("lo = n0 * chunk // nchunks")
            s.line("m = n0 * (chunk + 1) // nchunks - lo")
            _write_row(s, program, operands, base, fails)
        else:
            s.line(f"parts = word(args, {2 + rank})")
            s.line(f"units = {' * '.join(f'n{d}' for d in range(inner))} * parts")
            s.line("first = units * chunk // nchunks")
            s.line("count = units * (chunk + 1) // nchunks - first")
            s.line(f"width = n{inner} // parts")
            write_odometer(s, inner)
            with s.block("for unit in range(count):"):
                s.line("lo = part * width")
                s.line(f"m = width if part + 1 < parts else n{inner} - lo")
                _write_row(s, program, operands, base, fails)
                advance_odometer(s, inner)
        if fails:
            with s.block("if bad != 0:"):
                s.line("fail(args, bad, 0)")
    return KernelSource(s.text(), title=title)


def write_odometer(s: Source, outer: int) -> None:
    """Set `part` and the indices i0.. of `outer` dims from the unit number `first`; a row has `parts` units."""
    s.line("row = first // parts")
    s.line("part = first - row * parts")
    for d in range(outer - 1, 0, -1):
        s.line(f"i{d} = row % n{d}")
        s.line(f"row = row // n{d}")
    s.line("i0 = row")


def advance_odometer(s: Source, outer: int) -> None:
    """Move `part` and the indices on by one unit."""
    s.line("part += 1")
    with ExitStack() as stack:
        stack.enter_context(s.block("if part == parts:"))
        s.line("part = 0")
        for d in range(outer - 1, 0, -1):
            s.line(f"i{d} += 1")
            stack.enter_context(s.block(f"if i{d} == n{d}:"))
            s.line(f"i{d} = 0")
        s.line("i0 += 1")


def write_pointers(s: Source, operands: Sequence[LoopOperand], base: Mapping[str, str], start: str = "lo") -> dict[str, str]:
    """Pointers of operands at inner index `start`, and the register values of hoisted ones.

    Returns for each operand the text that is its value (inputs) or nothing yet (outputs) at inner index `i`.
    """
    values: dict[str, str] = {}
    for o in operands:
        if o.pattern == HOISTED:
            s.line(f"{o.name} = {expressions.loaded(o.dtype, f'ld({access.pointer(o.dtype, base[o.name])}, 0)')}")
            values[o.name] = o.name
        elif o.pattern == STRIDED:
            s.line(f"{o.name}_p = {access.pointer(o.dtype, f'{base[o.name]} + {start} * {o.name}_step')}")
            values[o.name] = expressions.loaded(o.dtype, f"ld_at({o.name}_p, i * {o.name}_step)")
        else:
            s.line(f"{o.name}_p = {access.pointer(o.dtype, f'{base[o.name]} + {start} * {o.dtype.size}')}")
            values[o.name] = expressions.loaded(o.dtype, f"ld({o.name}_p, i)")
    return values


def _write_row(s: Source, program: Program, operands: Sequence[LoopOperand], base: Mapping[str, str], fails: bool) -> None:
    inputs = [o for o in operands if o.output < 0]
    outputs = [o for o in operands if o.output >= 0]
    values = write_pointers(s, operands, base)
    with s.block("for i in range(m):"):
        names = []
        for o in inputs:
            if o.pattern != HOISTED:
                s.line(f"{o.name} = {values[o.name]}")
            names.append(o.name)
        results = expressions.emit_program(s, program, names, failed="bad" if fails else None)
        for o, result in zip(outputs, results):
            stored = expressions.stored(o.dtype, result)
            if o.pattern == STRIDED:
                s.line(f"st_out_at({o.name}_p, i * {o.name}_step, {stored}, {o.output})")
            else:
                s.line(f"st_out({o.name}_p, i, {stored}, {o.output})")


def region_of(group: FusedGroup) -> Region:
    """The scalar program and operands of a loop group over its outputs' common shape. Raises Unsupported when they differ."""
    shapes = {group.tensor(ref).shape for ref in group.outputs}
    reshapes = [m for m in group.members if m.spec.op in RESHAPING]
    sizes = {prod(shape) for shape in shapes}
    if len(shapes) != 1 and (len(sizes) != 1 or not reshapes):
        raise Unsupported(f"outputs of different shapes {sorted(shapes)}")
    shape = max(shapes, key=len)
    space = shape
    if reshapes:
        others = [t.shape for m in reshapes for t in (group.tensor(m.inputs[0]), m.spec.outputs[0])]
        space = split_shape(shape, [*others, *shapes])
    builder = RegionBuilder(group, space)
    outputs = []
    for ref in group.outputs:
        own = group.tensor(ref).shape
        index = identity_map(len(space)) if own == space else builder.whole(own)
        outputs.append(builder.value(ref, index))
    return builder.finish(outputs)


def loop_call(group: FusedGroup, title: str = "") -> NativeCall:
    """Launches of a loop group. Raises Unsupported where a member has no scalar form."""
    region = region_of(group)
    if len(group.outputs) > MAX_OUTPUTS:
        raise Unsupported(f"{len(group.outputs)} outputs")
    tensors = [group.tensor(ref) for ref in group.outputs]
    results = [
        Operand(ref, t.dtype, tuple(0 if n == 1 else b for n, b in zip(region.shape, c_strides(region.shape, t.dtype.size))))
        for ref, t in zip(group.outputs, tensors)
    ]
    return strided_call(region, results, title or loop_title(region.program), _named_errors(group, region.program))


def _named_errors(group: FusedGroup, program: Program) -> dict[int, tuple[str, str]]:
    """What the loop may report; where one member alone can be at fault, the message names it."""
    named = {}
    for code, (kind, message) in expressions.program_errors(program).items():
        suspects = []
        for member in group.members:
            row = elementwise.lookup(member.spec.op)
            if row is not None and row.error is not None and row.error.code == code:
                suspects.append(member.spec.name)
        if len(group.members) > 1 and len(suspects) == 1:
            message += node_suffix(suspects[0]).replace("{", "{{").replace("}", "}}")  # it goes through str.format
        named[code] = (kind, message)
    return named


def strided_call(region: Region, results: Sequence[Operand], title: str, errors: Mapping[int, tuple[str, str]]) -> NativeCall:
    """Launches of a region whose outputs are laid out as `results` say. errors: as in Launch."""
    operands = [*region.operands, *results]
    count = prod(region.shape)
    moved = sum(o.dtype.size * _touched(region.shape, o) for o in operands)
    if count == 0:
        return NativeCall((), bytes_moved=0)
    dims, strides = collapse(region.shape, [o.strides for o in operands])
    if not dims:
        dims, strides = (1,), [(o.dtype.size if k >= len(region.operands) else 0,) for k, o in enumerate(operands)]
    dims, strides, fold = _folded(operands, dims, strides)
    described = []
    for k, (operand, step) in enumerate(zip(operands, strides)):
        output = k - len(region.operands)
        name = f"x{k}" if output < 0 else f"y{output}"
        described.append(LoopOperand(name, operand.dtype, inner_pattern(step[-1], operand.dtype), max(output, -1)))
    flops = len(region.program.ops) * count
    cost = costs.FIXED_NS + count * costs.program_ns(region.program) + costs.traffic_ns(moved)
    rows = prod(dims[:-1])
    chunks = costs.chunks_for(cost, count)
    parts = 1
    if len(dims) > 1 and rows < 2 * chunks:
        parts = min(-(-2 * chunks // rows), max(dims[-1] // 256, 1))
    chunks = min(chunks, rows * parts if len(dims) > 1 else dims[0])
    words: list[Word] = list(dims)
    if len(dims) > 1:
        words.append(parts)
    launches: list[Launch] = []
    temps: list[int] = []
    for k, (operand, step, text) in enumerate(zip(operands, strides, described)):
        output = k - len(region.operands)
        place = Pointer("out", output) if output >= 0 else Pointer("in", operand.ref.index, operand.offset)
        if fold > 1 and step[0] == 0 and step[-1] != 0:
            width = dims[-1] // fold * operand.dtype.size
            temps.append(width * fold)
            launches.append(Launch(repeat_source(), (Pointer("temp", len(temps) - 1), place, width, fold), cost_ns=100.0))
            place = Pointer("temp", len(temps) - 1)
        words.append(place)
        words.extend(step[:-1])
        if text.pattern == STRIDED:
            words.append(step[-1])
    source = loop_source(region.program, len(dims), described, title)
    source = replace(source, interleave=costs.interleave_for(region.program, dims[-1] // parts))
    launches.append(Launch(source, tuple(words), chunks=chunks, cost_ns=cost, errors=errors))
    return NativeCall(tuple(launches), in_place=_in_place(region, results), temp_bytes=tuple(temps), bytes_moved=moved, flops=flops)


def _folded(
    operands: Sequence[Operand], dims: Sequence[int], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]], int]:
    """Several short rows taken as one longer one, vectors along them repeated as often: (dims, strides, rows in one).

    A loop over the three channels of a pixel would be all prologue and tail.
    """
    if len(dims) != 2 or dims[1] >= NARROW or dims[0] * dims[1] < 4 * FOLD_WIDTH:
        return tuple(dims), list(strides), 1
    for operand, (row, column) in zip(operands, strides):
        merged = column == operand.dtype.size and row == dims[1] * column
        if not merged and (row != 0 or column not in (0, operand.dtype.size)):
            return tuple(dims), list(strides), 1
    fold = max(k for k in range(1, FOLD_WIDTH // dims[1] + 1) if dims[0] % k == 0)
    longer: list[tuple[int, ...]] = [(row * fold, column) for row, column in strides]
    return (dims[0] // fold, dims[1] * fold), longer, fold


def _touched(shape: Sequence[int], operand: Operand) -> int:
    return prod(n for n, stride in zip(shape, operand.strides) if stride != 0)


def _in_place(region: Region, results: Sequence[Operand]) -> tuple[tuple[int, int], ...]:
    """Pairs where an output may overwrite an input: read at the same element only, and needed for what is stored there."""
    pairs: list[tuple[int, int]] = []
    uses: dict[int, int] = {}
    for operand in region.operands:
        uses[operand.ref.index] = uses.get(operand.ref.index, 0) + 1
    needs = _dependencies(region.program)
    for k, (result, value) in enumerate(zip(results, region.program.outputs)):
        for position, operand in enumerate(region.operands):
            same = operand.ref.member == INPUT and operand.dtype.size == result.dtype.size and operand.offset == 0
            if same and operand.strides == result.strides and uses[operand.ref.index] == 1 and needs[value] >> position & 1:
                pairs.append((k, operand.ref.index))
    return tuple(pairs)


def _dependencies(program: Program) -> list[int]:
    """For each value the set of inputs it is computed from, as bits."""
    needs = [1 << k for k in range(len(program.inputs))]
    for op in program.ops:
        mask = 0
        for argument in op.args:
            mask |= needs[argument]
        needs.append(mask)
    return needs


def loop_title(program: Program) -> str:
    """ "loop mul+add+relu float32": what a fused loop computes."""
    names = [op.op.lower() for op in program.ops]
    shown = "+".join(names[:6]) + (f"+{len(names) - 6} more" if len(names) > 6 else "")
    types = {op.dtype.name for op in program.ops} or {d.name for d in program.inputs}
    return f"loop {shown or 'copy'} {'/'.join(sorted(types))}"


def _elementwise(spec: NodeSpec) -> NativeCall:
    return loop_call(single(spec))


native(*(row.op for row in elementwise.TABLE))(_elementwise)
native("BiasAdd", "BiasAddV1", "AccumulateNV2")(_elementwise)
