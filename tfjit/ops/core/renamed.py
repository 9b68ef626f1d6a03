"""Arguments that TensorFlow renamed and still takes under both names."""

from __future__ import annotations

from typing import Any


def renamed(new: object, old: object, new_name: str, old_name: str) -> Any:
    """Return the value of an argument with two names.

    Raises ValueError when both are given.
    """
    if old is None:
        return new
    if new is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'.")
    return old
