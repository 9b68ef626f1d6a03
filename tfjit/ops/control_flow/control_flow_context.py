"""Define contexts of conditionals and loops, which rewire operations made inside.

Inputs from outside come in by a Switch or an Enter, and operations that would run freely wait for
the pivot of their branch or iteration. `Graph.create_op` hands every new operation to the context
of the thread (`AddOp`). Contexts keep the facts that a gradient needs: a conditional
(cond_context.py) its predicate, pivot and branch, a loop (while_context.py) its Enters, Exits and
pivots, and `grad_state`, which is the gradient's own. Source of the semantics: TensorFlow 1's
control flow contexts, as its graphs show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.control_flow.control_flow import switch
from tfjit.ops.core.apply import call, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message
    from tfjit.ops.control_flow.while_context import WhileContext

_BY_FIELD: Final[dict[str, type[ControlFlowContext]]] = {}
"""The class of each field of a ControlFlowContextDef."""


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

    _field: ClassVar[str]

    def __init_subclass__(cls, field: str) -> None:
        """Register a kind of contexts. field: its field of a ControlFlowContextDef."""
        cls._field = field
        _BY_FIELD[field] = cls

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

    @classmethod
    def from_proto(cls, message: Any, scope: str = "") -> ControlFlowContext:
        """Return the context over nodes of the default graph.

        scope: put before their names.
        """
        raise NotImplementedError

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
        self._values = {scoped(name, scope) for name in message.values_def.values}
        external = message.values_def.external_values
        self._external_values = {
            scoped(key, scope): graph.as_graph_element(scoped(external[key], scope))
            for key in external
        }
        for name in sorted(
            {value.partition(":")[0] for value in self._values - set(self._external_values)}
        ):
            graph.as_graph_element(name)._set_control_flow_context(self)
        with self.entered():
            for nested in message.nested_contexts:
                field = nested.WhichOneof("ctxt")
                _BY_FIELD[field].from_proto(getattr(nested, field), scope)

    def _fill(self, message: Any) -> None:
        message.context_name = self._name
        message.values_def.values.extend(sorted(self._values))
        for name, value in self._external_values.items():
            message.values_def.external_values[name] = value.name
        for nested in self._nested:
            target = message.nested_contexts.add()
            getattr(target, nested._field).CopyFrom(nested.to_proto())

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


def scoped(name: str, scope: str) -> str:
    """Return a name within an import scope, "" for none."""
    return f"{scope}/{name}" if scope else name
