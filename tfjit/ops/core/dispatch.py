"""Calls of public functions that the class of an argument handles.

A ragged tensor stands in a layer above the functions that take it. A function that ragged tensors
may be passed to is marked here, and leaves such calls to the class of the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import wraps
from typing import TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])


class Kind(Enum):
    """A way in which the class of an argument finds the result."""

    UNARY = "elementwise, of the first argument"
    BINARY = "elementwise, of the first two arguments"
    ASSERTION = "a check of the first two arguments, element by element"
    OWN = "by a handler of the function"


class Dispatching:
    """A value, no tensor, that handles calls of marked functions."""

    __slots__ = ()

    def _handle(
        self,
        kind: Kind,
        function: Callable[..., object],
        args: tuple[object, ...],
        keywords: dict[str, object],
    ) -> object:
        """Return the result of a call, or NotImplemented where there is none."""
        raise NotImplementedError


def is_ragged(value: object) -> bool:
    """Return whether a value is a ragged tensor."""
    return isinstance(value, Dispatching) and hasattr(value, "with_flat_values")


def _dispatching(values: Iterable[object]) -> Dispatching | None:
    """Return the first value, or element of a list, that handles calls."""
    for value in values:
        if isinstance(value, Dispatching):
            return value
        if isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, Dispatching):
                    return item
    return None


def _marked(kind: Kind) -> Callable[[F], F]:
    def mark(function: F) -> F:
        @wraps(function)
        def apply(*args: object, **keywords: object) -> object:
            value = _dispatching(args)
            if value is None and keywords:
                value = _dispatching(keywords.values())
            if value is not None:
                result = value._handle(kind, apply, args, keywords)
                if result is not NotImplemented:
                    return result
            return function(*args, **keywords)

        return cast(F, apply)

    return mark


unary_elementwise = _marked(Kind.UNARY)
binary_elementwise = _marked(Kind.BINARY)
elementwise_assertion = _marked(Kind.ASSERTION)
dispatched = _marked(Kind.OWN)
