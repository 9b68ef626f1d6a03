"""Define gradients of Switch, Merge, Enter, Exit and NextIteration.

Gradients of a loop's operations are made inside the gradient's loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.loop_gradients import LoopGradient, outside
from tfjit.ops.control_flow.cond_context import CondContext
from tfjit.ops.control_flow.control_flow_context import enter, output_context
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients, Structure, TensorLike


def _state() -> LoopGradient | None:
    """Return the gradient's loop that is being built."""
    context = get_default_graph()._get_control_flow_context()
    loop = context.GetWhileContext() if context is not None else None
    state: LoopGradient | None = loop.grad_state if loop is not None else None
    return state


@RegisterGradient("Switch")
@RegisterGradient("RefSwitch")
def _switch(op: Operation, no: Structure, yes: Structure) -> Gradients:
    context = op._get_control_flow_context()
    state = _state()
    if context is not None and context.IsWhileContext():
        assert state is not None
        merged = state.merges.get(op)
        # the second visit, from the body: the first value of the gradient's next iteration
        if merged is not None:
            if yes is not None:
                merged.op._update_input(1, raw.NextIteration(data=convert_to_tensor(yes)))
            return None, None
        if no is None:
            return None, None
        merged = state.merges[op] = raw.Merge(inputs=[no, no])[0]
        merged.set_shape(op.inputs[0].shape)
        return merged, None
    if isinstance(context, CondContext):
        if (no, yes)[1 - context.branch] is None or (no, yes)[context.branch] is None:
            return None, None
        return raw.Merge(inputs=[convert_to_tensor(no), convert_to_tensor(yes)])[0], None
    if no is None or yes is None:
        return None, None
    pred = op.inputs[1]
    sides = [
        raw.Switch(data=convert_to_tensor(grad), pred=pred)[side]
        for side, grad in enumerate((no, yes))
    ]
    return raw.Merge(inputs=sides)[0], None


@RegisterGradient("Merge")
@RegisterGradient("RefMerge")
def _merge(op: Operation, grad: Tensor, _: object) -> Gradients:
    context = output_context(op.inputs[0].op)
    state = _state()
    if context is not None and context.IsWhileContext():
        assert state is not None
        return list(raw.Switch(data=grad, pred=state.context.pivot))
    if isinstance(context, CondContext):
        pred = context.pred if state is None else state.predicate(context)
        return list(raw.Switch(data=grad, pred=pred))
    return [
        raw.Switch(data=grad, pred=raw.Equal(x=op.outputs[1], y=i))[1]
        for i in range(len(op.inputs))
    ]


@RegisterGradient("Exit")
@RegisterGradient("RefExit")
def _exit(op: Operation, grad: Any) -> Structure:
    state = _state()
    assert state is not None
    context = state.context
    if not context.back_prop:
        return None
    if op._get_control_flow_context().grad_state is not None:
        raise TypeError("Second-order gradient for while loops not supported.")
    if isinstance(grad, IndexedSlices):
        grad = convert_to_tensor(grad)
    with outside(context.outer_context):
        entered = enter(grad, context.name, False, context.parallel_iterations)
    context._place_enters([entered])
    context._values.update((grad.name, entered.name))
    context.loop_enters.append(entered)
    return entered


@RegisterGradient("NextIteration")
@RegisterGradient("RefNextIteration")
def _next_iteration(op: Operation, grad: TensorLike) -> Structure:
    return grad


@RegisterGradient("Enter")
@RegisterGradient("RefEnter")
def _enter(op: Operation, grad: Any) -> Structure:
    state = _state()
    if state is None or not state.context.back_prop:
        return grad
    if isinstance(grad, IndexedSlices):
        grad = convert_to_tensor(grad)
    if op.get_attr("is_constant"):
        return state.accumulate(op, grad)
    result = raw.Exit(data=grad)
    state.context.loop_exits.append(result)
    state.context.ExitResult([result])
    return result


@RegisterGradient("RefIdentity")
def _ref_identity(op: Operation, grad: Tensor) -> Gradients:
    return grad


@RegisterGradient("Print")
def _print(op: Operation, grad: Tensor) -> Gradients:
    return [grad, *[None] * (len(op.inputs) - 1)]
