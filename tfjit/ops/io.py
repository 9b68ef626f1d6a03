"""Checkpoints and files."""

from __future__ import annotations

from tfjit.ops.declare import register_op

register_op("MatchingFiles", inputs=("pattern: string",), outputs=("filenames: string",))
register_op(
    "MergeV2Checkpoints",
    inputs=("checkpoint_prefixes: string", "destination_prefix: string"),
    attrs=("delete_old_dirs: bool = true", "allow_missing_files: bool = false"),
    stateful=True,
)
register_op("ReadFile", inputs=("filename: string",), outputs=("contents: string",))
register_op(
    "Restore",
    inputs=("file_pattern: string", "tensor_name: string"),
    outputs=("tensor: dt",),
    attrs=("dt: type", "preferred_shard: int = -1"),
    stateful=True,
)
register_op(
    "RestoreSlice",
    inputs=("file_pattern: string", "tensor_name: string", "shape_and_slice: string"),
    outputs=("tensor: dt",),
    attrs=("dt: type", "preferred_shard: int = -1"),
    stateful=True,
)
register_op(
    "RestoreV2",
    inputs=("prefix: string", "tensor_names: string", "shape_and_slices: string"),
    outputs=("tensors: dtypes",),
    attrs=("dtypes: list(type) >= 1",),
    stateful=True,
)
register_op("Save", inputs=("filename: string", "tensor_names: string", "data: T"), attrs=("T: list(type) >= 1",), stateful=True)
register_op(
    "SaveSlices",
    inputs=("filename: string", "tensor_names: string", "shapes_and_slices: string", "data: T"),
    attrs=("T: list(type) >= 1",),
    stateful=True,
)
register_op(
    "SaveV2",
    inputs=("prefix: string", "tensor_names: string", "shape_and_slices: string", "tensors: dtypes"),
    attrs=("dtypes: list(type) >= 1",),
    stateful=True,
)
register_op("ShardedFilename", inputs=("basename: string", "shard: int32", "num_shards: int32"), outputs=("filename: string",))
register_op("ShardedFilespec", inputs=("basename: string", "num_shards: int32"), outputs=("filename: string",))
register_op("WriteFile", inputs=("filename: string", "contents: string"), stateful=True)
