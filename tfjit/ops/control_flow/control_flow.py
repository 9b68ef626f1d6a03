"""Dataflow control flow (Switch, Merge, frames), ordering, checks and prints."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph, name_scope
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.op_traits import (
    CANNOT_FAIL,
    CONTROL_FLOW,
    ENTER,
    EXIT,
    MERGE,
    NEVER_EVALUATED,
    NEXT_ITERATION,
    SWITCH,
    VIEW,
)
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_n_to_tensor, convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, nothing, scalar, unchanged

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Structure, TensorLike


def _switch(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    return [c.inputs[0]] * c.num_outputs


def _ref_switch(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    return [c.inputs[0]] * 2


def _merge(c: ShapeContext) -> Shapes:
    """Return the shape that the inputs share; differing sizes are unknown."""
    shape: Shape = c.inputs[0]
    for other in c.inputs[1:]:
        if shape is None or other is None or len(other) != len(shape):
            return [None, ()]
        shape = builtins.tuple(x if x == y else None for x, y in zip(shape, other))
    return [shape, ()]


def _enter(c: ShapeContext) -> Shapes:
    # An entering value may change shape inside a loop, so only a constant keeps it.
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
    "Assert",
    inputs=("condition: bool", "data: T"),
    attrs=("T: list(type) >= 1", "summarize: int = 3"),
    stateful=True,
    shape=nothing,
)
for _op_type in (
    "ControlTrigger",
    "NoOp",
):
    register_op(
        _op_type,
        shape=nothing,
        traits=CANNOT_FAIL | NEVER_EVALUATED,
    )
register_op(
    "Enter",
    inputs=("data: T",),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "frame_name: string",
        "is_constant: bool = false",
        "parallel_iterations: int = 10",
    ),
    shape=_enter,
    traits=ENTER,
)
register_op(
    "Exit",
    inputs=("data: T",),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=unchanged,
    traits=EXIT,
)
register_op(
    "LoopCond",
    inputs=("input: bool",),
    outputs=("output: bool",),
    shape=_loop_cond,
    traits=CONTROL_FLOW,
)
register_op(
    "Merge",
    inputs=("inputs: N * T",),
    outputs=("output: T", "value_index: int32"),
    attrs=("T: type", "N: int >= 1"),
    shape=_merge,
    traits=MERGE,
)
register_op(
    "NextIteration",
    inputs=("data: T",),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=unchanged,
    traits=NEXT_ITERATION,
)
register_op(
    "Print",
    inputs=("input: T", "data: U"),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "U: list(type) >= 0",
        "message: string = ''",
        "first_n: int = -1",
        "summarize: int = 3",
    ),
    stateful=True,
    shape=unchanged,
)
register_op(
    "PrintV2",
    inputs=("input: string",),
    attrs=("output_stream: string = 'stderr'", "end: string = '\\n'"),
    stateful=True,
    shape=nothing,
)
register_op(
    "RefEnter",
    inputs=("data: Ref(T)",),
    outputs=("output: Ref(T)",),
    attrs=(
        "T: type",
        "frame_name: string",
        "is_constant: bool = false",
        "parallel_iterations: int = 10",
    ),
    shape=_enter,
    traits=ENTER,
)
register_op(
    "RefExit",
    inputs=("data: Ref(T)",),
    outputs=("output: Ref(T)",),
    attrs=("T: type",),
    shape=unchanged,
    traits=EXIT,
)
register_op(
    "RefIdentity",
    inputs=("input: Ref(T)",),
    outputs=("output: Ref(T)",),
    attrs=("T: type",),
    allows_uninitialized_input=True,
    shape=unchanged,
    traits=VIEW,
)
register_op(
    "RefMerge",
    inputs=("inputs: Ref(N * T)",),
    outputs=("output: Ref(T)", "value_index: int32"),
    attrs=("T: type", "N: int >= 1"),
    shape=_merge,
    traits=MERGE,
)
register_op(
    "RefNextIteration",
    inputs=("data: Ref(T)",),
    outputs=("output: Ref(T)",),
    attrs=("T: type",),
    shape=unchanged,
    traits=NEXT_ITERATION,
)
register_op(
    "RefSelect",
    inputs=("index: int32", "inputs: Ref(N * T)"),
    outputs=("output: Ref(T)",),
    attrs=("T: type", "N: int >= 1"),
    shape=_ref_select,
    traits=CONTROL_FLOW,
)
register_op(
    "RefSwitch",
    inputs=("data: Ref(T)", "pred: bool"),
    outputs=("output_false: Ref(T)", "output_true: Ref(T)"),
    attrs=("T: type",),
    allows_uninitialized_input=True,
    shape=_ref_switch,
    traits=SWITCH,
)
register_op(
    "Switch",
    inputs=("data: T", "pred: bool"),
    outputs=("output_false: T", "output_true: T"),
    attrs=("T: type",),
    shape=_switch,
    traits=SWITCH,
)
register_op(
    "_SwitchN",
    inputs=("data: T", "output_index: int32"),
    outputs=("outputs: num_outs * T",),
    attrs=("num_outs: int >= 1", "T: type"),
    shape=_switch,
    traits=CONTROL_FLOW,
)
register_op("Timestamp", outputs=("ts: double",), stateful=True, shape=scalar)


def no_op(name: str | None = None) -> Operation:
    """Return an operation that does nothing but wait for its control inputs."""
    return create("NoOp", name)


def _operations(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, (list, builtins.tuple)):
            found.extend(_operations(value))
        elif isinstance(value, dict):
            found.extend(_operations(value.values()))
        elif value is not None:
            found.append(
                value if isinstance(value, (Tensor, Operation)) else getattr(value, "op", value)
            )
    return found


def _wait(operations: list[Any], device: str, name: str | None) -> Operation:
    graph = get_default_graph()
    with control_dependencies(operations), graph.device(device) if device else nullcontext():
        return no_op(name=name)


def group(*inputs: Any, name: str | None = None) -> Operation:
    """Return an operation that is done when all `inputs` are.

    On several devices, one such operation for each stands before it. Raises TypeError for values
    that are no tensor or operation.
    """
    operations = _operations(inputs)
    for item in operations:
        if not isinstance(item, (Tensor, Operation)):
            raise TypeError(
                f"'inputs' should be zero or more (nested) Tensors. Received '{item}' with type "
                f"'{type(item)}'."
            )
    with name_scope(name, "group_deps", operations) as scope:
        by_device: dict[str, list[Any]] = {}
        for item in operations:
            by_device.setdefault(item.device, []).append(
                item.op if isinstance(item, Tensor) else item
            )
        if len(by_device) <= 1:
            for device, members in by_device.items():
                return _wait(members, device, scope)
            return no_op(name=scope)
        return _wait(
            [_wait(by_device[device], device, None) for device in sorted(by_device)], "", scope
        )


def with_dependencies(dependencies: Any, output_tensor: Any, name: str | None = None) -> Tensor:
    """Return `output_tensor`, produced after `dependencies` and beside it."""
    beside = (
        output_tensor if isinstance(output_tensor, Tensor) else getattr(output_tensor, "op", None)
    )
    with name_scope(name, "control_dependency", [output_tensor]) as scope:
        place = get_default_graph().colocate_with(beside) if beside is not None else nullcontext()
        with place, control_dependencies(dependencies):
            return tensor("Identity", scope, input=convert_to_tensor(output_tensor))


def tuple(tensors: Any, name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """Return the tensors, each available only when all of them are.

    An operation becomes an operation that runs after all, and None stays. The values of
    IndexedSlices wait. The control inputs must have run, too.
    """
    with name_scope(name, "tuple", [t for t in tensors if isinstance(t, Tensor)]):
        waits = [t for t in tensors if t is not None] + list(control_inputs or ())
        if not waits:
            raise ValueError(f"`tensors` must have at least one Tensor. Received: {tensors}.")
        gate = group(*waits)

        def gated(value: Structure) -> Structure:
            if isinstance(value, Operation):
                with control_dependencies([gate]):
                    return group(value)
            if isinstance(value, IndexedSlices):
                values = with_dependencies([gate], value.values)
                return IndexedSlices(values, value.indices, value.dense_shape)
            return None if value is None else with_dependencies([gate], value)

        return [gated(value) for value in tensors]


def Print(
    input_: TensorLike,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return `input_`, and print `data` when it is computed.

    Prints to stderr each time, or the first n times.
    """
    return tensor(
        "Print",
        name,
        input=input_,
        data=convert_n_to_tensor(data),
        message=message,
        first_n=first_n,
        summarize=summarize,
    )


def switch(
    data: TensorLike, pred: TensorLike, dtype: DTypeLike | None = None, name: str | None = None
) -> Any:
    """Return (output_false, output_true) of a Switch.

    `data` goes to one of them, the other is dead.
    """
    with name_scope(name, "Switch", [data, pred]) as scope:
        return call(
            "Switch",
            scope,
            data=convert_to_tensor(data, dtype=dtype, name="data"),
            pred=convert_to_tensor(pred, name="pred"),
        )


def merge(inputs: Any, name: str | None = None) -> Any:
    """Return (output, value_index) of the first input that arrives alive.

    Raises ValueError for a None input.
    """
    if any(value is None for value in inputs):
        raise ValueError("At least one of the merge inputs is None: " + str(inputs))
    with name_scope(name, "Merge", inputs) as scope:
        return call("Merge", scope, inputs=convert_n_to_tensor(inputs))


def timestamp(name: str | None = None) -> Tensor:
    """Return the seconds since 1970, float64, when it runs."""
    return tensor("Timestamp", name)


def loop_cond(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the condition that a loop's switches obey."""
    return tensor("LoopCond", name, input=input)


def enter(
    data: TensorLike,
    frame_name: str,
    is_constant: bool = False,
    parallel_iterations: int = 10,
    name: str | None = None,
) -> Tensor:
    """Return `data` as available in a loop's frame.

    In its first iteration, or (constant) in all.
    """
    return tensor(
        "Enter",
        name,
        data=data,
        frame_name=frame_name,
        is_constant=is_constant,
        parallel_iterations=parallel_iterations,
    )


def exit(data: TensorLike, name: str | None = None) -> Tensor:
    """Return `data` outside of its frame."""
    return tensor("Exit", name, data=data)


def next_iteration(data: TensorLike, name: str | None = None) -> Tensor:
    """Return `data` as available in the next iteration."""
    return tensor("NextIteration", name, data=data)
