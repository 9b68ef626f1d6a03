"""Declare strings."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape, format_shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, unchanged
from tfjit.ops.core.type_lists import INDEX


def _joined(c: ShapeContext) -> Shapes:
    """Infer the shape that all inputs but scalars have."""
    shapes = [c.inputs[k] for k in range(len(c.inputs)) if c.inputs[k] != ()]
    found: Shape = None if shapes else ()
    for shape in shapes:
        found = c.merge(found, shape)
    return [found]


def _matched(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    return [c.inputs[0]]


def _rewritten(c: ShapeContext) -> Shapes:
    c.with_rank(1, 0)
    c.with_rank(2, 0)
    return [c.inputs[0]]


def _ngrams(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    return [(None,), c.with_rank(1, 1)]


def _split(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    c.with_rank(1, 0)
    return [(None, 2), (None,), (2,)]


def _substr(c: ShapeContext) -> Shapes:
    text, start, size = c.inputs
    if start and start != size:
        raise fail(f"pos and len shapes must match: {format_shape(start)} vs. {format_shape(size)}")
    return [c.broadcast(start, text)]


register_op(
    "RegexFullMatch",
    inputs=("input: string", "pattern: string"),
    outputs=("output: bool",),
    shape=_matched,
)
register_op(
    "RegexReplace",
    inputs=("input: string", "pattern: string", "rewrite: string"),
    outputs=("output: string",),
    attrs=("replace_global: bool = true",),
    shape=_rewritten,
)
register_op(
    "StaticRegexFullMatch",
    inputs=("input: string",),
    outputs=("output: bool",),
    attrs=("pattern: string",),
    shape=unchanged,
)
register_op(
    "StaticRegexReplace",
    inputs=("input: string",),
    outputs=("output: string",),
    attrs=("pattern: string", "rewrite: string", "replace_global: bool = true"),
    shape=unchanged,
)
register_op(
    "StringJoin",
    inputs=("inputs: N * string",),
    outputs=("output: string",),
    attrs=("N: int >= 0", "separator: string = ''"),
    shape=_joined,
)
register_op(
    "StringLength",
    inputs=("input: string",),
    outputs=("output: int32",),
    attrs=("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",),
    shape=unchanged,
)
for _op_type in ("StringLower", "StringUpper"):
    register_op(
        _op_type,
        inputs=("input: string",),
        outputs=("output: string",),
        attrs=("encoding: string = ''",),
        shape=unchanged,
    )
register_op(
    "StringNGrams",
    inputs=("data: string", "data_splits: Tsplits"),
    outputs=("ngrams: string", "ngrams_splits: Tsplits"),
    attrs=(
        "separator: string",
        "ngram_widths: list(int) >= 0",
        "left_pad: string",
        "right_pad: string",
        "pad_width: int",
        "preserve_short_sequences: bool",
        f"Tsplits: {INDEX} = DT_INT64",
    ),
    shape=_ngrams,
)
register_op(
    "StringSplit",
    inputs=("input: string", "delimiter: string"),
    outputs=("indices: int64", "values: string", "shape: int64"),
    attrs=("skip_empty: bool = true",),
    shape=_split,
)
register_op(
    "StringSplitV2",
    inputs=("input: string", "sep: string"),
    outputs=("indices: int64", "values: string", "shape: int64"),
    attrs=("maxsplit: int = -1",),
    shape=_split,
)
register_op("StringStrip", inputs=("input: string",), outputs=("output: string",), shape=unchanged)
register_op(
    "Substr",
    inputs=("input: string", "pos: T", "len: T"),
    outputs=("output: string",),
    attrs=(f"T: {INDEX}", "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'"),
    shape=_substr,
)
