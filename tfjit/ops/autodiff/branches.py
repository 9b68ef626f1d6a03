"""Define gradients of If and Case.

They are a conditional over the gradients of the branches, by the same predicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import (
    with_needed,
)
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.backward_graphs import (
    BackwardGraph,
    dense,
    gradient_dtype,
    is_trainable,
    zeros_of,
)
from tfjit.ops.control_flow.bodies import bodies_of, extend, redefine
from tfjit.ops.control_flow.conditionals_v2 import branching, results


class _Branch(BackwardGraph):
    """The gradient of one branch.

    The other branches have an output for each value that it saves: of a tensor a FakeParam, which
    is never read. A list or other variant is saved in an optional, and the others give an empty
    one: an empty variant has no zeros.
    """

    def __init__(self, forward: Any, op: Operation, others: Sequence[Any]) -> None:
        super().__init__(forward, op, 1)
        self._others = others
        self._wrapped: dict[int, Tensor] = {}

    def _save(self, value: Tensor) -> Tensor:
        if value.dtype is not dtypes.variant:
            return super()._save(value)
        wrapped = self._wrapped.get(id(value))
        if wrapped is None:
            with self.forward.as_default(), control_dependencies(None):
                wrapped = self._wrapped[id(value)] = raw.OptionalFromValue(components=[value])
        held = super()._save(wrapped)
        shapes = (TensorShape(value.shape_tuple),)
        with get_default_graph().control_dependencies(None):
            found: Tensor = raw.OptionalGetValue(
                optional=held, output_types=(dtypes.variant,), output_shapes=shapes
            )[0]
        return found

    def _add_output(self, value: Tensor) -> int:
        for other in self._others:
            with other.as_default():
                if value.op.type == "OptionalFromValue":
                    other.outputs.append(raw.OptionalNone())
                else:
                    other.outputs.append(
                        raw.FakeParam(
                            dtype=value.dtype.base_dtype, shape=TensorShape(value.shape_tuple)
                        )
                    )
        self.forward.outputs.append(value)
        extend(self.op, [], [value])
        return len(self.op.outputs) - 1


@with_needed
def branches_gradient(op: Operation, needed: Sequence[bool], *grads: Any) -> list[Any]:
    """Return the gradients of an If or Case.

    The gradient is a Case over the branches' backward graphs.
    """
    from tfjit.ops.autodiff.backward_pass import backpropagate

    names: Any = ("then_branch", "else_branch") if op.type.endswith("If") else "branches"
    refs = op.attr("branches") if isinstance(names, str) else [op.attr(name) for name in names]
    forwards = bodies_of(op, refs, first=1)
    given = [dense(gradient) for gradient in grads]
    # an input's gradient is asked for where a branch can give one
    wanted = [
        i
        for i, value in enumerate(op.inputs[1:])
        if needed[i + 1] and gradient_dtype(value) is not None
    ]
    backward, found = [], []
    for forward in forwards:
        graph = _Branch(forward, op, [other for other in forwards if other is not forward])
        pairs = [
            (y, g)
            for y, g in zip(forward.outputs, given, strict=False)
            if g is not None and is_trainable(y)
        ]
        with graph.as_default():
            starts = [graph.capture(g) for _, g in pairs]
            xs = [forward.inputs[i] for i in wanted]
            found.append([dense(g) for g in backpropagate([y for y, _ in pairs], xs, starts)])
        backward.append(graph)
    kept = [k for k in range(len(wanted)) if any(row[k] is not None for row in found)]
    for forward, graph, row in zip(forwards, backward, found, strict=True):
        with graph.as_default():
            for k in kept:
                value = forward.inputs[wanted[k]]
                gradient = zeros_of(value) if row[k] is None else row[k]
                graph.outputs.append(graph.capture(gradient))
        graph.structured_outputs = list(graph.outputs)
    if any(graph.changed for graph in backward):
        redefine(op, names, forwards)
        op._set_attr("Tout", tuple(value.dtype.base_dtype for value in op.outputs))
        op._set_attr("output_shapes", tuple(value.shape for value in op.outputs))
    answer: list[Any] = [None] * len(op.inputs)
    if kept:
        made = results(branching(None, op.inputs[0], backward))
        for k, gradient in zip(kept, made, strict=True):
            answer[wanted[k] + 1] = gradient
    return answer
