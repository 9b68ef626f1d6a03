"""Nodes that parse records: CSV, raw bytes, numbers of strings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import unary_elementwise
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def decode_csv(
    records: TensorLike,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Return a tensor for each column of lines of CSV.

    record_defaults: a value a column (its dtype is the column's), or a dtype: the column must be
    there. select_cols: the columns to keep. Raises ValueError when there are not as many as
    record_defaults.
    """
    columns = list(select_cols) if select_cols is not None else []
    if select_cols is not None and (
        any(a >= b for a, b in itertools.pairwise(columns)) or any(c < 0 for c in columns)
    ):
        raise ValueError("select_cols is not strictly increasing, or has negative columns.")
    if columns and len(columns) != len(record_defaults):
        raise ValueError("Length of select_cols and record_defaults do not match.")
    defaults = [
        np.zeros(0, d.as_numpy_dtype) if isinstance(d, dtypes.DType) else d for d in record_defaults
    ]
    made = create(
        "DecodeCSV",
        name,
        records=records,
        record_defaults=[convert_to_tensor(d) for d in defaults],
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=columns,
    )
    return list(made.outputs)


def decode_raw(
    input_bytes: TensorLike | None = None,
    out_type: DTypeLike | None = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: TensorLike | None = None,
) -> Tensor:
    """Return the bytes of strings as numbers, along a new last axis.

    bytes: the former name of input_bytes. Raises ValueError without strings or out_type.
    """
    given = renamed(input_bytes, bytes, "input_bytes", "bytes")
    if out_type is None:
        raise ValueError("decode_raw() is missing the argument 'out_type'")
    return tensor(
        "DecodeRaw",
        name,
        bytes=_given(given, "bytes"),
        out_type=as_dtype(out_type),
        little_endian=little_endian,
    )


def decode_json_example(json_examples: TensorLike, name: str | None = None) -> Tensor:
    """Return Example messages in JSON as serialized ones.

    The result is of the same shape. Its run raises InvalidArgumentError for a text that is none.
    """
    return tensor("DecodeJSONExample", name, json_examples=json_examples)


def string_to_number(
    string_tensor: TensorLike | None = None,
    out_type: DTypeLike = dtypes.float32,
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return strings as numbers.

    Its run raises InvalidArgumentError for a string of no number. input: another name of
    string_tensor.
    """
    given = _given(renamed(input, string_tensor, "input", "string_tensor"), "string_tensor")
    return tensor("StringToNumber", name, string_tensor=given, out_type=as_dtype(out_type))


def _given(value: TensorLike, name: str) -> Any:
    """Return the value of an argument with two names.

    Raises ValueError when neither is given.
    """
    if value is None:
        raise ValueError(
            f"Tried to convert '{name}' to a tensor and failed. Error: None values not supported."
        )
    return value


@unary_elementwise
def string_to_hash_bucket_fast(
    input: TensorLike, num_buckets: int, name: str | None = None
) -> Tensor:
    """Return the bucket of each string, int64, by FarmHash."""
    return tensor("StringToHashBucketFast", name, input=input, num_buckets=num_buckets)


@unary_elementwise
def string_to_hash_bucket_strong(
    input: TensorLike, num_buckets: int, key: Sequence[int], name: str | None = None
) -> Tensor:
    """Return the bucket of each string, int64, by keyed SipHash.

    key: two numbers.
    """
    return tensor(
        "StringToHashBucketStrong", name, input=input, num_buckets=num_buckets, key=list(key)
    )


@unary_elementwise
def string_to_hash_bucket(
    string_tensor: TensorLike | None = None,
    num_buckets: int | None = None,
    name: str | None = None,
    input: TensorLike | None = None,
) -> Tensor:
    """Return the bucket of each string, int64, by MurmurHash.

    Kept for old models. input: another name of string_tensor.
    """
    given = _given(renamed(input, string_tensor, "input", "string_tensor"), "string_tensor")
    return tensor("StringToHashBucket", name, string_tensor=given, num_buckets=num_buckets)
