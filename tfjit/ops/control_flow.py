"""Dataflow control flow (Switch, Merge, frames) and ops that only order, check or print."""

from __future__ import annotations

from tfjit.framework.shape import Shape
from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, nothing, scalar, unchanged


def _switch(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    return [c.inputs[0]] * c.num_outputs


def _ref_switch(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    return [c.inputs[0]] * 2


def _merge(c: ShapeContext) -> Shapes:
    """What the inputs have in common; a size that differs is unknown."""
    shape: Shape = c.inputs[0]
    for other in c.inputs[1:]:
        if shape is None or other is None or len(other) != len(shape):
            return [None, ()]
        shape = tuple(x if x == y else None for x, y in zip(shape, other))
    return [shape, ()]


def _enter(c: ShapeContext) -> Shapes:
    # What enters a loop may change shape inside it, so only a constant keeps it.
    if c.attr("is_constant"):
        return [c.inputs[0]]
    return [c.inputs[0]] if c.op == "RefEnter" else [None]


def _ref_select(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    first = c.inputs[1]
    if first is None:
        return [None]
    for other in c.inputs[2:]:
        if other is None or len(other) != len(first):
            return [None]
        c.merge(first, other)
    return [first]


def _loop_cond(c: ShapeContext) -> Shapes:
    return [c.with_rank(0, 0)]


register_op(
    "Assert", inputs=("condition: bool", "data: T"), attrs=("T: list(type) >= 1", "summarize: int = 3"), stateful=True, shape=nothing
)
register_op("ControlTrigger", shape=nothing)
register_op(
    "Enter",
    inputs=("data: T",),
    outputs=("output: T",),
    attrs=("T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"),
    shape=_enter,
)
register_op("Exit", inputs=("data: T",), outputs=("output: T",), attrs=("T: type",), shape=unchanged)
register_op("LoopCond", inputs=("input: bool",), outputs=("output: bool",), shape=_loop_cond)
register_op("Merge", inputs=("inputs: N * T",), outputs=("output: T", "value_index: int32"), attrs=("T: type", "N: int >= 1"), shape=_merge)
register_op("NextIteration", inputs=("data: T",), outputs=("output: T",), attrs=("T: type",), shape=unchanged)
register_op("NoOp", shape=nothing)
register_op(
    "Print",
    inputs=("input: T", "data: U"),
    outputs=("output: T",),
    attrs=("T: type", "U: list(type) >= 0", "message: string = ''", "first_n: int = -1", "summarize: int = 3"),
    stateful=True,
    shape=unchanged,
)
register_op(
    "PrintV2", inputs=("input: string",), attrs=("output_stream: string = 'stderr'", "end: string = '\\n'"), stateful=True, shape=nothing
)
register_op(
    "RefEnter",
    inputs=("data: Ref(T)",),
    outputs=("output: Ref(T)",),
    attrs=("T: type", "frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"),
    shape=_enter,
)
register_op("RefExit", inputs=("data: Ref(T)",), outputs=("output: Ref(T)",), attrs=("T: type",), shape=unchanged)
register_op(
    "RefIdentity",
    inputs=("input: Ref(T)",),
    outputs=("output: Ref(T)",),
    attrs=("T: type",),
    allows_uninitialized_input=True,
    shape=unchanged,
)
register_op(
    "RefMerge",
    inputs=("inputs: Ref(N * T)",),
    outputs=("output: Ref(T)", "value_index: int32"),
    attrs=("T: type", "N: int >= 1"),
    shape=_merge,
)
register_op("RefNextIteration", inputs=("data: Ref(T)",), outputs=("output: Ref(T)",), attrs=("T: type",), shape=unchanged)
register_op(
    "RefSelect",
    inputs=("index: int32", "inputs: Ref(N * T)"),
    outputs=("output: Ref(T)",),
    attrs=("T: type", "N: int >= 1"),
    shape=_ref_select,
)
register_op(
    "RefSwitch",
    inputs=("data: Ref(T)", "pred: bool"),
    outputs=("output_false: Ref(T)", "output_true: Ref(T)"),
    attrs=("T: type",),
    allows_uninitialized_input=True,
    shape=_ref_switch,
)
register_op("Switch", inputs=("data: T", "pred: bool"), outputs=("output_false: T", "output_true: T"), attrs=("T: type",), shape=_switch)
register_op(
    "_SwitchN",
    inputs=("data: T", "output_index: int32"),
    outputs=("outputs: num_outs * T",),
    attrs=("num_outs: int >= 1", "T: type"),
    shape=_switch,
)
register_op("Timestamp", outputs=("ts: double",), stateful=True, shape=scalar)
