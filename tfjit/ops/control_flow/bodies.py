"""Bodies built from Python functions, and the nodes that name them.

The nodes name their bodies in attrs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.function_def import from_function_def, to_function_def
from tfjit.framework.graphs.function_graph import FunctionGraph, unique_function_name
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.types import nest
from tfjit.framework.types.shape import Shape
from tfjit.ops.control_flow.automatic_control_dependencies import AutomaticControl, read_only_inputs
from tfjit.ops.control_flow.flow_tensor_array import TensorArray, to_flow
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


def new_body(name: str, scope: str = "") -> FunctionGraph:
    """Return an empty body for a function of the default graph.

    Its name begins with the name scope `scope` and `name`.
    """
    outer = get_default_graph()
    automatic = isinstance(outer, FunctionGraph) and outer.automatic_control
    return FunctionGraph(unique_function_name(scope + name), outer, automatic)


def trace(
    body: FunctionGraph,
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Any = None,
    value_of_operations: object = None,
) -> FunctionGraph:
    """Have `function(*args, **kwargs)` build a body.

    The function's results are the body's outputs. value_of_operations: the value of an operation
    among the results, once it has run; without it operations are refused. Raises TypeError for
    results that are no tensors.
    """
    control = AutomaticControl(body) if body.automatic_control else None
    with body.as_default():

        def result(value: TensorLike) -> Any:
            if value is None:
                return None
            if isinstance(value, Operation) and value_of_operations is not None:
                with control_dependencies([value]):
                    return tensor("Identity", input=value_of_operations)
            if isinstance(value, TensorArray):
                return value
            try:
                return convert_to_tensor(value)
            except (TypeError, ValueError):
                raise TypeError(
                    "To be compatible with tf.function, Python functions must return zero or more "
                    "Tensors or ExtensionTypes or None "
                    f"values; in compilation of {function}, found return value of type "
                    f"{type(value).__name__}, which is not a Tensor or "
                    "ExtensionType."
                ) from None

        given = function(*args, **(kwargs or {}))
        body.structured_outputs = nest.map_structure(result, given)
        body.outputs = [
            body.capture(to_flow(leaf))
            for leaf in nest.flatten(body.structured_outputs)
            if leaf is not None
        ]
        if control is not None:
            body.outputs = control.close(body.outputs)
            body.structured_outputs = packed(body.structured_outputs, body.outputs)
    return body


def packed(structure: Structure, values: Sequence[Tensor]) -> Any:
    """Replace the tensors in `structure` in order; None stays."""
    from tfjit.ops.control_flow.flow_tensor_array import from_flow

    rest = iter(values)
    return nest.map_structure(
        lambda leaf: None if leaf is None else from_flow(leaf, next(rest)), structure
    )


def define(body: FunctionGraph) -> FuncRef:
    """Put a body into the library of its graph, under its name.

    Returns the value of an attr that names it.
    """
    body.outermost.add_function(to_function_def(body, body.name))
    return FuncRef(body.name)


def is_stateful(*bodies: FunctionGraph) -> bool:
    """Return whether any operation of the bodies is stateful."""
    return any(op.op_def.is_stateful for body in bodies for op in body.get_operations())


def finish(op: Operation, bodies: Sequence[FunctionGraph], first: int = 0) -> None:
    """Store its bodies in a node. first: their first input's index."""
    op._bodies = tuple(bodies)
    read_only: set[int] | None = None
    for body in bodies:
        body.outer_graph = op.graph
        found = read_only_inputs(body)
        read_only = found if read_only is None else read_only & found
    op._set_attr("_read_only_resource_inputs", tuple(sorted(i + first for i in read_only or ())))


def bodies_of(op: Operation, refs: Sequence[FuncRef], first: int = 0) -> list[FunctionGraph]:
    """Return the bodies of a node, which the caller may change.

    They are those it was made with, else new ones from the library. first: as for `finish`.
    """
    if not op._bodies:
        shapes: list[Shape] = [value.shape_tuple for value in op.inputs[first:]]
        if op.type in ("While", "StatelessWhile"):
            shapes = [value.shape_tuple for value in op.outputs]
        made = [from_function_def(ref, op.graph, shapes) for ref in refs]
        for body in made:
            body.automatic_control = False
            for outer, inner in zip(op.inputs[first:], body.inputs, strict=True):
                inner._handle_data = handle_data(outer)
        op._bodies = tuple(made)
    return list(op._bodies)


def redefine(op: Operation, attr: str | Sequence[str], bodies: Sequence[FunctionGraph]) -> None:
    """Have a node name its bodies as they are now.

    attr: one name a body, or one attr that lists them.
    """
    for body in bodies:
        body.name = (
            unique_function_name(body.name + "_rewritten")
            if body.name.endswith("_rewritten")
            else body.name + "_rewritten"
        )
        if body.name in body.outermost.functions:
            body.name = unique_function_name(body.name)
    refs = [define(body) for body in bodies]
    if isinstance(attr, str):
        op._set_attr(attr, tuple(refs))
    else:
        for name, ref in zip(attr, refs, strict=True):
            op._set_attr(name, ref)


def extend(op: Operation, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Give a node more inputs and outputs.

    New outputs have the dtypes and shapes of `outputs`; attrs are left to the caller.
    """
    op.graph._changed.append((op.graph.version, op))
    taken = [op.graph.capture(t) if isinstance(op.graph, FunctionGraph) else t for t in inputs]
    for value in taken:
        value._consumers.append(op)
    op._inputs = (*op._inputs, *taken)
    context = op._get_control_flow_context()
    for value in outputs:
        made = Tensor(op, len(op.outputs), value.dtype.base_dtype, value.shape_tuple)
        made._handle_data = value._handle_data
        op.outputs.append(made)
        if context is not None:
            context.AddName(made.name)


def handle_data(value: Tensor) -> Structure:
    """Return ((shape, dtype),) of a resource's value; None if unknown."""
    while value._handle_data is None:
        op = value.op
        if op.type == "VarHandleOp":
            return ((op.attr("shape").dims_tuple, op.attr("dtype")),)
        if (
            op.type in ("Identity", "Switch", "Enter", "RefEnter", "Merge", "Exit", "NextIteration")
            and op.inputs
        ):
            value = op.inputs[0]
        elif op.type in ("While", "StatelessWhile") and value.value_index < len(op.inputs):
            value = op.inputs[value.value_index]
        else:
            return None
    return value._handle_data
