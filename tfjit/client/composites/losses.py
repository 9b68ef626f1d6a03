"""Losses of counts, and means of losses over a batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_REPLICAS: Final = 1  # there are no distribution strategies


def log_poisson_loss(
    targets: TensorLike,
    log_input: TensorLike,
    compute_full_loss: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return exp(log_input) - log_input * targets, element by element.

    It is minus the log likelihood of `targets` in Poisson distributions of mean exp(log_input), but
    for a term of the targets alone. compute_full_loss: add Stirling's approximation of that term,
    where a target is above 1. Raises ValueError for shapes that differ.
    """
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        x = convert_to_tensor(log_input, name="log_input")
        counts = convert_to_tensor(targets, name="targets")
        if not counts.shape.is_compatible_with(x.shape):
            raise ValueError(
                f"`log_input` and `targets` must have the same shape, received ({x.shape} vs "
                f"{counts.shape})."
            )
        result = ops.exp(x) - x * counts
        if not compute_full_loss:
            return result
        half = ops.constant(0.5, dtype=counts.dtype)
        circle = ops.constant(2 * math.pi, dtype=counts.dtype)
        stirling = counts * ops.log(counts) - counts + half * ops.log(circle * counts)
        zeros, ones = ops.zeros_like(counts), ops.ones_like(counts)
        small = ops.logical_and(counts >= zeros, counts <= ones)
        return result + ops.where(small, zeros, stirling)


def scale_regularization_loss(regularization_loss: TensorLike) -> Tensor:
    """Return the sum of regularization losses, by the number of replicas.

    There is one replica.
    """
    return ops.reduce_sum(regularization_loss) / _REPLICAS


def compute_average_loss(
    per_example_loss: TensorLike,
    sample_weight: TensorLike | None = None,
    global_batch_size: TensorLike | None = None,
) -> Tensor:
    """Return the sum of weighted losses by the batch's size.

    It is 0 for an empty batch. per_example_loss [batch, ...]; sample_weight: weights that have its
    shape, or one axis more or less. global_batch_size: the size of `per_example_loss` along its
    first axis by default. Raises ValueError for a scalar loss, and for a size that is no integer
    scalar.
    """
    losses = convert_to_tensor(per_example_loss)
    if losses.shape.rank == 0:
        raise ValueError(
            "Invalid value passed for `per_example_loss`. Expected a tensor with at least rank 1. "
            f"Received per_example_loss={losses} with rank 0"
        )
    weighted = losses
    if sample_weight is not None:
        weights = ops.cast(convert_to_tensor(sample_weight), dtypes.float32)
        weighted = ops.cast(losses, dtypes.float32)
        weighted = ops.multiply(weighted, _of_rank(weights, weighted))
    weighted = ops.cast(weighted, losses.dtype)
    if global_batch_size is None:
        global_batch_size = ops.shape(weighted)[0] * _REPLICAS
    ops.assert_scalar(global_batch_size, message="global_batch_size must be scalar.")
    ops.assert_integer(global_batch_size, message="global_batch_size must be an integer.")
    ops.assert_non_negative(global_batch_size, message="global_batch_size must be non-negative.")
    total = ops.reduce_sum(weighted)
    return ops.div_no_nan(total, ops.cast(global_batch_size, losses.dtype))


def _of_rank(weights: Tensor, losses: Tensor) -> Tensor:
    """Give weights the rank of losses by a last axis."""
    rank, wanted = weights.shape.rank, losses.shape.rank
    if rank == 0:
        return weights
    if rank is not None and wanted is not None:
        if rank - wanted == 1:
            return ops.squeeze(weights, [-1])
        return ops.expand_dims(weights, [-1]) if wanted - rank == 1 else weights
    more = ops.rank(weights) - ops.rank(losses)
    fitted = ops.cond(
        ops.equal(more, 1),
        lambda: ops.squeeze(weights, [-1]),
        lambda: ops.cond(
            ops.equal(more, -1), lambda: ops.expand_dims(weights, [-1]), lambda: weights
        ),
    )
    return ops.cond(ops.equal(ops.rank(weights), 0), lambda: weights, lambda: fitted)
