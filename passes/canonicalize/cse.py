"""Eliminate common subexpressions: compute equal nodes once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.op_defs.op_traits import NEVER_EVALUATED
from tfjit.framework.types.shape import TensorShape
from tfjit.framework.types.tensors import OpaqueTensor
from tfjit.kernels.ir.kernel_keys import UNREAD_ATTRS
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.manager.pass_context import PassContext


def eliminate_common_subexpressions(graph: DataflowGraph, ctx: PassContext) -> None:
    """Replace equal nodes by the first of them.

    Before: a=Square(x) b=Square(x) c=Add(a, b)
    After: a=Square(x) c=Add(a, a)
    Keeps: stateful nodes, control flow, sends and receives, and every reader of a reference, since
    a write may come between.

    Equal nodes have the same op, attrs, device, inputs (in any order where the op is commutative)
    and control inputs. The survivor is the first in topological order and keeps its name; origins
    are joined.
    """
    first: dict[Hashable, Node] = {}
    for name in yielding(graph.topological_order()):
        node = graph.node(name)
        if (
            node.is_stateful
            or node.op_def is None
            or node.has_trait(NEVER_EVALUATED)
            or not node.output_dtypes
        ):
            continue
        inputs = graph.inputs(name)
        if any(graph.node(src).output_dtypes[output].is_ref for src, output in inputs):
            continue
        if any(
            dtype.is_ref or not dtype.is_numpy_compatible
            for dtype in node.output_dtypes + node.input_dtypes
        ):
            continue
        if node.op_def.is_commutative:
            inputs.sort()
        key = (
            node.op,
            node.assigned_device or node.device,
            tuple(inputs),
            frozenset(graph.control_inputs(name)),
            tuple(
                sorted(
                    (key, hashable(value))
                    for key, value in node.attrs.items()
                    if key not in UNREAD_ATTRS
                )
            ),
        )
        known = first.setdefault(key, node)
        if known is node:
            continue
        if not ctx.may_rewrite():
            break
        for output in range(len(node.output_dtypes)):
            graph.redirect_output(name, output, known.name, output)
        graph.redirect_control(name, known.name)
        known.origin = tuple(dict.fromkeys(known.origin + node.origin))
        if not graph.edges_out_of(name):  # a target stays, tied to the sink
            graph.remove_op(name)
        ctx.rewrote(name, f"is '{known.name}'")


class _ArrayKey:
    """A key that is equal where dtype, shape and bytes are.

    Only the ends are hashed: weights are many and seldom equal.
    """

    __slots__ = ("_hash", "array")

    def __init__(self, array: np.ndarray) -> None:
        flat = array.reshape(-1)
        self.array = array
        self._hash = hash((array.dtype.num, array.shape, flat[:8].tobytes(), flat[-8:].tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ArrayKey):
            return False
        a, b = self.array, other.array
        return a is b or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


def hashable(value: Any) -> Hashable:
    """Return a key of an attr value, for comparison bit by bit."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ("strings", value.shape, tuple(value.reshape(-1).tolist()))
        return _ArrayKey(value)
    if isinstance(value, TensorShape):
        return ("shape", value.dims_tuple)
    if isinstance(value, (tuple, list)):
        return ("list", tuple(hashable(item) for item in value))
    if isinstance(value, FuncRef):
        return (
            "func",
            value.name,
            tuple(sorted((key, hashable(item)) for key, item in value.attrs.items())),
        )
    if isinstance(value, OpaqueTensor):
        return ("opaque", value.serialized)
    if isinstance(value, float):
        return ("float", value.hex())
    return (type(value).__name__, value)
