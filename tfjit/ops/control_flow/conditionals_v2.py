"""Conditionals as If and Case nodes over functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph, name_scope
from tfjit.framework.graphs.function_graph import FunctionGraph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import nest
from tfjit.framework.types.shape import Shape, TensorShape
from tfjit.ops.control_flow.bodies import define, finish, is_stateful, new_body, packed, trace
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


def cond(
    pred: TensorLike,
    true_fn: Callable[[], object],
    false_fn: Callable[[], object],
    name: str | None,
) -> Structure:
    """Build `conditionals.cond` as an If node.

    It is a StatelessIf where no branch has effects.
    """
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool", pred)
    with get_default_graph().name_scope(name or "cond") as scope:
        pred = convert_to_tensor(pred)
        if pred.shape_tuple is None or pred.shape_tuple:
            pred = tensor("Squeeze", input=pred)
        branches = [
            trace(new_body(called, scope), function, value_of_operations=pred)
            for called, function in (("true", true_fn), ("false", false_fn))
        ]
        names = ["true_fn", "false_fn"]
        _check_captures(branches, names)
        _check_same(branches, names, "tf.cond")
        op = branching(scope, pred, branches)
        return packed(branches[0].structured_outputs, results(op))


def indexed_case(index: TensorLike, functions: Sequence[Callable[[], object]]) -> Structure:
    """Return the result of the function at `index`, by a Case node.

    The last function runs for an index without one. The node is a StatelessCase where it can be.
    """
    with name_scope(None, "indexed_case") as scope:
        index = convert_to_tensor(index, name="branch_index")
        branches = [
            trace(new_body(f"branch{i}", scope), function, value_of_operations=index)
            for i, function in enumerate(functions)
        ]
        names = [f"branch {i}" for i in range(len(functions))]
        _check_captures(branches, names)
        _check_same(branches, [f"branches[{i}]" for i in range(len(functions))], "tf.switch_case")
        op = branching(scope, index, branches)
        return packed(branches[0].structured_outputs, results(op))


def results(op: Operation) -> list[Tensor]:
    """Return the outputs of an If or Case through one Identity each.

    A fetch of one output then runs no more than its own nodes.
    """
    found = []
    for value in op.outputs:
        made = tensor("Identity", input=value)
        made._handle_data = value._handle_data
        found.append(made)
    return found


def branching(scope: str | None, chosen: Tensor, branches: Sequence[FunctionGraph]) -> Operation:
    """Make an If (of a bool) or Case (of an int32) node.

    The branches have the same outputs.
    """
    inputs = match_inputs(branches)
    shapes = tuple(
        TensorShape(_common(shapes))
        for shapes in zip(*([out.shape_tuple for out in b.outputs] for b in branches), strict=True)
    )
    waits = [op for branch in branches for op in branch.control_captures]
    stateless = "" if is_stateful(*branches) else "Stateless"
    dtypes = tuple(value.dtype.base_dtype for value in branches[0].outputs)
    refs = [define(branch) for branch in branches]
    if chosen.dtype.base_dtype.name == "bool":
        kind, choice = "If", {"cond": chosen, "then_branch": refs[0], "else_branch": refs[1]}
    else:
        kind, choice = "Case", {"branch_index": chosen, "branches": tuple(refs)}
    with control_dependencies(waits):
        op = create(
            stateless + kind,
            scope,
            input=inputs,
            Tout=dtypes,
            output_shapes=shapes,
            _lower_using_switch_merge=True,
            **choice,
        )
    finish(op, branches, first=1)
    for i, value in enumerate(op.outputs):
        data = [branch.outputs[i]._handle_data for branch in branches]
        value._handle_data = data[0] if all(d == data[0] for d in data) else None
    op.graph.prevent_fetching(op)
    return op


def match_inputs(branches: Sequence[FunctionGraph]) -> list[Tensor]:
    """Give all branches the inputs of any of them, in one order.

    Returns the outer tensors of these inputs.
    """
    outer: dict[int, Tensor] = {}
    for branch in branches:
        for value, _ in branch.captures:
            outer.setdefault(id(value), value)
    for branch in branches:
        own = {id(value): inside for value, inside in branch.captures}
        pairs = []
        for key, value in outer.items():
            inside = own.get(key)
            if inside is None:
                inside = branch.add_input(value.dtype.base_dtype, value.shape_tuple)
                inside._handle_data = value._handle_data
            pairs.append((value, inside))
        branch.set_inputs([inside for _, inside in pairs], pairs)
    return list(outer.values())


def _common(shapes: Sequence[Shape]) -> Shape:
    """Return the most precise shape that all these shapes fit."""
    first = shapes[0]
    for other in shapes[1:]:
        if first is None or other is None or len(first) != len(other):
            return None
        first = tuple(a if a == b else None for a, b in zip(first, other, strict=True))
    return first


def _check_captures(branches: Sequence[FunctionGraph], names: Sequence[str]) -> None:
    owners = {id(branch): name for branch, name in zip(branches, names, strict=True)}
    for branch, name in zip(branches, names, strict=True):
        for value, _ in branch.captures:
            owner = owners.get(id(value.op.graph))
            if owner is not None:
                raise ValueError(f"Tensor {value.name} in {owner} is accessed from {name}.")


def _check_same(branches: Sequence[FunctionGraph], names: Sequence[str], function: str) -> None:
    """Check that all branches return the same structure and dtypes.

    Raises TypeError where they differ.
    """
    first = branches[0]
    for i, (branch, name) in enumerate(zip(branches[1:], names[1:], strict=True), 1):
        error = ""
        try:
            nest.assert_same_structure(first.structured_outputs, branch.structured_outputs)
        except (TypeError, ValueError) as differ:
            error = str(differ)
        if not error and len(first.outputs) != len(branch.outputs):
            raise ValueError(
                f"Lengths of branch outputs of {function.rpartition('_')[2].removeprefix('tf.')} "
                "must match.\n"
                f"len(graphs[0].outputs): {len(first.outputs)}\nlen(graphs[{i}].outputs): "
                f"{len(branch.outputs)}\n"
            )
        if not error:
            pairs = zip(first.outputs, branch.outputs, strict=True)
            differing = next(
                ((a, b) for a, b in pairs if a.dtype.base_dtype is not b.dtype.base_dtype), None
            )
            if differing is not None:
                error = f"{differing[0]} and {differing[1]} have different types"
        if error:
            raise TypeError(
                f"{names[0]} and {name} arguments to {function} must have the same number, type, "
                "and overall structure of return "
                "values.\n\n"
                f"{names[0]} output: {first.structured_outputs}\n{name} output: "
                f"{branch.structured_outputs}\n\nError details:\n{error}"
            )
