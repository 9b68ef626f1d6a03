"""Declare Unicode strings: decoding, encoding, scripts."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, product, unchanged
from tfjit.ops.core.type_lists import INDEX


def _decoded(c: ShapeContext) -> Shapes:
    """Infer the shape of row splits: one more than there are strings."""
    strings = c.inputs[0]
    count = None if strings is None else product(strings)
    return [(None if count is None else count + 1,), *[(None,)] * (c.num_outputs - 1)]


def _encoded(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    return [(c.subtract(c.with_rank(1, 1)[0], 1),)]


register_op(
    "UnicodeDecode",
    inputs=("input: string",),
    outputs=("row_splits: Tsplits", "char_values: int32"),
    attrs=(
        "input_encoding: string",
        "errors: {'strict', 'replace', 'ignore'} = 'replace'",
        "replacement_char: int = 65533",
        "replace_control_characters: bool = false",
        f"Tsplits: {INDEX} = DT_INT64",
    ),
    shape=_decoded,
)
register_op(
    "UnicodeDecodeWithOffsets",
    inputs=("input: string",),
    outputs=("row_splits: Tsplits", "char_values: int32", "char_to_byte_starts: int64"),
    attrs=(
        "input_encoding: string",
        "errors: {'strict', 'replace', 'ignore'} = 'replace'",
        "replacement_char: int = 65533",
        "replace_control_characters: bool = false",
        f"Tsplits: {INDEX} = DT_INT64",
    ),
    shape=_decoded,
)
register_op(
    "UnicodeEncode",
    inputs=("input_values: int32", "input_splits: Tsplits"),
    outputs=("output: string",),
    attrs=(
        "errors: {'ignore', 'replace', 'strict'} = 'replace'",
        "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}",
        "replacement_char: int = 65533",
        f"Tsplits: {INDEX} = DT_INT64",
    ),
    shape=_encoded,
)
register_op("UnicodeScript", inputs=("input: int32",), outputs=("output: int32",), shape=unchanged)
register_op(
    "UnicodeTranscode",
    inputs=("input: string",),
    outputs=("output: string",),
    attrs=(
        "input_encoding: string",
        "output_encoding: {'UTF-8', 'UTF-16-BE', 'UTF-32-BE'}",
        "errors: {'strict', 'replace', 'ignore'} = 'replace'",
        "replacement_char: int = 65533",
        "replace_control_characters: bool = false",
    ),
    shape=unchanged,
)
