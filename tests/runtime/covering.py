"""Which tests show that which fields of ConfigProto and RunOptions act."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_F = TypeVar("_F", bound=Callable[..., object])


def covers(*fields: str) -> Callable[[_F], _F]:
    """Say that a test shows what these fields ("RunOptions.timeout_in_ms") do;
    session/test_config_fields.py reads it off the source.
    """
    return lambda test: test
