"""Declare hash buckets of strings."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import unchanged

register_op(
    "StringToHashBucket",
    inputs=("string_tensor: string",),
    outputs=("output: int64",),
    attrs=("num_buckets: int >= 1",),
    shape=unchanged,
)
register_op(
    "StringToHashBucketFast",
    inputs=("input: string",),
    outputs=("output: int64",),
    attrs=("num_buckets: int >= 1",),
    shape=unchanged,
)
register_op(
    "StringToHashBucketStrong",
    inputs=("input: string",),
    outputs=("output: int64",),
    attrs=("num_buckets: int >= 1", "key: list(int)"),
    shape=unchanged,
)
