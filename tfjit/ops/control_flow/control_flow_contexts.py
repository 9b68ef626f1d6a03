"""Contexts of conditionals and loops, which rewire operations made inside.

Inputs from outside come in by a Switch or an Enter, and operations that would run freely wait for
the pivot of their branch or iteration. `Graph.create_op` hands every new operation to the context
of the thread (`AddOp`). Contexts keep the facts that a gradient needs: a conditional its predicate,
pivot and branch, a loop its Enters, Exits and pivots, and `grad_state`, which is the gradient's
own. Source of the semantics: TensorFlow 1's control flow contexts, as its graphs show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.context_messages import cond_context_def, while_context_def
from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.shape import Shape, as_shape
from tfjit.ops.control_flow.control_flow import switch
from tfjit.ops.core.apply import call, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


def is_loop_exit(op: Operation) -> bool:
    """Return whether an operation gives a value out of a loop."""
    return op.type in ("Exit", "RefExit")


def is_loop_constant(op: Operation) -> bool:
    """Return whether an operation is a constant Enter.

    Such an Enter makes an outer value known in every iteration.
    """
    return op.type in ("Enter", "RefEnter") and bool(op.attr("is_constant"))


def output_context(op: Operation) -> ControlFlowContext | None:
    """Return the context that an operation's outputs are in."""
    context: ControlFlowContext | None = op._get_control_flow_context()
    return context.outer_context if context is not None and is_loop_exit(op) else context


def switch_ref_or_tensor(data: Tensor, pred: Tensor) -> tuple[Tensor, Tensor]:
    """Return (output_false, output_true) beside `data`; a reference stays one."""
    with get_default_graph().colocate_with(data, ignore_existing=True):
        if data.dtype.is_ref:
            found: tuple[Tensor, Tensor] = call("RefSwitch", "Switch", data=data, pred=pred)
            return found
        made: tuple[Tensor, Tensor] = switch(data, pred)
        return made


def enter(data: Tensor, frame_name: str, is_constant: bool, parallel_iterations: int) -> Tensor:
    """Return `data` in the frame of a loop; a reference stays one.

    The shape is kept.
    """
    kind = "RefEnter" if data.dtype.is_ref else "Enter"
    made = tensor(
        kind,
        data=data,
        frame_name=frame_name,
        is_constant=is_constant,
        parallel_iterations=parallel_iterations,
    )
    return made


class ControlFlowContext:
    """Base of conditionals and loops. outer_context: the one around, or None."""

    def __init__(self) -> None:
        self._outer_context: ControlFlowContext | None = (
            get_default_graph()._get_control_flow_context()
        )
        self._entered_from: list[ControlFlowContext | None] = []
        # tensors that are known inside, and outer tensors that were asked for
        self._values: set[str] = set()
        # outer tensor -> the tensor that represents it inside
        self._external_values: dict[str, Tensor] = {}
        self._name = ""
        self._nested: list[ControlFlowContext] = []
        if self._outer_context is not None:
            self._outer_context._nested.append(self)

    @property
    def name(self) -> str:
        """Unique in the graph; a loop's is its frame's."""
        return self._name

    @property
    def outer_context(self) -> ControlFlowContext | None:
        """The context around."""
        return self._outer_context

    grad_state: Any = None  # of a loop that computes gradients

    @property
    def back_prop(self) -> bool:
        """Return whether gradients may be asked for."""
        outer = self.GetWhileContext()
        return outer is None or outer.back_prop

    def Enter(self) -> None:
        """Make this the thread's context."""
        graph = get_default_graph()
        self._entered_from.append(graph._get_control_flow_context())
        graph._set_control_flow_context(self)

    def Exit(self) -> None:
        """Undo `Enter`."""
        get_default_graph()._set_control_flow_context(self._entered_from.pop())

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Enter the context inside the block."""
        self.Enter()
        try:
            yield
        finally:
            self.Exit()

    def AddName(self, name: str) -> None:
        """Make a tensor of this name known inside."""
        self._values.add(name)

    def ExitResult(self, result: Sequence[Tensor]) -> None:
        """Make this context's results known in the context around."""
        if self._outer_context is not None:
            for value in result:
                self._outer_context.AddName(value.name)

    def AddValue(self, value: Tensor) -> Tensor:
        """Return the inner tensor of an outer one, made if missing."""
        raise NotImplementedError

    def AddOp(self, op: Operation) -> None:
        """Take an operation that was made inside."""
        raise NotImplementedError

    def GetWhileContext(self) -> WhileContext | None:
        """Return the innermost loop that this is in, itself included."""
        return self._outer_context.GetWhileContext() if self._outer_context is not None else None

    def GetControlPivot(self) -> Tensor | None:
        """Return the pivot of operations without inputs."""
        return None

    def IsWhileContext(self) -> bool:
        """Return whether this is a loop."""
        return False

    def IsCondContext(self) -> bool:
        """Return whether this is a branch of a conditional."""
        return False

    def to_proto(self) -> Message:
        """Return the message that MetaGraphDefs keep of this context.

        It includes the contexts inside.
        """
        raise NotImplementedError

    def _restore(self, message: Any, scope: str) -> None:
        """Restore the known tensors and inner contexts.

        The known tensors' operations become this context's.
        """
        graph = get_default_graph()
        self._values = {_scoped(name, scope) for name in message.values_def.values}
        external = message.values_def.external_values
        self._external_values = {
            _scoped(key, scope): graph.as_graph_element(_scoped(external[key], scope))
            for key in external
        }
        for name in sorted(
            {value.partition(":")[0] for value in self._values - set(self._external_values)}
        ):
            graph.as_graph_element(name)._set_control_flow_context(self)
        with self.entered():
            for nested in message.nested_contexts:
                if nested.WhichOneof("ctxt") == "while_ctxt":
                    WhileContext.from_proto(nested.while_ctxt, scope)
                else:
                    CondContext.from_proto(nested.cond_ctxt, scope)

    def _fill(self, message: Any) -> None:
        message.context_name = self._name
        message.values_def.values.extend(sorted(self._values))
        for name, value in self._external_values.items():
            message.values_def.external_values[name] = value.name
        for nested in self._nested:
            target = message.nested_contexts.add()
            (target.while_ctxt if nested.IsWhileContext() else target.cond_ctxt).CopyFrom(
                nested.to_proto()
            )

    def _known(self, value: Tensor) -> Tensor:
        return self._external_values.get(value.name, value)

    def _map_inputs(self, op: Operation) -> None:
        for index, value in enumerate(op.inputs):
            if op.type in ("Merge", "RefMerge") and value.op.type in (
                "NextIteration",
                "RefNextIteration",
            ):
                continue  # the back edge of a loop that is being imported
            inside = self.AddValue(value)
            if inside is not value:
                op._update_input(index, inside)

    def _drop_outer_control_inputs(self, op: Operation) -> tuple[list[Operation], list[Operation]]:
        """Remove control inputs from outside the innermost loop.

        No iteration could see them. Returns (kept, removed).
        """
        loop = self.GetWhileContext()
        if loop is None:
            return op.control_inputs, []
        kept: list[Operation] = []
        dropped: list[Operation] = []
        for source in op.control_inputs:
            context = output_context(source)
            inside = context is not None and context.GetWhileContext() is loop
            (kept if inside else dropped).append(source)
        if dropped:
            op._remove_all_control_inputs()
            op._add_control_inputs(kept)
        return kept, dropped

    def _contains(self, op: Operation) -> bool:
        context = op._get_control_flow_context()
        while context is not None:
            if context is self:
                return True
            context = context.outer_context
        return False

    def _protect(self, op: Operation) -> bool:
        """Prevent fetches of operations in one branch or iteration.

        Returns whether that is so.
        """
        inside = self._outer_context is not None or not is_loop_exit(op)
        if inside:
            op.graph.prevent_fetching(op)
        return inside

    def _make_known(self, names: Sequence[str]) -> None:
        context: ControlFlowContext | None = self
        while context is not None:
            context._values.update(names)
            context = context._outer_context


def _scoped(name: str, scope: str) -> str:
    return f"{scope}/{name}" if scope else name


class CondContext(ControlFlowContext):
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
        made._name = _scoped(message.context_name, scope)
        made._pred = graph.as_graph_element(_scoped(message.pred_name, scope))
        made._pivot = graph.as_graph_element(_scoped(message.pivot_name, scope))
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


class WhileContext(ControlFlowContext):
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
            return graph.as_graph_element(_scoped(name, scope)) if name else None

        made: WhileContext = cls.__new__(cls)
        ControlFlowContext.__init__(made)
        made._name = _scoped(message.context_name, scope)
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
            _check_shape(merge, following)
            merge.op._update_input(1, following)
        self._loop_exits = [
            tensor("RefExit" if x.dtype.is_ref else "Exit", data=x) for x in leaving
        ]
        self.ExitResult(self._loop_exits)
        return self._loop_exits


def set_invariants(
    values: Sequence[Tensor], enters: Sequence[Tensor], invariants: Sequence[Any] | None
) -> None:
    """Give the Enters the shapes of their values, or the invariants.

    Raises ValueError where these do not fit.
    """
    for i, (value, entered) in enumerate(zip(values, enters, strict=True)):
        if invariants is None:
            entered.set_shape(value.shape)
            continue
        wanted = as_shape(invariants[i])
        if not fits(value.shape_tuple, wanted):
            raise ValueError(
                f"The shape invariant specified for {value.name} is not compatible with the "
                "initial shape of the loop variable. It enters "
                f"the loop with shape {value.shape}, but the specified shape invariant is "
                f"{shape_text(wanted)}."
            )
        entered._shape = wanted


def shape_text(shape: Shape) -> str:
    return (
        "<unknown>"
        if shape is None
        else "(" + ", ".join(str(d) for d in shape) + ("," if len(shape) == 1 else "") + ")"
    )


def fits(shape: Shape, invariant: Shape) -> bool:
    """Return whether every case of `shape` is one of `invariant`."""
    if invariant is None:
        return True
    if shape is None or len(shape) != len(invariant):
        return False
    return all(want is None or got == want for got, want in zip(shape, invariant, strict=True))


def _check_shape(merge: Tensor, following: Tensor) -> None:
    if not fits(following.shape_tuple, merge.shape_tuple):
        source = merge.op.inputs[0].op.inputs[0]
        raise ValueError(
            f"Input tensor '{source.name}' enters the loop with shape "
            f"{shape_text(merge.shape_tuple)}, but has shape "
            f"{shape_text(following.shape_tuple)} after one iteration. To allow the shape to vary "
            "across iterations, use the "
            "`shape_invariants` argument of tf.while_loop to specify a less-specific shape."
        )
