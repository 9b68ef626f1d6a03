"""Columns that count the ids of a categorical column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.client.feature_columns.columns import CategoricalColumn, DenseColumn
from tfjit.client.feature_columns.sequence import refuse_sequence
from tfjit.client.feature_columns.sparse_inputs import weights_by_id
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import tensor

if TYPE_CHECKING:
    from tfjit.client.feature_columns.features import Features
    from tfjit.framework.graphs.typing import Structure


@dataclass(frozen=True)
class IndicatorColumn(DenseColumn):
    """Counts of a column's ids, or the sums of their weights."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_indicator"

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([1, self.categorical_column.num_buckets])

    def transform(self, features: Features) -> Tensor:
        ids, weights = self.categorical_column.sparse_tensors(features)
        count = self.categorical_column.num_buckets
        if weights is not None:
            return weights_by_id(ids, weights, count)
        dense = _dense(ids)
        return ops.reduce_sum(ops.one_hot(dense, count, on_value=1.0, off_value=0.0), axis=[-2])

    def dense_tensor(
        self, features: Features, weight_collections: list[str], trainable: bool
    ) -> Tensor:
        refuse_sequence("indicator_column", self.name, self.categorical_column)
        made: Tensor = features.get(self)
        return made


def _dense(ids: SparseTensor) -> Tensor:
    """Return ids as a dense tensor, -1 at empty places."""
    return tensor(
        "SparseToDense",
        "SparseToDense",
        sparse_indices=ids.indices,
        output_shape=ids.dense_shape,
        sparse_values=ids.values,
        default_value=-1,
        validate_indices=True,
    )


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Return a dense column of the ids that an example has.

    Raises ValueError for another column.
    """
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError(
            "Unsupported input type. Input must be a CategoricalColumn. Given: "
            f"{categorical_column}"
        )
    return IndicatorColumn(categorical_column)
