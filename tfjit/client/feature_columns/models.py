"""Dense inputs and linear models of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.composites.embeddings import safe_embedding_lookup_sparse
from tfjit.client.data.sparse_steps import reshaped
from tfjit.client.feature_columns.columns import (
    AnyColumn,
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
)
from tfjit.client.feature_columns.features import Features
from tfjit.client.variables.get_variable import get_variable
from tfjit.client.variables.initializers import Zeros
from tfjit.client.variables.variable_scope import (
    VariableScope,
    get_variable_scope,
    variable_scope,
)
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import add_to_collection, get_collection, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dimension import Dimension
from tfjit.framework.types.shape import TensorShape, dimension_at_index
from tfjit.ops import nn

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


def input_layer(
    features: Mapping[str, TensorLike],
    feature_columns: FeatureColumn | Iterable[FeatureColumn],
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[FeatureColumn, list[Variable]] | None = None,
    cols_to_output_tensors: dict[FeatureColumn, Tensor] | None = None,
) -> Tensor:
    """Return the values of dense columns side by side, float32 [batch, size].

    features: tensors by name, a row an example. Columns are in the order of their names.
    weight_collections: of the columns' variables, beside GLOBAL_VARIABLES and MODEL_VARIABLES.
    cols_to_vars, cols_to_output_tensors: get each column's variables, and its part of the result.
    Raises ValueError for no columns, columns that are not dense, equal names, numbers of examples
    that differ.
    """
    columns: list[DenseColumn] = []
    for given in _checked(feature_columns):
        if not isinstance(given, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical column"
                f" with an embedding_column or indicator_column. Given: {given}"
            )
        columns.append(given)
    collections = _with_model_variables(weight_collections)
    with variable_scope(None, "input_layer", list(features.values())):
        batch = Features(features)
        made: dict[FeatureColumn, Tensor] = {}
        for column in sorted(columns, key=lambda column: column.name):
            with variable_scope(None, column.variable_scope_name):
                value = column.dense_tensor(batch, collections, trainable)
                made[column] = _as_matrix(value, column.variable_shape)
                if cols_to_vars is not None:
                    scope = get_variable_scope().name
                    cols_to_vars[column] = get_collection(GraphKeys.GLOBAL_VARIABLES, scope)
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = made[column]
        _check_sizes(made)
        return ops.concat(list(made.values()), 1)


def linear_model(
    features: Mapping[str, TensorLike],
    feature_columns: FeatureColumn | Iterable[FeatureColumn],
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Sequence[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[FeatureColumn | str, list[Variable]] | None = None,
) -> Tensor:
    """Return the sum of weighted columns and a bias, float32 [batch, units].

    Each column has weights, for a categorical one a row an id; they start as zeros. features,
    weight_collections: as of `input_layer`. sparse_combiner: "sum", "mean" or "sqrtn" of the rows
    of an example. cols_to_vars: gets each column's variables, and the bias by "bias". Raises
    ValueError for columns that are neither dense nor categorical, and as `input_layer` does.
    """
    with variable_scope(None, "linear_model") as scope:
        name = _last_part(scope)
    model = _LinearModel(
        _checked(feature_columns),
        units,
        sparse_combiner,
        _with_model_variables(weight_collections),
        trainable,
        name,
    )
    made = model.apply(features)
    if cols_to_vars is not None:
        cols_to_vars.update(model.variables)
    return made


class _LinearModel:
    """A linear model, with the variables of its columns once applied."""

    def __init__(
        self,
        columns: Sequence[FeatureColumn],
        units: int,
        combiner: str,
        collections: Sequence[str],
        trainable: bool,
        name: str,
    ) -> None:
        self._units, self._combiner, self._trainable = units, combiner, trainable
        self._collections, self._name = collections, name
        self.variables: dict[FeatureColumn | str, list[Variable]] = {}
        self._columns: dict[str, FeatureColumn] = {}
        for column in sorted(columns, key=lambda column: column.name):
            with variable_scope(None, column.variable_scope_name) as scope:
                self._columns[_last_part(scope)] = column

    def apply(self, features: Mapping[str, TensorLike]) -> Tensor:
        """Return the sums of a batch. See `linear_model`."""
        values = list(features.values())
        with name_scope(self._name, None, values), variable_scope(self._name):
            for column in self._columns.values():
                if not isinstance(column, (DenseColumn, CategoricalColumn)):
                    raise ValueError(
                        "Items of feature_columns must be either a _DenseColumn or "
                        f"_CategoricalColumn. Given: {column}"
                    )
            batch = Features(features)
            sums = {
                column: self._weighted_sum(name, column, batch)
                for name, column in sorted(self._columns.items())
            }
            _check_sizes(sums)
            total = ops.add_n(list(sums.values()), name="weighted_sum_no_bias")
            with _own_scope(get_variable_scope(), None):
                bias = self._variable("bias_weights", [self._units])
            self.variables["bias"] = [bias]
            return nn.bias_add(total, bias, name="weighted_sum")

    def _weighted_sum(self, name: str, column: FeatureColumn, batch: Features) -> Tensor:
        with _own_scope(None, name) as scope:
            if isinstance(column, CategoricalColumn):
                weights = self._variable("weights", [column.num_buckets, self._units])
                made = self._categorical_sum(column, batch, weights)
            else:
                assert isinstance(column, DenseColumn)
                size = column.variable_shape.num_elements()
                weights = self._variable("weights", [size, self._units])
                value = column.dense_tensor(batch, list(self._collections), self._trainable)
                rows = _as_matrix(value, column.variable_shape)
                made = ops.matmul(rows, weights, name="weighted_sum")
        self.variables[column] = get_collection(GraphKeys.GLOBAL_VARIABLES, scope.name)
        return made

    def _categorical_sum(
        self, column: CategoricalColumn, batch: Features, table: Variable
    ) -> Tensor:
        found, weights = column.sparse_tensors(batch)
        ids = reshaped(found, [ops.shape(found)[0], -1])
        if weights is not None:
            weights = reshaped(weights, [ops.shape(weights)[0], -1])
        return safe_embedding_lookup_sparse(
            table, ids, weights, combiner=self._combiner, name="weighted_sum"
        )

    def _variable(self, name: str, shape: Structure) -> Variable:
        made: Variable = get_variable(name, shape, initializer=Zeros(), trainable=self._trainable)
        for key in self._collections:
            if key != GraphKeys.GLOBAL_VARIABLES:  # `get_variable` adds it
                add_to_collection(key, made)
        return made


@contextmanager
def _own_scope(scope: VariableScope | None, default_name: str | None) -> Iterator[VariableScope]:
    """Enter a scope or a new one, with its first name scope."""
    with variable_scope(scope, default_name) as made:
        pass
    with (
        variable_scope(made, auxiliary_name_scope=False) as entered,
        name_scope(entered.original_name_scope),
    ):
        yield entered


def _last_part(scope: VariableScope) -> str:
    return scope.name.rpartition("/")[2]


def _with_model_variables(collections: Sequence[str] | None) -> list[str]:
    names = list(collections or ())
    wanted = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES)
    return [*names, *(name for name in wanted if name not in names)]


def _as_matrix(value: Tensor, shape: TensorShape) -> Tensor:
    """Return [batch, *shape] as [batch, number of elements]."""
    size = shape.num_elements()
    return ops.reshape(value, (ops.shape(value)[0], size))


def _checked(columns: FeatureColumn | Iterable[FeatureColumn]) -> list[FeatureColumn]:
    """Return the columns as a list.

    Raises ValueError for none, other values or equal names.
    """
    if isinstance(columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    found = [columns] if isinstance(columns, AnyColumn) else list(columns)
    for column in found:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                "Items of feature_columns must be a _FeatureColumn. Given (type "
                f"{type(column)}): {column}."
            )
    if not found:
        raise ValueError("feature_columns must not be empty.")
    by_name: dict[str, FeatureColumn] = {}
    for column in found:
        if column.name in by_name:
            raise ValueError(
                f"Duplicate feature column name found for columns: {column} and "
                f"{by_name[column.name]}. This usually means that these columns refer to same base "
                "feature. Either one must be discarded or a duplicated but renamed item must be "
                "inserted in features dict."
            )
        by_name[column.name] = column
    return found


def _check_sizes(made: Mapping[FeatureColumn, Tensor]) -> None:
    """Raise ValueError where two results have different numbers of examples."""
    first: tuple[str, Dimension] | None = None
    for column, value in made.items():
        size = dimension_at_index(value.shape, 0)
        if size.value is None:
            continue
        if first is None:
            first = column.name, size
        elif size.value != first[1].value:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({first[0]}, {column.name}): ({first[1]}, {size})"
            )


def make_parse_example_spec(
    feature_columns: Iterable[FeatureColumn],
) -> dict[str, Structure]:
    """Return the features that columns need, for `parse_example`.

    Raises ValueError for other values, and for two columns that need a feature in different forms.
    """
    found: dict[str, Structure] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                f"All feature_columns must be _FeatureColumn instances. Given: {column}"
            )
        own = column.parse_example_spec
        for key, value in own.items():
            if key in found and value != found[key]:
                raise ValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {value} "
                    f"and {found[key]}"
                )
        found.update(own)
    return found
