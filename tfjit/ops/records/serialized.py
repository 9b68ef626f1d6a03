"""Declare serialized and compressed messages."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, int_constant, scalar, unchanged


def _padded_raw(c: ShapeContext) -> Shapes:
    length = int_constant(c, 1)
    if length is None:
        return [c.concat(c.inputs[0], (None,))]
    size = c.attr("out_type").size
    if length % size:
        raise fail(f"fixed_length ({length}) must be a multiple of the size of out_type ({size})")
    return [c.concat(c.inputs[0], (length // size,))]


register_op(
    "DecodeCompressed",
    inputs=("bytes: string",),
    outputs=("output: string",),
    attrs=("compression_type: string = ''",),
    shape=unchanged,
)
register_op(
    "DecodeJSONExample",
    inputs=("json_examples: string",),
    outputs=("binary_examples: string",),
    shape=unchanged,
)
register_op(
    "DecodePaddedRaw",
    inputs=("input_bytes: string", "fixed_length: int32"),
    outputs=("output: out_type",),
    attrs=(
        "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}",
        "little_endian: bool = true",
    ),
    shape=_padded_raw,
)
register_op(
    "ParseTensor",
    inputs=("serialized: string",),
    outputs=("output: out_type",),
    attrs=("out_type: type",),
)
register_op(
    "SerializeTensor",
    inputs=("tensor: T",),
    outputs=("serialized: string",),
    attrs=("T: type",),
    shape=scalar,
)
