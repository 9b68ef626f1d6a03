"""`while_loop`: a loop in the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import nest
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.control_flow import loops_v2
from tfjit.ops.control_flow.control_flow_form import uses_functions
from tfjit.ops.control_flow.flow_tensor_array import from_flow, to_flow
from tfjit.ops.control_flow.ragged_values import has_ragged, ragged_loop
from tfjit.ops.control_flow.shape_invariants import set_invariants
from tfjit.ops.control_flow.while_context import WhileContext
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ShapeLike, Structure, TensorLike


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Structure,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: object = None,
    return_same_structure: bool = False,
) -> Structure:
    """Return the loop variables once `cond` is false.

    cond, body: functions of the loop variables; cond gives a bool scalar, body the next values, one
    a variable. loop_vars: a structure of tensors, TensorArrays and values that convert to tensors.
    shape_invariants: the same structure of shapes, where sizes that change from iteration to
    iteration are None. parallel_iterations: number of iterations that may run at the same time.
    maximum_iterations: a bound, an integer scalar. return_same_structure: a list of one variable
    stays one. Raises TypeError for functions that cannot be called, ValueError for no variables and
    for shapes that become less known, either for another structure of results.
    """
    if not callable(cond):
        raise TypeError("'cond' must be callable.")
    if not callable(body):
        raise TypeError("'body' must be callable.")
    if parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    if has_ragged(loop_vars):
        options = (parallel_iterations, back_prop, swap_memory, name, maximum_iterations)
        return ragged_loop(
            while_loop, cond, body, loop_vars, shape_invariants, options, return_same_structure
        )
    leaves = nest.flatten(loop_vars)
    if uses_functions():
        return _as_functions(
            cond,
            body,
            loop_vars,
            shape_invariants,
            parallel_iterations,
            maximum_iterations,
            name,
            back_prop,
            return_same_structure,
        )
    with name_scope(name, "while", [leaf for leaf in leaves if isinstance(leaf, Tensor)]):
        if not leaves:
            raise ValueError("'loop_vars' must be provided.")
        alone = (
            len(loop_vars) == 1 and not return_same_structure if nest.is_nested(loop_vars) else True
        )
        if not nest.is_nested(loop_vars):
            loop_vars = [loop_vars]
            shape_invariants = None if shape_invariants is None else [shape_invariants]
        if maximum_iterations is None:
            context = WhileContext(None, parallel_iterations, back_prop, swap_memory)
            return _build(
                cond, body, loop_vars, shape_invariants, not return_same_structure, context
            )
        bound = convert_to_tensor(maximum_iterations, name="maximum_iterations")
        if bound.shape.ndims != 0:
            raise ValueError(
                f"'maximum_iterations' must be a scalar. Received shape: {bound.shape}"
            )
        counter = convert_to_tensor(0, dtype=bound.dtype, name="iteration_counter")
        invariants = None
        if shape_invariants is not None:
            invariants = (TensorShape([]), shape_invariants[0] if alone else shape_invariants)

        def bounded(i: Any, values: TensorLike) -> Tensor:
            from tfjit.ops.arithmetic.elementwise_functions import logical_and

            return logical_and(i < bound, cond(values) if alone else _call(cond, values))

        def counted(i: Any, values: TensorLike) -> Structure:
            return i + 1, (body(values) if alone else _call(body, values))

        context = WhileContext(bound, parallel_iterations, back_prop, swap_memory)
        return _build(
            bounded,
            counted,
            (counter, loop_vars[0] if alone else loop_vars),
            invariants,
            False,
            context,
        )[1]


def _as_functions(
    cond: Any,
    body: Any,
    loop_vars: Structure,
    shape_invariants: object,
    parallel_iterations: int,
    bound: Any,
    name: str | None,
    back_prop: bool,
    same_structure: bool,
) -> Structure:
    if not nest.flatten(loop_vars):
        raise ValueError("'loop_vars' must be provided.")
    variables = loop_vars if nest.is_nested(loop_vars) else [loop_vars]
    invariants = None
    if shape_invariants is not None:
        invariants = _shapes(
            variables, shape_invariants if nest.is_nested(loop_vars) else [shape_invariants]
        )
    found = loops_v2.while_loop(
        cond, body, variables, invariants, parallel_iterations, bound, name, back_prop
    )
    flat = nest.flatten(found)
    return flat[0] if len(flat) == 1 and not same_structure else found


def _call(function: Callable[..., object], values: Structure) -> Any:
    return function(**values) if isinstance(values, dict) else function(*values)


def _listed(structure: Structure) -> Any:
    """Make the outermost sequence a list, since its type does not matter."""
    if isinstance(structure, (list, tuple)):
        return list(structure)
    return structure if nest.is_nested(structure) else [structure]


def _build(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Structure,
    shape_invariants: object,
    unpack: bool,
    context: WhileContext,
) -> Structure:
    if context.outer_context is None:
        get_default_graph().add_to_collection(GraphKeys.WHILE_CONTEXT, context)
    originals = nest.flatten(loop_vars)
    values = [convert_to_tensor(to_flow(original)) for original in originals]
    with context.entered():
        invariants = None
        if shape_invariants is not None:
            invariants = _shapes(loop_vars, shape_invariants)
        enters = context.build_enters(values)
        set_invariants(values, enters, invariants)
        merges = context.begin(enters)
        condition = convert_to_tensor(_call(cond, _with(loop_vars, originals, merges)))
        leaving, into = context.condition(condition, merges)
        given = _call(body, _with(loop_vars, originals, into))
        results = nest.flatten(given)
        try:
            nest.assert_same_structure(_listed(loop_vars), _listed(given))
        except (TypeError, ValueError) as error:
            raise type(error)(f"'body' must give the structure of 'loop_vars': {error}") from None
        if any(result is None for result in results):
            raise ValueError("None values not supported.")
        nexts = [
            convert_to_tensor(to_flow(result), dtype=merge.dtype.base_dtype)
            for result, merge in zip(results, merges, strict=True)
        ]
        exits = context.close(merges, nexts, leaving)
    outputs = _with(given if nest.is_nested(given) else [given], results, exits)
    return outputs[0] if unpack and len(exits) == 1 and not isinstance(outputs, dict) else outputs


def _with(structure: Structure, originals: list[object], values: list[Tensor]) -> Structure:
    return nest.pack_sequence_as(
        structure, [from_flow(like, value) for like, value in zip(originals, values, strict=True)]
    )


def _shapes(loop_vars: Structure, invariants: Structure) -> list[object]:
    """Return the invariants in the order of the variables.

    A TensorShape, None or list of sizes is one shape.
    """
    found: list[object] = []

    def walk(variables: Any, shapes: Sequence[ShapeLike | None]) -> None:
        if not nest.is_nested(variables):
            found.append(shapes)
            return
        keys = sorted(variables) if isinstance(variables, dict) else range(len(variables))
        if not isinstance(shapes, (list, tuple, dict)) or len(shapes) != len(variables):
            raise ValueError(
                f"'shape_invariants' must have the structure of 'loop_vars'. Received {invariants} "
                f"for {loop_vars}"
            )
        for key in keys:
            walk(variables[key], shapes[key])

    walk(loop_vars, invariants)
    return found
