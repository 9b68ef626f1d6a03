"""Define gradients of loops: for each a second, backward loop.

The loop gets a counter, and for each of its values that a gradient asks for a stack on which every
iteration pushes it. The gradient's loop counts down from that number and pops. Values of outside
and constants need no stack. Loops in loops share the stacks of all executions, which are popped in
the reverse order. Source of the scheme: TensorFlow 1's while gradients, as its graphs show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import (
    colocate_with,
    control_dependencies,
    get_default_graph,
)
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.control_flow.bodies import handle_data
from tfjit.ops.control_flow.cond_context import CondContext
from tfjit.ops.control_flow.control_flow_context import (
    ControlFlowContext,
    enter,
    is_loop_exit,
    output_context,
)
from tfjit.ops.control_flow.while_context import WhileContext
from tfjit.ops.core.convert import constant, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike
    from tfjit.framework.types.dtypes import DType


def while_context(op: Operation) -> WhileContext | None:
    """Return the innermost loop that an operation runs in."""
    context: ControlFlowContext | None = op._get_control_flow_context()
    return context.GetWhileContext() if context is not None else None


def is_switch(op: Operation) -> bool:
    """Return whether an operation is a Switch of a loop or conditional."""
    return op.type in ("Switch", "RefSwitch")


def is_loop_switch(op: Operation) -> bool:
    """Return whether an operation is the Switch of a loop variable."""
    context = op._get_control_flow_context()
    return is_switch(op) and context is not None and context.IsWhileContext()


@contextmanager
def outside(context: ControlFlowContext | None) -> Iterator[None]:
    """Run the block in `context`, or in none.

    The thread's context is restored afterwards.
    """
    graph = get_default_graph()
    before = graph._get_control_flow_context()
    graph._set_control_flow_context(context)
    try:
        yield
    finally:
        graph._set_control_flow_context(before)


def zeros(shape: ShapeLike, dtype: DTypeLike) -> Tensor:
    """Return zeros of a static or computed shape.

    A static shape is a tuple.
    """
    made: Tensor = raw.Fill(
        dims=convert_to_tensor(shape, dtype=dtypes.int32), value=constant(0, dtype=dtype)
    )
    return made


def known_shape(x: Tensor) -> tuple[int, ...] | None:
    """Return the static shape where it is fully known.

    Of a handle, it is that of its variable.
    """
    data = handle_data(x) if x.dtype is dtypes.resource else None
    shape = x.shape_tuple if data is None else data[0][0]
    return None if shape is None or None in shape else tuple(d for d in shape if d is not None)


def value_dtype(x: Tensor) -> DType:
    """Return the dtype; of a handle, that of its variable."""
    data = handle_data(x) if x.dtype is dtypes.resource else None
    found: DType = x.dtype if data is None else data[0][1]
    return found.base_dtype


def sizes_of(x: Tensor) -> Tensor:
    """Return the shape as a tensor.

    Of a handle, it is that of its variable.
    """
    made: Tensor = raw.VariableShape(input=x) if x.dtype is dtypes.resource else raw.Shape(input=x)
    return made


class LoopGradient:
    """The gradient of one loop.

    forward: the loop; outer: the gradient of the loop around it, or None. context: the loop that
    runs backwards. real_values: value of the forward loop -> its value in the gradient's loop.
    merges: Switch of a loop variable -> Merge of its gradient. base: the context that `gradients`
    was called in.
    """

    def __init__(
        self, forward: WhileContext, outer: LoopGradient | None, base: ControlFlowContext | None
    ) -> None:
        self.forward_context = forward
        self.outer = outer
        self.base = base
        self.real_values: dict[str, Tensor] = {}
        self.merges: dict[Operation, Tensor] = {}
        self.context: WhileContext
        self.exits = list(forward.loop_exits)
        self.pending_exits = len(self.exits)
        self.deferred_exits: list[Tensor] = []
        self.unused_exits: list[Tensor] = []
        self._sync: Operation | None = None
        self._forward_sync: Operation | None = None
        count = self._count_forward()
        around: ControlFlowContext | None = base
        if outer is not None:
            saved = outer.save(count)
            with outside(outer.context):
                count = outer.restore(saved, count)
            around = outer.context
        with outside(around):
            self.context = WhileContext(
                None,
                forward.parallel_iterations,
                forward.back_prop,
                forward.swap_memory,
                forward.name,
                self,
            )
            self._count_backward(count)

    # counters

    def _count_forward(self) -> Tensor:
        """Give the loop a counter; returns how many iterations there were."""
        forward = self.forward_context
        with outside(forward.outer_context):
            start = constant(0, name="f_count")
            # pushes of the inner loop come after the pushes of the outer one's iteration
            if self.outer is not None:
                start.op._add_control_input(self.outer.forward_add)
            with control_dependencies(None):
                entered = enter(start, forward.name, False, forward.parallel_iterations)
        forward._place_enters([entered])
        forward._values.update((start.name, entered.name))
        forward.loop_enters.append(entered)
        with outside(forward):
            merged = raw.Merge(inputs=[entered, entered])[0]
            out, on = raw.Switch(data=merged, pred=forward.pivot)
            counted = raw.AddV2(x=on, y=constant(1))
            self.forward_add: Operation = counted.op
            following = raw.NextIteration(data=counted)
            merged.op._update_input(1, following)
            self.forward_next: Operation = following.op
            total: Tensor = raw.Exit(data=out)
        forward.loop_exits.append(total)
        forward.ExitResult([total])
        return total

    def _count_backward(self, count: Tensor) -> None:
        """Run the gradient's loop as often as the loop ran."""
        context = self.context
        with control_dependencies(None):
            entered = enter(count, context.name, False, context.parallel_iterations)
        context._place_enters([entered])
        context._values.update((count.name, entered.name))
        context.loop_enters.append(entered)
        with outside(context):
            merged = raw.Merge(inputs=[entered, entered])[0]
            context._pivot_for_pred = merged
            context._pivot = raw.LoopCond(input=raw.GreaterEqual(x=merged, y=constant(1)))
            out, on = raw.Switch(data=merged, pred=context._pivot)
            index = raw.Sub(x=on, y=constant(1))
            context._pivot_for_body = index
            following = raw.NextIteration(data=index)
            merged.op._update_input(1, following)
            self._backward_index: Operation = index.op
            self._backward_next: Operation = following.op
            last: Tensor = raw.Exit(data=out)
        context.loop_exits.append(last)
        if self.outer is not None:  # pops of one execution come before the pops of the next
            self.outer.sync._add_control_input(last.op)
        context.ExitResult([last])

    @property
    def sync(self) -> Operation:
        """The operation that the gradient's next iteration waits for.

        It runs even where parts of the iteration are dead.
        """
        if self._sync is None:
            self._sync = self._trigger(self.context, self._backward_next)
        return self._sync

    @property
    def _push_sync(self) -> Operation:
        if self._forward_sync is None:
            self._forward_sync = self._trigger(self.forward_context, self.forward_next)
        return self._forward_sync

    @staticmethod
    def _trigger(context: WhileContext, following: Operation) -> Operation:
        with control_dependencies(None), outside(None):
            trigger: Operation = raw.ControlTrigger()
        trigger._set_control_flow_context(context)
        following._add_control_input(trigger)
        return trigger

    # values of the forward loop

    def GetRealValue(self, value: Tensor) -> Tensor:
        """Return `value` of the forward loop as it was in this iteration.

        This iteration is the one that the gradient's loop is at.
        """
        found = self.real_values.get(value.name)
        if found is None:
            found = self.real_values[value.name] = self._real_value(value)
        return found

    def _real_value(self, value: Tensor) -> Tensor:
        state: LoopGradient | None = self
        while True:
            assert state is not None
            constant_enter = _behind_constant_enter(value)
            if constant_enter is not None:
                value, state = constant_enter, state.outer
                if state is None:  # the same in all iterations
                    return self.context.AddValue(value)
                continue
            known = constant_value(value)
            if known is not None:
                with outside(self.context):
                    return constant(known, dtype=value.dtype.base_dtype)
            saved = state.save(value)
            with outside(state.context):
                restored = state.restore(saved, value)
            return restored if state is self else self.context.AddValue(restored)

    def save(self, value: Tensor, *, dead: bool = False) -> Tensor:
        """Push `value` in every iteration of the forward loop.

        Returns the stack. dead: it is alive where its branch is not taken.
        """
        forward = self.forward_context
        with outside(self.base), control_dependencies(None), colocate_with(value):
            stack: Tensor = raw.StackV2(max_size=constant(-1), elem_type=value.dtype.base_dtype)
        entered = forward.AddValue(stack)
        context = output_context(value.op)
        with control_dependencies(None), colocate_with(value):
            if context is forward:
                with outside(forward):
                    push = raw.StackPushV2(
                        handle=entered, elem=value, swap_memory=forward.swap_memory
                    )
                self.forward_next._add_control_input(push.op)
            else:
                if not isinstance(context, CondContext):
                    raise TypeError(
                        f"gradients: {value.name} is in a loop inside the one whose gradient takes "
                        "it"
                    )
                with outside(context.outer_context if dead else context):
                    push = raw.StackPushV2(handle=entered, elem=value)
                if dead:
                    push.op._set_control_flow_context(context)
                self._push_sync._add_control_input(push.op)
        push.op._add_control_input(self.forward_add)  # in the order of the iterations
        return stack

    def restore(self, stack: Tensor, value: Tensor, *, dead: bool = False) -> Tensor:
        """Pop a value of `save` in the gradient's loop.

        It is popped when the branch is taken that pushed it.
        """
        around, branch = value.op._get_control_flow_context(), None
        while around is not None and around is not stack.op._get_control_flow_context():
            if isinstance(around, CondContext):
                branch = around
                break
            around = around.outer_context
        with control_dependencies(None), outside(self.context):
            handle = stack
            if branch is not None:
                taken = 1 - branch.branch if dead else branch.branch
                handle = raw.Switch(data=self.context.AddValue(stack), pred=self.predicate(branch))[
                    taken
                ]
            popped: Tensor = raw.StackPopV2(handle=handle, elem_type=value.dtype.base_dtype)
        popped.set_shape(value.shape)
        if self.context.parallel_iterations > 1:
            self.sync._add_control_input(popped.op)
        return popped

    def predicate(self, branch: CondContext) -> Tensor:
        """Return a forward conditional's predicate as of the iteration."""
        state: LoopGradient | None = self
        while state is not None:
            found = state.real_values.get(branch.pred.name)
            if found is not None:
                return found
            state = state.outer
        if while_context(branch.pred.op) is not self.forward_context:
            return branch.pred
        saved = self.save(branch.pred)
        found = self.real_values[branch.pred.name] = self.restore(saved, branch.pred)
        return found

    # gradients of the loop's own nodes

    def accumulate(self, op: Operation, grad: Tensor) -> Tensor:
        """Return the sum of a constant Enter's gradient over all iterations."""
        context = self.context
        shape = known_shape(grad)
        source = op.inputs[0]
        with outside(context.outer_context):
            if shape is not None:
                start = zeros(shape, grad.dtype.base_dtype)
            elif self.outer is not None and while_context(source.op) is not None:
                with outside(self.forward_context.outer_context):
                    sizes = raw.Shape(input=source)
                with outside(self.outer.context):
                    start = zeros(
                        self.outer.restore(self.outer.save(sizes), sizes), grad.dtype.base_dtype
                    )
            else:
                start = zeros(raw.Shape(input=source), grad.dtype.base_dtype)
            with control_dependencies(None):
                entered = enter(start, context.name, False, context.parallel_iterations)
        context._place_enters([entered])
        context._values.update((start.name, entered.name))
        context.loop_enters.append(entered)
        with outside(context):
            merged = raw.Merge(inputs=[entered, entered])[0]
            out, on = raw.Switch(data=merged, pred=context.pivot)
            following = raw.NextIteration(
                data=raw.AddV2(x=on, y=grad) if grad.dtype.is_numeric else on
            )
            merged.op._update_input(1, following)
            result: Tensor = raw.Exit(data=out)
        result.set_shape(grad.shape)
        context.loop_exits.append(result)
        context.ExitResult([result])
        return result

    def zeros_like(self, op: Operation, slot: int) -> Tensor | None:
        """Return zeros for an output without a gradient.

        They are in the gradient's loop. None for a loop variable's Switch.
        """
        if is_loop_switch(op):
            return None
        value = op.outputs[slot]
        branch = op._get_control_flow_context() if is_switch(op) else None
        dead = isinstance(branch, CondContext)
        shape = known_shape(value)
        dtype = value_dtype(value)
        if shape is not None:
            with outside(self.context):
                made = zeros(shape, dtype)
                if dead:
                    assert isinstance(branch, CondContext)
                    made = raw.Switch(data=made, pred=self.predicate(branch))[1 - branch.branch]
            return made
        if dead:
            assert isinstance(branch, CondContext)
            with outside(branch.outer_context):
                other = raw.Switch(data=op.inputs[0], pred=branch.pred)[1 - branch.branch]
                sizes = sizes_of(other)
            other.op._set_control_flow_context(branch)
            sizes.op._set_control_flow_context(branch)
        else:
            with outside(op._get_control_flow_context()):
                sizes = sizes_of(value)
        restored = self.restore(self.save(sizes, dead=dead), sizes, dead=dead)
        with outside(self.context):
            return zeros(restored, dtype)

    def zeros_for_exit(self, exit_value: Tensor) -> Tensor:
        """Return zeros as the gradient of an unused Exit."""
        shape, dtype = known_shape(exit_value), exit_value.dtype.base_dtype
        if self.outer is None:
            with outside(self.base):
                return zeros(shape if shape is not None else raw.Shape(input=exit_value), dtype)
        if shape is None:
            with outside(self.forward_context.outer_context):
                sizes = raw.Shape(input=exit_value)
            restored = self.outer.restore(self.outer.save(sizes), sizes)
            with outside(self.outer.context):
                return zeros(restored, dtype)
        with outside(self.outer.context):
            return zeros(shape, dtype)

    def finish(self) -> None:
        """Close the gradients of variables that do not depend on themselves.

        The next value of such a variable does not depend on the last one: zeros in all further
        iterations.
        """
        for merged in self.merges.values():
            first, second = merged.op.inputs
            if first is not second:
                continue
            shape = known_shape(merged)
            if shape is not None:
                with outside(self.context):
                    following = raw.NextIteration(data=zeros(shape, merged.dtype.base_dtype))
            else:
                with outside(self.context.outer_context):
                    start = raw.ZerosLike(x=first.op.inputs[0])
                with outside(self.context):
                    following = raw.NextIteration(data=self.context.AddValue(start))
            merged.op._update_input(1, following)


def _behind_constant_enter(value: Tensor) -> Tensor | None:
    """Return the input of a constant Enter, through Identity nodes.

    None for any other value.
    """
    op = value.op
    while op.type in ("Identity", "RefIdentity"):
        op = op.inputs[0].op
    return op.inputs[0] if op.type in ("Enter", "RefEnter") and op.attr("is_constant") else None


class LoopGradients:
    """The gradients of all loops that one call of `gradients` goes through.

    pending: operation -> how many of its uses the walk has still to come by; gets the Exits that
    nothing uses besides. base: the context that `gradients` was called in.
    """

    def __init__(self, pending: dict[Operation, int], base: ControlFlowContext | None) -> None:
        self.base = base
        self._states: dict[int, LoopGradient] = {}
        for op in list(pending):
            if is_loop_exit(op):
                context = op._get_control_flow_context()
                if context is None:
                    raise NotImplementedError(
                        f"gradients: the loop of '{op.name}' was imported without its context"
                    )
                state = self._state(context)
                for left in state.exits:
                    if left.op not in pending:
                        pending[left.op] = 0
                        switch = left.op.inputs[0].op
                        if switch in pending:
                            pending[switch] += 1

    def _state(self, forward: WhileContext) -> LoopGradient:
        found = self._states.get(id(forward))
        if found is None:
            around = (
                forward.outer_context.GetWhileContext()
                if forward.outer_context is not None
                else None
            )
            here = self.base.GetWhileContext() if self.base is not None else None
            outer = self._state(around) if around is not None and around is not here else None
            found = self._states[id(forward)] = LoopGradient(forward, outer, self.base)
        return found

    def of(self, op: Operation, *, before: bool = False) -> LoopGradient | None:
        """Return the gradient of an operation's loop.

        before: of the loop that its outputs are in.
        """
        context = output_context(op) if before else op._get_control_flow_context()
        loop = context.GetWhileContext() if context is not None else None
        return self._states.get(id(loop)) if loop is not None else None

    def place(self, state: LoopGradient | None) -> ControlFlowContext | None:
        """Return the context in which a state's operations are made."""
        return self.base if state is None else state.context

    def begin(
        self, pending: dict[Operation, int], ends: Sequence[Operation]
    ) -> list[tuple[LoopGradient, Tensor]]:
        """Return unused Exits of loops that only `ends` use.

        No other Exit of such a loop is used.
        """
        found = []
        for state in self._states.values():
            for left in state.exits:
                if pending[left.op] == 0:
                    state.pending_exits -= 1
                    if left.op not in ends:
                        state.unused_exits.append(left)
            if state.pending_exits == 0:
                found += [(state, left) for left in state.unused_exits]
            for entered in state.forward_context.loop_enters:
                if pending.get(entered.op) == 0:
                    pending[entered.op] = 1
        return found

    def finish(self) -> None:
        """Close the open parts of the gradients' loops."""
        for state in self._states.values():
            state.finish()
