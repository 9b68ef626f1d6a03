"""Build fused elementwise loops.

They have any number of inputs and outputs over one iteration space, with every broadcast and stride
pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tfjit.framework.op_defs.op_traits import RESHAPE
from tfjit.framework.scalar import elementwise
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.elementwise.loop_text import (
    STRIDED,
    LoopOperand,
    inner_pattern,
    loop_source,
    static_stride,
)
from tfjit.kernels.cpu.elementwise.tiled_loop import (
    TRANSPOSED,
    Tiling,
    find_tiling,
    tile_pitch,
    tile_sides,
    tiled_source,
)
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.epilogue import repeat_source
from tfjit.kernels.cpu.template.iteration_space import (
    IterationSpace,
    IterationSpaceBuilder,
    Operand,
    c_strides,
    collapse,
    identity_map,
    single,
    split_shape,
)
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup, node_suffix
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.ir.symbolic_size import is_symbolic
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native

MAX_OUTPUTS: Final = 15
"""Distinct buffers that a kernel's stores may promise to be (kernels/codegen/intrinsics.py)."""

NARROW: Final = 64
FOLD_WIDTH: Final = 512
"""Elements up to which rows shorter than NARROW are folded."""


def iteration_space_of(group: FusedGroup) -> IterationSpace:
    """Return the scalar program and operands of a loop group.

    They run over its outputs' common shape. Raises Unsupported when the shapes differ.
    """
    shapes = {group.tensor(ref).shape for ref in group.outputs}
    reshapes = [m for m in group.members if m.spec.has_trait(RESHAPE)]
    sizes = {prod(shape) for shape in shapes}
    if len(shapes) != 1 and (len(sizes) != 1 or not reshapes):
        raise Unsupported(f"outputs of different shapes {sorted(shapes)}")
    shape = max(shapes, key=len)
    space = shape
    if reshapes:
        others = [t.shape for m in reshapes for t in (group.tensor(m.inputs[0]), m.spec.outputs[0])]
        space = split_shape(shape, [*others, *shapes])
    builder = IterationSpaceBuilder(group, space)
    outputs = []
    for ref in group.outputs:
        own = group.tensor(ref).shape
        index = identity_map(len(space)) if own == space else builder.whole(own)
        outputs.append(builder.value(ref, index))
    return builder.finish(outputs)


def loop_call(group: FusedGroup, title: str = "") -> NativeCall:
    """Return the launches of a loop group.

    Raises Unsupported where a member has no scalar form.
    """
    space = iteration_space_of(group)
    if len(group.outputs) > MAX_OUTPUTS:
        raise Unsupported(f"{len(group.outputs)} outputs")
    tensors = [group.tensor(ref) for ref in group.outputs]
    results = [
        Operand(
            ref,
            t.dtype,
            tuple(
                0 if n == 1 else b
                for n, b in zip(space.shape, c_strides(space.shape, t.dtype.size))
            ),
        )
        for ref, t in zip(group.outputs, tensors)
    ]
    call = strided_call(
        space, results, title or loop_title(space.program), _named_errors(group, space.program)
    )
    # a slice may start where its input does and be smaller
    return replace(
        call,
        in_place=tuple((k, j) for k, j in call.in_place if group.inputs[j].size == tensors[k].size),
    )


def _named_errors(group: FusedGroup, program: Program) -> dict[int, tuple[str, str]]:
    """Return the errors that the loop may report.

    The message names a member that alone can fail.
    """
    named = {}
    for code, (kind, message) in expressions.program_errors(program).items():
        suspects = []
        for member in group.members:
            row = elementwise.lookup(member.spec.op)
            if row is not None and row.error is not None and row.error.code == code:
                suspects.append(member.spec.name)
        if len(group.members) > 1 and len(suspects) == 1:
            # the message goes through str.format
            message += node_suffix(suspects[0]).replace("{", "{{").replace("}", "}}")
        named[code] = (kind, message)
    return named


def strided_call(
    space: IterationSpace,
    results: Sequence[Operand],
    title: str,
    errors: Mapping[int, tuple[str, str]],
) -> NativeCall:
    """Return the launches of a space with strided outputs.

    results: the outputs' layouts. errors: as in Launch.
    """
    operands = [*space.operands, *results]
    for operand in operands:
        # strings, which are objects without a size
        if not typed_pointers.is_supported(operand.dtype):
            raise Unsupported(f"values of type {operand.dtype.name}")
    count = prod(space.shape)
    moved = sum(o.dtype.size * touched_elements(space.shape, o) for o in operands)
    if count == 0:
        return NativeCall((), bytes_moved=0)
    dims, strides = collapse(space.shape, [o.strides for o in operands])
    if not dims:
        dims, strides = (
            (1,),
            [(o.dtype.size if k >= len(space.operands) else 0,) for k, o in enumerate(operands)],
        )
    flops = len(space.program.ops) * count
    cost = (
        cost_model.FIXED_NS
        + count * cost_model.program_ns(space.program)
        + cost_model.traffic_ns(moved)
    )
    tiling = find_tiling(dims, strides, [o.dtype.size for o in operands])
    if tiling is None:
        launches, temps = _plain_launches(space, operands, dims, strides, cost, title)
    else:
        launches, temps = _tiled_launch(space, operands, dims, strides, tiling, cost, title)
    launches[-1] = replace(launches[-1], errors=errors)
    return NativeCall(
        tuple(launches),
        in_place=in_place_pairs(space, results),
        temp_bytes=tuple(temps),
        bytes_moved=moved,
        flops=flops,
    )


def _described(
    space: IterationSpace, operands: Sequence[Operand], strides: Sequence[Sequence[int]]
) -> list[LoopOperand]:
    """Describe operands for the text by their pattern along the last dim."""
    found = []
    for k, (operand, step) in enumerate(zip(operands, strides)):
        output = k - len(space.operands)
        name = f"x{k}" if output < 0 else f"y{output}"
        every = static_stride(step[-1], operand.dtype)
        found.append(
            LoopOperand(
                name, operand.dtype, inner_pattern(step[-1], operand.dtype), max(output, -1), every
            )
        )
    return found


def _place(space: IterationSpace, k: int, operand: Operand) -> Pointer:
    output = k - len(space.operands)
    return (
        Pointer("out", output) if output >= 0 else Pointer("in", operand.ref.index, operand.offset)
    )


def _plain_launches(
    space: IterationSpace,
    operands: Sequence[Operand],
    dims: Sequence[int],
    strides: Sequence[tuple[int, ...]],
    cost: float,
    title: str,
) -> tuple[list[Launch], list[int]]:
    """Return launches and scratch sizes of a loop row by row."""
    dims, strides, fold = _folded(operands, dims, strides)
    described = _described(space, operands, strides)
    rows = prod(dims[:-1])
    chunks = cost_model.chunks_for(cost, prod(dims))
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
        place = _place(space, k, operand)
        if fold > 1 and step[0] == 0 and step[-1] != 0:
            width = dims[-1] // fold * operand.dtype.size
            temps.append(width * fold)
            launches.append(
                Launch(
                    repeat_source(),
                    (Pointer("temp", len(temps) - 1), place, width, fold),
                    cost_ns=100.0,
                )
            )
            place = Pointer("temp", len(temps) - 1)
        words.append(place)
        words.extend(step[:-1])
        if text.pattern == STRIDED:
            words.append(step[-1])
    source = loop_source(space.program, len(dims), described, title)
    source = replace(source, interleave=cost_model.interleave_for(space.program, dims[-1] // parts))
    launches.append(Launch(source, tuple(words), chunks=chunks, cost_ns=cost))
    return launches, temps


def _tiled_launch(
    space: IterationSpace,
    operands: Sequence[Operand],
    dims: Sequence[int],
    strides: Sequence[tuple[int, ...]],
    tiling: Tiling,
    cost: float,
    title: str,
) -> tuple[list[Launch], list[int]]:
    """Return launch and scratch sizes of a loop in tiles.

    The tiles are over the last two dims in the tiling's order.
    """
    dims = [dims[d] for d in tiling.order]
    strides = [tuple(step[d] for d in tiling.order) for step in strides]
    described = _described(space, operands, strides)
    described = [
        replace(o, pattern=TRANSPOSED) if k in tiling.transposed else o
        for k, o in enumerate(described)
    ]
    size = max(
        (operands[k].dtype.size for k in tiling.transposed),
        default=max(o.dtype.size for o in operands),
    )
    height, width = tile_sides(dims[-2], dims[-1], size)
    units = prod(dims[:-2]) * -(-dims[-2] // height) * -(-dims[-1] // width)
    cost += 0.25 * prod(dims) * len(tiling.transposed)
    chunks = cost_model.chunks_for(cost, units)
    words: list[Word] = [*dims, height, width]
    temps: list[int] = []
    for k, (operand, step, text) in enumerate(zip(operands, strides, described)):
        words.append(_place(space, k, operand))
        words.extend(step)
        if text.pattern == TRANSPOSED:
            pitch = tile_pitch(width, operand.dtype.size)
            words += [Pointer("temp", len(temps)), height * pitch, pitch]
            temps.append(height * pitch * chunks)
    source = tiled_source(space.program, len(dims), described, title)
    source = replace(source, interleave=cost_model.interleave_for(space.program, width))
    return [Launch(source, tuple(words), chunks=chunks, cost_ns=cost)], temps


def _folded(
    operands: Sequence[Operand], dims: Sequence[int], strides: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]], int]:
    """Fold several short rows into a longer one.

    Vectors along the rows are repeated as often. A loop over the three channels of a pixel would be
    all prologue and tail. Returns (dims, strides, rows in one).
    """
    # The divisors of an unknown number of rows are unknown.
    if len(dims) != 2 or is_symbolic(dims[0]):
        return tuple(dims), list(strides), 1
    if dims[1] >= NARROW or dims[0] * dims[1] < 4 * FOLD_WIDTH:
        return tuple(dims), list(strides), 1
    for operand, (row, column) in zip(operands, strides):
        merged = column == operand.dtype.size and row == dims[1] * column
        if not merged and (row != 0 or column not in (0, operand.dtype.size)):
            return tuple(dims), list(strides), 1
    fold = max(k for k in range(1, FOLD_WIDTH // dims[1] + 1) if dims[0] % k == 0)
    longer: list[tuple[int, ...]] = [(row * fold, column) for row, column in strides]
    return (dims[0] // fold, dims[1] * fold), longer, fold


def touched_elements(shape: Sequence[int], operand: Operand) -> int:
    """Return the elements of an operand that a loop reads or writes."""
    return prod(n for n, stride in zip(shape, operand.strides) if stride != 0)


def in_place_pairs(
    space: IterationSpace, results: Sequence[Operand]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs where an output may overwrite an input.

    The input is read at the same element only, and needed for the value stored there.
    """
    pairs: list[tuple[int, int]] = []
    uses: dict[int, int] = {}
    for operand in space.operands:
        uses[operand.ref.index] = uses.get(operand.ref.index, 0) + 1
    needs = _dependencies(space.program)
    for k, (result, value) in enumerate(zip(results, space.program.outputs)):
        for position, operand in enumerate(space.operands):
            same = (
                operand.ref.member == INPUT
                and operand.dtype.size == result.dtype.size
                and operand.offset == 0
            )
            if (
                same
                and operand.strides == result.strides
                and uses[operand.ref.index] == 1
                and needs[value] >> position & 1
            ):
                pairs.append((k, operand.ref.index))
    return tuple(pairs)


def _dependencies(program: Program) -> list[int]:
    """Return each value's set of inputs, as bits.

    A value is computed from these inputs.
    """
    needs = [1 << k for k in range(len(program.inputs))]
    for op in program.ops:
        mask = 0
        for argument in op.args:
            mask |= needs[argument]
        needs.append(mask)
    return needs


def loop_title(program: Program) -> str:
    """Return "loop mul+add+relu float32", the ops of a fused loop."""
    names = [op.op.lower() for op in program.ops]
    shown = "+".join(names[:6]) + (f"+{len(names) - 6} more" if len(names) > 6 else "")
    types = {op.dtype.name for op in program.ops} or {d.name for d in program.inputs}
    return f"loop {shown or 'copy'} {'/'.join(sorted(types))}"


def _elementwise(spec: NodeSpec) -> NativeCall:
    return loop_call(single(spec))


native(*(row.op for row in elementwise.TABLE))(_elementwise)
native("BiasAdd", "BiasAddV1", "AccumulateNV2")(_elementwise)
