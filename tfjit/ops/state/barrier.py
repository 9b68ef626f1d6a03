"""Declare barriers."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import handle_to_scalar, nothing, unknown, vector_of_two

register_op(
    "Barrier",
    outputs=("handle: Ref(string)",),
    attrs=(
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=vector_of_two,
)
register_op(
    "BarrierClose",
    inputs=("handle: Ref(string)",),
    attrs=("cancel_pending_enqueues: bool = false",),
    shape=nothing,
)
for _op_type in ("BarrierIncompleteSize", "BarrierReadySize"):
    register_op(
        _op_type, inputs=("handle: Ref(string)",), outputs=("size: int32",), shape=handle_to_scalar
    )
register_op(
    "BarrierInsertMany",
    inputs=("handle: Ref(string)", "keys: string", "values: T"),
    attrs=("T: type", "component_index: int"),
    shape=nothing,
    traits=BLOCKING,
)
register_op(
    "BarrierTakeMany",
    inputs=("handle: Ref(string)", "num_elements: int32"),
    outputs=("indices: int64", "keys: string", "values: component_types"),
    attrs=(
        "component_types: list(type) >= 1",
        "allow_small_batch: bool = false",
        "wait_for_incomplete: bool = false",
        "timeout_ms: int = -1",
    ),
    shape=unknown,
    traits=BLOCKING,
)
