"""Write the steps of ops without bodies into a loop program."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.op_defs import op_traits
from tfjit.framework.scalar import elementwise
from tfjit.framework.types import dtypes as d
from tfjit.kernels.ir.loop_program import ELEMENT, REDUCTIONS, SET_ELEMENT, Step
from tfjit.kernels.registry import Unsupported
from tfjit.passes.loops.loop_program_values import Hoisted, Operand, Outer, static_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.loops.loop_program_values import ProgramWriter

_FILLS: Final = {"ZerosLike": 0, "OnesLike": 1}


def write_op(program: ProgramWriter, node: Node, inputs: list[Operand]) -> Sequence[Operand]:
    """Write the steps of an op without bodies, and return its outputs.

    Raises Unsupported where no step computes the op and it cannot run before the loop.
    """
    op = node.op
    if op == "Const":
        value = np.asarray(node.attrs["value"])
        if value.dtype == object:
            raise Unsupported(f"{node.name} is a string")
        return [program.constant(value)]
    if node.is_stateful:
        raise Unsupported(f"{node.name} ({op}) has effects")
    if op in ("StridedSlice", "GatherV2", "Gather", "_GetRow", "_SetRow"):
        found = _indexed(program, node, inputs)
        if found is not None:
            return [found]
    if op == "Pack" and all(x.shape == () for x in inputs) and any(x.outer is None for x in inputs):
        return [Operand(-1, inputs[0].dtype, (len(inputs),), packed=tuple(inputs))]
    if any(x.packed for x in inputs) and not node.has_trait(op_traits.IDENTITY):
        raise Unsupported(f"{node.name} ({op}) reads a vector made of scalars")
    if op == "IdentityN":
        return inputs
    if node.is_view:
        shape = static_shape(node, 0)
        outer = (
            inputs[0].outer if node.has_trait(op_traits.IDENTITY) else program.hoist(node, inputs)
        )
        return [replace(inputs[0], shape=shape, outer=outer)]
    if op in _FILLS:
        return [
            Operand(
                program.literal(_FILLS[op], node.output_dtypes[0]),
                node.output_dtypes[0],
                static_shape(node, 0),
                _many(node),
            )
        ]
    if op == "Fill" or (op in ("BroadcastTo", "Tile") and inputs[0].size == 1):
        source = inputs[1] if op == "Fill" else inputs[0]
        return [Operand(source.value, source.dtype, static_shape(node, 0), _many(node))]
    if elementwise.lookup(op) is not None:
        return [_elementwise(program, node, inputs)]
    if op in REDUCTIONS:
        return [_reduction(program, node, inputs)]
    outer = program.hoist(node, inputs)
    if outer is not None:
        return [program.outer(outer, node.output_dtypes[0], static_shape(node, 0))]
    raise Unsupported(f"{node.name} ({op}) is not elementwise")


def _broadcast(
    program: ProgramWriter, operand: Operand, shape: tuple[int, ...], node: Node
) -> Operand:
    """Return the operand of an elementwise step over `shape`.

    The operand has one element, or as many as the result.
    """
    if operand.size == prod(shape) or operand.size == 1 or operand.splat:
        return operand
    if operand.outer is None:
        raise Unsupported(
            f"{node.name} ({node.op}) repeats {list(operand.shape)}, which changes in the "
            f"loop, along {list(shape)}"
        )
    target = Outer(constant=np.array(shape, np.int32))
    attrs = {"T": operand.dtype, "Tidx": d.int32}
    name = f"{node.name}/broadcast"
    made = Hoisted(name, "BroadcastTo", (operand.outer, target), attrs, operand.dtype, shape)
    return program.outer(program.hoisted_output(made), operand.dtype, shape)


def _elementwise(program: ProgramWriter, node: Node, inputs: list[Operand]) -> Operand:
    row = elementwise.lookup(node.op)
    assert row is not None
    shape, dtype = _broadcast_shape([x.shape for x in inputs]), node.output_dtypes[0].base_dtype
    size = prod(shape)
    if size > 1:
        outer = program.hoist(node, inputs)
        if outer is not None:
            return program.outer(outer, dtype, shape)
    if node.op == "Select" and inputs[0].size not in (1, size):
        raise Unsupported(f"{node.name} (Select) chooses whole rows")
    operands = [_broadcast(program, x, shape, node) for x in inputs]
    attrs = tuple(
        (name, node.attrs[name])
        for name in dict.fromkeys((*row.attrs, row.result))
        if name in node.attrs
    )
    splat = size > 1 and all(x.splat or x.size == 1 for x in operands)
    result = program.new(dtype, () if splat else shape)
    program.add(Step(node.op, tuple(x.value for x in operands), (result,), attrs, name=node.name))
    return Operand(result, dtype, shape, splat)


def _reduction(program: ProgramWriter, node: Node, inputs: list[Operand]) -> Operand:
    x, shape, dtype = inputs[0], static_shape(node, 0), node.output_dtypes[0].base_dtype
    outer = program.hoist(node, inputs)
    if outer is not None:
        return program.outer(outer, dtype, shape)
    if prod(shape) != 1:
        raise Unsupported(f"{node.name} ({node.op}) reduces some dimensions only")
    if x.size == 1:
        return replace(x, shape=shape, outer=None)
    if node.op in ("Sum", "Mean", "Prod") and dtype in (d.float16, d.bfloat16):
        raise Unsupported(f"{node.name} ({node.op}) of {dtype.name}")
    result = program.new(dtype, shape)
    program.add(Step(node.op, (program.in_memory(x),), (result,), (), name=node.name))
    return Operand(result, dtype, shape)


def _indexed(program: ProgramWriter, node: Node, inputs: list[Operand]) -> Operand | None:
    """Return a part of an array at an index, or replace one.

    None for other slices.
    """
    array, op = inputs[0], node.op
    if op == "StridedSlice":
        masks = [
            node.attrs[f"{name}_mask"]
            for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
        ]
        index = inputs[1].packed[0] if len(inputs[1].packed) == 1 else None
        if index is None or masks != [0, 0, 0, 0, 1]:
            return None
        index = _from_end(program, index, array.shape[0] if array.shape else 0)
        failure = "slice index {detail} of dimension 0 out of bounds."
    elif op in ("GatherV2", "Gather"):
        axis = program.known(inputs[2]) if op == "GatherV2" else np.zeros((), np.int32)
        if (
            inputs[1].shape != ()
            or axis is None
            or int(axis) != 0
            or node.attrs.get("batch_dims", 0)
            or array.shape == ()
        ):
            return None
        index, failure = inputs[1], f"indices = {{detail}} is not in [0, {array.shape[0]})"
    else:
        index, failure = inputs[1], bytes(node.attrs["message"]).decode()
    if array.outer is not None and index.outer is not None and op != "_SetRow":
        return None
    if array.size == 0 or not array.shape:
        raise Unsupported(f"{node.name} ({op}) of an array of shape {list(array.shape)}")
    attrs = (("failure", failure),)
    if op != "_SetRow":
        part = array.shape[1:]
        if array.splat:
            array = replace(array, value=program.in_memory(array), splat=False)
        result = program.new(array.dtype, part)
        program.add(Step(ELEMENT, (array.value, index.value), (result,), attrs, name=node.name))
        return Operand(result, array.dtype, part)
    if inputs[2].shape != array.shape[1:]:
        raise Unsupported(
            f"{node.name} ({op}) puts shape {list(inputs[2].shape)} into rows of "
            f"{list(array.shape[1:])}"
        )
    result = program.new(array.dtype, array.shape)
    program.add(
        Step(
            SET_ELEMENT,
            (program.in_memory(array), index.value, program.in_memory(inputs[2])),
            (result,),
            attrs,
            name=node.name,
        )
    )
    return Operand(result, array.dtype, array.shape)


def _from_end(program: ProgramWriter, index: Operand, extent: int) -> Operand:
    """Return an index with negative values counted from the end."""
    negative, moved, chosen = (
        program.new(d.bool, ()),
        program.new(index.dtype, ()),
        program.new(index.dtype, ()),
    )
    program.add(Step("Less", (index.value, program.literal(0, index.dtype)), (negative,)))
    program.add(Step("AddV2", (index.value, program.literal(extent, index.dtype)), (moved,)))
    program.add(Step("SelectV2", (negative, moved, index.value), (chosen,)))
    return Operand(chosen, index.dtype, ())


def _broadcast_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise Unsupported(str(error)) from error


def _many(node: Node) -> bool:
    return prod(static_shape(node, 0)) != 1
