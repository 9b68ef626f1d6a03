"""Declare tensor maps: values in variants, by key."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import scalar, unknown

register_op("EmptyTensorMap", outputs=("handle: variant",), shape=scalar)
register_op(
    "TensorMapErase",
    inputs=("input_handle: variant", "key: key_dtype"),
    outputs=("output_handle: variant",),
    attrs=("key_dtype: type", "value_dtype: type"),
    shape=scalar,
)
register_op(
    "TensorMapHasKey",
    inputs=("input_handle: variant", "key: key_dtype"),
    outputs=("has_key: bool",),
    attrs=("key_dtype: type",),
    shape=scalar,
)
register_op(
    "TensorMapInsert",
    inputs=("input_handle: variant", "key: key_dtype", "value: value_dtype"),
    outputs=("output_handle: variant",),
    attrs=("key_dtype: type", "value_dtype: type"),
    shape=scalar,
)
register_op(
    "TensorMapLookup",
    inputs=("input_handle: variant", "key: key_dtype"),
    outputs=("value: value_dtype",),
    attrs=("key_dtype: type", "value_dtype: type"),
    shape=unknown,
)
register_op(
    "TensorMapSize", inputs=("input_handle: variant",), outputs=("size: int32",), shape=scalar
)
register_op(
    "TensorMapStackKeys",
    inputs=("input_handle: variant",),
    outputs=("keys: key_dtype",),
    attrs=("key_dtype: type",),
    shape=unknown,
)
