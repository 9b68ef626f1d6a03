"""Keep the context of one branch of a conditional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.context_messages import cond_context_def
from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.control_flow.control_flow_context import (
    ControlFlowContext,
    scoped,
    switch_ref_or_tensor,
)

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


class CondContext(ControlFlowContext, field="cond_ctxt"):
    """One branch of a conditional.

    branch: 1 where `pred` is true. pivot: alive when this branch is taken.
    """

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int, name: str = "cond_text") -> None:
        super().__init__()
        self._name = get_default_graph().unique_name(name)
        self._pred = pred
        self._pivot = pivot
        self._branch = branch
        self._values = {pred.name, pivot.name}
        self._external_values[pred.name] = pred
        pivot.op._set_control_flow_context(self)

    @classmethod
    def from_bytes(cls, data: bytes, scope: str = "") -> CondContext:
        """Return `from_proto` of a serialised message."""
        return cls.from_proto(cond_context_def(data), scope)

    @classmethod
    def from_proto(cls, message: Any, scope: str = "") -> CondContext:
        """Return the context over nodes of the default graph.

        scope: put before their names.
        """
        graph = get_default_graph()
        made: CondContext = cls.__new__(cls)
        ControlFlowContext.__init__(made)
        made._name = scoped(message.context_name, scope)
        made._pred = graph.as_graph_element(scoped(message.pred_name, scope))
        made._pivot = graph.as_graph_element(scoped(message.pivot_name, scope))
        made._branch = message.branch
        made._restore(message, scope)
        return made

    def to_proto(self) -> Message:
        message = cond_context_def(
            pred_name=self._pred.name, pivot_name=self._pivot.name, branch=self._branch
        )
        self._fill(message)
        return message

    @property
    def pred(self) -> Tensor:
        """The predicate, a bool scalar."""
        return self._pred

    @property
    def pivot(self) -> Tensor:
        """The pivot of operations without inputs."""
        return self._pivot

    @property
    def branch(self) -> int:
        """0 or 1."""
        return self._branch

    def IsCondContext(self) -> bool:
        return True

    def GetControlPivot(self) -> Tensor | None:
        return self._pivot

    def AddValue(self, value: Tensor) -> Tensor:
        if value.name in self._values:
            return self._known(value)
        self._values.add(value.name)
        result = value
        if self._outer_context is not None:
            result = self._outer_context.AddValue(value)
            self._values.add(result.name)
            self._external_values[result.name] = result
        with control_dependencies(None):
            result = switch_ref_or_tensor(result, self._pred)[self._branch]
        result.op.graph.prevent_fetching(result.op)
        result.op._set_control_flow_context(self)
        self._make_known([result.name])
        self._external_values[value.name] = result
        return result

    def AddOp(self, op: Operation) -> None:
        if not op.inputs:
            self._drop_outer_control_inputs(op)
            if not any(self._contains(source) for source in op.control_inputs):
                op._add_control_input(self._pivot.op)
        else:
            self._map_inputs(op)
            self._drop_outer_control_inputs(op)
        self._make_known([value.name for value in op.outputs])
        self._protect(op)

    def output(self, value: Tensor) -> Tensor:
        """Return a result of the branch.

        An outer tensor that is returned unchanged passes through a Switch.
        """
        if value.name in self._values:
            return self._known(value)
        self._values.add(value.name)
        result = value
        if self._outer_context is not None:
            result = self._outer_context.AddValue(value)
            self._values.add(result.name)
            self._external_values[result.name] = result
        result = switch_ref_or_tensor(result, self._pred)[self._branch]
        self._external_values[value.name] = result
        return result
