"""Parts of every metric: variables, collections, and arguments of one shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tfjit import ops
from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import add_to_collections
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.checks.confusion import may_be_squeezed, remove_squeezable_dimensions
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        CollectionNames,
        DTypeLike,
        ShapeLike,
        Structure,
        TensorLike,
    )

Published = TypeVar("Published")


def metric_variable(
    shape: ShapeLike, dtype: DTypeLike, name: str | None = None, validate_shape: bool = True
) -> Variable:
    """Return a local variable of zeros, which is also a metric variable."""
    return Variable(
        lambda: ops.zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape,
        synchronization=VariableSynchronization.ON_READ,
        aggregation=VariableAggregation.SUM,
        name=name,
    )


def published(value: Published, collections: CollectionNames | None) -> Published:
    """Return a value, added to collections, if there are any."""
    if collections:
        add_to_collections(collections, value)
    return value


def ratio(part: TensorLike, whole: TensorLike, name: str) -> Tensor:
    """Return part / max(whole, 0); zero for a division by zero."""
    return ops.div_no_nan(part, ops.maximum(whole, 0), name=name)


def aligned(
    predictions: TensorLike, labels: TensorLike | None, weights: TensorLike | None
) -> tuple[Tensor, Structure, Structure]:
    """Return (predictions, labels, weights) of shapes that fit.

    Labels or predictions lose a last axis of size 1 that the other lacks; weights that are no
    scalar lose or get one. Raises ValueError for labels of another shape.
    """
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    return predictions, labels, _fitted(convert_to_tensor(weights), predictions)


def _fitted(weights: Tensor, predictions: Tensor) -> Structure:
    """Return weights of the predictions' rank, or a scalar."""
    own, wanted = weights.shape.rank, predictions.shape.rank
    if own == 0:
        return weights
    if own is not None and wanted is not None:
        if own - wanted == 1:
            return ops.squeeze(weights, [-1])
        return ops.expand_dims(weights, [-1]) if wanted - own == 1 else weights
    rank = ops.rank(weights)
    difference = rank - ops.rank(predictions)

    def squeezed() -> Tensor:
        fixed = own is not None and not may_be_squeezed(weights)
        return weights if fixed else ops.squeeze(weights, [-1])

    def expanded() -> Structure:
        lower = ops.equal(difference, -1)
        return ops.cond(lower, lambda: ops.expand_dims(weights, [-1]), lambda: weights)

    def adjusted() -> Structure:
        return ops.cond(ops.equal(difference, 1), squeezed, expanded)

    return ops.cond(ops.equal(rank, 0), lambda: weights, adjusted)
