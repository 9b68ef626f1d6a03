"""Declare handles of tensors that a session keeps between runs."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, nothing, scalar


def _session_tensor(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    return [None] * c.num_outputs


register_op("DeleteSessionTensor", inputs=("handle: string",), stateful=True, shape=nothing)
register_op(
    "GetSessionHandle",
    inputs=("value: T",),
    outputs=("handle: string",),
    attrs=("T: type",),
    stateful=True,
    shape=scalar,
)
register_op(
    "GetSessionHandleV2",
    inputs=("value: T",),
    outputs=("handle: resource",),
    attrs=("T: type",),
    stateful=True,
    shape=scalar,
)
register_op(
    "GetSessionTensor",
    inputs=("handle: string",),
    outputs=("value: dtype",),
    attrs=("dtype: type",),
    stateful=True,
    shape=_session_tensor,
)
