"""Present the confusion matrix, and labels and predictions brought to one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic.elementwise_functions import cast, equal, maximum
from tfjit.ops.arithmetic.reduction import reduce_max
from tfjit.ops.arrays.array import rank, squeeze
from tfjit.ops.arrays.creation import ones_like
from tfjit.ops.arrays.indexing_functions import scatter_nd
from tfjit.ops.arrays.movement_functions import stack
from tfjit.ops.checks.comparisons import assert_less, assert_non_negative
from tfjit.ops.control_flow.conditionals import cond
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def may_be_squeezed(x: Tensor) -> bool:
    """Return whether the last axis may have size 1."""
    known = x.shape_tuple
    return known is None or known[-1] in (None, 1)


def remove_squeezable_dimensions(
    labels: TensorLike,
    predictions: TensorLike,
    expected_rank_diff: int = 0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (labels, predictions) without a last axis of size 1 too many.

    expected_rank_diff: the rank of predictions less that of labels; one of them loses its last axis
    where they differ by one more or less. Ranks that are not known are compared in a run.
    """
    with name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions, labels = convert_to_tensor(predictions), convert_to_tensor(labels)
        ranks = predictions.shape.rank, labels.shape.rank
        wide, narrow = expected_rank_diff + 1, expected_rank_diff - 1
        if ranks[0] is not None and ranks[1] is not None:
            found = ranks[0] - ranks[1]
            if found == wide and may_be_squeezed(predictions):
                predictions = squeeze(predictions, [-1])
            elif found == narrow and may_be_squeezed(labels):
                labels = squeeze(labels, [-1])
            return labels, predictions
        difference = rank(predictions) - rank(labels)
        if may_be_squeezed(predictions):
            predictions = _squeezed_if(equal(wide, difference), predictions)
        if may_be_squeezed(labels):
            labels = _squeezed_if(equal(narrow, difference), labels)
        return labels, predictions


def _squeezed_if(condition: Tensor, x: Tensor) -> Tensor:
    """Return a tensor, without its last axis where a condition is true."""
    found = cond(condition, lambda: squeeze(x, [-1]), lambda: x)
    assert isinstance(found, Tensor)
    return found


def _checked(check: Callable[..., Operation], x: Tensor, *limit: Tensor, text: str) -> Tensor:
    """Return a tensor behind a check of its elements."""
    return with_dependencies([check(x, *limit, message=text)], x)


def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: TensorLike | None = None,
    dtype: DTypeLike = dtypes.int32,
    name: str | None = None,
    weights: TensorLike | None = None,
) -> Tensor:
    """Return the counts of each pair of label and prediction.

    labels, predictions: class numbers [n]; num_classes: one more than the largest by default;
    weights [n], counted instead of ones. -> [num_classes, num_classes] of `dtype`, a row a label.
    Raises InvalidArgumentError in a run for numbers below zero or too large.
    """
    with name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]):
        labels, predictions = remove_squeezable_dimensions(
            convert_to_tensor(labels, name="labels"),
            convert_to_tensor(predictions, name="predictions"),
        )
        guessed, truth = cast(predictions, dtypes.int64), cast(labels, dtypes.int64)
        below = "`{}` contains negative values"
        truth = _checked(assert_non_negative, truth, text=below.format("labels"))
        guessed = _checked(assert_non_negative, guessed, text=below.format("predictions"))
        classes: TensorLike | None = num_classes
        if num_classes is None:
            classes = maximum(reduce_max(guessed), reduce_max(truth)) + 1
        else:
            limit = cast(num_classes, dtypes.int64)
            truth = _checked(assert_less, truth, limit, text="`labels` out of bound")
            guessed = _checked(assert_less, guessed, limit, text="`predictions` out of bound")
        if weights is not None:
            weights = convert_to_tensor(weights, name="weights")
            guessed.shape.assert_is_compatible_with(weights.shape)
            weights = cast(weights, dtype)
        sizes = stack([classes, classes])
        pairs = stack([truth, guessed], axis=1)
        counted = ones_like(guessed, dtype) if weights is None else weights
        return scatter_nd(indices=pairs, updates=counted, shape=cast(sizes, dtypes.int64))
