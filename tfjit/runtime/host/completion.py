"""Name the callback by which asynchronous work ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Values = Sequence[Any]
"""Inputs or outputs of a node: arrays, resources, other values."""
Done = Callable[[Values | BaseException], None]
"""Takes the outputs, or the error."""
