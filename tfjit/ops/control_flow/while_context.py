"""Keep the context of a loop; build the nodes of its frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.context_messages import while_context_def
from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.control_flow.control_flow_context import (
    ControlFlowContext,
    enter,
    is_loop_constant,
    output_context,
    scoped,
    switch_ref_or_tensor,
)
from tfjit.ops.control_flow.shape_invariants import check_back_edge
from tfjit.ops.core.apply import call, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


class WhileContext(ControlFlowContext, field="while_ctxt"):
    """A loop. Its name is the name of its frame.

    loop_enters, loop_exits: of the loop variables, in order. pivot: the LoopCond. pivot_for_pred,
    pivot_for_body: the pivots of operations without inputs in the condition and in the body.
    """

    def __init__(
        self,
        maximum_iterations: Any = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str = "while_context",
        grad_state: Any = None,
    ) -> None:
        super().__init__()
        if (
            isinstance(parallel_iterations, bool)
            or not isinstance(parallel_iterations, int)
            or parallel_iterations <= 0
        ):
            raise ValueError(
                f"'parallel_iterations' must be a positive integer: {parallel_iterations}"
            )
        self._name = get_default_graph().unique_name(name)
        self._maximum_iterations = maximum_iterations
        self._parallel_iterations = parallel_iterations
        self._back_prop = back_prop
        self._swap_memory = swap_memory
        self.grad_state = grad_state
        self._pivot: Tensor | None = None
        self._pivot_for_pred: Tensor | None = None
        self._pivot_for_body: Tensor | None = None
        self._loop_enters: list[Tensor] = []
        self._loop_exits: list[Tensor] = []

    @classmethod
    def from_bytes(cls, data: bytes, scope: str = "") -> WhileContext:
        """Return `from_proto` of a serialised message."""
        return cls.from_proto(while_context_def(data), scope)

    @classmethod
    def from_proto(cls, message: Any, scope: str = "") -> WhileContext:
        """Return the context over nodes of the default graph.

        scope: put before their names.
        """
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(scoped(name, scope)) if name else None

        made: WhileContext = cls.__new__(cls)
        ControlFlowContext.__init__(made)
        made._name = scoped(message.context_name, scope)
        made._maximum_iterations = element(message.maximum_iterations_name)
        made._parallel_iterations = message.parallel_iterations
        made._back_prop = message.back_prop
        made._swap_memory = message.swap_memory
        made.grad_state = None
        made._pivot = element(message.pivot_name)
        made._pivot_for_pred = element(message.pivot_for_pred_name)
        made._pivot_for_body = element(message.pivot_for_body_name)
        made._loop_enters = [element(name) for name in message.loop_enter_names]
        made._loop_exits = [element(name) for name in message.loop_exit_names]
        made._restore(message, scope)
        return made

    def to_proto(self) -> Message:
        message = while_context_def(
            parallel_iterations=self._parallel_iterations,
            back_prop=self._back_prop,
            swap_memory=self._swap_memory,
            loop_enter_names=[value.name for value in self._loop_enters],
            loop_exit_names=[value.name for value in self._loop_exits],
        )
        for field, value in (
            ("maximum_iterations_name", self._maximum_iterations),
            ("pivot_name", self._pivot),
            ("pivot_for_pred_name", self._pivot_for_pred),
            ("pivot_for_body_name", self._pivot_for_body),
        ):
            if value is not None:
                setattr(message, field, value.name)
        self._fill(message)
        return message

    @property
    def maximum_iterations(self) -> Any:
        """The bound that the loop was given, a tensor or None."""
        return self._maximum_iterations

    @property
    def parallel_iterations(self) -> int:
        """Number of iterations that may run at the same time."""
        return self._parallel_iterations

    @property
    def back_prop(self) -> bool:
        return self._back_prop

    @property
    def swap_memory(self) -> bool:
        """Return whether a gradient's stacks may leave the device."""
        return self._swap_memory

    @property
    def pivot(self) -> Tensor | None:
        """The condition that the Switches obey."""
        return self._pivot

    @property
    def loop_enters(self) -> list[Tensor]:
        """Enters of the loop variables."""
        return self._loop_enters

    @property
    def loop_exits(self) -> list[Tensor]:
        """Exits of the loop variables."""
        return self._loop_exits

    def IsWhileContext(self) -> bool:
        return True

    def GetWhileContext(self) -> WhileContext:
        return self

    def GetControlPivot(self) -> Tensor | None:
        return self._pivot_for_body if self._pivot_for_body is not None else self._pivot_for_pred

    def AddValue(self, value: Tensor) -> Tensor:
        if value.name in self._values or value.op._get_control_flow_context() is self:
            return self._known(value)
        self._values.add(value.name)
        saved = self._saved_forward_value(value)
        if saved is not None:
            self._external_values[value.name] = saved
            return saved
        result = value
        if self._outer_context is not None:
            result = self._outer_context.AddValue(value)
        with control_dependencies(None):
            entered = enter(result, self._name, True, self._parallel_iterations)
            entered.graph.prevent_feeding(entered)
        self._place_enters([entered])
        self._values.add(entered.name)
        self._external_values[value.name] = entered
        return entered

    def _saved_forward_value(self, value: Tensor) -> Tensor | None:
        """Return a value's forward counterpart in a gradient's loop.

        The counterpart is of the same iteration: `grad_state.GetRealValue` gives it.
        """
        current = get_default_graph()._get_control_flow_context()
        loop = current.GetWhileContext() if current is not None else None
        if loop is None or loop.grad_state is None:
            return None
        forward = output_context(value.op)
        forward_loop = forward.GetWhileContext() if forward is not None else None
        if forward_loop is None or forward_loop is not loop.grad_state.forward_context:
            return None
        saved: Tensor = loop.grad_state.GetRealValue(value)
        return saved

    def AddOp(self, op: Operation) -> None:
        if not op.inputs:
            kept, dropped = self._drop_outer_control_inputs(op)
            if not kept:
                self._wait_for_pivot(op)
        else:
            self._map_inputs(op)
            _, dropped = self._drop_outer_control_inputs(op)
            if not op.control_inputs and all(is_loop_constant(value.op) for value in op.inputs):
                # the operation would run before the loop's condition is known
                self._wait_for_pivot(op)
        self._values.update(value.name for value in op.outputs)
        if dropped:
            with control_dependencies(None), self.entered():
                op._add_control_inputs(
                    [
                        tensor("Identity", input=source.outputs[0]).op
                        for source in dropped
                        if source.outputs
                    ]
                )
        if self._protect(op):
            for value in op.outputs:
                op.graph.prevent_feeding(value)

    def _wait_for_pivot(self, op: Operation) -> None:
        pivot = self.GetControlPivot()
        if pivot is not None:
            op._add_control_input(pivot.op)

    def _place_enters(self, enters: Sequence[Tensor]) -> None:
        """Put Enters in the loop, with the control inputs around it."""
        graph = get_default_graph()
        outer_loop = (
            self._outer_context.GetWhileContext() if self._outer_context is not None else None
        )
        for entered in enters:
            waits = []
            for source in graph._control_inputs_for(graph._scopes, (entered.op.inputs[0],)):
                wanted, context = output_context(source), self._outer_context
                while context is not wanted and context is not None and context is not outer_loop:
                    context = context.outer_context
                if context is wanted:
                    waits.append(source)
            entered.op._set_control_flow_context(self)
            entered.op._add_control_inputs(waits)
            for controller in graph._scopes.control:
                controller.seen.add(entered.op)

    def build_enters(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Return the Enters of the loop variables."""
        self._values = {value.name for value in values}
        outer = self._outer_context
        real = [outer.AddValue(value) for value in values] if outer is not None else list(values)
        with control_dependencies(None):
            enters = [enter(value, self._name, False, self._parallel_iterations) for value in real]
            for entered in enters:
                entered.graph.prevent_feeding(entered)
        pivot = None
        while outer is not None and pivot is None:
            pivot = outer.GetControlPivot()
            outer = outer.outer_context
        if pivot is not None:
            for entered in enters:
                if is_loop_constant(entered.op.inputs[0].op):
                    entered.op._add_control_input(pivot.op)
        return enters

    def begin(self, enters: Sequence[Tensor]) -> list[Tensor]:
        """Return the Merges of the loop variables, without back edges.

        The condition is built next.
        """
        self._place_enters(enters)
        self._values = {entered.name for entered in enters}
        self._loop_enters = list(enters)
        merges = [call("RefMerge" if x.dtype.is_ref else "Merge", inputs=[x, x])[0] for x in enters]
        self._pivot_for_pred = merges[0]
        return merges

    def condition(
        self, made: Tensor, merges: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return (values that leave the loop, values for the body).

        Under the condition; the body is built next.
        """
        self._pivot = tensor("LoopCond", input=made)
        switches = [switch_ref_or_tensor(merge, self._pivot) for merge in merges]
        into = [
            tensor("RefIdentity" if pair[1].dtype.is_ref else "Identity", input=pair[1])
            for pair in switches
        ]
        self._pivot_for_body = into[0]
        return [pair[0] for pair in switches], into

    def close(
        self, merges: Sequence[Tensor], results: Sequence[Tensor], leaving: Sequence[Tensor]
    ) -> list[Tensor]:
        """Join the body's results to the Merges, and the Exits.

        Raises ValueError where a shape became less known.
        """
        for merge, result in zip(merges, results, strict=True):
            following = tensor(
                "RefNextIteration" if result.dtype.is_ref else "NextIteration", data=result
            )
            check_back_edge(merge, following)
            merge.op._update_input(1, following)
        self._loop_exits = [
            tensor("RefExit" if x.dtype.is_ref else "Exit", data=x) for x in leaving
        ]
        self.ExitResult(self._loop_exits)
        return self._loop_exits
