"""The namespace `tfjit.feature_column`."""

from __future__ import annotations

from tfjit.client.feature_columns.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    crossed_column,
    weighted_categorical_column,
)
from tfjit.client.feature_columns.embedding import embedding_column, shared_embedding_columns
from tfjit.client.feature_columns.indicator import indicator_column
from tfjit.client.feature_columns.models import (
    input_layer,
    linear_model,
    make_parse_example_spec,
)
from tfjit.client.feature_columns.numeric import bucketized_column, numeric_column
from tfjit.client.feature_columns.sequence import (
    sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column,
)
from tfjit.client.feature_columns.vocabulary import (
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)

__all__ = [
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "crossed_column",
    "embedding_column",
    "indicator_column",
    "input_layer",
    "linear_model",
    "make_parse_example_spec",
    "numeric_column",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column",
    "shared_embedding_columns",
    "weighted_categorical_column",
]


def __dir__() -> list[str]:
    return __all__
