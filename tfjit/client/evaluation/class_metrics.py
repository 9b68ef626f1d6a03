"""Metrics of class numbers: overlap of classes, accuracy within each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.evaluation.metric_parts import metric_variable, published, ratio
from tfjit.client.variables.assignments import assign_add, scatter_add
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import CollectionNames, TensorLike


def _row(x: Tensor) -> Tensor:
    """Return a tensor of several axes as one row.

    Raises TypeError for an unknown rank, as TensorFlow does.
    """
    rank = x.shape.rank
    if rank is None:
        raise TypeError(f"the rank of {x.name} has to be known")
    return ops.reshape(x, [-1]) if rank > 1 else x


def mean_iou(
    labels: Tensor,
    predictions: Tensor,
    num_classes: int,
    weights: Tensor | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the mean overlap of classes.

    labels, predictions: tensors of class numbers below num_classes, of one shape; weights: a tensor
    of their shape. value: the mean over classes of the elements with this label and prediction by
    those with one of both, of classes that occur. update_op: adds a batch and returns the confusion
    matrix, float64 [num_classes, num_classes]. See `mean` for other arguments. Raises
    InvalidArgumentError in a run for a class number out of range.
    """
    with variable_scope(name, "mean_iou", [predictions, labels, weights]):
        predictions.shape.assert_is_compatible_with(labels.shape)
        matrix, update = _confusion(labels, predictions, num_classes, weights)
        value = published(_mean_overlap(matrix), metrics_collections)
        return value, published(update, updates_collections)


def _confusion(
    labels: Tensor, predictions: Tensor, num_classes: int, weights: Tensor | None
) -> tuple[Variable, Tensor]:
    """Return a summing variable and the operation that adds a confusion matrix."""
    sizes = [num_classes, num_classes]
    total = metric_variable(sizes, dtypes.float64, name="total_confusion_matrix")
    predictions, labels = ops.cast(predictions, dtypes.int64), ops.cast(labels, dtypes.int64)
    limit = ops.cast(num_classes, dtypes.int64)
    predictions, labels = _row(predictions), _row(labels)
    weights = None if weights is None else _row(weights)
    added = ops.confusion_matrix(labels, predictions, limit, dtypes.float64, weights=weights)
    return total, assign_add(total, added)


def _mean_overlap(matrix: Variable) -> Tensor:
    """Return the mean over classes of intersection by union."""
    predicted = ops.cast(ops.reduce_sum(matrix, 0), dtypes.float32)
    labelled = ops.cast(ops.reduce_sum(matrix, 1), dtypes.float32)
    both = ops.cast(ops.diag_part(matrix), dtypes.float32)
    union = predicted + labelled - both
    occurring = ops.reduce_sum(ops.cast(ops.not_equal(union, 0), dtypes.float32))
    union = ops.where(ops.greater(union, 0), union, ops.ones_like(union))
    overlap = ops.divide(both, union)
    some = ops.greater(occurring, 0)
    return ops.where(some, ops.reduce_sum(overlap, name="mean_iou") / occurring, 0)


def mean_per_class_accuracy(
    labels: TensorLike,
    predictions: Tensor,
    num_classes: int,
    weights: Tensor | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the mean over classes of the accuracy within them.

    labels, predictions: class numbers below num_classes, of one shape; predictions and weights are
    tensors. value: a scalar. update_op: adds a batch and returns the accuracy of each class
    [num_classes], zero for classes that did not occur. See `mean` for other arguments.
    """
    with variable_scope(name, "mean_accuracy", [predictions, labels, weights]):
        truth, answers = _row(ops.cast(labels, dtypes.int64)), _row(predictions)
        answers.shape.assert_is_compatible_with(truth.shape)
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        ones = ops.ones([ops.size(truth)], dtypes.float32)
        if truth.dtype != answers.dtype:
            answers = ops.cast(answers, truth.dtype)
        hits = ops.cast(ops.equal(answers, truth), dtypes.float32)
        if weights is not None:
            factors = ops.cast(_row(weights), dtypes.float32)
            hits *= factors
            ones *= factors
        new_total = scatter_add(total, truth, ones)
        new_count = scatter_add(count, truth, hits)
        by_class = ops.div_no_nan(count, ops.maximum(total, 0))
        value = published(ops.reduce_mean(by_class, name="mean_accuracy"), metrics_collections)
        return value, published(ratio(new_count, new_total, "update_op"), updates_collections)
