"""Declare ops of values that enter or leave a graph.

Arguments, return values, send and receive.
"""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import BLOCKING, RECV, SEND
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, nothing, unchanged, unknown


def _argument(c: ShapeContext) -> Shapes:
    shapes = c.attrs.get("_output_shapes")
    if shapes:
        return [shapes[0].dims_tuple]
    return [None]


register_op(
    "_Arg",
    outputs=("output: T",),
    attrs=("T: type", "index: int >= 0"),
    stateful=True,
    shape=_argument,
)
register_op(
    "_HostCast",
    inputs=("x: SrcT",),
    outputs=("y: DstT",),
    attrs=("SrcT: type", "DstT: type", "Truncate: bool = false"),
    shape=unchanged,
)
for _op_type in (
    "_HostRecv",
    "_Recv",
):
    register_op(
        _op_type,
        outputs=("tensor: tensor_type",),
        attrs=(
            "tensor_type: type",
            "tensor_name: string",
            "send_device: string",
            "send_device_incarnation: int",
            "recv_device: string",
            "client_terminated: bool = false",
        ),
        stateful=True,
        distributed_communication=True,
        shape=unknown,
        traits=RECV | BLOCKING,
    )
for _op_type in (
    "_HostSend",
    "_Send",
):
    register_op(
        _op_type,
        inputs=("tensor: T",),
        attrs=(
            "T: type",
            "tensor_name: string",
            "send_device: string",
            "send_device_incarnation: int",
            "recv_device: string",
            "client_terminated: bool = false",
        ),
        stateful=True,
        shape=nothing,
        traits=SEND,
    )
register_op(
    "Recv",
    outputs=("tensor: tensor_type",),
    attrs=(
        "tensor_type: type",
        "tensor_name: string",
        "send_device: string",
        "send_device_incarnation: int",
        "recv_device: string",
        "client_terminated: bool = false",
    ),
    stateful=True,
    distributed_communication=True,
    shape=unknown,
)
register_op(
    "_Retval",
    inputs=("input: T",),
    attrs=("T: type", "index: int >= 0"),
    stateful=True,
    shape=nothing,
)
register_op(
    "Send",
    inputs=("tensor: T",),
    attrs=(
        "T: type",
        "tensor_name: string",
        "send_device: string",
        "send_device_incarnation: int",
        "recv_device: string",
        "client_terminated: bool = false",
    ),
    stateful=True,
    shape=nothing,
)
