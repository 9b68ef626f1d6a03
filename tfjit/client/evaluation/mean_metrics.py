"""Metrics that are a mean over the elements of all batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.evaluation.metric_parts import aligned, metric_variable, published, ratio
from tfjit.client.variables.assignments import assign_add
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.checks.confusion import remove_squeezable_dimensions
from tfjit.ops.checks.weights import broadcast_weights

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import CollectionNames, TensorLike


def mean(
    values: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the weighted mean of all elements.

    values [...]: numbers, summed in float32. weights: a scalar, or of the values' rank with sizes
    that are 1 or theirs. value: the mean of the batches so far, zero before the first one;
    update_op adds a batch and returns the mean. metrics_collections, updates_collections: names of
    the collections that value and update_op are added to. name: the variable scope. The local
    variables are also in METRIC_VARIABLES. Raises ValueError for weights that don't fit; a run
    raises InvalidArgumentError where shapes were not known.
    """
    with variable_scope(name, "mean", [values, weights]):
        numbers = ops.cast(values, dtypes.float32)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            added = ops.cast(ops.size(numbers), dtypes.float32)
        else:
            numbers, factors = _weighed(numbers, weights)
            numbers = ops.multiply(numbers, factors)
            added = ops.reduce_sum(factors)
        return _quotient(
            (total, ops.reduce_sum(numbers)),
            (count, added),
            numbers,
            metrics_collections,
            updates_collections,
        )


def mean_tensor(
    values: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the weighted mean of batches, element by element.

    values: of a known shape, which is the shape of the mean. See `mean`.
    """
    with variable_scope(name, "mean", [values, weights]):
        numbers = ops.cast(values, dtypes.float32)
        total = metric_variable(numbers.shape, dtypes.float32, name="total_tensor")
        count = metric_variable(numbers.shape, dtypes.float32, name="count_tensor")
        added = ops.ones_like(numbers)
        if weights is not None:
            numbers, factors = _weighed(numbers, weights)
            numbers = ops.multiply(numbers, factors)
            added = ops.multiply(added, factors)
        return _quotient(
            (total, numbers), (count, added), numbers, metrics_collections, updates_collections
        )


def _weighed(values: Tensor, weights: TensorLike) -> tuple[Tensor, Tensor]:
    """Return values and weights of their shape."""
    values, _, weights = aligned(values, None, weights)
    return values, broadcast_weights(ops.cast(weights, dtypes.float32), values)


def _quotient(
    total: tuple[Variable, Tensor],
    count: tuple[Variable, Tensor],
    values: Tensor,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of a sum by a count.

    total, count: a variable and its summand. The count is updated once the values are there.
    """
    new_total = assign_add(*total)
    with control_dependencies([values]):
        new_count = assign_add(*count)
    value = published(ratio(total[0], count[0], "value"), metrics_collections)
    return value, published(ratio(new_total, new_count, "update_op"), updates_collections)


def accuracy(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the share of predictions that equal their labels.

    labels, predictions: of one shape. See `mean`. Raises ValueError for shapes that differ.
    """
    answers, truth, weights = aligned(predictions, labels, weights)
    answers.shape.assert_is_compatible_with(truth.shape)
    if truth.dtype != answers.dtype:
        answers = ops.cast(answers, truth.dtype)
    hits = ops.cast(ops.equal(answers, truth), dtypes.float32)
    return mean(hits, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the mean of |predictions - labels|; see `accuracy`."""
    predictions, labels, weights = aligned(predictions, labels, weights)
    errors = ops.abs(predictions - labels)
    name = name or "mean_absolute_error"
    return mean(errors, weights, metrics_collections, updates_collections, name)


def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the mean of (predictions - labels)^2; see `accuracy`."""
    predictions, labels, weights = aligned(predictions, labels, weights)
    errors = ops.squared_difference(labels, predictions)
    name = name or "mean_squared_error"
    return mean(errors, weights, metrics_collections, updates_collections, name)


def root_mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the root of the mean squared error; see `accuracy`."""
    predictions, labels, weights = aligned(predictions, labels, weights)
    name = name or "root_mean_squared_error"
    squared, new_squared = mean_squared_error(labels, predictions, weights, None, None, name)
    value = published(ops.sqrt(squared), metrics_collections)
    return value, published(ops.sqrt(new_squared), updates_collections)


def mean_relative_error(
    labels: TensorLike,
    predictions: TensorLike,
    normalizer: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the mean of |labels - predictions| / normalizer.

    normalizer: of the labels' shape; an element whose normalizer is zero counts as no error. See
    `accuracy`.
    """
    predictions, labels, weights = aligned(predictions, labels, weights)
    predictions, normalizer = remove_squeezable_dimensions(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    unknown = ops.equal(normalizer, 0.0)
    none = ops.zeros_like(labels)
    errors = ops.where(unknown, none, ops.divide(ops.abs(labels - predictions), normalizer))
    name = name or "mean_relative_error"
    return mean(errors, weights, metrics_collections, updates_collections, name)


def mean_cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    dim: int,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the mean of 1 - the product of unit vectors.

    dim: the axis along which labels and predictions are normalized. See `accuracy`.
    """
    predictions, labels, weights = aligned(predictions, labels, weights)
    products = ops.reduce_sum(ops.multiply(predictions, labels), axis=[dim], keepdims=True)
    name = name or "mean_cosine_distance"
    found, new_found = mean(products, weights, None, None, name)
    value, update = ops.subtract(1.0, found), ops.subtract(1.0, new_found)
    return published(value, metrics_collections), published(update, updates_collections)


def percentage_below(
    values: TensorLike,
    threshold: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the share of values below a threshold; see `mean`."""
    below = ops.cast(ops.less(values, threshold), dtypes.float32)
    name = name or "percentage_below_threshold"
    return mean(below, weights, metrics_collections, updates_collections, name)
