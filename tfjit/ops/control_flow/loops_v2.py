"""Loops as While nodes over functions for condition and body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.types import dtypes, nest
from tfjit.framework.types.shape import Shape, TensorShape, as_shape
from tfjit.ops.control_flow.bodies import define, finish, is_stateful, new_body, trace
from tfjit.ops.control_flow.flow_tensor_array import from_flow, to_flow
from tfjit.ops.control_flow.shape_invariants import fits, shape_text
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import constant, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Structure,
    invariants: Sequence[Any] | None,
    parallel_iterations: int,
    maximum_iterations: object,
    name: str | None,
    back_prop: bool,
) -> Structure:
    """Build `loops.while_loop` as a While node.

    It is a StatelessWhile where no operation in it has effects. loop_vars is nested, invariants are
    flat.
    """
    originals = nest.flatten(loop_vars)
    values = [convert_to_tensor(to_flow(original)) for original in originals]
    shapes = (
        [value.shape_tuple for value in values]
        if invariants is None
        else [as_shape(shape) for shape in invariants]
    )
    for value, shape in zip(values, shapes, strict=True):
        if not fits(value.shape_tuple, shape):
            raise ValueError(
                f"The shape invariant specified for {value.name} is not compatible with the "
                "initial shape of the loop variable. It enters "
                f"the loop with shape {value.shape}, but the specified shape invariant is "
                f"{shape_text(shape)}."
            )

    def given(leaves: Sequence[Tensor]) -> Any:
        return nest.pack_sequence_as(
            loop_vars, [from_flow(like, leaf) for like, leaf in zip(originals, leaves, strict=True)]
        )

    with get_default_graph().name_scope(name or "while") as scope:
        bound = -1 if maximum_iterations is None else maximum_iterations
        bound = convert_to_tensor(bound, dtype=dtypes.int32, name="maximum_iterations")
        counter = constant(0, dtype=dtypes.int32, name="loop_counter")
        entering = [counter, bound, *values]
        signature = [(), (), *shapes]

        def condition(i: Tensor, most: Tensor, *leaves: Tensor) -> Structure:
            made = _call(cond, given(leaves))
            if isinstance(made, Tensor) and (made.shape_tuple is None or made.shape_tuple):
                made = tensor("Squeeze", input=made)
            if maximum_iterations is None:
                return made
            return tensor("LogicalAnd", x=tensor("Less", x=i, y=most), y=made)

        cond_graph = _with_inputs(new_body("cond", scope), entering, signature)
        trace(cond_graph, condition, tuple(cond_graph.inputs))
        body_graph = _with_inputs(new_body("body", scope), entering, signature)
        taken = tuple(body_graph.inputs)

        def step(i: Tensor, most: Tensor, *leaves: Tensor) -> Any:
            for outer, _ in cond_graph.captures:
                # so that the captures of the condition come first here too
                body_graph.capture(outer)
            made = _call(body, given(leaves))
            made = made if nest.is_nested(made) else [made]
            nest.assert_same_structure(made, loop_vars, check_types=False)
            results = [to_flow(leaf) for leaf in nest.flatten(made)]
            if any(result is None for result in results):
                raise ValueError("None values not supported.")
            step.result = made  # type: ignore[attr-defined]
            return [tensor("AddV2", "add", x=i, y=1), most, *results]

        trace(body_graph, step, taken)
        captures = body_graph.captures
        _check(body_graph, values, shapes)
        body_graph.outputs += [inside for _, inside in captures]
        _capture_as(cond_graph, [outer for outer, _ in captures])
        shown = [(), (), *shapes, *(inside.shape_tuple for _, inside in captures)]
        op = looping(
            scope,
            [*entering, *(outer for outer, _ in captures)],
            cond_graph,
            body_graph,
            shown,
            parallel_iterations,
        )
        outputs = list(op.outputs)
        if not op.graph.building_function:
            outputs = identities(op)
    ends = outputs[2 : 2 + len(values)]
    if not back_prop:
        ends = [tensor("StopGradient", input=value) for value in ends]
    for value, end in zip(values, ends, strict=True):
        end._handle_data = value._handle_data
    like = nest.flatten(step.result)  # type: ignore[attr-defined]
    return nest.pack_sequence_as(
        loop_vars, [from_flow(leaf, end) for leaf, end in zip(like, ends, strict=True)]
    )


def _call(function: Callable[..., object], values: Structure) -> Any:
    return function(**values) if isinstance(values, dict) else function(*values)


def _with_inputs(
    graph: FunctionGraph, values: Sequence[Tensor], shapes: Sequence[Shape]
) -> FunctionGraph:
    for i, (value, shape) in enumerate(zip(values, shapes, strict=True)):
        name = ("loop_counter", "maximum_iterations")[i] if i < 2 else "Placeholder"
        made = graph.add_input(value.dtype.base_dtype, shape, name)
        made._handle_data = value._handle_data
    return graph


def _capture_as(graph: FunctionGraph, outer: Sequence[Tensor]) -> None:
    """Have a condition take the body's inputs in the same order.

    Unused ones get placeholders.
    """
    known = {id(value): inside for value, inside in graph.captures}
    count = len(graph.inputs) - len(known)
    pairs = []
    for value in outer:
        inside = known.get(id(value))
        if inside is None:
            inside = graph.add_input(
                value.dtype.base_dtype, value.shape_tuple, "unused_placeholder"
            )
            inside._handle_data = value._handle_data
        pairs.append((value, inside))
    graph.set_inputs([*graph.inputs[:count], *(inside for _, inside in pairs)], pairs)


def _check(body: FunctionGraph, values: Sequence[Tensor], shapes: Sequence[Shape]) -> None:
    """Check that no variable changes its dtype or shape.

    Raises TypeError for another dtype, ValueError for a shape that becomes less known.
    """
    for value, shape, result in zip(values, shapes, body.outputs[2:], strict=True):
        if result.dtype.base_dtype is not value.dtype.base_dtype:
            raise TypeError(
                f"Loop var {value.name} enters the loop with type {value.dtype.base_dtype!r} but "
                f"has type {result.dtype!r} after 1 "
                f"iteration. {value.name} type should remain constant."
            )
        if not fits(result.shape_tuple, shape):
            raise ValueError(
                f"Input tensor `{value.name}` enters the loop with shape {shape_text(shape)}, but "
                "has shape "
                f"{shape_text(result.shape_tuple)} after one iteration. To allow the shape to vary "
                "across iterations, use the "
                "`shape_invariants` argument of tf.while_loop to specify a less-specific shape."
            )


def looping(
    scope: str | None,
    inputs: Sequence[Tensor],
    cond_graph: FunctionGraph,
    body_graph: FunctionGraph,
    shapes: Sequence[Shape],
    parallel_iterations: int,
) -> Operation:
    """Make a While node over a condition and a body of `inputs`."""
    refs: dict[str, FuncRef] = {"cond": define(cond_graph), "body": define(body_graph)}
    waits = [*cond_graph.control_captures, *body_graph.control_captures]
    kind = "While" if is_stateful(cond_graph, body_graph) else "StatelessWhile"
    with control_dependencies(waits):
        op = create(
            kind,
            scope,
            input=list(inputs),
            output_shapes=tuple(TensorShape(shape) for shape in shapes),
            parallel_iterations=parallel_iterations,
            _lower_using_switch_merge=True,
            _num_original_outputs=len(inputs),
            **refs,
        )
    finish(op, (cond_graph, body_graph))
    for value, taken in zip(op.outputs, op.inputs, strict=True):
        value._handle_data = taken._handle_data
    return op


def identities(op: Operation) -> list[Tensor]:
    """Return the outputs of a loop through one Identity each.

    A fetch of one output then runs no more than its own nodes.
    """
    return [tensor("Identity", input=value) for value in op.outputs]
