"""Choose the template that compiles a `_Fused` node's group."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from tfjit.kernels.cpu.gemm.operands import swapped
from tfjit.kernels.cpu.template.call_chain import chained_call
from tfjit.kernels.cpu.template.iteration_space import (
    IterationSpaceBuilder,
    Operand,
    c_strides,
    identity_map,
)
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup, Ref
from tfjit.kernels.registry import (
    Launch,
    LibraryLaunch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    native,
)

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue, Pattern

_Placed = TypeVar("_Placed", Launch, Launch | LibraryLaunch)

ANCHORS: Final[Mapping[str, str]] = {
    "MatMul": "matmul",
    "BatchMatMul": "matmul",
    "BatchMatMulV2": "matmul",
    "BatchMatMulV3": "matmul",
    "Conv2D": "conv2d",
    "DepthwiseConv2dNative": "depthwise",
}
"""Map op types with an epilogue to the kind of their group."""


def epilogue_of(group: FusedGroup) -> tuple[Epilogue, tuple[Ref, ...]]:
    """Return the epilogue of a group around its anchor, and its operands.

    Raises Unsupported when a member is no scalar function of the product and operands that are a
    scalar, a vector along the last axis, a vector along the rows or of the product's shape.
    """
    from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
    from tfjit.kernels.cpu.template.epilogue import Epilogue

    product = Ref(group.anchor)
    if any(ref.member != INPUT for ref in group.members[group.anchor].inputs):
        raise Unsupported("an input of a matmul or convolution cannot be computed in its kernel")
    shape = group.tensor(product).shape
    index = identity_map(len(shape))
    builder = IterationSpaceBuilder(group, shape, is_leaf=lambda ref: ref == product)
    builder.value(product, index)  # so that it is operand 0
    outputs = []
    for ref in group.outputs:
        if group.tensor(ref).shape != shape:
            raise Unsupported(
                f"{group.members[ref.member].spec.name} has another shape than the product "
                f"{list(shape)}"
            )
        outputs.append(builder.value(ref, index))
    if len(outputs) > MAX_OUTPUTS:
        raise Unsupported(f"{len(outputs)} results")
    space = builder.finish(outputs)
    refs: list[Ref] = []
    patterns: list[Pattern] = []
    for operand in space.operands[1:]:
        if operand.ref == product:
            raise Unsupported("the product is read at other places than its own")
        patterns.append(_pattern(operand, shape, group.tensor(operand.ref)))
        refs.append(operand.ref)
    return Epilogue(space.program, tuple(patterns)), tuple(refs)


def _pattern(operand: Operand, shape: Sequence[int], tensor: TensorSpec) -> Pattern:
    size = operand.dtype.size
    full = tuple(0 if n == 1 else s for n, s in zip(shape, c_strides(shape, size)))
    row = tuple(
        0 if n == 1 or d == len(shape) - 1 else s
        for d, (n, s) in enumerate(zip(shape, c_strides([*shape[:-1], 1], size)))
    )
    channel = tuple(s if d == len(shape) - 1 else 0 for d, s in enumerate(full))
    if operand.offset == 0:
        if tensor.size == 1 and not any(operand.strides):
            return "scalar"
        if operand.strides == full and tensor.size == prod(shape):
            return "full"
        if operand.strides == channel and tensor.size == shape[-1]:
            return "channel"
        if operand.strides == row and tensor.size == prod(shape[:-1]):
            return "row"
    raise Unsupported(
        f"an operand of shape {list(tensor.shape)} beside products of shape {list(shape)}"
    )


def remap_inputs(call: NativeCall, order: Sequence[int]) -> NativeCall:
    """Return a call that reads input k from another node's input order[k]."""

    def moved(word: Word) -> Word:
        return (
            replace(word, index=order[word.index])
            if isinstance(word, Pointer) and word.kind == "in"
            else word
        )

    def placed(launches: Sequence[_Placed]) -> tuple[_Placed, ...]:
        return tuple(
            replace(launch, words=tuple(moved(w) for w in launch.words)) for launch in launches
        )

    return replace(
        call,
        launches=placed(call.launches),
        library_forms=tuple(
            replace(form, launches=placed(form.launches)) for form in call.library_forms
        ),
        in_place=tuple((out, order[k]) for out, k in call.in_place),
    )


# module of a group's template, by kind
_ANCHORED: Final = {"matmul": "gemm.matmul", "conv2d": "conv.conv", "depthwise": "conv.depthwise"}


def _anchored(group: FusedGroup, known: Mapping[int, np.ndarray]) -> NativeCall:
    epilogue, operands = epilogue_of(group)
    anchor = group.members[group.anchor]
    refs = [*anchor.inputs, *operands]
    order = [ref.index for ref in refs]
    inputs = [group.tensor(ref) for ref in refs]
    constants = {k: known[i] for k, i in enumerate(order) if i in known}
    module = importlib.import_module(f"tfjit.kernels.cpu.{_ANCHORED[group.kind]}")
    if group.kind == "matmul":
        is_matmul = anchor.spec.op == "MatMul"
        if not is_matmul and anchor.spec.outputs[0].dtype is not anchor.spec.inputs[0].dtype:
            raise Unsupported(f"product as {anchor.spec.outputs[0].dtype.name}")
        adj_x, adj_y = swapped(anchor.spec)
        call = module.batch_matmul_call(
            inputs, adj_x=adj_x, adj_y=adj_y, epilogue=epilogue, constants=constants
        )
    else:
        layout = module.native_layout(anchor.spec)
        call = (module.conv2d_call if group.kind == "conv2d" else module.depthwise_call)(
            inputs,
            strides=layout.strides,
            padding=layout.padding,
            explicit=layout.explicit,
            dilations=layout.dilations,
            epilogue=epilogue,
            constants=constants,
        )
    return remap_inputs(call, order)


def group_call(group: FusedGroup, known: Mapping[int, np.ndarray]) -> NativeCall:
    """Return a group's launches through the template of its kind.

    known: values of external inputs. Raises Unsupported.
    """
    # one template each, imported when a group of its kind comes up
    if group.kind == "loop":
        from tfjit.kernels.cpu.elementwise.loop import loop_call

        return loop_call(group)
    if group.kind == "rows":
        from tfjit.kernels.cpu.reduction.row_reduction import rows_call

        return rows_call(group)
    if group.kind == "reduce":
        from tfjit.kernels.cpu.reduction.reduction import reduce_call

        return reduce_call(group)
    if group.kind == "attention":
        from tfjit.kernels.cpu.gemm.attention import attention_call

        return attention_call(group)
    if group.kind == "pool_gradient":
        from tfjit.kernels.cpu.conv.max_pool_grad import pool_gradient_call

        return pool_gradient_call(group)
    return _anchored(group, known)


@native("_Fused")
def _fused(spec: NodeSpec) -> NativeCall:
    group = spec.attrs["group"].for_inputs(spec.inputs)
    try:
        return group_call(group, spec.constants)
    except Unsupported as refused:
        try:
            return chained_call(group, spec.constants)
        except Unsupported as also:
            raise Unsupported(f"{refused}; and one by one: {also}") from None
