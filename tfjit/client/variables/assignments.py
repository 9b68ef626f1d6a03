"""Functions that change variables: assign, scatter, count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.client.variables.ref_variables import create_on
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.operation import Tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _reference(ref: TensorLike) -> Tensor | None:
    """Return the reference tensor of a reference variable.

    The argument may be a tensor that aliases one, such as the result of `assign`. None for others.
    """
    if isinstance(ref, Variable):
        return ref._as_graph_element() if ref.dtype.is_ref else None
    if isinstance(ref, Tensor) and ref.dtype.is_ref:
        return ref
    if hasattr(ref, "assign"):
        return None
    raise TypeError(f"{ref!r} is no variable: it cannot be assigned to")


def assign(
    ref: Any,
    value: TensorLike,
    validate_shape: bool | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> Any:
    """Set a variable.

    Gives the reference tensor, or for a resource variable the variable as it is afterwards.

    validate_shape: False lets a reference variable take a value of another shape.
    """
    target = _reference(ref)
    if target is None:
        return ref.assign(value, name=name)
    op = create_on(
        target, "Assign", name, value=value, use_locking=use_locking, validate_shape=validate_shape
    )
    return op.outputs[0]


def assign_add(
    ref: Any, value: TensorLike, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Add to a variable. Returns the same as `assign`."""
    target = _reference(ref)
    if target is None:
        return ref.assign_add(value)  # nameless, as in TensorFlow
    return create_on(target, "AssignAdd", name, value=value, use_locking=use_locking).outputs[0]


def assign_sub(
    ref: Any, value: TensorLike, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Subtract from a variable. Returns the same as `assign`."""
    target = _reference(ref)
    if target is None:
        return ref.assign_sub(value)
    return create_on(target, "AssignSub", name, value=value, use_locking=use_locking).outputs[0]


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Add one to an integer variable: its value before.

    The run raises OutOfRangeError once it is `limit`.
    """
    target = _reference(ref)
    if target is None:
        return ref.count_up_to(limit, name)
    return create_on(target, "CountUpTo", name, limit=limit).outputs[0]


def _scatter(
    op_type: str,
    ref: Any,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool,
    name: str | None,
) -> Any:
    target = _reference(ref)
    if target is None:
        return ref._scatter(op_type, indices, updates, use_locking, name)
    return create_on(
        target, op_type, name, indices=indices, updates=updates, use_locking=use_locking
    ).outputs[0]


def scatter_update(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = True,
    name: str | None = None,
) -> Any:
    """Set rows: ref[indices[...]] = updates[...].

    indices of any rank; updates [*indices.shape, *row] or a scalar.
    """
    return _scatter("ScatterUpdate", ref, indices, updates, use_locking, name)


def scatter_add(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Add to rows; those named twice take both."""
    return _scatter("ScatterAdd", ref, indices, updates, use_locking, name)


def scatter_sub(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Subtract from rows."""
    return _scatter("ScatterSub", ref, indices, updates, use_locking, name)


def scatter_mul(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Multiply rows."""
    return _scatter("ScatterMul", ref, indices, updates, use_locking, name)


def scatter_div(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Divide rows."""
    return _scatter("ScatterDiv", ref, indices, updates, use_locking, name)


def scatter_min(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Lower rows to the updates."""
    return _scatter("ScatterMin", ref, indices, updates, use_locking, name)


def scatter_max(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Raise rows to the updates."""
    return _scatter("ScatterMax", ref, indices, updates, use_locking, name)


def scatter_nd_update(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = True,
    name: str | None = None,
) -> Any:
    """Set slices: ref[indices[..., :]] = updates[...]. indices [..., depth]."""
    return _scatter("ScatterNdUpdate", ref, indices, updates, use_locking, name)


def scatter_nd_add(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Add to slices."""
    return _scatter("ScatterNdAdd", ref, indices, updates, use_locking, name)


def scatter_nd_sub(
    ref: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    use_locking: bool = False,
    name: str | None = None,
) -> Any:
    """Subtract from slices."""
    return _scatter("ScatterNdSub", ref, indices, updates, use_locking, name)
