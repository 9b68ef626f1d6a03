"""Build fused elementwise loops for GPUs.

A thread computes as many neighbours along the last dim as one load of 16 bytes has, and takes steps
of the size of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tfjit.framework.scalar import elementwise
from tfjit.kernels.cpu.elementwise.loop import (
    in_place_pairs,
    iteration_space_of,
    loop_title,
    touched_elements,
)
from tfjit.kernels.cpu.template.iteration_space import (
    IterationSpace,
    Operand,
    c_strides,
    collapse,
    single,
)
from tfjit.kernels.cuda.elementwise.loop_text import (
    COLUMN,
    FLAT,
    SCALAR,
    STRIDED,
    VECTOR,
    LoopOperand,
    write_loop,
)
from tfjit.kernels.cuda.elementwise.tiled_loop import transposed_dim, write_tiled_loop
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup
from tfjit.kernels.ir.scalar_program import Program
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

MAX_OPERANDS: Final = 64
"""Inputs and outputs of a loop.

Their addresses and strides are the kernel's parameters.
"""
_LONGEST: Final = 256
"""Scalar ops in a loop's text, for all elements of a vector."""


def loop_call(group: FusedGroup, title: str = "") -> NativeCall:
    """Return the launch of a loop group.

    Raises Unsupported where a member has no scalar form.
    """
    space = iteration_space_of(group)
    tensors = [group.tensor(ref) for ref in group.outputs]
    results = []
    for ref, tensor in zip(group.outputs, tensors):
        steps = c_strides(space.shape, tensor.dtype.size)
        strides = tuple(0 if n == 1 else step for n, step in zip(space.shape, steps))
        results.append(Operand(ref, tensor.dtype, strides))
    call = strided_call(space, results, title or loop_title(space.program))
    # a slice may start where its input does and be smaller
    pairs = ((k, j) for k, j in call.in_place if group.inputs[j].size == tensors[k].size)
    return replace(call, in_place=tuple(pairs))


def require_device_forms(program: Program) -> None:
    """Raise Unsupported for a program with functions that only the host computes."""
    for op in program.ops:
        if op.op in element_kinds.HOST_ONLY:
            raise Unsupported(f"{op.op} is a sum in a loop, which the GPU does not compute")


def strided_call(space: IterationSpace, results: Sequence[Operand], title: str) -> NativeCall:
    """Return the launch of a space with strided outputs. results: their layouts."""
    operands = [*space.operands, *results]
    require_device_forms(space.program)
    for operand in operands:
        if not element_kinds.is_supported(operand.dtype):
            raise Unsupported(f"values of type {operand.dtype.name}")
    for operand in space.operands:
        if operand.ref.member != INPUT:
            raise Unsupported("a constant of the group is an operand")
    if len(operands) > MAX_OPERANDS:
        raise Unsupported(f"{len(operands)} inputs and outputs")
    count = prod(space.shape)
    if count == 0:
        return NativeCall((), bytes_moved=0)
    pairs = in_place_pairs(space, results)
    moved = sum(o.dtype.size * touched_elements(space.shape, o) for o in operands)
    launch = _launch(space, results, {j for _, j in pairs}, title)
    return NativeCall(
        (launch,), in_place=pairs, bytes_moved=moved, flops=len(space.program.ops) * count
    )


def _launch(
    space: IterationSpace, results: Sequence[Operand], overwritten: set[int], title: str
) -> CudaLaunch:
    operands = [*space.operands, *results]
    dims, byte_strides = collapse(space.shape, [o.strides for o in operands])
    if not dims:
        dims, byte_strides = (1,), [(0,) for _ in operands]
    steps = [
        tuple(b // o.dtype.size for b in strides) for o, strides in zip(operands, byte_strides)
    ]
    extents = [sum(abs(s) * (n - 1) for s, n in zip(own, dims)) + 1 for own in steps]
    text = KernelText(fits_32_bits([prod(dims), *extents]))
    described = _described(space, operands, dims, steps, overwritten)
    names = " ".join(op.op for op in space.program.ops) or "copy"
    tile = transposed_dim(dims, described)
    if tile is not None:
        blocks = write_tiled_loop(text, space.program, described, dims, tile)
        return text.launch(f"tiled loop: {names}", title, __name__, grid_for(blocks, 1))
    width = vector_width(space.program, operands, dims, steps)
    write_loop(text, space.program, described, dims, width)
    units = -(-prod(dims) // width)
    return text.launch(f"{len(dims)}-d loop: {names}", title, __name__, grid_for(units))


def _described(
    space: IterationSpace, operands: Sequence[Operand], dims: Sequence[int],
    steps: Sequence[tuple[int, ...]], overwritten: set[int],
) -> list[LoopOperand]:  # fmt: skip
    found = []
    whole = c_strides(dims)
    for k, (operand, own) in enumerate(zip(operands, steps)):
        output = k - len(space.operands)
        if not any(own):
            pattern = SCALAR
        elif own == whole:
            pattern = FLAT
        else:
            pattern = {0: COLUMN, 1: VECTOR}.get(own[-1], STRIDED)
        if output >= 0:
            found.append(
                LoopOperand(f"y{output}", operand.dtype, Pointer("out", output), own, pattern, True)
            )
            continue
        place = Pointer("in", operand.ref.index, operand.offset)
        read_only = operand.ref.index not in overwritten
        found.append(LoopOperand(f"x{k}", operand.dtype, place, own, pattern, False, read_only))
    return found


def vector_width(
    program: Program, operands: Sequence[Operand], dims: Sequence[int],
    steps: Sequence[tuple[int, ...]],
) -> int:  # fmt: skip
    """Return the elements that a thread computes at a time.

    They are neighbours along the last dim; each array of them allows aligned loads.
    """
    width = element_kinds.widest_vector([o.dtype for o in operands])
    while width > 1 and width * len(program.ops) > _LONGEST:
        width //= 2
    while width > 1 and not _is_aligned(operands, dims, steps, width):
        width //= 2
    return width


def _is_aligned(
    operands: Sequence[Operand], dims: Sequence[int], steps: Sequence[tuple[int, ...]], width: int
) -> bool:
    if dims[-1] < width or (len(dims) > 1 and dims[-1] % width):
        return False
    return all(
        operand.offset % (width * operand.dtype.size) == 0 and not any(s % width for s in own[:-1])
        for operand, own in zip(operands, steps)
        if own[-1] == 1
    )


def _elementwise(spec: NodeSpec) -> NativeCall:
    return loop_call(single(spec))


_ROWS: Final = [row.op for row in elementwise.TABLE if row.op not in element_kinds.HOST_ONLY]
device_native(*_ROWS)(_elementwise)
device_native("BiasAdd", "BiasAddV1", "AccumulateNV2")(_elementwise)
