"""Columns of ids: given, hashed, crossed or weighted ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.features import VarLenFeature
from tfjit.client.data.parsing import string_to_hash_bucket_fast
from tfjit.client.data.sparse_tensors import SparseTensor, convert_to_tensor_or_sparse_tensor
from tfjit.client.feature_columns.columns import (
    CategoricalColumn,
    IdsAndWeights,
    check_key,
    check_number,
    check_same_kind,
    check_string_or_integer,
)
from tfjit.client.feature_columns.sparse_inputs import without_ignored
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.ops.core.apply import call, tensor

if TYPE_CHECKING:
    from tfjit.client.feature_columns.features import Features
    from tfjit.framework.graphs.typing import DenseOrSparse, Structure, TensorLike

_DEFAULT_KEY = 0xDECAFCAFFE


@dataclass(frozen=True)
class HashedCategoricalColumn(CategoricalColumn):
    """Ids that are hashes of strings, or of the digits of integers."""

    key: str
    hash_bucket_size: int
    dtype: DType

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def transform(self, features: Features) -> SparseTensor:
        given = without_ignored(features.get(self.key))
        check_string_or_integer(given.dtype, f"column_name: {self.key} input_tensor")
        check_same_kind(self.key, self.dtype, given.dtype)
        texts = given.values
        if self.dtype != dtypes.string:
            texts = tensor("AsString", None, input=texts)
        ids = string_to_hash_bucket_fast(texts, self.hash_bucket_size, name="lookup")
        return SparseTensor(given.indices, ids, given.dense_shape)


@dataclass(frozen=True)
class IdentityCategoricalColumn(CategoricalColumn):
    """Ids that the feature has itself."""

    key: str
    number_buckets: int
    default_value: int | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return {self.key: VarLenFeature(dtypes.int64)}

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    def transform(self, features: Features) -> SparseTensor:
        given = without_ignored(features.get(self.key))
        if not given.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {given.dtype}")
        ids = given.values
        if ids.dtype != dtypes.int64:
            ids = ops.cast(ids, dtypes.int64, name="values")
        if self.default_value is not None:
            ids = self._within_range(ops.cast(given.values, dtypes.int64, name="values"))
        return SparseTensor(given.indices, ids, given.dense_shape)

    def _within_range(self, ids: Tensor) -> Tensor:
        """Return the ids, the default for those out of range."""
        count = ops.cast(self.num_buckets, dtypes.int64, name="num_buckets")
        zero = ops.cast(0, dtypes.int64, name="zero")
        outside = ops.logical_or(ids < zero, ids >= count, name="out_of_range")
        sizes = ops.shape(ids)
        default = ops.cast(self.default_value, dtypes.int64)
        defaults = ops.fill(sizes, default, name="default_values")
        return tensor("SelectV2", None, condition=outside, t=defaults, e=ids)


@dataclass(frozen=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """Ids of a column, each with a weight that another feature has."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: DType

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        spec = self.categorical_column.parse_example_spec
        key = self.weight_feature_key
        if key in spec:
            raise ValueError(f"Parse config {spec[key]} already exists for {key}.")
        return {**spec, key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def transform(self, features: Features) -> tuple[SparseTensor, SparseTensor]:
        weights = self._weights(features.get(self.weight_feature_key))
        return features.get(self.categorical_column), weights

    def _weights(self, value: TensorLike) -> SparseTensor:
        found: DenseOrSparse = convert_to_tensor_or_sparse_tensor(value)
        if self.dtype != found.dtype.base_dtype:
            raise ValueError(f"Bad dtype, expected {self.dtype}, but got {found.dtype}.")
        sparse = without_ignored(found, 0.0)
        if sparse.dtype.is_floating:
            return sparse
        return sparse.with_values(ops.cast(sparse.values, dtypes.float32))

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        return IdsAndWeights(*features.get(self))


@dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """Ids that are hashes of a value of each crossed feature."""

    keys: tuple[str | CategoricalColumn, ...]
    hash_bucket_size: int
    hash_key: int | None

    @property
    def name(self) -> str:
        keys = self._leaves()
        return "_X_".join(sorted(key if isinstance(key, str) else key.name for key in keys))

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        spec: dict[str, Structure] = {}
        for key in self.keys:
            if isinstance(key, str):
                spec[key] = VarLenFeature(dtypes.string)
            else:
                spec.update(key.parse_example_spec)
        return spec

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def _leaves(self) -> Iterator[str | CategoricalColumn]:
        """Yield the crossed features and columns.

        An inner cross is replaced by its own.
        """
        for key in self.keys:
            if isinstance(key, CrossedColumn):
                yield from key._leaves()
            else:
                yield key

    def transform(self, features: Features) -> SparseTensor:
        crossed = []
        for key in self._leaves():
            if isinstance(key, str):
                crossed.append(features.get(key))
                continue
            ids, weights = key.sparse_tensors(features)
            if weights is not None:
                raise ValueError(
                    "crossed_column does not support weight_tensor, but the given column "
                    f"populates weight_tensor. Given column: {key.name}"
                )
            crossed.append(ids)
        return _crossed(crossed, self.hash_bucket_size, self.hash_key)


def _crossed(inputs: Sequence[DenseOrSparse], buckets: int, key: int | None) -> SparseTensor:
    """Return the hashed crosses of the rows of matrices."""
    sparse = [value for value in inputs if isinstance(value, SparseTensor)]
    texts_or_numbers = [value.values for value in sparse]
    tables = [value for value in inputs if not isinstance(value, SparseTensor)]
    kind = dtypes.string
    for values in (texts_or_numbers, tables):
        for k, value in enumerate(values):
            if value.dtype != dtypes.string:
                values[k], kind = ops.cast(value, dtypes.int64), dtypes.int64
    found = call(
        "SparseCross",
        None,
        indices=[value.indices for value in sparse],
        values=texts_or_numbers,
        shapes=[value.dense_shape for value in sparse],
        dense_inputs=tables,
        hashed_output=True,
        num_buckets=buckets,
        hash_key=key or _DEFAULT_KEY,
        out_type=dtypes.int64,
        internal_type=kind,
    )
    return SparseTensor(*found)


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: DType = dtypes.string
) -> HashedCategoricalColumn:
    """Return a column of strings or integers, hashed into buckets.

    The feature is sparse, or dense with "" and -1 for no value. Raises ValueError for less than one
    bucket, a key that is no string, another dtype.
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    check_key(key)
    check_string_or_integer(dtype, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, dtype)


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Return a column of integers below `num_buckets`, which are ids.

    default_value: the id of integers out of range; without it they are an error of the run that
    looks them up. Raises ValueError for less than one bucket, a default out of range, a key that is
    no string.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}"
        )
    check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


def weighted_categorical_column(
    categorical_column: CategoricalColumn,
    weight_feature_key: str,
    dtype: DType = dtypes.float32,
) -> WeightedCategoricalColumn:
    """Return a column whose ids have weights, those of another feature.

    dtype: of that feature. Raises ValueError for a dtype that is no number.
    """
    check_number(dtype, f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, dtype)


def crossed_column(
    keys: Sequence[str | CategoricalColumn], hash_bucket_size: int, hash_key: int | None = None
) -> CrossedColumn:
    """Return a column of the combinations of several features, hashed into buckets.

    keys: two or more names of features, or categorical columns that are not hashed themselves.
    hash_key: the start of the hash. Raises ValueError for less than one bucket or other keys.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, (str, CategoricalColumn)):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column "
                f"except HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before "
                "crossing will increase probability of collision. Instead, use the feature name "
                f"as a string. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
