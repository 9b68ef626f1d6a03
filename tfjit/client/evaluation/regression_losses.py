"""Losses of predictions that are numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.evaluation.loss_collections import add_loss
from tfjit.client.evaluation.loss_reduction import (
    Reduction,
    compute_weighted_loss,
    present_count,
)
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.checks.weights import assert_broadcastable
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def need(**arguments: object) -> None:
    """Raise ValueError for an argument that is None."""
    for name, value in arguments.items():
        if value is None:
            raise ValueError(f"Argument `{name}` must not be None.")


def as_floats(first: TensorLike, second: TensorLike) -> tuple[Tensor, Tensor]:
    """Return two tensors in float32. Raises ValueError for shapes that don't fit."""
    made = ops.cast(first, dtypes.float32), ops.cast(second, dtypes.float32)
    made[0].shape.assert_is_compatible_with(made[1].shape)
    return made


def absolute_difference(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return |predictions - labels|, weighed and reduced.

    labels, predictions: of one shape. Other arguments and errors: see `compute_weighted_loss`.
    Raises ValueError for shapes that differ and for an argument that is None.
    """
    need(labels=labels, predictions=predictions)
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as inner:
        predictions, labels = as_floats(predictions, labels)
        losses = ops.abs(ops.subtract(predictions, labels))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def cosine_distance(
    labels: TensorLike,
    predictions: TensorLike,
    axis: int | None = None,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: int | None = None,
) -> Tensor:
    """Return 1 - the product of unit vectors, weighed and reduced.

    labels, predictions: of one shape, normalized along `axis`, which becomes size 1. dim: the
    former name of axis. See `absolute_difference`.
    """
    place = renamed(axis, dim, "axis", "dim")
    if place is None:
        raise ValueError("You must specify argument `axis`.")
    need(labels=labels, predictions=predictions)
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as inner:
        predictions, labels = as_floats(predictions, labels)
        products = ops.multiply(predictions, labels)
        losses = 1 - ops.reduce_sum(products, axis=(place,), keepdims=True)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def huber_loss(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return the loss of Huber, weighed and reduced.

    Of an error e: e * e / 2 up to delta, linear beyond. See `absolute_difference`.
    """
    need(labels=labels, predictions=predictions)
    with name_scope(scope, "huber_loss", [predictions, labels, weights]) as inner:
        predictions, labels = as_floats(predictions, labels)
        errors = ops.abs(ops.subtract(predictions, labels))
        squared = ops.minimum(errors, delta)
        linear = ops.subtract(errors, squared)
        half = ops.convert_to_tensor(0.5, dtype=squared.dtype)
        losses = ops.add(
            ops.multiply(half, ops.multiply(squared, squared)), ops.multiply(delta, linear)
        )
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def mean_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return (predictions - labels)^2, weighed and reduced; see `absolute_difference`."""
    need(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as inner:
        predictions, labels = as_floats(predictions, labels)
        losses = ops.squared_difference(predictions, labels)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: TensorLike,
    predictions: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Tensor:
    """Return squared differences of errors within each example.

    They are summed over the batch.

    labels, predictions [batch, ...]: the loss of an example is the mean over pairs of its elements
    of the squared difference of their errors. weights: a scalar, [batch, 1, ..] or the shape of
    labels. Raises ValueError for shapes that don't fit and for an argument that is None.
    """
    need(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        weights = ops.cast(weights, dtypes.float32)
        truth = ops.cast(labels, dtypes.float32)
        with control_dependencies([assert_broadcastable(weights, truth)]):
            answers = ops.cast(predictions, dtypes.float32)
            answers.shape.assert_is_compatible_with(truth.shape)
            errors = ops.subtract(answers, truth)
            axes = ops.range(1, ops.rank(errors))
            squares = ops.reduce_sum(ops.square(errors), axis=axes, keepdims=True)
            count = present_count(errors, weights, per_batch=True)
            own = 2.0 * ops.div_no_nan(squares, ops.maximum(count - 1, 0), name="value")
            totals = ops.reduce_sum(errors, axis=axes, keepdims=True)
            squared = ops.square(totals)
            pairs = ops.maximum(ops.multiply(count, count - 1), 0)
            mixed = 2.0 * ops.div_no_nan(squared, pairs, name="value")
            total = ops.reduce_sum(ops.multiply(own - mixed, weights))
            some = ops.reduce_sum(count) > 0
            loss = ops.where(some, total, ops.zeros_like(total), name="value")
            add_loss(loss, loss_collection)
            return loss
