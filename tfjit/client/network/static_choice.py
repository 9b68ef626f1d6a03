"""Choices by conditions that a graph may know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.ops.control_flow.conditionals import cond
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def static_condition(condition: object) -> bool | None:
    """Return a condition's value; None where only a run knows it.

    Without a condition (None) it is false.
    """
    if isinstance(condition, Variable):
        return None
    if isinstance(condition, Tensor):
        value = constant_value(condition)
        return None if value is None else bool(value)
    return bool(condition)


def choose(
    condition: Structure, if_true: Callable[[], object], if_false: Callable[[], object]
) -> Structure:
    """Return the result of one of two functions.

    It is a `cond` unless the condition is static.
    """
    known = static_condition(condition)
    if known is None:
        return cond(convert_to_tensor(condition), if_true, if_false)
    return if_true() if known else if_false()
