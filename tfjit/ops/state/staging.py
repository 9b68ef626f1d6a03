"""Staging areas and maps."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import nothing, scalar, unknown

register_op(
    "MapClear",
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=nothing,
)
register_op(
    "MapIncompleteSize",
    outputs=("size: int32",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "MapPeek",
    inputs=("key: int64", "indices: int32"),
    outputs=("values: dtypes",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "MapSize",
    outputs=("size: int32",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "MapStage",
    inputs=("key: int64", "indices: int32", "values: fake_dtypes"),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "fake_dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=nothing,
    traits=BLOCKING,
)
register_op(
    "MapUnstage",
    inputs=("key: int64", "indices: int32"),
    outputs=("values: dtypes",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "MapUnstageNoKey",
    inputs=("indices: int32",),
    outputs=("key: int64", "values: dtypes"),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "OrderedMapClear",
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=nothing,
)
register_op(
    "OrderedMapIncompleteSize",
    outputs=("size: int32",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "OrderedMapPeek",
    inputs=("key: int64", "indices: int32"),
    outputs=("values: dtypes",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "OrderedMapSize",
    outputs=("size: int32",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "OrderedMapStage",
    inputs=("key: int64", "indices: int32", "values: fake_dtypes"),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "fake_dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=nothing,
    traits=BLOCKING,
)
register_op(
    "OrderedMapUnstage",
    inputs=("key: int64", "indices: int32"),
    outputs=("values: dtypes",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "OrderedMapUnstageNoKey",
    inputs=("indices: int32",),
    outputs=("key: int64", "values: dtypes"),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "RecordInput",
    outputs=("records: string",),
    attrs=(
        "file_pattern: string",
        "file_random_seed: int = 301",
        "file_shuffle_shift_ratio: float = 0.0",
        "file_buffer_size: int = 10000",
        "file_parallelism: int = 16",
        "batch_size: int = 32",
        "compression_type: string = ''",
    ),
    stateful=True,
)
register_op(
    "Stage",
    inputs=("values: dtypes",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=nothing,
    traits=BLOCKING,
)
register_op(
    "StageClear",
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=nothing,
)
register_op(
    "StagePeek",
    inputs=("index: int32",),
    outputs=("values: dtypes",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "StageSize",
    outputs=("size: int32",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "Unstage",
    outputs=("values: dtypes",),
    attrs=(
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        "container: string = ''",
        "shared_name: string = ''",
    ),
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
