"""Metrics of yes/no answers: counts of hits and misses, precision, recall."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.evaluation.metric_parts import aligned, metric_variable, published
from tfjit.client.variables.assignments import assign_add
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.checks.kinds import assert_type
from tfjit.ops.checks.ranks import assert_rank_in

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import CollectionNames, TensorLike


def _answers(
    labels: TensorLike, predictions: TensorLike, weights: TensorLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return (predictions, labels, weights), the first two as booleans."""
    return aligned(
        predictions=ops.cast(predictions, dtypes.bool),
        labels=ops.cast(labels, dtypes.bool),
        weights=weights,
    )


def _counted(
    true: Tensor,
    weights: TensorLike | None,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the weighted number of true elements."""
    assert_type(true, dtypes.bool)
    count = metric_variable([], dtypes.float32, name="count")
    values = ops.cast(true, dtypes.float32)
    if weights is not None:
        with control_dependencies([assert_rank_in(weights, (0, ops.rank(values)))]):
            values = ops.multiply(values, ops.cast(weights, dtypes.float32))
    value = published(ops.identity(count), metrics_collections)
    update = assign_add(count, ops.reduce_sum(values))
    return value, published(update, updates_collections)


def _count(
    scope: str,
    label: bool,
    prediction: bool,
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
    name: str | None,
) -> tuple[Tensor, Tensor]:
    """Count one pair of label and prediction."""
    with variable_scope(name, scope, [predictions, labels, weights]):
        answers, truth, weights = _answers(labels, predictions, weights)
        found = ops.logical_and(ops.equal(truth, label), ops.equal(answers, prediction))
        return _counted(found, weights, metrics_collections, updates_collections)


def true_positives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Count true labels that were predicted, with weights.

    labels, predictions: read as booleans, of one shape; weights: a scalar or of their rank. See
    `mean` for the other arguments and errors.
    """
    ends = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("true_positives", True, True, *ends)


def false_positives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the number of false labels predicted as true.

    See `true_positives`.
    """
    ends = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("false_positives", False, True, *ends)


def true_negatives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the number of false labels that were predicted.

    See `true_positives`.
    """
    ends = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("true_negatives", False, False, *ends)


def false_negatives(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the number of true labels predicted as false.

    See `true_positives`.
    """
    ends = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _count("false_negatives", True, False, *ends)


def _share(part: Tensor, rest: Tensor, name: str) -> Tensor:
    """Return part / (part + rest), or zero where both are."""
    some = ops.greater(part + rest, 0)
    return ops.where(some, ops.divide(part, part + rest), 0, name)


def _share_of_hits(
    scope: str,
    misses: Callable[..., tuple[Tensor, Tensor]],
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
    name: str | None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of hits by hits and misses."""
    with variable_scope(name, scope, [predictions, labels, weights]):
        answers, truth, weights = _answers(labels, predictions, weights)
        hits, new_hits = true_positives(truth, answers, weights)
        missed, new_missed = misses(truth, answers, weights)
        value = published(_share(hits, missed, "value"), metrics_collections)
        return value, published(_share(new_hits, new_missed, "update_op"), updates_collections)


def precision(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the share of positive predictions that are right.

    Zero without any. See `true_positives`.
    """
    ends = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _share_of_hits("precision", false_positives, *ends)


def recall(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the share of true labels that are predicted.

    Zero without any. See `true_positives`.
    """
    ends = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _share_of_hits("recall", false_negatives, *ends)
