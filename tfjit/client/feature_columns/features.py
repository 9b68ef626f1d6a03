"""Features of a batch by name, with what columns make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_steps import reshaped
from tfjit.client.data.sparse_tensors import SparseTensor, convert_to_tensor_or_sparse_tensor
from tfjit.client.feature_columns.columns import FeatureColumn
from tfjit.framework.graphs.default_graph import control_dependencies

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, Structure, TensorLike


class Features:
    """The features of a batch, each with a row for an example.

    A vector becomes a column. A column is transformed once, for all columns that use it.
    """

    def __init__(self, features: Mapping[str, TensorLike]) -> None:
        self._features: Mapping[Structure, TensorLike] = dict(features)
        self._made: dict[str | FeatureColumn, Structure] = {}

    def get(self, key: str | FeatureColumn) -> Structure:
        """Return a feature by name, or the transformed features of a column.

        Raises ValueError for an unknown name or a scalar, TypeError for another key.
        """
        if key not in self._made:
            self._made[key] = self._make(key)
        return self._made[key]

    def _make(self, key: str | FeatureColumn) -> Structure:
        if key in self._features:
            return self._feature(key)
        if isinstance(key, str):
            raise ValueError(f"Feature {key} is not in features dictionary.")
        if not isinstance(key, FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "_FeatureColumn". Provided: {key}')
        return key.transform(self)

    def _feature(self, key: str | FeatureColumn) -> DenseOrSparse:
        value = convert_to_tensor_or_sparse_tensor(self._features[key])
        rank = value.get_shape().rank
        refusal = f"Feature (key: {key}) cannot have rank 0. Given: {value}"
        if rank == 0:
            raise ValueError(refusal)
        if rank is not None:
            return _as_column(value) if rank == 1 else value
        check = ops.debugging.assert_positive(_rank(value), message=refusal)
        with control_dependencies([check]):
            return _either(value)


def _rank(value: DenseOrSparse) -> TensorLike:
    if isinstance(value, SparseTensor):
        return ops.size(value.dense_shape, name="Rank")
    return ops.rank(value)


def _as_column(value: DenseOrSparse) -> DenseOrSparse:
    """Return a vector as a matrix of one column."""
    if isinstance(value, SparseTensor):
        return reshaped(value, [ops.shape(value)[0], 1])
    return ops.expand_dims(value, -1)


def _either(value: DenseOrSparse) -> DenseOrSparse:
    """Return a value of unknown rank, a vector as a matrix."""
    is_vector = ops.equal(1, _rank(value))
    if not isinstance(value, SparseTensor):
        return ops.cond(is_vector, lambda: _as_column(value), lambda: value)

    def parts(sparse: SparseTensor) -> Structure:
        return [sparse.indices, sparse.values, sparse.dense_shape]

    chosen = ops.cond(is_vector, lambda: parts(_as_column(value)), lambda: parts(value))
    return SparseTensor(*chosen)
