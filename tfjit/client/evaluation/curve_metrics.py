"""Metrics of a curve over thresholds: its area, one of its points."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tfjit import ops
from tfjit.client.evaluation.metric_parts import published
from tfjit.client.evaluation.threshold_metrics import (
    MARGIN,
    counts_at_thresholds,
    even_thresholds,
)
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import CollectionNames, TensorLike

_EPSILON: Final = 1e-6
_LOGGER: Final = logging.getLogger("tensorflow")
# Of two neighbouring heights, the height of the strip between them.
_HEIGHTS: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "trapezoidal": lambda a, b: (a + b) / 2.0,
    "careful_interpolation": lambda a, b: (a + b) / 2.0,
    "minoring": lambda a, b: ops.minimum(a, b),
    "majoring": lambda a, b: ops.maximum(a, b),
}


def auc(
    labels: TensorLike,
    predictions: Tensor,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the area under a curve over thresholds.

    labels: read as booleans; predictions: a tensor of probabilities, of their shape; weights: a
    scalar, or of the labels' rank with sizes that are 1 or theirs. num_thresholds: evenly from 0 to
    1; thresholds: those between 0 and 1, instead. curve: "ROC" (recall over the rate of false
    positives) or "PR" (precision over recall). summation_method: "trapezoidal", "minoring",
    "majoring" or, of "PR", "careful_interpolation", which interpolates counts instead of precision.
    See `mean` for the other arguments. Raises ValueError for another curve or method, and for
    shapes that don't fit; a run raises InvalidArgumentError for predictions not in 0 .. 1.
    """
    with variable_scope(name, "auc", [labels, predictions, weights]):
        if curve not in ("ROC", "PR"):
            raise ValueError(f"Curve must be either ROC or PR. Curve {curve} is unknown.")
        if thresholds is None:
            limits = even_thresholds(num_thresholds)
        else:
            limits = [0.0 - MARGIN, *sorted(thresholds), 1.0 + MARGIN]
        found = counts_at_thresholds(labels, predictions, limits, weights)
        last = len(limits) - 1
        value = _area(found.values, curve, summation_method, last, "value")
        published(value, metrics_collections)
        update = _area(found.updates, curve, summation_method, last, "update_op")
        return value, published(update, updates_collections)


def _area(counts: dict[str, Tensor], curve: str, method: str, last: int, name: str) -> Tensor:
    """Return the area under a curve.

    last: the index of the last threshold. Raises ValueError for an unknown method.
    """
    if curve == "PR" and method == "trapezoidal":
        _LOGGER.warning(
            "The trapezoidal rule gives wrong areas under precision-recall curves; use "
            'summation_method="careful_interpolation".'
        )
    if curve == "PR" and method == "careful_interpolation":
        return _interpolated_area(counts["tp"], counts["fp"], counts["fn"], last)
    hits = counts["tp"]
    recall = ops.divide(hits + _EPSILON, hits + counts["fn"] + _EPSILON)
    if curve == "ROC":
        false = counts["fp"]
        x, y = ops.divide(false, false + counts["tn"] + _EPSILON), recall
    else:
        precision = ops.divide(hits + _EPSILON, hits + counts["fp"] + _EPSILON)
        x, y = recall, precision
    if method not in _HEIGHTS:
        raise ValueError(
            f"Invalid summation_method: {method} summation_method should be 'trapezoidal', "
            "'careful_interpolation', 'minoring', or 'majoring'."
        )
    widths = x[:last] - x[1:]
    heights = _HEIGHTS[method](y[:last], y[1:])
    return ops.reduce_sum(ops.multiply(widths, heights), name=name)


def _interpolated_area(hits: Tensor, false: Tensor, missed: Tensor, last: int) -> Tensor:
    """Return the area under precision over recall, with counts linear between thresholds.

    Between two thresholds, the hits are linear in the number of positive predictions p: hits =
    slope * p + intercept. So precision is hits / p, and its integral over hits has a logarithm.
    Source: Davis and Goadrich, "The relationship between precision-recall and ROC curves" (2006).
    """
    gained = hits[:last] - hits[1:]
    positive = hits + false
    slope = ops.div_no_nan(
        gained, ops.maximum(positive[:last] - positive[1:], 0), name="prec_slope"
    )
    intercept = hits[1:] - ops.multiply(slope, positive[1:])
    both = ops.logical_and(ops.greater(positive[:last], 0), ops.greater(positive[1:], 0))
    growth = ops.div_no_nan(
        positive[:last], ops.maximum(positive[1:], 0), name="recall_relative_ratio"
    )
    growth = ops.where(both, growth, ops.ones_like(positive[1:]))
    parts = ops.div_no_nan(
        slope * (gained + intercept * ops.log(growth)),
        ops.maximum(hits[1:] + missed[1:], 0),
        name="pr_auc_increment",
    )
    return ops.reduce_sum(parts, name="interpolate_pr_auc")


def sensitivity_at_specificity(
    labels: TensorLike,
    predictions: Tensor,
    specificity: float,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the share of true labels predicted, at a specificity.

    specificity: the share of false labels not predicted, 0 .. 1; the threshold that comes nearest
    to it counts. See `auc`. Raises ValueError for another specificity.
    """
    if specificity < 0 or specificity > 1:
        raise ValueError(
            "`specificity` must be in the range [0, 1]. Currently, `specificity` got "
            f"{specificity}."
        )
    with variable_scope(name, "sensitivity_at_specificity", [predictions, labels, weights]):
        limits = even_thresholds(num_thresholds)
        found = counts_at_thresholds(labels, predictions, limits, weights)

        def sensitivity(counts: dict[str, Tensor], suffix: str) -> Tensor:
            left = counts["tn"]
            rates = ops.divide(left, left + counts["fp"] + MARGIN)
            nearest = ops.argmin(ops.abs(rates - specificity), 0)
            place = ops.cast(nearest, dtypes.int32)
            return _rate(counts["tp"], counts["fn"], place, suffix)

        value = published(sensitivity(found.values, "value"), metrics_collections)
        return value, published(sensitivity(found.updates, "update_op"), updates_collections)


def specificity_at_sensitivity(
    labels: TensorLike,
    predictions: Tensor,
    sensitivity: float,
    weights: TensorLike | None = None,
    num_thresholds: int = 200,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the share of false labels not predicted, at a sensitivity.

    sensitivity: the share of true labels predicted, 0 .. 1; of the thresholds that come nearest to
    it, the last one counts. See `auc`. Raises ValueError for another sensitivity.
    """
    if sensitivity < 0 or sensitivity > 1:
        raise ValueError(
            f"`sensitivity` must be in the range [0, 1]. Currently, `sensitivity` is {sensitivity}."
        )
    with variable_scope(name, "specificity_at_sensitivity", [predictions, labels, weights]):
        # the last threshold is below 1 here, in TensorFlow, too
        limits = [*even_thresholds(num_thresholds)[:-1], 1.0 - MARGIN]
        found = counts_at_thresholds(labels, predictions, limits, weights)

        def specificity(counts: dict[str, Tensor], suffix: str) -> Tensor:
            hits = counts["tp"]
            rates = ops.divide(hits, hits + counts["fn"] + MARGIN)
            least = ops.reduce_min(ops.abs(rates - sensitivity))
            nearest = ops.equal(ops.abs(rates - sensitivity), least)
            ranks = ops.cumsum(ops.cast(nearest, dtypes.int64))
            place = ops.cast(ops.argmax(ranks, 0), dtypes.int32)
            return _rate(counts["tn"], counts["fp"], place, suffix)

        value = published(specificity(found.values, "value"), metrics_collections)
        return value, published(specificity(found.updates, "update_op"), updates_collections)


def _rate(part: Tensor, rest: Tensor, place: Tensor, name: str) -> Tensor:
    """Return part / (part + rest) at one threshold."""
    return ops.divide(part[place], part[place] + rest[place] + MARGIN, name)
