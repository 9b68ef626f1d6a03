"""Nodes that parse Example and SequenceExample messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit import ops
from tfjit.client.data.features import (
    FeatureParams,
    FixedLenFeature,
    FixedLenSequenceFeature,
    Parsed,
    SparseFeature,
    VarLenFeature,
    sparse_tensors,
    strings,
    with_merged,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.apply import create
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

KINDS = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)


def parse_example(
    serialized: TensorLike,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: object = None,
) -> Parsed:
    """Return the features of a vector of serialized Example messages, by key.

    features: FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or SparseFeature by key; the
    last two give a SparseTensor. Raises ValueError for other kinds.
    """
    if not features:
        raise ValueError(f"Argument `features` cannot be None or falsy. Got {features}")
    params = FeatureParams(with_unknown_rows(features), KINDS)
    with name_scope(name, "ParseExample", [serialized, example_names]):
        made = create(
            "ParseExampleV2",
            name,
            serialized=convert_to_tensor(serialized, dtype=dtypes.string, name="serialized"),
            names=example_names if example_names is not None else np.array([], object),
            sparse_keys=strings(params.sparse),
            dense_keys=strings(params.dense_keys),
            ragged_keys=np.array([], object),
            dense_defaults=params.default_tensors(),
            Tdense=params.dense_types,
            num_sparse=len(params.sparse),
            sparse_types=list(params.sparse.values()),
            ragged_value_types=[],
            ragged_split_types=[],
            dense_shapes=params.dense_shapes,
        )
        found = sparse_tensors(params.sparse, made.outputs)
        found.update(zip(params.dense_keys, made.outputs[3 * len(params.sparse) :], strict=True))
    return with_merged(features, found)


def with_unknown_rows(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return features with None in front of the shapes of sequences.

    Raises ValueError for a sequence that must not be missing.
    """
    found = dict(features)
    for key, feature in features.items():
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError(
                    "Unsupported: FixedLenSequenceFeature requires allow_missing to be True."
                )
            found[key] = feature._replace(shape=[None, *feature.shape])
    return found


def parse_single_example(
    serialized: TensorLike,
    features: Mapping[str, object],
    name: str | None = None,
    example_names: object = None,
) -> Parsed:
    """Parse one serialized message as `parse_example` does.

    Tensors have no first dimension. Raises ValueError for an input that is no scalar.
    """
    if not features:
        given = "None" if features is None else "empty"
        raise ValueError(f"Invalid argument: features cannot be {given}.")
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        return parse_example(_scalar(serialized), features, name, example_names)


def _scalar(serialized: TensorLike) -> Tensor:
    """Return a message as a tensor that is a scalar.

    An assertion checks one of unknown rank."""
    text = convert_to_tensor(serialized, dtype=dtypes.string, name="serialized")
    if text.shape.rank:
        raise ValueError("Input serialized must be a scalar")
    if text.shape.rank == 0:
        return text
    check = ops.Assert(
        ops.equal(ops.rank(text), 0),
        ["Input serialized must be a scalar"],
        name="SerializedIsScalar",
    )
    checked = with_dependencies([check], text, name="serializedDependencies")
    checked.set_shape([])
    return checked


def parse_sequence_example(
    serialized: TensorLike,
    context_features: Mapping[str, object] | None = None,
    sequence_features: Mapping[str, object] | None = None,
    example_names: object = None,
    name: str | None = None,
) -> tuple[Parsed, Parsed, dict[str, Tensor]]:
    """Return the features of a vector of serialized SequenceExample messages, by key.

    context_features: FixedLenFeature or VarLenFeature. sequence_features: FixedLenSequenceFeature,
    which gives [messages, most frames, *shape], or VarLenFeature, which gives a SparseTensor of
    [messages, most frames, most values]. Returns context, sequences, and the numbers of frames of
    dense sequences, int64 [messages]. Raises ValueError for other kinds, and without features.
    """
    if not (context_features or sequence_features):
        raise ValueError(
            "Both `context_features` and `sequence_features` argument are None, but at least one "
            "should have values."
        )
    params = _sequence_params(context_features, sequence_features)
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        return _parse_sequences(serialized, example_names, *params, name)


def parse_single_sequence_example(
    serialized: TensorLike,
    context_features: Mapping[str, object] | None = None,
    sequence_features: Mapping[str, object] | None = None,
    example_name: object = None,
    name: str | None = None,
) -> tuple[Parsed, Parsed]:
    """Parse one message as `parse_sequence_example` does.

    Tensors have no dimension for messages, and there are no lengths. Raises ValueError for an input
    that is no scalar.
    """
    if not (context_features or sequence_features):
        raise ValueError(
            "Both context_features and sequence_features are None, but at least one should have "
            "values."
        )
    params = _sequence_params(context_features, sequence_features)
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        with name_scope(name, "ParseSingleExample", [serialized, example_name]):
            text = _scalar(serialized)
        context, sequences, _ = _parse_sequences(text, example_name, *params, name)
    return context, sequences


def _sequence_params(
    context: Mapping[str, object] | None, sequences: Mapping[str, object] | None
) -> tuple[FeatureParams, FeatureParams]:
    return (
        FeatureParams(context, (VarLenFeature, FixedLenFeature)),
        FeatureParams(sequences, (VarLenFeature, FixedLenSequenceFeature)),
    )


def _parse_sequences(
    serialized: TensorLike,
    names: object,
    context: FeatureParams,
    lists: FeatureParams,
    name: str | None,
) -> tuple[Parsed, Parsed, dict[str, Tensor]]:
    with name_scope(name, "ParseSequenceExample", [serialized]):
        for key, value in lists.defaults.items():
            if value is not None:
                raise ValueError(f"Value feature_list.dense_defaults[{key}] must be None")
        made = create(
            "ParseSequenceExampleV2",
            name,
            serialized=convert_to_tensor(serialized, name="serialized"),
            debug_name=np.array([], object) if names is None else names,
            context_sparse_keys=strings(context.sparse),
            context_dense_keys=strings(context.dense_keys),
            context_ragged_keys=np.array([], object),
            feature_list_sparse_keys=strings(lists.sparse),
            feature_list_dense_keys=strings(lists.dense_keys),
            feature_list_ragged_keys=np.array([], object),
            feature_list_dense_missing_assumed_empty=np.array(
                [key in lists.defaults for key in lists.dense_keys], np.bool_
            ),
            context_dense_defaults=context.default_tensors(),
            Ncontext_sparse=len(context.sparse),
            Tcontext_dense=context.dense_types,
            context_sparse_types=list(context.sparse.values()),
            context_ragged_value_types=[],
            context_ragged_split_types=[],
            context_dense_shapes=context.dense_shapes,
            Nfeature_list_sparse=len(lists.sparse),
            Nfeature_list_dense=len(lists.dense_keys),
            feature_list_dense_types=lists.dense_types,
            feature_list_sparse_types=list(lists.sparse.values()),
            feature_list_ragged_value_types=[],
            feature_list_ragged_split_types=[],
            feature_list_dense_shapes=lists.dense_shapes,
        )
    outputs = made.outputs
    found = sparse_tensors(context.sparse, outputs)
    at = 3 * len(context.sparse)
    found.update(zip(context.dense_keys, outputs[at:], strict=False))
    outputs = outputs[at + len(context.dense_keys) :]
    sequences = sparse_tensors(lists.sparse, outputs)
    outputs = outputs[3 * len(lists.sparse) :]
    sequences.update(zip(lists.dense_keys, outputs, strict=False))
    lengths = dict(zip(lists.dense_keys, outputs[len(lists.dense_keys) :], strict=True))
    return found, sequences, lengths
