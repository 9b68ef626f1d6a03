"""Define gradients of calls, as calls themselves.

The called function gives out the tensors that its gradient needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfjit.framework.graphs.operation import Operation
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.gradient_registry import with_needed
from tfjit.ops.autodiff.backward_graphs import BackwardGraph, dense, gradient_dtype, is_trainable
from tfjit.ops.control_flow.bodies import bodies_of, define, finish, is_stateful, redefine
from tfjit.ops.core.apply import create


@with_needed
def call_gradient(op: Operation, needed: Sequence[bool], *grads: Any) -> list[object]:
    """Return the gradients of a call.

    The gradient is a call of the function's backward graph.
    """
    from tfjit.ops.autodiff.backward_pass import backpropagate

    (forward,) = bodies_of(op, [op.attr("f")])
    given = [dense(gradient) for gradient in grads]
    wanted = [
        i for i, value in enumerate(op.inputs) if needed[i] and gradient_dtype(value) is not None
    ]
    graph = BackwardGraph(forward, op, 0)
    pairs = [
        (y, g)
        for y, g in zip(forward.outputs, given, strict=False)
        if g is not None and is_trainable(y)
    ]
    with graph.as_default():
        starts = [graph.capture(g) for _, g in pairs]
        found = [
            dense(g)
            for g in backpropagate(
                [y for y, _ in pairs], [forward.inputs[i] for i in wanted], starts
            )
        ]
        kept = [k for k, gradient in enumerate(found) if gradient is not None]
        graph.outputs = [graph.capture(found[k]) for k in kept]
    graph.structured_outputs = list(graph.outputs)
    if graph.changed:
        redefine(op, ["f"], [forward])
        op._set_attr("Tout", tuple(value.dtype.base_dtype for value in op.outputs))
    answer: list[object] = [None] * len(op.inputs)
    if kept:
        kind = "StatefulPartitionedCall" if is_stateful(graph) else "PartitionedCall"
        outer = [value for value, _ in graph.captures]
        made = create(
            kind,
            None,
            args=outer,
            Tout=tuple(value.dtype.base_dtype for value in graph.outputs),
            f=define(graph),
            config=op.attr("config"),
            config_proto=op.attr("config_proto"),
            executor_type=op.attr("executor_type"),
        )
        finish(made, [graph])
        for k, inside, gradient in zip(kept, graph.outputs, made.outputs, strict=True):
            gradient.set_shape(inside.shape)
            answer[wanted[k]] = gradient
    return answer


def symbolic_gradient(op: Operation, *grads: Any) -> list[object]:
    """Return the gradients of a node with a function as type.

    TensorFlow 1's functions are called so. The gradient is left to the runtime.
    """
    given = [*op.inputs, *(dense(gradient) for gradient in grads)]
    declared = {attr.name for attr in op.op_def.attrs}
    ref = FuncRef(op.type, {name: value for name, value in op.attrs.items() if name in declared})
    made = create(
        "SymbolicGradient",
        None,
        input=given,
        Tout=tuple(value.dtype.base_dtype for value in op.inputs),
        f=ref,
    )
    for value, taken in zip(made.outputs, op.inputs, strict=True):
        value.set_shape(taken.shape)
    return list(made.outputs)
