"""Declare parsing of SequenceExample messages."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes
from tfjit.ops.core.type_lists import INDEX


def _sparse(count: int, rank: int | None) -> list[Shape]:
    """Return the shapes of indices, values and dense shapes of sparse features."""
    return [*[(None, rank)] * count, *[(None,)] * count, *[(rank,)] * count]


def _parse_sequence_example(c: ShapeContext) -> Shapes:
    batch = c.with_rank(0, 1) if c.op == "ParseSequenceExample" else c.with_rank_at_most(0, 1)
    rank = None if batch is None else len(batch)
    frames = None if batch is None else (*batch, None)
    context = [c.concat(batch, shape.dims_tuple) for shape in c.attr("context_dense_shapes")]
    lists = [c.concat(frames, shape.dims_tuple) for shape in c.attr("feature_list_dense_shapes")]
    context_ragged: list[Shape] = []
    ragged: list[Shape] = []
    if c.op == "ParseSequenceExampleV2":
        splits: Shape = (c.add(batch[0], 1),) if batch else (None,)
        number = len(c.attr("context_ragged_value_types"))
        context_ragged = [*[(None,)] * number, *[(0,) if batch == () else splits] * number]
        number = len(c.attr("feature_list_ragged_value_types"))
        outer: Shape = (0,) if batch == () else splits
        ragged = [*[(None,)] * number, *[outer] * number, *[(None,)] * number]
    return [
        *_sparse(c.attr("Ncontext_sparse"), None if rank is None else rank + 1),
        *context,
        *context_ragged,
        *_sparse(c.attr("Nfeature_list_sparse"), None if rank is None else rank + 2),
        *lists,
        *[batch] * c.attr("Nfeature_list_dense"),
        *ragged,
    ]


def _parse_single_sequence_example(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    return [
        *_sparse(c.attr("Ncontext_sparse"), 1),
        *[shape.dims_tuple for shape in c.attr("context_dense_shapes")],
        *_sparse(c.attr("Nfeature_list_sparse"), 2),
        *[c.concat((None,), shape.dims_tuple) for shape in c.attr("feature_list_dense_shapes")],
    ]


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
    shape=_parse_sequence_example,
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
    shape=_parse_sequence_example,
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
    shape=_parse_single_sequence_example,
)
