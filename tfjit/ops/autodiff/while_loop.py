"""Define gradients of While: a loop that runs the iterations backwards.

The forward values are in tensor lists. The gradient's loop has as variables a counter, a bound, the
number of iterations, the gradient of each variable that matters, and then the inputs of its body:
lists of values that the forward body computed, each iteration's value popped from the end, and
values that do not change from iteration to iteration. It counts as the forward loop does, so that
it has a gradient itself. Source of the form: TensorFlow 2.21's graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph, unique_function_name
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.op_defs.gradient_registry import with_needed
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.backward_graphs import (
    BackwardGraph,
    dense,
    gradient_dtype,
    is_trainable,
    zeros_of,
)
from tfjit.ops.control_flow.bodies import bodies_of, extend, handle_data, redefine
from tfjit.ops.control_flow.list_tensor_array import shape_input
from tfjit.ops.control_flow.loops_v2 import identities, looping
from tfjit.ops.core.convert import constant


@contextmanager
def _beside(op: Operation) -> Iterator[None]:
    """Enter a node's graph and context, without control inputs.

    The node's inputs can be made inside.
    """
    with op.graph.as_default(), control_dependencies(None):
        op.graph._set_control_flow_context(op._get_control_flow_context())
        yield


class _Iteration(BackwardGraph):
    """The body of the gradient's loop.

    `passed`: id of the tensor that represents a value here -> the next iteration's value.
    """

    def __init__(
        self, forward: FunctionGraph, op: Operation, cond_graph: FunctionGraph, bound: Tensor | None
    ) -> None:
        super().__init__(forward, op, 0)
        self._cond = cond_graph
        self._bound = bound
        self.passed: dict[int, Tensor] = {}

    def _given(self, value: Tensor) -> Tensor | None:
        index = self._index(value)
        # a variable that changes has another value in each iteration
        if index is None or self.forward.outputs[index] is not value:
            return None
        return self.op.inputs[index]

    def _save(self, value: Tensor) -> Tensor:
        index = self.forward.saved.get(id(value))
        if index is None:
            index = self._add_output(value)
            self.changed = True
            self.forward.saved[id(value)] = index
        held = FunctionGraph.capture(self, self.op.outputs[index])
        with get_default_graph().control_dependencies(None):
            rest, popped = raw.TensorListPopBack(
                input_handle=held,
                element_shape=shape_input(value.shape_tuple),
                element_dtype=value.dtype.base_dtype,
            )
        popped._handle_data = value._handle_data
        self.passed[id(held)] = rest
        return popped

    def _add_output(self, value: Tensor) -> int:
        """Return a list to which each iteration pushes the value."""
        with _beside(self.op):
            most: object = (
                self._bound if self._bound is not None else constant(-1, dtype=dtypes.int32)
            )
            start = raw.EmptyTensorList(
                element_shape=shape_input(value.shape_tuple),
                max_num_elements=most,
                element_dtype=value.dtype.base_dtype,
                name=f"{value.op.name.rpartition('/')[2]}_{value.value_index}/accumulator",
            )
        with self.forward.as_default(), control_dependencies(None):
            held = self.forward.add_input(dtypes.variant, (), "accumulator")
            self.forward.outputs.append(raw.TensorListPushBack(input_handle=held, tensor=value))
        self._cond.add_input(dtypes.variant, (), "unused_placeholder")
        extend(self.op, [start], [self.forward.outputs[-1]])
        return len(self.op.outputs) - 1


@with_needed
def while_gradient(op: Operation, needed: Sequence[bool], *grads: Any) -> list[object]:
    """Return the gradients of a While.

    The gradient is a While over the body's backward graph.
    """
    from tfjit.ops.autodiff.backward_pass import backpropagate

    cond_graph, body = bodies_of(op, [op.attr("cond"), op.attr("body")])
    count = len(op.inputs)
    given = [dense(gradient) for gradient in grads]
    active = _active(op, body, given, needed)
    answer: list[object] = [None] * count
    if not active:
        return answer
    counts = _counts(op, body)
    if not counts:
        trips = _add_counter(op, cond_graph, body)
    bound = op.inputs[1] if counts and _is_bound(op, body) else None
    graph = _Iteration(body, op, cond_graph, bound)
    graph.changed = not counts
    starts = [zeros_of(op.outputs[i]) if given[i] is None else given[i] for i in active]
    counter = constant(0, dtype=dtypes.int32, name="grad_counter")
    total = op.outputs[0] if counts else trips
    entering = [
        counter,
        constant(-1, dtype=dtypes.int32) if bound is None else bound,
        total,
        *starts,
    ]
    shapes: list[Shape] = [(), (), (), *(_shape(op.outputs[i]) for i in active)]
    for value, shape in zip(entering, shapes, strict=True):
        graph.add_input(value.dtype.base_dtype, shape)
    taken = list(graph.inputs)
    with graph.as_default():
        ys, xs = [body.outputs[i] for i in active], [body.inputs[i] for i in active]
        found = [dense(g) for g in backpropagate(ys, xs, taken[3:])]
        made = [
            zeros_of(x) if g is None else graph.capture(g) for g, x in zip(found, xs, strict=True)
        ]
        following = raw.AddV2(x=taken[0], y=constant(1, dtype=dtypes.int32))
        graph.outputs = [following, taken[1], taken[2], *made]
    outer = graph.captures
    graph.outputs += [graph.passed.get(id(inside), inside) for _, inside in outer]
    if graph.changed:
        redefine(op, ["cond", "body"], [cond_graph, body])
        op._set_attr("T", tuple(value.dtype.base_dtype for value in op.inputs))
        op._set_attr("output_shapes", tuple(value.shape for value in op.outputs))
    op._set_attr("_num_original_outputs", len(op.outputs))
    inputs = [*entering, *(value for value, _ in outer)]
    back_cond = FunctionGraph(unique_function_name(f"{cond_graph.name}_grad"), get_default_graph())
    for inside in graph.inputs:
        back_cond.add_input(inside.dtype.base_dtype, inside.shape_tuple)
    with back_cond.as_default():
        back_cond.outputs = [raw.Less(x=back_cond.inputs[0], y=back_cond.inputs[2])]
    shapes += [inside.shape_tuple for _, inside in outer]
    name = op.name.rpartition("/")[2] + "_grad"
    ends = identities(
        looping(name, inputs, back_cond, graph, shapes, op.attr("parallel_iterations"))
    )
    for i, gradient in zip(active, ends[3:], strict=False):
        answer[i] = gradient
    return answer[:count]


def _shape(value: Tensor) -> Shape:
    """Return the shape of a variable's gradient.

    Of a resource, the shape of its variable.
    """
    if value.dtype is not dtypes.resource:
        return value.shape_tuple
    data = handle_data(value)
    shape: Shape = data[0][0] if data else None
    return shape


def _counts(op: Operation, body: FunctionGraph) -> bool:
    """Return whether the first variable counts the iterations."""
    if (
        not op.inputs
        or op.inputs[0].dtype.base_dtype is not dtypes.int32
        or op.inputs[0].shape_tuple != ()
    ):
        return False
    start = constant_value(op.inputs[0])
    following = _behind_identity(body.outputs[0]).op
    if start is None or int(start) != 0 or following.type not in ("Add", "AddV2"):
        return False
    step = constant_value(following.inputs[1])
    return (
        _behind_identity(following.inputs[0]) is body.inputs[0]
        and step is not None
        and int(step) == 1
    )


def _is_bound(op: Operation, body: FunctionGraph) -> bool:
    """Return whether the second variable bounds the iterations.

    Loops of TensorFlow and of `while_loop` have such a variable.
    """
    if (
        "_num_original_outputs" not in op.attrs
        or len(op.inputs) < 2
        or op.inputs[1].dtype.base_dtype is not dtypes.int32
    ):
        return False
    return op.inputs[1].shape_tuple == () and _behind_identity(body.outputs[1]) is body.inputs[1]


def _behind_identity(value: Tensor) -> Tensor:
    while value.op.type == "Identity":
        value = value.op.inputs[0]
    return value


def _add_counter(op: Operation, cond_graph: FunctionGraph, body: FunctionGraph) -> Tensor:
    """Add a variable that counts the iterations; return its last value."""
    with _beside(op):
        start = constant(0, dtype=dtypes.int32, name="loop_counter")
    with body.as_default():
        held = body.add_input(dtypes.int32, (), "loop_counter")
        body.outputs.append(raw.AddV2(x=held, y=constant(1, dtype=dtypes.int32)))
    cond_graph.add_input(dtypes.int32, (), "unused_placeholder")
    extend(op, [start], [body.outputs[-1]])
    return op.outputs[-1]


def _active(
    op: Operation, body: FunctionGraph, grads: Sequence[object], needed: Sequence[bool]
) -> list[int]:
    """Return variables with gradients that matter.

    They depend on a needed one, and an output with a gradient depends on them.
    """
    index = {id(value): i for i, value in enumerate(body.inputs)}
    count = len(op.inputs)
    may = [
        i
        for i in range(count)
        if is_trainable(body.outputs[i]) and gradient_dtype(op.inputs[i]) is not None
    ]
    sources = {i: _depends(body.outputs[i], index) for i in may}
    wanted = [i for i in may if grads[i] is not None]
    backwards = set(wanted)
    while wanted:
        new = [j for j in sources[wanted.pop()] if j in sources and j not in backwards]
        backwards.update(new)
        wanted += new
    forwards = {i for i in may if needed[i]}
    grown = True
    while grown:
        more = {i for i in may if i not in forwards and sources[i] & forwards}
        forwards |= more
        grown = bool(more)
    return sorted(backwards & forwards)


def _depends(value: Tensor, index: dict[int, int]) -> set[int]:
    """Return the inputs of a body that a tensor depends on.

    Only paths through tensors with gradients count.
    """
    found: set[int] = set()
    seen: set[Operation] = set()
    stack = [value]
    while stack:
        tensor = stack.pop()
        i = index.get(id(tensor))
        if i is not None:
            found.add(i)
        elif tensor.op not in seen:
            seen.add(tensor.op)
            stack += [
                taken
                for taken in tensor.op.inputs
                if taken.dtype.base_dtype.name != "bool" and is_trainable(taken)
            ]
    return found
