"""Name the values that datasets give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Value = Any
"""A component: an ndarray, or an object for a variant."""

Element = Sequence[Value]
"""Components of an element, or inputs or outputs of a node."""

__all__ = ["Element", "Value"]
