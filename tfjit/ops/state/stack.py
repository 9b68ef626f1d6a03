"""Declare stacks."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import nothing, unknown, vector_of_two

register_op(
    "Stack",
    outputs=("handle: Ref(string)",),
    attrs=("elem_type: type", "stack_name: string = ''"),
    stateful=True,
    shape=vector_of_two,
)
register_op("StackClose", inputs=("handle: Ref(string)",), shape=nothing)
register_op("StackCloseV2", inputs=("handle: resource",), stateful=True, shape=nothing)
register_op(
    "StackPop",
    inputs=("handle: Ref(string)",),
    outputs=("elem: elem_type",),
    attrs=("elem_type: type",),
    shape=unknown,
)
register_op(
    "StackPopV2",
    inputs=("handle: resource",),
    outputs=("elem: elem_type",),
    attrs=("elem_type: type",),
    stateful=True,
    shape=unknown,
)
register_op(
    "StackPush",
    inputs=("handle: Ref(string)", "elem: T"),
    outputs=("output: T",),
    attrs=("T: type", "swap_memory: bool = false"),
    shape=unknown,
)
register_op(
    "StackPushV2",
    inputs=("handle: resource", "elem: T"),
    outputs=("output: T",),
    attrs=("T: type", "swap_memory: bool = false"),
    stateful=True,
    shape=unknown,
)
register_op(
    "StackV2",
    inputs=("max_size: int32",),
    outputs=("handle: resource",),
    attrs=("elem_type: type", "stack_name: string = ''"),
    stateful=True,
    shape=vector_of_two,
)
