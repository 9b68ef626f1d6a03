"""Declare staging areas and maps."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import nothing, scalar, unknown

# Attrs of staging areas and maps: capacity and element types; UNTYPED where no value passes
# through.
STORE: Final = (
    "capacity: int >= 0 = 0",
    "memory_limit: int >= 0 = 0",
    "dtypes: list(type) >= 1",
    "container: string = ''",
    "shared_name: string = ''",
)
UNTYPED: Final = tuple(
    "dtypes: list(type)" if spec.startswith("dtypes") else spec for spec in STORE
)

for _op_type in ("MapClear", "OrderedMapClear", "StageClear"):
    register_op(_op_type, attrs=UNTYPED, stateful=True, shape=nothing)
for _op_type in (
    "MapIncompleteSize",
    "MapSize",
    "OrderedMapIncompleteSize",
    "OrderedMapSize",
    "StageSize",
):
    register_op(_op_type, outputs=("size: int32",), attrs=UNTYPED, stateful=True, shape=scalar)
for _op_type in ("MapPeek", "MapUnstage", "OrderedMapPeek", "OrderedMapUnstage"):
    register_op(
        _op_type,
        inputs=("key: int64", "indices: int32"),
        outputs=("values: dtypes",),
        attrs=STORE,
        stateful=True,
        shape=unknown,
        traits=BLOCKING,
    )
for _op_type in ("MapStage", "OrderedMapStage"):
    register_op(
        _op_type,
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
for _op_type in ("MapUnstageNoKey", "OrderedMapUnstageNoKey"):
    register_op(
        _op_type,
        inputs=("indices: int32",),
        outputs=("key: int64", "values: dtypes"),
        attrs=STORE,
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
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "Stage", inputs=("values: dtypes",), attrs=STORE, stateful=True, shape=nothing, traits=BLOCKING
)
register_op(
    "StagePeek",
    inputs=("index: int32",),
    outputs=("values: dtypes",),
    attrs=STORE,
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
register_op(
    "Unstage",
    outputs=("values: dtypes",),
    attrs=STORE,
    stateful=True,
    shape=unknown,
    traits=BLOCKING,
)
