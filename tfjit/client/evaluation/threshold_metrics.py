"""Metrics of probabilities, for which thresholds make yes/no answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tfjit import ops
from tfjit.client.evaluation.metric_parts import aligned, metric_variable, published
from tfjit.client.variables.assignments import assign_add
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.checks.comparisons import assert_greater_equal, assert_less_equal
from tfjit.ops.checks.weights import broadcast_weights

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import CollectionNames, Structure, TensorLike

# Beyond 0 and 1 by this, the first threshold is below and the last one above all predictions.
MARGIN: Final = 1e-7


class _Outcome(NamedTuple):
    """A pair of label and prediction, and its variable's name."""

    variable: str
    label: bool
    prediction: bool


_OUTCOMES: Final = {
    "tp": _Outcome("true_positives", True, True),
    "fn": _Outcome("false_negatives", True, False),
    "tn": _Outcome("true_negatives", False, False),
    "fp": _Outcome("false_positives", False, True),
}


class Counts(NamedTuple):
    """Counts by outcome: variables, and operations that add a batch."""

    values: dict[str, Structure]
    updates: dict[str, Tensor]


def even_thresholds(count: int) -> list[float]:
    """Return `count` thresholds from 0 to 1, the ends MARGIN beyond."""
    inside = [(i + 1) * 1.0 / (count - 1) for i in range(count - 2)]
    return [0.0 - MARGIN, *inside, 1.0 + MARGIN]


def _probabilities(
    labels: TensorLike, predictions: Tensor, weights: TensorLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return (predictions, labels, weights), with checks that predictions are 0 .. 1."""
    text = "predictions must be in [0, 1]"
    checks = []
    for check, limit in ((assert_greater_equal, 0.0), (assert_less_equal, 1.0)):
        checks.append(check(predictions, ops.cast(limit, predictions.dtype), message=text))
    with control_dependencies(checks):
        return aligned(
            predictions=ops.cast(predictions, dtypes.float32),
            labels=ops.cast(labels, dtypes.bool),
            weights=weights,
        )


def counts_at_thresholds(
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    outcomes: Sequence[str] = tuple(_OUTCOMES),
) -> Counts:
    """Return the weighted number of each outcome at each threshold, [thresholds].

    A prediction is positive above a threshold.
    """
    predictions, labels, weights = _probabilities(labels, predictions, weights)
    number = len(thresholds)
    column = ops.reshape(predictions, [-1, 1])
    row = ops.reshape(ops.cast(labels, dtypes.bool), [1, -1])
    elements: int | Tensor | None = column.shape.as_list()[0]
    if elements is None:
        elements = ops.shape(column)[0]
    limits = ops.tile(
        ops.expand_dims(ops.constant(list(thresholds)), [1]), ops.stack([1, elements])
    )
    answers = {True: ops.greater(ops.tile(ops.transpose(column), [number, 1]), limits)}
    if any(not _OUTCOMES[key].prediction for key in outcomes):
        answers[False] = ops.logical_not(answers[True])
    truth = {True: ops.tile(row, [number, 1])}
    if any(not _OUTCOMES[key].label for key in outcomes):
        truth[False] = ops.logical_not(truth[True])
    factors = None
    if weights is not None:
        weights = broadcast_weights(ops.cast(weights, dtypes.float32), predictions)
        factors = ops.tile(ops.reshape(weights, [1, -1]), [number, 1])
        limits.shape.assert_is_compatible_with(factors.shape)
    counts = Counts({}, {})
    for key, outcome in _OUTCOMES.items():
        if key not in outcomes:
            continue
        total = metric_variable([number], dtypes.float32, name=outcome.variable)
        both = ops.logical_and(truth[outcome.label], answers[outcome.prediction])
        found = ops.cast(both, dtypes.float32)
        if factors is not None:
            found *= factors
        counts.updates[key] = assign_add(total, ops.reduce_sum(found, 1))
        counts.values[key] = total
    return counts


def _one_count(
    key: str,
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
    name: str | None,
) -> tuple[Tensor, Tensor]:
    """Count one outcome at each threshold."""
    with variable_scope(name, _OUTCOMES[key].variable, [predictions, labels, weights]):
        found = counts_at_thresholds(labels, predictions, thresholds, weights, (key,))
        value = published(ops.identity(found.values[key]), metrics_collections)
        return value, published(found.updates[key], updates_collections)


def true_positives_at_thresholds(
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Count true labels that are predicted above thresholds.

    labels: read as booleans; predictions: a tensor of probabilities, of their shape; thresholds:
    numbers of Python; weights: a scalar, or of the labels' rank with sizes that are 1 or theirs.
    value [thresholds], float32. See `mean` for the other arguments. Raises ValueError for shapes
    that don't fit; a run raises InvalidArgumentError for predictions that are not in 0 .. 1.
    """
    ends = (labels, predictions, thresholds, weights, metrics_collections, updates_collections)
    return _one_count("tp", *ends, name)


def false_positives_at_thresholds(
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Count false labels that are predicted above thresholds.

    See `true_positives_at_thresholds`.
    """
    ends = (labels, predictions, thresholds, weights, metrics_collections, updates_collections)
    return _one_count("fp", *ends, name)


def true_negatives_at_thresholds(
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Count false labels that are not predicted above thresholds.

    See `true_positives_at_thresholds`.
    """
    ends = (labels, predictions, thresholds, weights, metrics_collections, updates_collections)
    return _one_count("tn", *ends, name)


def false_negatives_at_thresholds(
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Count true labels that are not predicted above thresholds.

    See `true_positives_at_thresholds`.
    """
    ends = (labels, predictions, thresholds, weights, metrics_collections, updates_collections)
    return _one_count("fn", *ends, name)


def _share_at_thresholds(
    metric: str,
    rest: str,
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
    name: str | None,
) -> tuple[Tensor, Tensor]:
    """Measure hits by hits and another outcome, at each threshold."""
    with variable_scope(name, f"{metric}_at_thresholds", [predictions, labels, weights]):
        found = counts_at_thresholds(labels, predictions, thresholds, weights, ("tp", rest))

        def share(counts: dict[str, Tensor], suffix: str) -> Tensor:
            whole = 1e-7 + counts["tp"] + counts[rest]
            return ops.divide(counts["tp"], whole, name=f"{metric}_{suffix}")

        value = published(share(found.values, "value"), metrics_collections)
        return value, published(share(found.updates, "update_op"), updates_collections)


def precision_at_thresholds(
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the share of predictions above thresholds that are right.

    See `true_positives_at_thresholds`.
    """
    ends = (labels, predictions, thresholds, weights, metrics_collections, updates_collections)
    return _share_at_thresholds("precision", "fp", *ends, name)


def recall_at_thresholds(
    labels: TensorLike,
    predictions: Tensor,
    thresholds: Sequence[float],
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the share of true labels predicted above thresholds.

    See `true_positives_at_thresholds`.
    """
    ends = (labels, predictions, thresholds, weights, metrics_collections, updates_collections)
    return _share_at_thresholds("recall", "fn", *ends, name)
