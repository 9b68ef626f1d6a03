"""`tfjit.layers.experimental`: layers that share variables by object, not by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["keras_style_scope", "set_keras_style"]


class _Style:
    """The style of the layers that are made from here on."""

    keras = False


def uses_keras_style() -> bool:
    """Return whether new layers share variables by object."""
    return _Style.keras


@contextmanager
def keras_style_scope() -> Iterator[None]:
    """Make the layers inside own their variables.

    Such a layer has a unique name, which its resource variables start with; a variable scope around
    it shares nothing. A layer inside refuses a scope, and so a function's name. Its updates are in
    `layer.updates`, not in UPDATE_OPS.
    """
    before = _Style.keras
    _Style.keras = True
    try:
        yield
    finally:
        _Style.keras = before


def set_keras_style() -> None:
    """Make all layers from here on as `keras_style_scope` does."""
    _Style.keras = True
