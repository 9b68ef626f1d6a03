"""Declare queues."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import BLOCKING, CANNOT_FAIL, READS_STATE
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    handle_to_scalar,
    nothing,
    scalar,
    unchanged,
    unknown,
    vector_of_two,
)

for _op_type in ("FIFOQueue", "PaddingFIFOQueue"):
    register_op(
        _op_type,
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
for _op_type in ("FIFOQueueV2", "PaddingFIFOQueueV2"):
    register_op(
        _op_type,
        outputs=("handle: resource",),
        attrs=(
            "component_types: list(type) >= 1",
            "shapes: list(shape) >= 0 = []",
            "capacity: int = -1",
            "container: string = ''",
            "shared_name: string = ''",
        ),
        stateful=True,
        shape=scalar,
    )
register_op(
    "PriorityQueue",
    outputs=("handle: Ref(string)",),
    attrs=(
        "component_types: list(type) >= 0 = []",
        "shapes: list(shape) >= 0",
        "capacity: int = -1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=vector_of_two,
)
register_op(
    "PriorityQueueV2",
    outputs=("handle: resource",),
    attrs=(
        "component_types: list(type) >= 0 = []",
        "shapes: list(shape) >= 0",
        "capacity: int = -1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "QueueClose",
    inputs=("handle: Ref(string)",),
    attrs=("cancel_pending_enqueues: bool = false",),
    shape=nothing,
)
register_op(
    "QueueCloseV2",
    inputs=("handle: resource",),
    attrs=("cancel_pending_enqueues: bool = false",),
    stateful=True,
    shape=nothing,
)
register_op(
    "QueueDequeue",
    inputs=("handle: Ref(string)",),
    outputs=("components: component_types",),
    attrs=("component_types: list(type) >= 1", "timeout_ms: int = -1"),
    shape=unknown,
    traits=BLOCKING,
)
for _op_type in ("QueueDequeueMany", "QueueDequeueUpTo"):
    register_op(
        _op_type,
        inputs=("handle: Ref(string)", "n: int32"),
        outputs=("components: component_types",),
        attrs=("component_types: list(type) >= 1", "timeout_ms: int = -1"),
        shape=unknown,
        traits=BLOCKING,
    )
for _op_type in ("QueueDequeueManyV2", "QueueDequeueUpToV2"):
    register_op(
        _op_type,
        inputs=("handle: resource", "n: int32"),
        outputs=("components: component_types",),
        attrs=("component_types: list(type) >= 1", "timeout_ms: int = -1"),
        stateful=True,
        shape=unknown,
        traits=BLOCKING,
    )
register_op(
    "QueueDequeueV2",
    inputs=("handle: resource",),
    outputs=("components: component_types",),
    attrs=("component_types: list(type) >= 1", "timeout_ms: int = -1"),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
for _op_type in ("QueueEnqueue", "QueueEnqueueMany"):
    register_op(
        _op_type,
        inputs=("handle: Ref(string)", "components: Tcomponents"),
        attrs=("Tcomponents: list(type) >= 1", "timeout_ms: int = -1"),
        shape=nothing,
        traits=BLOCKING,
    )
for _op_type in ("QueueEnqueueManyV2", "QueueEnqueueV2"):
    register_op(
        _op_type,
        inputs=("handle: resource", "components: Tcomponents"),
        attrs=("Tcomponents: list(type) >= 1", "timeout_ms: int = -1"),
        stateful=True,
        shape=nothing,
        traits=BLOCKING,
    )
register_op(
    "QueueIsClosed",
    inputs=("handle: Ref(string)",),
    outputs=("is_closed: bool",),
    shape=handle_to_scalar,
    traits=READS_STATE | CANNOT_FAIL,
)
register_op(
    "QueueIsClosedV2",
    inputs=("handle: resource",),
    outputs=("is_closed: bool",),
    stateful=True,
    shape=scalar,
    traits=READS_STATE | CANNOT_FAIL,
)
register_op(
    "QueueSize",
    inputs=("handle: Ref(string)",),
    outputs=("size: int32",),
    shape=handle_to_scalar,
    traits=READS_STATE | CANNOT_FAIL,
)
register_op(
    "QueueSizeV2",
    inputs=("handle: resource",),
    outputs=("size: int32",),
    stateful=True,
    shape=unchanged,
    traits=READS_STATE | CANNOT_FAIL,
)
register_op(
    "RandomShuffleQueue",
    outputs=("handle: Ref(string)",),
    attrs=(
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        "min_after_dequeue: int = 0",
        "seed: int = 0",
        "seed2: int = 0",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=vector_of_two,
)
register_op(
    "RandomShuffleQueueV2",
    outputs=("handle: resource",),
    attrs=(
        "component_types: list(type) >= 1",
        "shapes: list(shape) >= 0 = []",
        "capacity: int = -1",
        "min_after_dequeue: int = 0",
        "seed: int = 0",
        "seed2: int = 0",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=scalar,
)
