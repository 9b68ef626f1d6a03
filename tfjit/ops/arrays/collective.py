"""Declare collectives: nodes on several devices compute one result."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import COLLECTIVE
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, unchanged

_NUMBERS = "T: {bfloat16, float32, float16, float64, int32, int64}"
_GATHERED = "T: {float32, float16, float64, int32, int64}"
_SENT = "T: {bool, float32, float16, float64, int32, int64}"
_KEYS = ("group_size: int", "group_key: int", "instance_key: int")
_KEY_INPUTS = ("group_size: int32", "group_key: int32", "instance_key: int32")
_REDUCTION = ("merge_op: {'Min', 'Max', 'Mul', 'Add'}", "final_op: {'Id', 'Div'}")
_LIMITS = ("communication_hint: string = 'auto'", "timeout_seconds: float = 0")
_ORDER = ("is_stateless: bool = false", "Nordering_token: int >= 0 = 0")
_TOKENS = "ordering_token: Nordering_token * resource"


def _declared(c: ShapeContext) -> Shapes:
    return [c.shape_attr("shape")]


def _gathered(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    if shape is None:
        return [None]
    size = c.attrs.get("group_size")
    first = None if size is None or shape[0] is None else shape[0] * size
    return [(first, *shape[1:])]


def _fed(c: ShapeContext) -> Shapes:
    return [c.constant_as_shape(3)]


def _two_scalars(c: ShapeContext) -> Shapes:
    return [(), ()]


register_op(
    "CollectiveReduce",
    inputs=("input: T",),
    outputs=("data: T",),
    attrs=(
        _NUMBERS,
        *_KEYS,
        *_REDUCTION,
        "subdiv_offsets: list(int)",
        "wait_for: list(int) = []",
        *_LIMITS,
    ),
    stateful=True,
    distributed_communication=True,
    shape=unchanged,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveGather",
    inputs=("input: T",),
    outputs=("data: T",),
    attrs=(_GATHERED, *_KEYS, "shape: shape", *_LIMITS),
    stateful=True,
    distributed_communication=True,
    shape=_gathered,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveBcastSend",
    inputs=("input: T",),
    outputs=("data: T",),
    attrs=(_SENT, *_KEYS, "shape: shape", *_LIMITS),
    stateful=True,
    distributed_communication=True,
    shape=_declared,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveBcastRecv",
    outputs=("data: T",),
    attrs=(_SENT, *_KEYS, "shape: shape", *_LIMITS),
    stateful=True,
    distributed_communication=True,
    shape=_declared,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveReduceV2",
    inputs=("input: T", *_KEY_INPUTS, _TOKENS),
    outputs=("data: T",),
    attrs=(_NUMBERS, *_REDUCTION, *_LIMITS, *_ORDER, "max_subdivs_per_device: int = -1"),
    stateful=True,
    distributed_communication=True,
    shape=unchanged,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveGatherV2",
    inputs=("input: T", *_KEY_INPUTS, _TOKENS),
    outputs=("data: T",),
    attrs=(_GATHERED, *_LIMITS, *_ORDER),
    stateful=True,
    distributed_communication=True,
    shape=_gathered,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveBcastSendV2",
    inputs=("input: T", *_KEY_INPUTS),
    outputs=("data: T",),
    attrs=(_SENT, *_LIMITS),
    stateful=True,
    distributed_communication=True,
    shape=unchanged,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveBcastRecvV2",
    inputs=(*_KEY_INPUTS, "shape: Tshape"),
    outputs=("data: T",),
    attrs=(_SENT, "Tshape: {int32, int64} = DT_INT32", *_LIMITS),
    stateful=True,
    distributed_communication=True,
    shape=_fed,
    traits=COLLECTIVE,
)
register_op(
    "CollectiveAssignGroupV2",
    inputs=("group_assignment: int32", "device_index: int32", "base_key: int32"),
    outputs=("group_size: int32", "group_key: int32"),
    stateful=True,
    distributed_communication=True,
    shape=_two_scalars,
)
