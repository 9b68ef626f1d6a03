"""Declare fields of protocol buffer messages."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes


def _decoded(c: ShapeContext) -> Shapes:
    batch, count = c.inputs[0], len(c.attr("output_types"))
    if batch is None:
        return [None] * (count + 1)
    return [(*batch, count), *[(*batch, None)] * count]


def _encoded(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    batch = c.subshape(shape, 0, -1)
    for value in c.inputs[1:]:
        batch = c.merge(batch, c.subshape(c.with_rank_at_least(value, 2), 0, -1))
    return [batch]


register_op(
    "DecodeProtoV2",
    inputs=("bytes: string",),
    outputs=("sizes: int32", "values: output_types"),
    attrs=(
        "message_type: string",
        "field_names: list(string)",
        "output_types: list(type) >= 0",
        "descriptor_source: string = 'local://'",
        "message_format: string = 'binary'",
        "sanitize: bool = false",
    ),
    shape=_decoded,
)
register_op(
    "EncodeProto",
    inputs=("sizes: int32", "values: Tinput_types"),
    outputs=("bytes: string",),
    attrs=(
        "field_names: list(string)",
        "message_type: string",
        "descriptor_source: string = 'local://'",
        "Tinput_types: list(type) >= 1",
    ),
    shape=_encoded,
)
