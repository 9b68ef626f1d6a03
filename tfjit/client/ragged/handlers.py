"""The results of public functions that ragged tensors are passed to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tfjit.ops.core.dispatch import Kind

F = TypeVar("F", bound=Callable[..., object])

# public function -> the function of ragged tensors, with the same arguments
_OWN: dict[Callable[..., object], Callable[..., object]] = {}
# kind -> (public function, arguments, keywords) -> result
_KINDS: dict[Kind, Callable[..., object]] = {}


def handles(*functions: Callable[..., object]) -> Callable[[F], F]:
    """Register the handler of public functions of its arguments."""

    def register(handler: F) -> F:
        _OWN.update(dict.fromkeys(functions, handler))
        return handler

    return register


def handles_kind(*kinds: Kind) -> Callable[[F], F]:
    """Register the handler of all functions of a kind."""

    def register(handler: F) -> F:
        _KINDS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


def handle(
    kind: Kind,
    function: Callable[..., object],
    args: tuple[object, ...],
    keywords: dict[str, object],
) -> object:
    """Return the result of a call, or NotImplemented without a handler."""
    if kind is not Kind.OWN:
        return _KINDS[kind](function, args, keywords)
    handler = _OWN.get(function)
    return NotImplemented if handler is None else handler(*args, **keywords)
