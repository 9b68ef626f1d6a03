"""Op type -> gradient function: the registry behind `RegisterGradient` and `NotDifferentiable`."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

GradientFn = Callable[..., Any]
"""`fn(op, *output_gradients)` -> the gradient of each input of `op`.

A gradient is a tensor, or None where there is none; alone for one input, else a list or tuple.
"""


@dataclass(frozen=True, slots=True)
class _Entry:
    gradient: GradientFn | None  # None: not differentiable
    where: str  # "function file:line" of the registration


_entries: Final[dict[str, _Entry]] = {}
_with_needed: Final[set[GradientFn]] = set()


def register(op_type: str, gradient: GradientFn | None) -> None:
    """Set the gradient of an op type; None says it has none.

    Raises KeyError when the type has one already.
    """
    known = _entries.get(op_type)
    if known is not None:
        raise KeyError(
            f"Registering two gradient with name '{op_type}'! (Previous registration was in "
            f"{known.where})"
        )
    caller = next((f for f in reversed(traceback.extract_stack()) if f.filename != __file__), None)
    where = (
        f"{caller.name} {caller.filename}:{caller.lineno}" if caller is not None else "<unknown>"
    )
    _entries[op_type] = _Entry(gradient, where)


def with_needed(gradient: GradientFn) -> GradientFn:
    """Decorate a gradient function that asks for the needed gradients.

    It is called as `fn(op, needed, *output_gradients)`, with None for outputs that have no
    gradient. needed: for each input True if its gradient is asked for.
    """
    _with_needed.add(gradient)
    return gradient


def accepts_needed(gradient: GradientFn) -> bool:
    """Return whether a gradient function was marked by `with_needed`."""
    return gradient in _with_needed


def unregister(op_type: str) -> None:
    """Forget the gradient of an op type, if one is registered."""
    _entries.pop(op_type, None)


def has_gradient(op_type: str) -> bool:
    """Return whether a gradient, or its absence, is registered."""
    return op_type in _entries


def lookup(op_type: str) -> GradientFn | None:
    """Return the gradient function, None for an op that is not differentiable.

    Raises LookupError when neither is registered.
    """
    try:
        return _entries[op_type].gradient
    except KeyError:
        raise LookupError(f"gradient registry has no entry for: {op_type}") from None


class RegisterGradient:
    """A decorator that makes a function the gradient of an op type.

        @tf.RegisterGradient("Sub")
        def sub_gradient(op, grad):
            return grad, tf.negative(grad)

    The function gets the operation and a gradient for each of its outputs, and returns one for each
    input (None: no gradient). The name may also be one that `Graph.gradient_override_map` maps op
    types to. Raises TypeError for a name that is no string, KeyError (when it decorates) for one
    that has a gradient already.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, gradient: GradientFn) -> GradientFn:
        register(self._op_type, gradient)
        return gradient


def NotDifferentiable(op_type: str) -> None:
    """Say that ops of this type pass no gradient.

    Raises TypeError for a type that is no string, KeyError for one registered already.
    """
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    register(op_type, None)


NoGradient = NotDifferentiable
