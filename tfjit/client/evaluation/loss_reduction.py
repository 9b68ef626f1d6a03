"""Weigh the losses of elements, and make one number of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.evaluation.loss_collections import add_loss
from tfjit.framework.graphs.default_graph import (
    control_dependencies,
    get_default_graph,
    name_scope,
)
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.checks.weights import assert_broadcastable, broadcast_weights
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class Reduction:
    """Ways of making one loss of the losses of elements.

    NONE: no reduction, the result has the shape of the losses. SUM: the sum of weighted losses. The
    others divide it: MEAN by the sum of weights, SUM_OVER_BATCH_SIZE by the number of elements,
    SUM_BY_NONZERO_WEIGHTS (also SUM_OVER_NONZERO_WEIGHTS) by the number of weights that are not
    zero. Zero divided by zero is zero.
    """

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all reductions."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ValueError for a value that is no reduction."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}. Key should be one of {cls.all()}.")


def _mean(losses: Tensor, count: Tensor) -> Tensor:
    """Return losses by their count; zero for a count of zero."""
    return ops.div_no_nan(ops.reduce_sum(losses), count, name="value")


def _element_count(losses: Tensor) -> Tensor:
    with name_scope(None, "num_elements", [losses]) as scope:
        return ops.cast(ops.size(losses, name=scope), losses.dtype)


def present_count(losses: Tensor, weights: TensorLike, per_batch: bool = False) -> Tensor:
    """Return the number of elements whose weights are not zero.

    per_batch: a number for each element of the first axis, with the other axes of size 1.
    """
    if isinstance(weights, float) and weights != 0.0:
        return _element_count(losses)
    with name_scope(None, "num_present", [losses, weights]) as scope:
        known = ops.cast(weights, dtypes.float32)
        absent = ops.equal(known, 0.0)
        present = ops.where(absent, ops.zeros_like(known), ops.ones_like(known))
        present = broadcast_weights(present, losses)
        if not per_batch:
            return ops.reduce_sum(present, name=scope)
        axes = ops.range(1, ops.rank(present))
        return ops.reduce_sum(present, axis=axes, keepdims=True, name=scope)


def _reduced(weighted: Tensor, losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    """Return weighted losses, reduced."""
    if reduction == Reduction.NONE:
        return weighted
    total = ops.reduce_sum(weighted)
    if reduction == Reduction.MEAN:
        return _mean(total, ops.reduce_sum(ops.ones_like(losses) * weights))
    if reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        return _mean(total, present_count(losses, weights))
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return _mean(total, _element_count(losses))
    return total


def compute_weighted_loss(
    losses: TensorLike,
    weights: TensorLike = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """Return losses times weights, reduced, in the dtype of the losses.

    losses [batch, ...]. weights: a scalar, or of the losses' rank with sizes that are 1 or theirs;
    gradients reach them, too. scope: the name of the operations. loss_collection: the collection
    that the loss is added to, or None. reduction: one of `Reduction`. Sums are in float32. Raises
    ValueError for an unknown reduction and for weights that don't fit; a run raises
    InvalidArgumentError where shapes were not known.
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss", [losses, weights]):
        # distributed optimizers of TensorFlow read it
        setattr(get_default_graph(), "_last_loss_reduction", reduction)  # noqa: B010
        with control_dependencies([assert_broadcastable(weights, losses)]):
            given = convert_to_tensor(losses)
            wide = ops.cast(given, dtypes.float32)
            factors = ops.cast(weights, dtypes.float32)
            weighted = ops.multiply(wide, factors)
            loss = ops.cast(_reduced(weighted, wide, factors, reduction), given.dtype)
            add_loss(loss, loss_collection)
            return loss
