"""Columns of sequences: each example has a value for each step.

`parse_example` and `linear_model` take them; `input_layer` refuses them, since its rows are
examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.features import VarLenFeature
from tfjit.client.data.sparse_steps import reshaped
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.feature_columns.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
)
from tfjit.client.feature_columns.columns import (
    AnyColumn,
    CategoricalColumn,
    IdsAndWeights,
    check_number,
)
from tfjit.client.feature_columns.numeric import check_normalizer, check_shape
from tfjit.client.feature_columns.vocabulary import (
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.client.feature_columns.features import Features
    from tfjit.framework.graphs.typing import DenseOrSparse, Structure


@dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn):
    """The ids of a column, for each step of an example."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def transform(self, features: Features) -> DenseOrSparse | tuple[SparseTensor, SparseTensor]:
        return self.categorical_column.transform(features)

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        """Return ids and weights as [batch, steps, ids of a step]."""
        ids, weights = self.categorical_column.sparse_tensors(features)
        sizes = ops.shape(ids)
        wanted = [sizes[0], sizes[1], ops.reduce_prod(sizes[2:])]
        found = reshaped(ids, wanted)
        return IdsAndWeights(found, None if weights is None else reshaped(weights, wanted))


@dataclass(frozen=True)
class SequenceNumericColumn(AnyColumn):
    """Numbers, `shape` for each step of an example."""

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: DType
    normalizer_fn: Callable[[Tensor], Tensor] | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> TensorShape:
        """Shape of one step."""
        return TensorShape(self.shape)


def refuse_sequence(kind: str, name: str, column: CategoricalColumn) -> None:
    """Raise ValueError for a column of sequences below a dense one."""
    if isinstance(column, SequenceCategoricalColumn):
        raise ValueError(
            f"In {kind}: {name}. categorical_column must not be of type _SequenceCategoricalColumn."
            " Suggested fix A: If you wish to use DenseFeatures, use a non-sequence "
            "categorical_column_with_*. Suggested fix B: If you wish to create sequence input, use "
            f"SequenceFeatures instead of DenseFeatures. Given (type {type(column)}): {column}"
        )


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_identity` of sequences."""
    return SequenceCategoricalColumn(
        categorical_column_with_identity(key, num_buckets, default_value)
    )


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: DType = dtypes.string
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_hash_bucket` of sequences."""
    return SequenceCategoricalColumn(
        categorical_column_with_hash_bucket(key, hash_bucket_size, dtype)
    )


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: DType = dtypes.string,
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_vocabulary_file` of sequences."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[str | bytes | int],
    dtype: DType | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> SequenceCategoricalColumn:
    """Return `categorical_column_with_vocabulary_list` of sequences."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_list(
            key, vocabulary_list, dtype, default_value, num_oov_buckets
        )
    )


def sequence_numeric_column(
    key: str,
    shape: int | Iterable[int] = (1,),
    default_value: float = 0.0,
    dtype: DType = dtypes.float32,
    normalizer_fn: Callable[[Tensor], Tensor] | None = None,
) -> SequenceNumericColumn:
    """Return a column of sequences of numbers.

    shape: of a step. default_value: fills shorter sequences up. Raises TypeError and ValueError as
    `numeric_column` does.
    """
    sizes = check_shape(shape, key)
    check_number(dtype, f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    check_normalizer(normalizer_fn)
    return SequenceNumericColumn(key, sizes, default_value, dtype, normalizer_fn)
