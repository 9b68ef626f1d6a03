"""Columns of numbers, and of the intervals that numbers are in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.features import FixedLenFeature
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.feature_columns.columns import (
    CategoricalColumn,
    DenseColumn,
    IdsAndWeights,
    check_key,
    check_number,
)
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes, nest
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import tensor

if TYPE_CHECKING:
    from tfjit.client.feature_columns.features import Features
    from tfjit.framework.graphs.typing import Structure


@dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """A feature of numbers, `shape` for each example."""

    key: str
    shape: tuple[int, ...]
    default_value: Structure
    dtype: DType
    normalizer_fn: Callable[[Tensor], Tensor] | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape(self.shape)

    def transform(self, features: Features) -> Tensor:
        value = features.get(self.key)
        if isinstance(value, SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is "
                f"not supported. key: {self.key}"
            )
        if self.normalizer_fn is not None:
            value = self.normalizer_fn(value)
        return ops.cast(value, dtypes.float32)

    def dense_tensor(
        self, features: Features, weight_collections: list[str], trainable: bool
    ) -> Tensor:
        made: Tensor = features.get(self)
        return made


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """The intervals that a numeric column's values are in.

    An interval has its left end.
    """

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([*self.source_column.shape, len(self.boundaries) + 1])

    @property
    def num_buckets(self) -> int:
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def transform(self, features: Features) -> Tensor:
        source = features.get(self.source_column)
        return tensor("Bucketize", None, input=source, boundaries=self.boundaries)

    def dense_tensor(
        self, features: Features, weight_collections: list[str], trainable: bool
    ) -> Tensor:
        places = ops.cast(features.get(self), dtypes.int64)
        return ops.one_hot(places, len(self.boundaries) + 1, on_value=1.0, off_value=0.0)

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        places = features.get(self)
        batch = ops.shape(places)[0]
        width = self.source_column.shape[0]
        rows = ops.expand_dims(ops.range(0, batch), 1)
        rows = ops.reshape(ops.tile(rows, [1, width]), (-1,))
        numbers = ops.tile(ops.range(0, width), [batch])
        # each of the numbers has intervals of its own
        ids = ops.reshape(places, (-1,)) + (len(self.boundaries) + 1) * numbers
        indices = ops.cast(ops.transpose(ops.stack((rows, numbers))), dtypes.int64)
        sizes = ops.cast(ops.stack([batch, width]), dtypes.int64)
        return IdsAndWeights(SparseTensor(indices, ids, sizes), None)


def numeric_column(
    key: str,
    shape: int | Iterable[int] = (1,),
    default_value: Structure = None,
    dtype: DType = dtypes.float32,
    normalizer_fn: Callable[[Tensor], Tensor] | None = None,
) -> NumericColumn:
    """Return a column of a feature of numbers.

    shape: of an example. default_value: of examples without the feature, a number or a structure of
    that shape. normalizer_fn: maps the feature [batch, *shape] to its value. Raises TypeError for
    sizes that are no integers, a default that the dtype has no place for or a normalizer that
    cannot be called; ValueError for sizes below 1, a default of another shape, a dtype that is no
    number or a key that is no string.
    """
    sizes = check_shape(shape, key)
    check_number(dtype, f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    default = _checked_default(sizes, default_value, dtype, key)
    check_normalizer(normalizer_fn)
    check_key(key)
    return NumericColumn(key, sizes, default, dtype, normalizer_fn)


def bucketized_column(
    source_column: NumericColumn, boundaries: list[float] | tuple[float, ...]
) -> BucketizedColumn:
    """Return a column of the interval that each number is in.

    boundaries: increasing numbers; n of them make n + 1 intervals. source_column: of rank 1. Raises
    ValueError for another column or other boundaries.
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(
            "source_column must be a column generated with numeric_column(). Given: "
            f"{source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, (list, tuple)) or any(
        low >= high for low, high in itertools.pairwise(boundaries)
    ):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


def check_shape(shape: Structure, key: str) -> tuple[int, ...]:
    """Return the sizes of an example. See `numeric_column` for errors."""
    sizes = tuple(shape) if nest.is_nested(shape) else (shape,)
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(f"shape dimensions must be integer. shape: {sizes}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {sizes}, key: {key}")
    return sizes


def check_normalizer(normalizer_fn: object) -> None:
    """Raise TypeError for a normalizer that cannot be called."""
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")


def _checked_default(
    shape: tuple[int, ...], default: Structure, dtype: DType, key: str
) -> Structure:
    """Return the default value as nested tuples of the shape; None stays."""
    if default is None:
        return None
    if isinstance(default, int) or (isinstance(default, float) and dtype.is_floating):
        return _repeated(shape, default)
    if callable(getattr(default, "tolist", None)):
        default = default.tolist()
    if nest.is_nested(default):
        if not _has_shape(default, shape):
            raise ValueError(
                "The shape of default_value must be equal to given shape. default_value: "
                f"{default}, shape: {shape}, key: {key}"
            )
        numbers = nest.flatten(default)
        if all(isinstance(number, int) for number in numbers) or (
            dtype.is_floating and any(isinstance(number, float) for number in numbers)
        ):
            return _as_tuples(default)
    raise TypeError(
        f"default_value must be compatible with dtype. default_value: {default}, dtype: {dtype}, "
        f"key: {key}"
    )


def _repeated(shape: tuple[int, ...], value: float) -> Structure:
    return (_repeated(shape[1:], value),) * shape[0] if shape else value


def _as_tuples(value: Structure) -> Structure:
    return tuple(map(_as_tuples, value)) if nest.is_nested(value) else value


def _has_shape(value: Structure, shape: tuple[int, ...]) -> bool:
    if nest.is_nested(value) != bool(shape):
        return False
    return not shape or (
        len(value) == shape[0] and all(_has_shape(part, shape[1:]) for part in value)
    )
