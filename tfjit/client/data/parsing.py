"""Nodes that parse records: CSV, raw bytes, Example messages."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfjit import ops
from tfjit.client.data.sparse_merging import merged
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import unary_elementwise
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Structure, TensorLike


class FixedLenFeature(NamedTuple):
    """A feature of a fixed shape.

    default_value: of examples without it; None: every example must have it.
    """

    shape: Any
    dtype: Any
    default_value: object = None


class VarLenFeature(NamedTuple):
    """A feature of any number of values, which becomes a SparseTensor."""

    dtype: Any


class SparseFeature(NamedTuple):
    """A SparseTensor whose indices and values are two or more features.

    index_key: the feature of the last index, or a list of those of all indices after the example's.
    value_key: that of the values. size: of each of these dimensions. already_sorted: whether each
    example has its indices in order.
    """

    index_key: Structure
    value_key: str
    dtype: Structure
    size: Structure
    already_sorted: bool = False


class FixedLenSequenceFeature(NamedTuple):
    """A feature of any number of rows of a shape.

    Shorter ones are filled up with default_value. allow_missing: must be True.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: object = None


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


def parse_example(
    serialized: TensorLike,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: object = None,
) -> dict[str, Tensor | SparseTensor]:
    """Return the features of a vector of serialized Example messages, by key.

    features: FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or SparseFeature by key; the
    last two give a SparseTensor. Raises ValueError for other kinds.
    """
    sparse, sparse_kinds = _sparse(features or {})
    with name_scope(name, "ParseExample", [serialized, example_names]):
        keys, kinds, shapes, defaults = _dense(features)
        made = create(
            "ParseExampleV2",
            "ParseExampleV2",
            serialized=convert_to_tensor(serialized, dtype=dtypes.string, name="serialized"),
            names=example_names if example_names is not None else np.array([], object),
            sparse_keys=np.array([key.encode() for key in sparse], object),
            dense_keys=np.array([key.encode() for key in keys], object),
            ragged_keys=np.array([], object),
            dense_defaults=defaults,
            Tdense=kinds,
            num_sparse=len(sparse),
            sparse_types=sparse_kinds,
            ragged_value_types=[],
            ragged_split_types=[],
            dense_shapes=shapes,
        )
        n = len(sparse)
        found: dict[str, Tensor | SparseTensor] = dict(
            zip(keys, made.outputs[3 * n :], strict=True)
        )
        for k, key in enumerate(sparse):
            found[key] = SparseTensor(made.outputs[k], made.outputs[n + k], made.outputs[2 * n + k])
    return _with_merged(features, found)


def _sparse(features: Mapping[str, Structure]) -> tuple[list[str], list[DType]]:
    """Return the keys and dtypes that are parsed to sparse tensors.

    Raises ValueError for a feature without them, and for two dtypes of one key.
    """
    found: dict[str, DType] = {}
    for name, feature in sorted(features.items()):
        wanted: list[tuple[str, Structure]] = []
        if isinstance(feature, VarLenFeature):
            wanted = [(name, feature.dtype)]
        elif isinstance(feature, SparseFeature):
            for part in ("index_key", "value_key"):
                if not getattr(feature, part):
                    raise ValueError(f"Missing {part} for SparseFeature {feature}.")
            if not feature.dtype:
                raise ValueError(f"Missing type for feature {name}. Received feature={feature}.")
            wanted = [(key, dtypes.int64) for key in sorted(_index_keys(feature))]
            wanted.append((feature.value_key, feature.dtype))
        for key, kind in wanted:
            dtype = as_dtype(kind)
            if found.setdefault(key, dtype) is not dtype:
                raise ValueError(f"Conflicting type {found[key]} vs {dtype} for feature {key}.")
    return list(found), list(found.values())


def _index_keys(feature: SparseFeature) -> list[str]:
    keys = feature.index_key
    return [keys] if isinstance(keys, str) else list(keys)


def _with_merged(
    features: Mapping[str, Structure], parsed: dict[str, Tensor | SparseTensor]
) -> dict[str, Tensor | SparseTensor]:
    """Return the features by key, with each SparseFeature made of its parts."""
    found = dict(parsed)
    for key, feature in sorted(features.items()):
        if isinstance(feature, SparseFeature):
            parts: Structure = [parsed[index] for index in _index_keys(feature)]
            sizes = feature.size if not isinstance(feature.index_key, str) else [feature.size]
            values: Structure = parsed[feature.value_key]
            found[key] = merged(parts, values, sizes, feature.already_sorted)
    return {key: value for key, value in found.items() if key in features}


def parse_single_example(
    serialized: TensorLike,
    features: Mapping[str, object],
    name: str | None = None,
    example_names: object = None,
) -> dict[str, Tensor | SparseTensor]:
    """Parse one serialized message as `parse_example` does.

    Tensors have no first dimension. Raises ValueError for an input that is no scalar.
    """
    text = convert_to_tensor(serialized, dtype=dtypes.string, name="serialized")
    if text.shape_tuple not in (None, ()):
        raise ValueError(f"Input serialized must be a scalar, got shape {text.shape}")
    return parse_example(text, features, name or "ParseSingleExample")


def _dense(
    features: Mapping[str, object],
) -> tuple[list[str], list[Any], list[TensorShape], list[Any]]:
    """Return keys, dtypes, shapes and default tensors, by key."""
    if not features:
        raise ValueError("Missing features.")
    keys = sorted(
        key
        for key, feature in features.items()
        if not isinstance(feature, (VarLenFeature, SparseFeature))
    )
    kinds, shapes, defaults = [], [], []
    for key in keys:
        feature = features[key]
        if not isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature)):
            raise ValueError(
                f"Invalid feature {key}: {feature!r}; FixedLenFeature, FixedLenSequenceFeature, "
                "VarLenFeature and SparseFeature are supported"
            )
        dtype, shape = as_dtype(feature.dtype), TensorShape(feature.shape)
        if shape.dims_tuple is None or None in shape.dims_tuple:
            raise ValueError(
                f"Feature {key} has an unknown shape {shape}: all of its sizes must be known"
            )
        default = feature.default_value
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError(
                    f"Feature {key} is a FixedLenSequenceFeature: allow_missing must be True"
                )
            shape = TensorShape([None, *shape.as_list()])
        defaults.append(_default(key, shape, dtype, default))
        kinds.append(dtype)
        shapes.append(shape)
    return keys, kinds, shapes, defaults


def _default(key: str, shape: TensorShape, dtype: DType, value: Structure) -> Tensor:
    """Return the default of a dense feature.

    It is of the feature's shape, empty for none, or the scalar that pads.
    """
    label = re.sub("[^A-Za-z0-9_./-]", "_", key)
    if shape.rank and shape.as_list()[0] is None:
        if value is None:
            return convert_to_tensor("" if dtype is dtypes.string else 0, dtype=dtype)
        padding = convert_to_tensor(value, dtype=dtype, name=f"padding_{label}")
        return ops.reshape(padding, [])
    if value is None:
        return ops.constant(np.zeros(0, dtype.as_numpy_dtype), dtype=dtype)
    if isinstance(value, Tensor):
        return value
    given = convert_to_tensor(value, dtype=dtype, name=f"key_{label}")
    return ops.reshape(given, shape.as_list())
