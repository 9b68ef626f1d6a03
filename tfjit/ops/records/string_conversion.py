"""Declare strings of values and values of strings."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import scalar, unchanged

register_op("DecodeBase64", inputs=("input: string",), outputs=("output: string",), shape=unchanged)
register_op(
    "EncodeBase64",
    inputs=("input: string",),
    outputs=("output: string",),
    attrs=("pad: bool = false",),
    shape=unchanged,
)
register_op(
    "AsString",
    inputs=("input: T",),
    outputs=("output: string",),
    attrs=(
        "T: {realnumbertype, complex64, complex128, bool, variant, string}",
        "precision: int = -1",
        "scientific: bool = false",
        "shortest: bool = false",
        "width: int = -1",
        "fill: string = ''",
    ),
    shape=unchanged,
)
register_op(
    "StringFormat",
    inputs=("inputs: T",),
    outputs=("output: string",),
    attrs=(
        "T: list(type) >= 0",
        "template: string = '%s'",
        "placeholder: string = '%s'",
        "summarize: int = 3",
    ),
    shape=scalar,
)
register_op(
    "StringToNumber",
    inputs=("string_tensor: string",),
    outputs=("output: out_type",),
    attrs=("out_type: {float, double, int32, int64, uint32, uint64} = DT_FLOAT",),
    shape=unchanged,
)
