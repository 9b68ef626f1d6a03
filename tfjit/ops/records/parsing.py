"""Declare parsing, decoding and encoding of records."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail
from tfjit.ops.core.type_lists import INDEX


def _decode_csv(c: ShapeContext) -> Shapes:
    for default in c.inputs[1:]:
        if default is not None and (
            len(default) > 1 or (len(default) == 1 and default[0] is not None and default[0] > 1)
        ):
            raise fail("Shape of a default must be a length-0 or length-1 vector, or a scalar.")
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
    "ParseSequenceExample",
    inputs=("serialized: string", "debug_name: string", "context_dense_defaults: Tcontext_dense"),
    outputs=(
        "context_sparse_indices: Ncontext_sparse * int64",
        "context_sparse_values: context_sparse_types",
        "context_sparse_shapes: Ncontext_sparse * int64",
        "context_dense_values: Tcontext_dense",
        "feature_list_sparse_indices: Nfeature_list_sparse * int64",
        "feature_list_sparse_values: feature_list_sparse_types",
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64",
        "feature_list_dense_values: feature_list_dense_types",
        "feature_list_dense_lengths: Nfeature_list_dense * int64",
    ),
    attrs=(
        "feature_list_dense_missing_assumed_empty: list(string) >= 0",
        "context_sparse_keys: list(string) >= 0",
        "context_dense_keys: list(string) >= 0",
        "feature_list_sparse_keys: list(string) >= 0",
        "feature_list_dense_keys: list(string) >= 0",
        "Ncontext_sparse: int >= 0 = 0",
        "Ncontext_dense: int >= 0 = 0",
        "Nfeature_list_sparse: int >= 0 = 0",
        "Nfeature_list_dense: int >= 0 = 0",
        "context_sparse_types: list({float, int64, string}) >= 0 = []",
        "Tcontext_dense: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_types: list({float, int64, string}) >= 0 = []",
        "context_dense_shapes: list(shape) >= 0 = []",
        "feature_list_sparse_types: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_shapes: list(shape) >= 0 = []",
    ),
)
register_op(
    "ParseSequenceExampleV2",
    inputs=(
        "serialized: string",
        "debug_name: string",
        "context_sparse_keys: string",
        "context_dense_keys: string",
        "context_ragged_keys: string",
        "feature_list_sparse_keys: string",
        "feature_list_dense_keys: string",
        "feature_list_ragged_keys: string",
        "feature_list_dense_missing_assumed_empty: bool",
        "context_dense_defaults: Tcontext_dense",
    ),
    outputs=(
        "context_sparse_indices: Ncontext_sparse * int64",
        "context_sparse_values: context_sparse_types",
        "context_sparse_shapes: Ncontext_sparse * int64",
        "context_dense_values: Tcontext_dense",
        "context_ragged_values: context_ragged_value_types",
        "context_ragged_row_splits: context_ragged_split_types",
        "feature_list_sparse_indices: Nfeature_list_sparse * int64",
        "feature_list_sparse_values: feature_list_sparse_types",
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64",
        "feature_list_dense_values: feature_list_dense_types",
        "feature_list_dense_lengths: Nfeature_list_dense * int64",
        "feature_list_ragged_values: feature_list_ragged_value_types",
        "feature_list_ragged_outer_splits: feature_list_ragged_split_types",
        "feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    ),
    attrs=(
        "Ncontext_sparse: int >= 0 = 0",
        "Tcontext_dense: list({float, int64, string}) >= 0 = []",
        "context_sparse_types: list({float, int64, string}) >= 0 = []",
        "context_ragged_value_types: list({float, int64, string}) >= 0 = []",
        f"context_ragged_split_types: list({INDEX}) >= 0 = []",
        "context_dense_shapes: list(shape) >= 0 = []",
        "Nfeature_list_sparse: int >= 0 = 0",
        "Nfeature_list_dense: int >= 0 = 0",
        "feature_list_dense_types: list({float, int64, string}) >= 0 = []",
        "feature_list_sparse_types: list({float, int64, string}) >= 0 = []",
        "feature_list_ragged_value_types: list({float, int64, string}) >= 0 = []",
        f"feature_list_ragged_split_types: list({INDEX}) >= 0 = []",
        "feature_list_dense_shapes: list(shape) >= 0 = []",
    ),
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
register_op(
    "ParseSingleSequenceExample",
    inputs=(
        "serialized: string",
        "feature_list_dense_missing_assumed_empty: string",
        "context_sparse_keys: Ncontext_sparse * string",
        "context_dense_keys: Ncontext_dense * string",
        "feature_list_sparse_keys: Nfeature_list_sparse * string",
        "feature_list_dense_keys: Nfeature_list_dense * string",
        "context_dense_defaults: Tcontext_dense",
        "debug_name: string",
    ),
    outputs=(
        "context_sparse_indices: Ncontext_sparse * int64",
        "context_sparse_values: context_sparse_types",
        "context_sparse_shapes: Ncontext_sparse * int64",
        "context_dense_values: Tcontext_dense",
        "feature_list_sparse_indices: Nfeature_list_sparse * int64",
        "feature_list_sparse_values: feature_list_sparse_types",
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64",
        "feature_list_dense_values: feature_list_dense_types",
    ),
    attrs=(
        "Ncontext_sparse: int >= 0 = 0",
        "Ncontext_dense: int >= 0 = 0",
        "Nfeature_list_sparse: int >= 0 = 0",
        "Nfeature_list_dense: int >= 0 = 0",
        "context_sparse_types: list({float, int64, string}) >= 0 = []",
        "Tcontext_dense: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_types: list({float, int64, string}) >= 0 = []",
        "context_dense_shapes: list(shape) >= 0 = []",
        "feature_list_sparse_types: list({float, int64, string}) >= 0 = []",
        "feature_list_dense_shapes: list(shape) >= 0 = []",
    ),
)
