"""Initial values that depend on other variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor

_VARIABLES: Final = ("Variable", "VariableV2", "VarHandleOp")
# Operations that are not replaced, nor are their inputs.
_KEPT: Final = ("IsVariableInitialized", "VarIsInitializedOp", "ReadVariableOp", "If")


def guarded(scope: str, initial: Tensor) -> Tensor:
    """Return `initial` over initialized values of its variables.

    So all variables may be initialized in one step. Its own nodes behind a variable are copied, as
    "<node>_<scope>". A graph with a cycle stays as it is.
    """
    if _ancestors(initial.op, _all_inputs) is None:
        return initial
    suffix = "_" + scope.replace(":", "_")
    copies: dict[Operation, Operation] = {}
    for op in _ancestors(initial.op, _replaceable_inputs) or ():
        if op.type in _KEPT:
            continue
        if op.type in _VARIABLES:
            variable = _variable_of(op)
            if variable is not None:
                copies[op] = variable.initialized_value().op
            continue
        if not any(t.op in copies for t in op.inputs):
            continue
        inputs = [copies[t.op].outputs[t.value_index] if t.op in copies else t for t in op.inputs]
        # A reference has become a value.
        op_type = "Switch" if op.type == "RefSwitch" else op.type
        copies[op] = op.graph.create_op(op_type, inputs, name=op.name + suffix, attrs=op.attrs)
    return copies[initial.op].outputs[initial.value_index] if initial.op in copies else initial


def _all_inputs(op: Operation) -> list[Operation]:
    return [*(t.op for t in op.inputs), *op.control_inputs]


def _replaceable_inputs(op: Operation) -> list[Operation]:
    """Return the inputs that may be replaced.

    There are none behind a read of a resource.
    """
    return [] if op.type in _KEPT or op.type in _VARIABLES else [t.op for t in op.inputs]


def _ancestors(
    op: Operation, inputs: Callable[[Operation], list[Operation]]
) -> list[Operation] | None:
    """Return `op` and its ancestors, inputs first, or None for a cycle.

    Depth first, as in TensorFlow.
    """
    order: list[Operation] = []
    state = {op: False}  # False: its inputs are being looked at
    stack = [(op, iter(inputs(op)))]
    while stack:
        current, rest = stack[-1]
        for other in rest:
            if other not in state:
                state[other] = False
                stack.append((other, iter(inputs(other))))
                break
            if not state[other]:
                return None
        else:
            stack.pop()
            state[current] = True
            order.append(current)
    return order


def _variable_of(op: Operation) -> Any:
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for variable in op.graph.get_collection(key):
            if variable.name in (op.name, op.name + ":0") and hasattr(
                variable, "initialized_value"
            ):
                return variable
    return None
