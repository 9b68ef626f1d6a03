"""Columns that look ids up in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.client.composites.embeddings import (
    embedding_lookup_sparse,
    safe_embedding_lookup_sparse,
)
from tfjit.client.feature_columns.categorical import WeightedCategoricalColumn
from tfjit.client.feature_columns.columns import CategoricalColumn, DenseColumn, IdsAndWeights
from tfjit.client.feature_columns.sequence import SequenceCategoricalColumn, refuse_sequence
from tfjit.client.variables.get_variable import get_variable
from tfjit.client.variables.initializers import TruncatedNormal
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import (
    add_to_collection,
    get_collection,
    name_scope,
)
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.client.feature_columns.features import Features
    from tfjit.framework.graphs.typing import DenseOrSparse, InitializerLike, Structure


@dataclass(frozen=True)
class _LookupColumn(DenseColumn):
    """Base of the columns with a table."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: InitializerLike
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool

    @property
    def parse_example_spec(self) -> dict[str, Structure]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([self.dimension])

    def transform(self, features: Features) -> DenseOrSparse | tuple[Structure, Structure]:
        found: Structure = features.get(self.categorical_column)
        return found

    def _make_table(self, collections: list[str], trainable: bool) -> Variable:
        made: Variable = get_variable(
            "embedding_weights",
            [self.categorical_column.num_buckets, self.dimension],
            dtypes.float32,
            self.initializer,
            trainable=self.trainable and trainable,
            collections=collections,
        )
        return made

    def _combined(self, found: IdsAndWeights, table: Variable) -> Tensor:
        """Return the combined rows of each example."""
        ids, weights = found
        rank = ids.dense_shape.shape.as_list()[0]
        is_matrix = rank is not None and rank <= 2
        is_safe = self.use_safe_embedding_lookup or not is_matrix
        look_up = safe_embedding_lookup_sparse if is_safe else embedding_lookup_sparse
        return look_up(
            table,
            ids,
            weights,
            combiner=self.combiner,
            name=f"{self.name}_weights",
            max_norm=self.max_norm,
        )


@dataclass(frozen=True)
class EmbeddingColumn(_LookupColumn):
    """The rows of a table that ids name, combined for each example."""

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_embedding"

    def dense_tensor(
        self, features: Features, weight_collections: list[str], trainable: bool
    ) -> Tensor:
        refuse_sequence("embedding_column", self.name, self.categorical_column)
        found = self.categorical_column.sparse_tensors(features)
        if weight_collections and GraphKeys.GLOBAL_VARIABLES not in weight_collections:
            weight_collections.append(GraphKeys.GLOBAL_VARIABLES)
        return self._combined(found, self._make_table(weight_collections, trainable))


@dataclass(frozen=True)
class SharedEmbeddingColumn(_LookupColumn):
    """An embedding whose table is the variable of a collection."""

    shared_embedding_collection_name: str

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def variable_scope_name(self) -> str:
        return self.shared_embedding_collection_name

    def dense_tensor(
        self, features: Features, weight_collections: list[str], trainable: bool
    ) -> Tensor:
        refuse_sequence("embedding_column", self.name, self.categorical_column)
        with name_scope(None, self.name):
            found = self.categorical_column.sparse_tensors(features)
            return self._combined(found, self._shared_table(weight_collections, trainable))

    def _shared_table(self, weight_collections: list[str], trainable: bool) -> Variable:
        """Return the collection's variable, a new one for the first column."""
        name = self.shared_embedding_collection_name
        known = get_collection(name)
        advice = (
            "Suggested fix A: Choose a unique name for this collection. Suggested fix B: Do not "
            "add any variables to this collection. The feature_column library already adds a "
            "variable under the hood."
        )
        if len(known) > 1:
            raise ValueError(f"Collection {known} can only contain one variable. {advice}")
        if not known:
            table = self._make_table(weight_collections, trainable)
            add_to_collection(name, table)
            return table
        table = known[0]
        wanted = (self.categorical_column.num_buckets, self.dimension)
        if table.shape != wanted:
            raise ValueError(
                f"Shared embedding collection {name} contains variable {table.name} of unexpected "
                f"shape {table.shape}. Expected shape is {wanted}. {advice}"
            )
        return table


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: InitializerLike | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Return a dense column of the table rows that ids name.

    The table is a variable [num_buckets, dimension]. combiner: "mean", "sum" or "sqrtn" of the rows
    of an example. initializer: by default normal numbers, truncated, of deviation 1 /
    sqrt(dimension). max_norm: longer rows are scaled to it. use_safe_embedding_lookup: False for
    ids of which none is negative and no example lacks one. Raises ValueError for a dimension below
    1 and an initializer that cannot be called, NotImplementedError for a checkpoint.
    """
    of_column = f" Embedding of column_name: {categorical_column.name}"
    initializer = _checked(
        dimension, ckpt_to_load_from, tensor_name_in_ckpt, initializer, of_column
    )
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        initializer,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )


def shared_embedding_columns(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: InitializerLike | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Return a dense column for each categorical one, all with one table.

    shared_embedding_collection_name: of the collection with the table, by default the joined names
    of the columns. Other arguments are those of `embedding_column`. Raises ValueError for columns
    of different kinds or numbers of buckets, and as `embedding_column` does.
    """
    initializer = _checked(dimension, ckpt_to_load_from, tensor_name_in_ckpt, initializer, "")
    ordered = sorted(categorical_columns, key=lambda column: column.name)
    _check_alike(ordered)
    shared = shared_embedding_collection_name
    if not shared:
        shared = "_".join([*(column.name for column in ordered), "shared_embedding"])
    return [
        SharedEmbeddingColumn(
            column,
            dimension,
            combiner,
            initializer,
            max_norm,
            trainable,
            use_safe_embedding_lookup,
            shared,
        )
        for column in categorical_columns
    ]


def _checked(
    dimension: int | None,
    checkpoint: str | None,
    tensor_name: str | None,
    initializer: InitializerLike | None,
    of_column: str,
) -> Callable[..., Structure]:
    """Return the initializer of the table. See `embedding_column` for errors."""
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (tensor_name is None):
        raise ValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them."
        )
    if checkpoint is not None:
        raise NotImplementedError("a table that is read from a checkpoint (ckpt_to_load_from)")
    if initializer is None:
        return TruncatedNormal(0.0, 1 / math.sqrt(dimension))
    if not callable(initializer):
        raise ValueError(f"initializer must be callable if specified.{of_column}")
    return initializer


def _check_alike(columns: Sequence[CategoricalColumn]) -> None:
    """Raise ValueError for columns of several kinds or numbers of buckets."""
    first, buckets = columns[0], columns[0].num_buckets
    if not isinstance(first, CategoricalColumn):
        raise ValueError(
            "All categorical_columns must be subclasses of _CategoricalColumn. Given: "
            f"{first}, of type: {type(first)}"
        )
    first = _inner(first)
    for column in map(_inner, columns[1:]):
        if not isinstance(column, type(first)):
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, "
                "or be weighted_categorical_column or sequence column of the same type. Given "
                f"column: {first} of type: {type(first)} does not match given column: {column} of "
                f"type: {type(column)}"
            )
        if column.num_buckets != buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number "
                f"of buckets. ven column: {first} with buckets: {buckets} does  not match column: "
                f"{column} with buckets: {column.num_buckets}"
            )


def _inner(column: CategoricalColumn) -> CategoricalColumn:
    """Return the column below weights and sequences."""
    while isinstance(column, (WeightedCategoricalColumn, SequenceCategoricalColumn)):
        column = column.categorical_column
    return column
