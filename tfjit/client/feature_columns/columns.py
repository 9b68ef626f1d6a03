"""Bases of feature columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tfjit.client.data.sparse_tensors import SparseTensor
    from tfjit.client.feature_columns.features import Features
    from tfjit.framework.graphs.operation import Tensor
    from tfjit.framework.graphs.typing import DenseOrSparse, Structure
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape


class AnyColumn:
    """Base of all columns: a name and the parsing of its features.

    Columns are ordered by their texts.
    """

    @property
    def name(self) -> str:
        """Name of the column, by which models order columns."""
        raise NotImplementedError

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        """The features that `parse_example` has to give, by name."""
        raise NotImplementedError

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: object) -> bool:
        return str(self) > str(other)


class FeatureColumn(AnyColumn):
    """Base of the columns that `input_layer` or `linear_model` takes."""

    @property
    def variable_scope_name(self) -> str:
        """Name of the scope of the column's variables."""
        return self.name

    def transform(self, features: Features) -> DenseOrSparse | tuple[SparseTensor, SparseTensor]:
        """Return the column's own form of its features; `Features.get` keeps it."""
        raise NotImplementedError


class DenseColumn(FeatureColumn):
    """Base of the columns with a dense value."""

    @property
    def variable_shape(self) -> TensorShape:
        """Shape of one example."""
        raise NotImplementedError

    def dense_tensor(
        self, features: Features, weight_collections: list[str], trainable: bool
    ) -> Tensor:
        """Return the value [batch, ...]. The column's variables go into the collections."""
        raise NotImplementedError


class IdsAndWeights(NamedTuple):
    """The ids of a categorical column, and their weights or None."""

    ids: SparseTensor
    weights: SparseTensor | None


class CategoricalColumn(FeatureColumn):
    """Base of the columns with ids below `num_buckets`."""

    @property
    def num_buckets(self) -> int:
        """Number of ids."""
        raise NotImplementedError

    def sparse_tensors(self, features: Features) -> IdsAndWeights:
        """Return ids [batch, ...] and weights."""
        found: SparseTensor = features.get(self)
        return IdsAndWeights(found, None)


def check_key(key: object) -> None:
    """Raise ValueError for a key that is no string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key)}. Given key: {key}.")


def check_string_or_integer(dtype: DType, what: str) -> None:
    """Raise ValueError for another dtype."""
    if dtype.name != "string" and not dtype.is_integer:
        raise ValueError(f"{what} dtype must be string or integer. dtype: {dtype}.")


def check_same_kind(key: str, column: DType, value: DType) -> None:
    """Raise ValueError for an integer dtype and another one."""
    if column.is_integer != value.is_integer:
        raise ValueError(
            f"Column dtype and SparseTensors dtype must be compatible. key: {key}, column dtype: "
            f"{column}, tensor dtype: {value}"
        )


def check_number(dtype: DType | None, message: str) -> None:
    """Raise ValueError with the message for a dtype that is no number."""
    if dtype is None or not (dtype.is_integer or dtype.is_floating):
        raise ValueError(message)
