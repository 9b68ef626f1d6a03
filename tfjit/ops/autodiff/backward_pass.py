"""Walk a graph backwards, and build the gradient of each operation."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs import gradient_registry
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape, is_compatible
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.backward_graphs import zeros_of
from tfjit.ops.autodiff.calls import symbolic_gradient
from tfjit.ops.autodiff.gradient_values import (
    TRAINABLE,
    Gradient,
    all_ready,
    is_trainable,
    sum_gradients,
)
from tfjit.ops.autodiff.loop_gradients import (
    LoopGradient,
    LoopGradients,
    is_loop_switch,
    is_switch,
    outside,
    sizes_of,
    value_dtype,
    zeros,
)
from tfjit.ops.control_flow.bodies import handle_data
from tfjit.ops.control_flow.cond_context import CondContext
from tfjit.ops.control_flow.control_flow_context import is_loop_exit


def backpropagate(
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    grad_ys: Sequence[Gradient],
    stops: Sequence[Tensor] = (),
    colocate: bool = False,
    gate: bool = False,
) -> list[Gradient | None]:
    """Return the gradients of xs, built in the default graph.

    Where that is a function's body, ys and xs may be of graphs it takes tensors of.
    """
    backward = _BackwardPass(ys, xs, stops, colocate, gate)
    for y, gradient in zip(ys, grad_ys, strict=True):
        backward.add(y, gradient)
    backward.run(ys)
    return [backward.total(x) for x in xs]


class _BackwardPass:
    """One walk from the ys back to the xs.

    It keeps the gradients that have arrived at each tensor, and the number still to come at each
    operation.
    """

    def __init__(
        self,
        ys: Sequence[Tensor],
        xs: Sequence[Tensor],
        stops: Sequence[Tensor],
        colocate: bool,
        gate: bool,
    ) -> None:
        self._bodies = _bodies_around(ys)
        self._xs = {id(x) for x in xs}
        self._colocate = colocate
        self._gate = gate
        self._stopped = {tensor.op for tensor in stops}  # no gradient flows through these
        self._arrived: dict[tuple[Operation, int], list[Gradient]] = {}
        self._totals: dict[tuple[Operation, int], Gradient | None] = {}
        self._reached = self._find_reached(xs, {id(tensor) for tensor in stops})

    def _inputs(self, op: Operation) -> Sequence[Tensor]:
        """Return the inputs of an operation, outer tensors among them.

        An input that represents an outer tensor in a body is given as that tensor, unless it is one
        of the xs.
        """
        if not self._bodies:
            return op.inputs
        return [value if id(value) in self._xs else self._outside(value) for value in op.inputs]

    def _outside(self, value: Tensor) -> Tensor:
        while isinstance(value.op.graph, FunctionGraph) and value.op.graph in self._bodies:
            found = value.op.graph.outer_of(value)
            if found is None:
                break
            value = found
        return value

    def _consumers(self, value: Tensor) -> list[Operation]:
        """Return the consumers of a tensor, those in capturing bodies too."""
        found = value.consumers()
        for body in self._bodies:
            inside = body.captured(value)
            if inside is not None and id(inside) not in self._xs:
                found += self._consumers(inside)
        return found

    def _find_reached(self, xs: Sequence[Tensor], stops: set[int]) -> set[Operation]:
        """Return the operations that depend on an x.

        Only paths of tensors count that are not stopped.
        """
        found: set[Operation] = set()
        stack = [x.op for x in xs]
        found.update(stack)
        for output in (output for op in stack for output in op.outputs):
            if (id(output) in stops and id(output) not in self._xs) or not is_trainable(output):
                continue
            for consumer in self._consumers(output):
                if consumer not in found:
                    found.add(consumer)
                    stack.append(consumer)
        return found

    def add(self, tensor: Tensor, gradient: Gradient) -> None:
        """Add a gradient that arrives at a tensor."""
        self._arrived.setdefault((tensor.op, tensor.value_index), []).append(gradient)

    def total(self, tensor: Tensor) -> Gradient | None:
        """Return all gradients of a tensor together, None when there are none."""
        key = (tensor.op, tensor.value_index)
        if key not in self._totals:
            arrived = self._arrived.get(key, [])
            self._totals[key] = sum_gradients(arrived, tensor)
        return self._totals[key]

    def run(self, ys: Sequence[Tensor]) -> None:
        pending = self._between(ys)
        ends = list(dict.fromkeys(y.op for y in ys))
        self._loops = loops = LoopGradients(
            pending, get_default_graph()._get_control_flow_context()
        )
        ready = deque(op for op in ends if pending.get(op) == 0)
        for state, left in loops.begin(pending, ends):
            self._leave_unused(state, left, ready)
        while ready:
            op = ready.popleft()
            inputs = self._inputs(op)
            for tensor, gradient in zip(inputs, self._of(op, inputs), strict=True):
                if gradient is not None and tensor.op in self._reached:
                    self.add(tensor, gradient)
            for tensor in inputs:
                source = tensor.op
                if source in pending:
                    pending[source] -= 1
                    # a loop variable's Switch comes twice: from the Exit, and from the body
                    if pending[source] == 0 or (pending[source] > 0 and is_loop_switch(source)):
                        if is_loop_exit(source):
                            self._defer_exit(tensor, ready)
                        else:
                            ready.append(source)
        loops.finish()

    def _defer_exit(self, tensor: Tensor, ready: deque[Operation]) -> None:
        """Begin the gradient of a loop once all its Exits have theirs.

        Unused Exits get zeros.
        """
        state = self._loops.of(tensor.op)
        assert state is not None
        state.deferred_exits.append(tensor)
        state.pending_exits -= 1
        if state.pending_exits > 0:
            return
        used = [left for left in state.deferred_exits if self._arrived.get((left.op, 0))]
        unused = [left for left in state.deferred_exits if left not in used] + state.unused_exits
        ready.extend(left.op for left in used)
        for left in unused:
            if used:
                self._leave_unused(state, left, ready)
            else:
                ready.append(left.op)

    def _leave_unused(self, state: LoopGradient, left: Tensor, ready: deque[Operation]) -> None:
        if is_trainable(left) and left.dtype not in (dtypes.resource, dtypes.variant):
            self.add(left, state.zeros_for_exit(left))
            ready.append(left.op)

    def _between(self, ys: Sequence[Tensor]) -> dict[Operation, int]:
        """Return operations between xs and ys -> number of pending uses.

        Uses of their outputs count that lie between, too.
        """
        pending = dict.fromkeys((y.op for y in ys if y.op in self._reached), 0)
        stack = list(pending)
        while stack:
            for tensor in self._inputs(stack.pop()):
                op = tensor.op
                if op not in self._reached:
                    continue
                if op not in pending:
                    pending[op] = 0
                    stack.append(op)
                pending[op] += 1
        return pending

    def _of(self, op: Operation, inputs: Sequence[Tensor]) -> list[Gradient | None]:
        """Return the gradients of an operation's inputs.

        inputs: as `_inputs` gives them.
        """
        loops = self._loops
        state = loops.of(op)
        with outside(loops.place(loops.of(op, before=True))):
            if state is not None and op in state.merges:
                # the gradients from the body had not come the first time
                self._totals.pop((op, 1), None)
                incoming = [None, self.total(op.outputs[1])]
            else:
                incoming = [self.total(output) for output in op.outputs]
        none: list[Gradient | None] = [None] * len(op.inputs)
        if not op.inputs or op in self._stopped or all(gradient is None for gradient in incoming):
            return none
        needed = [tensor.op in self._reached and is_trainable(tensor) for tensor in inputs]
        if not any(needed):
            return none
        rule = _rule(op)
        if rule is None:
            return none
        graph = get_default_graph()
        place = graph.colocate_with(op) if self._colocate else nullcontext()
        scope = graph.name_scope(
            op.name.replace("/", "_") + "_grad" if op.name.startswith("_") else op.name + "_grad"
        )
        with scope, place, outside(loops.place(state)):
            if gradient_registry.accepts_needed(rule):
                results = list(rule(op, needed, *incoming))
            else:
                results = self._apply(rule, op, incoming, state)
            if self._gate and sum(result is not None for result in results) > 1:
                results = all_ready(results)
        for gradient, tensor in zip(results, inputs, strict=True):
            if isinstance(gradient, Tensor) and tensor.dtype is dtypes.resource:
                data = handle_data(tensor)
                if data is not None and is_compatible(gradient.shape_tuple, data[0][0]):
                    gradient.set_shape(TensorShape(data[0][0]))
            elif isinstance(gradient, Tensor):
                if not is_compatible(gradient.shape_tuple, tensor.shape_tuple):
                    raise ValueError(
                        "Incompatible shapes between op input and calculated input gradient.  "
                        "Forward operation: "
                        f"{op.name}.  Input: {tensor.name} {tensor.shape}.  Calculated gradient: "
                        f"{gradient.shape}"
                    )
                gradient.set_shape(tensor.shape)
        return results

    @staticmethod
    def _apply(
        rule: Any, op: Operation, incoming: Sequence[Gradient | None], state: LoopGradient | None
    ) -> list[Gradient | None]:
        filled = [
            _zeros(output, state)
            if gradient is None and is_trainable(output) and _has_zeros(output)
            else gradient
            for gradient, output in zip(incoming, op.outputs, strict=True)
        ]
        returned = rule(op, *filled)
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if len(results) != len(op.inputs):
            raise ValueError(
                f"Num gradients {len(results)} generated for op {op.node_def} do not match num "
                f"inputs {len(op.inputs)}"
            )
        return [
            None if tensor.dtype.base_dtype not in TRAINABLE else g
            for g, tensor in zip(results, op.inputs, strict=True)
        ]


def _has_zeros(output: Tensor) -> bool:
    """Return whether zeros fill in for a missing gradient.

    Of handles, only those in a branch: the other branch's gradient needs them.
    """
    if output.dtype is not dtypes.resource:
        return True
    in_branch = isinstance(output.op._get_control_flow_context(), CondContext)
    return is_switch(output.op) and in_branch and handle_data(output) is not None


def _zeros(output: Tensor, state: LoopGradient | None) -> Tensor | None:
    """Return the gradient of an output without incoming gradients."""
    op = output.op
    if state is not None:
        return state.zeros_like(op, output.value_index)
    context = op._get_control_flow_context()
    if get_default_graph().building_function:
        return zeros_of(output)
    if not is_switch(op) or not isinstance(context, CondContext):
        made: Tensor = raw.ZerosLike(x=output)
        return made
    # zeros that are alive when the branch is not taken
    other = raw.Switch(data=op.inputs[0], pred=context.pred)[1 - context.branch]
    with control_dependencies([raw.Identity(input=other)]):
        return zeros(sizes_of(other), value_dtype(output))


def _bodies_around(ys: Sequence[Tensor]) -> list[FunctionGraph]:
    """Return the bodies that ys are in, innermost first.

    The walk goes through the tensors that they capture.
    """
    found: list[FunctionGraph] = []
    for y in ys:
        graph: Any = y.graph
        while isinstance(graph, FunctionGraph):
            if graph not in found:
                found.append(graph)
            graph = graph.outer_graph
    return found


def _rule(op: Operation) -> gradient_registry.GradientFn | None:
    """Return the gradient function of an operation; None when it passes none."""
    override = op.attrs.get("_gradient_op_type")
    op_type = override.decode() if isinstance(override, bytes) else op.type
    try:
        return gradient_registry.lookup(op_type)
    except LookupError:
        if op.type in op.graph.functions:
            return symbolic_gradient
        raise LookupError(
            f"No gradient defined for operation '{op.name}' (op type: {op_type}). Give the op type "
            "one by "
            f"tfjit.RegisterGradient({op_type!r}), or say that it has none by "
            f"tfjit.NotDifferentiable({op_type!r})."
        ) from None
