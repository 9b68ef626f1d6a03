"""Declare checkpoints and files."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, nothing, scalar_inputs, unknown


def _save(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    (names,) = c.with_rank(1, 1)
    first = 2
    if c.op != "Save":
        (slices,) = c.with_rank(2, 1)
        c.merge_dim(names, slices)
        first = 3
    if names is not None:
        c.with_value(names, len(c.inputs) - first)
    return []


def _restore(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    (names,) = c.with_rank(1, 1)
    (slices,) = c.with_rank(2, 1)
    c.merge_dim(names, slices)
    return [None] * c.num_outputs


def _matching_files(c: ShapeContext) -> Shapes:
    c.with_rank_at_most(0, 1)
    return [(None,)]


def _merge_checkpoints(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    c.with_rank(1, 0)
    return []


register_op(
    "MatchingFiles",
    inputs=("pattern: string",),
    outputs=("filenames: string",),
    shape=_matching_files,
)
register_op(
    "MergeV2Checkpoints",
    inputs=("checkpoint_prefixes: string", "destination_prefix: string"),
    attrs=("delete_old_dirs: bool = true", "allow_missing_files: bool = false"),
    stateful=True,
    shape=_merge_checkpoints,
)
register_op(
    "ReadFile", inputs=("filename: string",), outputs=("contents: string",), shape=scalar_inputs
)
register_op(
    "Restore",
    inputs=("file_pattern: string", "tensor_name: string"),
    outputs=("tensor: dt",),
    attrs=("dt: type", "preferred_shard: int = -1"),
    stateful=True,
    shape=unknown,
)
register_op(
    "RestoreSlice",
    inputs=("file_pattern: string", "tensor_name: string", "shape_and_slice: string"),
    outputs=("tensor: dt",),
    attrs=("dt: type", "preferred_shard: int = -1"),
    stateful=True,
    shape=unknown,
)
register_op(
    "RestoreV2",
    inputs=("prefix: string", "tensor_names: string", "shape_and_slices: string"),
    outputs=("tensors: dtypes",),
    attrs=("dtypes: list(type) >= 1",),
    stateful=True,
    shape=_restore,
)
register_op(
    "Save",
    inputs=("filename: string", "tensor_names: string", "data: T"),
    attrs=("T: list(type) >= 1",),
    stateful=True,
    shape=_save,
)
register_op(
    "SaveSlices",
    inputs=("filename: string", "tensor_names: string", "shapes_and_slices: string", "data: T"),
    attrs=("T: list(type) >= 1",),
    stateful=True,
    shape=_save,
)
register_op(
    "SaveV2",
    inputs=(
        "prefix: string",
        "tensor_names: string",
        "shape_and_slices: string",
        "tensors: dtypes",
    ),
    attrs=("dtypes: list(type) >= 1",),
    stateful=True,
    shape=_save,
)
register_op(
    "ShardedFilename",
    inputs=("basename: string", "shard: int32", "num_shards: int32"),
    outputs=("filename: string",),
    shape=scalar_inputs,
)
register_op(
    "ShardedFilespec",
    inputs=("basename: string", "num_shards: int32"),
    outputs=("filename: string",),
    shape=scalar_inputs,
)
register_op(
    "WriteFile", inputs=("filename: string", "contents: string"), stateful=True, shape=nothing
)
