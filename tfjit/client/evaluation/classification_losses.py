"""Losses of predictions that are classes, or the probability of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.evaluation.loss_reduction import Reduction, compute_weighted_loss
from tfjit.client.evaluation.regression_losses import as_floats, need
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops import nn
from tfjit.ops.checks.confusion import may_be_squeezed, remove_squeezable_dimensions
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def hinge_loss(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return max(0, 1 - sign * logits), weighed and reduced.

    labels: 0 or 1, for the signs -1 and 1; logits: of their shape. Other arguments and errors: see
    `compute_weighted_loss`. Raises ValueError for shapes that differ and for an argument that is
    None.
    """
    need(labels=labels, logits=logits)
    with name_scope(scope, "hinge_loss", [logits, labels, weights]) as inner:
        logits, labels = as_floats(logits, labels)
        ones = ops.ones_like(labels)
        signs = ops.subtract(2 * labels, ones)
        losses = nn.relu(ops.subtract(ones, ops.multiply(signs, logits)))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def log_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss of probabilities, weighed and reduced.

    labels: 0 .. 1; predictions: probabilities, of their shape; epsilon: added to them before the
    logarithm. See `hinge_loss`.
    """
    need(labels=labels, predictions=predictions)
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as inner:
        predictions, labels = as_floats(predictions, labels)
        hit = ops.multiply(labels, ops.log(predictions + epsilon))
        losses = -hit - ops.multiply(1 - labels, ops.log(1 - predictions + epsilon))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss of independent yes/no answers, weighed and reduced.

    multi_class_labels, logits [batch, classes]; label_smoothing: how far labels are moved towards
    1/2, of 1. See `hinge_loss`.
    """
    need(multi_class_labels=multi_class_labels, logits=logits)
    ends = [logits, multi_class_labels, weights]
    with name_scope(scope, "sigmoid_cross_entropy_loss", ends) as inner:
        answers = convert_to_tensor(logits)
        labels = ops.cast(multi_class_labels, answers.dtype)
        answers.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = nn.sigmoid_cross_entropy_with_logits(
            labels=labels, logits=answers, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss of softmax for rows of labels, weighed and reduced.

    onehot_labels, logits [batch, classes]; label_smoothing: how far labels are moved towards
    1 / classes, of 1. weights: a scalar or [batch]. Gradients reach the logits and weights. See
    `hinge_loss`.
    """
    need(onehot_labels=onehot_labels, logits=logits)
    ends = [logits, onehot_labels, weights]
    with name_scope(scope, "softmax_cross_entropy_loss", ends) as inner:
        answers = convert_to_tensor(logits)
        labels = ops.cast(onehot_labels, answers.dtype)
        answers.shape.assert_is_compatible_with(labels.shape)
        if label_smoothing > 0:
            classes = ops.cast(ops.shape(labels)[-1], answers.dtype)
            others = label_smoothing / classes
            labels = labels * (1.0 - label_smoothing) + others
        labels = ops.stop_gradient(labels, name="labels_stop_gradient")
        losses = nn.softmax_cross_entropy_with_logits_v2(
            labels=labels, logits=answers, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: TensorLike,
    logits: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss of softmax for class numbers, weighed and reduced.

    labels [batch, ...] or [batch, ..., 1], class numbers; logits [batch, ..., classes]; weights: a
    scalar or of the labels' shape, with a last axis of 1 too. See `hinge_loss`.
    """
    need(labels=labels, logits=logits)
    ends = [logits, labels, weights]
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", ends) as inner:
        labels, logits = remove_squeezable_dimensions(labels, logits, expected_rank_diff=1)
        factors = None if weights is None else _like_labels(labels, convert_to_tensor(weights))
        losses = nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, factors, inner, loss_collection, reduction)


def _like_labels(labels: Tensor, weights: Tensor) -> Tensor:
    """Return weights, without a last axis of 1 that labels lack."""
    ranks = weights.shape.rank, labels.shape.rank
    if ranks[0] is not None and ranks[1] is not None:
        return ops.squeeze(weights, [-1]) if ranks[0] - ranks[1] == 1 else weights
    difference = ops.rank(weights) - ops.rank(labels)
    if ranks[0] == 0 or not may_be_squeezed(weights):
        return weights
    return ops.cond(ops.equal(1, difference), lambda: ops.squeeze(weights, [-1]), lambda: weights)
