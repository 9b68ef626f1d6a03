"""Declare parsing, decoding and encoding of records."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.records.csv_defaults import check_defaults


def _decode_csv(c: ShapeContext) -> Shapes:
    check_defaults(list(c.inputs)[1:])
    return [c.inputs[0]] * c.num_outputs


def _decode_raw(c: ShapeContext) -> Shapes:
    return [c.concat(c.inputs[0], (None,))]


def _dense_shapes(c: ShapeContext, batch: Shape) -> list[Shape]:
    return [c.concat(batch, shape.dims_tuple) for shape in c.attr("dense_shapes")]


def _parse_example(c: ShapeContext) -> Shapes:
    batch = c.inputs[0]
    if c.op == "ParseExample":
        batch = c.with_rank(0, 1)
        count = len(c.attr("sparse_types"))
    else:
        count = c.attr("num_sparse")
        batch = c.with_rank_at_most(0, 1)
    rank = None if batch is None else len(batch) + 1
    sparse: list[Shape] = [(None, rank)] * count + [(None,)] * count + [(rank,)] * count
    ragged: list[Shape] = []
    if c.op == "ParseExampleV2":
        splits = None if batch is None else () if not batch else (c.add(batch[0], 1),)
        number = len(c.attr("ragged_value_types"))
        ragged = [(None,)] * number + [
            (0,) if splits == () else (None,) if splits is None else splits
        ] * number
    return [*sparse, *_dense_shapes(c, batch), *ragged]


def _parse_single_example(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    count = c.attr("num_sparse")
    return [*([(None, 1)] * count), *([(None,)] * count), *([(1,)] * count), *_dense_shapes(c, ())]


register_op(
    "DecodeCSV",
    inputs=("records: string", "record_defaults: OUT_TYPE"),
    outputs=("output: OUT_TYPE",),
    attrs=(
        "OUT_TYPE: list({float, double, int32, int64, string}) >= 1",
        "field_delim: string = ','",
        "use_quote_delim: bool = true",
        "na_value: string = ''",
        "select_cols: list(int) = []",
    ),
    shape=_decode_csv,
)
register_op(
    "DecodeRaw",
    inputs=("bytes: string",),
    outputs=("output: out_type",),
    attrs=(
        (
            "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, "
            "complex128, bool, bfloat16}"
        ),
        "little_endian: bool = true",
    ),
    shape=_decode_raw,
)
register_op(
    "ParseExample",
    inputs=(
        "serialized: string",
        "names: string",
        "sparse_keys: Nsparse * string",
        "dense_keys: Ndense * string",
        "dense_defaults: Tdense",
    ),
    outputs=(
        "sparse_indices: Nsparse * int64",
        "sparse_values: sparse_types",
        "sparse_shapes: Nsparse * int64",
        "dense_values: Tdense",
    ),
    attrs=(
        "Nsparse: int >= 0",
        "Ndense: int >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "Tdense: list({float, int64, string}) >= 0",
        "dense_shapes: list(shape) >= 0",
    ),
    shape=_parse_example,
)
register_op(
    "ParseExampleV2",
    inputs=(
        "serialized: string",
        "names: string",
        "sparse_keys: string",
        "dense_keys: string",
        "ragged_keys: string",
        "dense_defaults: Tdense",
    ),
    outputs=(
        "sparse_indices: num_sparse * int64",
        "sparse_values: sparse_types",
        "sparse_shapes: num_sparse * int64",
        "dense_values: Tdense",
        "ragged_values: ragged_value_types",
        "ragged_row_splits: ragged_split_types",
    ),
    attrs=(
        "Tdense: list({float, int64, string}) >= 0",
        "num_sparse: int >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "ragged_value_types: list({float, int64, string}) >= 0",
        f"ragged_split_types: list({INDEX}) >= 0",
        "dense_shapes: list(shape) >= 0",
    ),
    shape=_parse_example,
)
register_op(
    "ParseSingleExample",
    inputs=("serialized: string", "dense_defaults: Tdense"),
    outputs=(
        "sparse_indices: num_sparse * int64",
        "sparse_values: sparse_types",
        "sparse_shapes: num_sparse * int64",
        "dense_values: Tdense",
    ),
    attrs=(
        "num_sparse: int >= 0",
        "sparse_keys: list(string) >= 0",
        "dense_keys: list(string) >= 0",
        "sparse_types: list({float, int64, string}) >= 0",
        "Tdense: list({float, int64, string}) >= 0",
        "dense_shapes: list(shape) >= 0",
    ),
    shape=_parse_single_example,
)
