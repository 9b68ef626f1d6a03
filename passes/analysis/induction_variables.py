"""Find the induction variables and trip counts of While loops.

Both follow from constant starts, constant steps and constant limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.passes.analysis.region_tree import Scope
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.function_library import indexed

Tensor = tuple[str, int]

# Relation of the induction variable to the limit in a condition `a op b`, with the variable on the
# left. With the variable on the right the relation is mirrored.
_COMPARISONS: Final = {"Less": "<", "LessEqual": "<=", "Greater": ">", "GreaterEqual": ">="}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class InductionVariable:
    """An induction variable: an int32 or int64 scalar of a loop.

    The first value is `start`; each iteration adds `step`.
    """

    number: int
    start: int
    step: int
    dtype: np.dtype

    def after(self, trips: int) -> int | None:
        """Return the value after `trips` iterations, None if the dtype overflows."""
        value = self.start + self.step * trips
        limits = np.iinfo(self.dtype)
        return value if limits.min <= value <= limits.max else None


@dataclass(frozen=True, slots=True)
class Loop:
    """A While of a scope's graph.

    cond, body: scopes of the loop's functions. unchanged: numbers of the variables that the body
    returns unchanged. induction_variables: induction variables by number. steps: the constant that an
    iteration adds to a variable, by number, whether or not the start is known. trips: the trip
    count, where known. at_most: an upper bound of the trip count, where known.
    """

    scope: Scope
    name: str
    cond: Scope
    body: Scope
    unchanged: frozenset[int]
    induction_variables: dict[int, InductionVariable]
    trips: int | None
    at_most: int | None
    steps: dict[int, int]

    @property
    def inputs(self) -> list[Tensor]:
        """Return the tensors that enter the loop as its variables."""
        return self.scope.graph.inputs(self.name)


def value_of(scope: Scope, tensor: Tensor) -> np.ndarray | None:
    """Return a tensor's static value, None where unknown."""
    found = constant_value(scope.graph, *tensor)
    return found if found is not None else scope.ctx.values.get(tensor)


def behind_identities(scope: Scope, tensor: Tensor) -> Tensor:
    """Return the tensor behind any Identity nodes."""
    while scope.graph.node(tensor[0]).op == "Identity":
        tensor = scope.graph.inputs(tensor[0])[0]
    return tensor


def argument(scope: Scope, tensor: Tensor) -> int | None:
    """Return the argument number of a tensor of a body, else None."""
    name, _ = behind_identities(scope, tensor)
    node = scope.graph.node(name)
    return node.attrs["index"] if node.op == "_Arg" else None


def counted_from(scope: Scope, tensor: Tensor) -> tuple[int, int]:
    """Return (offset, number) of an argument plus a constant.

    The number is -1 where the tensor has no such form.
    """
    offset = 0
    while True:
        tensor = behind_identities(scope, tensor)
        node = scope.graph.node(tensor[0])
        if node.op == "_Arg":
            return offset, node.attrs["index"]
        if node.op not in ("Add", "AddV2", "Sub"):
            return 0, -1
        left, right = scope.graph.inputs(node.name)
        added = _integer(value_of(scope, right))
        if added is None and node.op != "Sub":
            left, added = right, _integer(value_of(scope, left))
        if added is None:
            return 0, -1
        offset += -added if node.op == "Sub" else added
        tensor = left


def read_loop(scope: Scope, name: str) -> Loop:
    """Analyse a While node."""
    assert scope.graph.node(name).has_trait(WHILE)
    cond, body = scope.children[name]
    unchanged = set()
    induction_variables: dict[int, InductionVariable] = {}
    steps: dict[int, int] = {}
    inputs = scope.graph.inputs(name)
    for k, result in indexed(body.graph, "_Retval").items():
        step, origin = counted_from(body, body.graph.inputs(result.name)[0])
        if origin != k:
            continue
        if not step:
            unchanged.add(k)
            continue
        steps[k] = step
        value = value_of(scope, inputs[k])
        start = _integer(value)
        if start is not None and value is not None:
            induction_variables[k] = InductionVariable(k, start, step, value.dtype)
    returned = next(node for node in cond.graph.op_nodes() if node.op == "_Retval")
    loop = Loop(
        scope, name, cond, body, frozenset(unchanged), induction_variables, None, None, steps
    )
    bounds = _trips(loop, cond.graph.inputs(returned.name)[0])
    return replace(loop, trips=bounds[0], at_most=bounds[1])


def _integer(value: np.ndarray | None) -> int | None:
    return (
        int(value)
        if value is not None and value.ndim == 0 and value.dtype in (np.int32, np.int64)
        else None
    )


def _trips(loop: Loop, tensor: Tensor) -> tuple[int | None, int | None]:
    """Return a condition's trip count and an upper bound of that.

    Each is None where that does not follow from induction variables.
    """
    cond = loop.cond
    tensor = behind_identities(cond, tensor)
    node = cond.graph.node(tensor[0])
    value = value_of(cond, tensor)
    if value is not None and value.ndim == 0 and value.dtype == np.bool_ and not value:
        return 0, 0
    if node.op == "LoopCond":
        return _trips(loop, cond.graph.inputs(node.name)[0])
    if node.op == "LogicalAnd":
        bounds = [
            _trips(loop, side) for side in cond.graph.inputs(node.name) if not _is_true(cond, side)
        ]
        exact, most = (
            [bound[0] for bound in bounds],
            [bound[1] for bound in bounds if bound[1] is not None],
        )
        return None if None in exact else min(
            (count for count in exact if count is not None), default=None
        ), min(most, default=None)
    if node.op not in _COMPARISONS:
        return None, None
    left, right = cond.graph.inputs(node.name)
    relation = _COMPARISONS[node.op]
    if argument(cond, left) not in loop.induction_variables:
        left, right, relation = right, left, _MIRRORED[relation]
    number = argument(cond, left)
    variable = loop.induction_variables.get(number) if number is not None else None
    limit = _integer(_outer_value(loop, right))
    if variable is None or limit is None:
        return None, None
    distance = (limit - variable.start) if variable.step > 0 else (variable.start - limit)
    if relation in ("<=", ">="):
        distance += 1
    if distance <= 0 and relation in (("<", "<=") if variable.step > 0 else (">", ">=")):
        return 0, 0
    if relation not in (("<", "<=") if variable.step > 0 else (">", ">=")):
        # the variable moves away from the limit: the loop stops at once or runs until an overflow
        return None, None
    trips = -(-distance // abs(variable.step))
    return (trips, trips) if variable.after(trips) is not None else (None, None)


def _is_true(scope: Scope, tensor: Tensor) -> bool:
    value = value_of(scope, tensor)
    return value is not None and value.ndim == 0 and value.dtype == np.bool_ and bool(value)


def _outer_value(loop: Loop, tensor: Tensor) -> np.ndarray | None:
    """Return the value of a tensor in the condition.

    The value is known there, or belongs to a loop variable that no iteration changes.
    """
    value = value_of(loop.cond, tensor)
    k = argument(loop.cond, tensor)
    if value is None and k in loop.unchanged and k is not None:
        return value_of(loop.scope, loop.inputs[k])
    return value


__all__ = [
    "InductionVariable",
    "Loop",
    "argument",
    "behind_identities",
    "counted_from",
    "read_loop",
    "value_of",
]
