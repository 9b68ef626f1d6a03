"""Describe features of messages, and arguments of nodes that parse them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tfjit import ops
from tfjit.client.data.sparse_merging import merged
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


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


Parsed = dict[str, Tensor | SparseTensor]


class FeatureParams:
    """The arguments that parsing nodes have for features.

    defaults: of dense features that have one, by key; None for a list that may be missing.
    """

    def __init__(self, features: Mapping[str, object] | None, kinds: tuple[type, ...]) -> None:
        """Sort features by key.

        Raises ValueError for a feature of none of the kinds, and for one that lacks a part.
        """
        self.sparse: dict[str, DType] = {}
        self.dense_keys: list[str] = []
        self.dense_types: list[DType] = []
        self.dense_shapes: list[TensorShape] = []
        self.defaults: dict[str, Structure] = {}
        for key, feature in sorted((features or {}).items()):
            if not isinstance(feature, kinds):
                raise ValueError(f"Unsupported {type(feature).__name__} {feature} for key '{key}'")
            if isinstance(feature, SparseFeature):
                self._add_sparse_feature(key, feature)
                continue
            if not getattr(feature, "dtype", None):
                dot = "" if isinstance(feature, VarLenFeature) else "."
                raise ValueError(f"Missing type for feature {key}. Received feature={feature}{dot}")
            if isinstance(feature, VarLenFeature):
                self._add_sparse(key, as_dtype(feature.dtype))
            elif isinstance(feature, (FixedLenFeature, FixedLenSequenceFeature)):
                self._add_dense(key, feature)
        both = set(self.dense_keys) & set(self.sparse)
        if both:
            raise ValueError(
                f"Dense and sparse keys must not intersect; dense_keys: {self.dense_keys}, "
                f"sparse_keys: {list(self.sparse)}, intersection: {both}"
            )

    def __len__(self) -> int:
        return len(self.dense_keys) + len(self.sparse)

    def _add_sparse(self, key: str, dtype: DType) -> None:
        found = self.sparse.setdefault(key, dtype)
        if found is not dtype:
            raise ValueError(f"Conflicting type {found} vs {dtype} for feature {key}.")

    def _add_sparse_feature(self, key: str, feature: SparseFeature) -> None:
        for part in ("index_key", "value_key"):
            if not getattr(feature, part):
                raise ValueError(f"Missing {part} for SparseFeature {feature}.")
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}. Received feature={feature}.")
        for index in sorted(_index_keys(feature)):
            self._add_sparse(index, dtypes.int64)
        self._add_sparse(feature.value_key, as_dtype(feature.dtype))

    def _add_dense(self, key: str, feature: FixedLenFeature | FixedLenSequenceFeature) -> None:
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
        shape = TensorShape(feature.shape)
        dims = shape.dims_tuple
        if isinstance(feature, FixedLenFeature):
            if dims and dims[0] is None:
                raise ValueError(
                    f"First dimension of shape for feature {key} unknown. Consider using "
                    f"FixedLenSequenceFeature. Received feature={feature}."
                )
            if dims is None or None in dims:
                raise ValueError(
                    f"All dimensions of shape for feature {key} need to be known but received "
                    f"{feature.shape!s}."
                )
        elif feature.allow_missing:
            self.defaults[key] = None
        if feature.default_value is not None:
            self.defaults[key] = feature.default_value
        self.dense_keys.append(key)
        self.dense_types.append(as_dtype(feature.dtype))
        self.dense_shapes.append(shape)

    def default_tensors(self) -> list[Tensor]:
        """Return the default of each dense feature.

        It is of the feature's shape, empty for none, or the scalar that pads.
        """
        return [
            _default(key, shape, dtype, self.defaults.get(key))
            for key, shape, dtype in zip(
                self.dense_keys, self.dense_shapes, self.dense_types, strict=True
            )
        ]


def _default(key: str, shape: TensorShape, dtype: DType, value: Structure) -> Tensor:
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


def strings(values: object) -> np.ndarray:
    """Return keys as an array of bytes."""
    keys: Structure = values
    return np.array([key.encode() for key in keys], object)


def sparse_tensors(keys: Mapping[str, DType], outputs: Sequence[Tensor]) -> Parsed:
    """Return a node's sparse tensors by key.

    outputs: indices, values, shapes, further ones."""
    n = len(keys)
    return {
        key: SparseTensor(outputs[k], outputs[n + k], outputs[2 * n + k])
        for k, key in enumerate(keys)
    }


def _index_keys(feature: SparseFeature) -> list[str]:
    keys = feature.index_key
    return [keys] if isinstance(keys, str) else list(keys)


def with_merged(features: Mapping[str, object], parsed: Parsed) -> Parsed:
    """Return the features by key, with each SparseFeature made of its parts."""
    found = dict(parsed)
    for key, feature in sorted(features.items()):
        if isinstance(feature, SparseFeature):
            parts: Structure = [parsed[index] for index in _index_keys(feature)]
            sizes = feature.size if not isinstance(feature.index_key, str) else [feature.size]
            values: Structure = parsed[feature.value_key]
            found[key] = merged(parts, values, sizes, feature.already_sorted)
    return {key: value for key, value in found.items() if key in features}


__all__ = [
    "FeatureParams",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "Parsed",
    "SparseFeature",
    "VarLenFeature",
    "sparse_tensors",
    "strings",
    "with_merged",
]
