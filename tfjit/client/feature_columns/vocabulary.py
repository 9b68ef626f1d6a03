"""Columns of ids that are places in a vocabulary."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.data.features import VarLenFeature
from tfjit.client.data.lookup_tables import (
    BucketedTable,
    StaticHashTable,
    index_table_from_file,
    index_table_from_tensor,
)
from tfjit.client.feature_columns.columns import (
    CategoricalColumn,
    check_key,
    check_same_kind,
    check_string_or_integer,
)
from tfjit.client.feature_columns.sparse_inputs import without_ignored
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype

if TYPE_CHECKING:
    from tfjit.client.feature_columns.features import Features
    from tfjit.framework.graphs.typing import DenseOrSparse, Structure


class _VocabularyColumn(CategoricalColumn):
    """A column whose ids a table finds."""

    key: str
    dtype: DType

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return {self.key: VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> DenseOrSparse:
        given = without_ignored(features.get(self.key))
        check_same_kind(self.key, self.dtype, given.dtype)
        check_string_or_integer(given.dtype, f"column_name: {self.key} input_tensor")
        kind = self.dtype
        if given.dtype.is_integer:
            kind = dtypes.int64
            given = ops.cast(given, dtypes.int64)
        return self._table(kind, f"{self.key}_lookup").lookup(given)

    def _table(self, kind: DType, name: str) -> StaticHashTable | BucketedTable:
        raise NotImplementedError


@dataclass(frozen=True)
class VocabularyFileCategoricalColumn(_VocabularyColumn):
    """Ids that are the numbers of a file's lines."""

    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: DType
    default_value: int
    file_format: str | None = None

    @property
    def num_buckets(self) -> int:
        return self.vocabulary_size + self.num_oov_buckets

    def _table(self, kind: DType, name: str) -> StaticHashTable | BucketedTable:
        return index_table_from_file(
            self.vocabulary_file,
            self.num_oov_buckets,
            self.vocabulary_size,
            self.default_value,
            kind,
            name,
        )


@dataclass(frozen=True)
class VocabularyListCategoricalColumn(_VocabularyColumn):
    """Ids that are places in a list."""

    key: str
    vocabulary_list: tuple[str | bytes | int, ...]
    dtype: DType
    default_value: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    def _table(self, kind: DType, name: str) -> StaticHashTable | BucketedTable:
        return index_table_from_tensor(
            self.vocabulary_list, self.num_oov_buckets, self.default_value, kind, name
        )


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: DType = dtypes.string,
) -> VocabularyFileCategoricalColumn:
    """Return a column whose ids are the numbers of a file's lines.

    vocabulary_size: number of lines that count, by default all. Other values get one of
    `num_oov_buckets` ids by their hash, else default_value, -1 where it is None. Raises ValueError
    for a missing or empty file, both of these arguments, another dtype, a key that is no string;
    NotImplementedError for a file whose name ends in "tfrecord.gz".
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_file.endswith("tfrecord.gz"):
        raise NotImplementedError(f"vocabulary_file of records in {key}: {vocabulary_file}")
    if vocabulary_size is None:
        if not os.path.exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with open(vocabulary_file, "rb") as lines:
            vocabulary_size = sum(1 for _ in lines)
    if vocabulary_size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_buckets(key, num_oov_buckets, default_value is not None)
    check_string_or_integer(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyFileCategoricalColumn(
        key,
        vocabulary_file,
        vocabulary_size,
        num_oov_buckets or 0,
        dtype,
        -1 if default_value is None else default_value,
    )


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[str | bytes | int],
    dtype: DType | None = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListCategoricalColumn:
    """Return a column whose ids are places in a list.

    Other values get one of `num_oov_buckets` ids by their hash, else default_value. dtype: that of
    the list by default. Raises ValueError for an empty list or equal members, both a default and
    buckets, dtypes that do not fit, a key that is no string.
    """
    if vocabulary_list is None or len(vocabulary_list) < 1:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    own = as_dtype(np.array(vocabulary_list).dtype)
    _check_buckets(key, num_oov_buckets, default_value != -1)
    check_string_or_integer(own, f"column_name: {key} vocabulary")
    if dtype is None:
        dtype = own
    elif dtype.is_integer != own.is_integer:
        raise ValueError(
            f"dtype {dtype} and vocabulary dtype {own} do not match, column_name: {key}"
        )
    check_string_or_integer(dtype, f"column_name: {key}")
    check_key(key)
    return VocabularyListCategoricalColumn(
        key, tuple(vocabulary_list), dtype, default_value, num_oov_buckets
    )


def _check_buckets(key: str, buckets: int | None, has_default: bool) -> None:
    if buckets and has_default:
        raise ValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if buckets and buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {buckets} in {key}.")
