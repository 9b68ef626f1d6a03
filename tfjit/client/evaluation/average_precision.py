"""The mean average precision of the k best predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sets import set_size
from tfjit.client.data.sparse_tensors import (
    SparseTensor,
    SparseTensorValue,
    convert_to_tensor_or_sparse_tensor,
)
from tfjit.client.evaluation.metric_parts import metric_variable, published
from tfjit.client.evaluation.top_k_metrics import (
    at_k_name,
    either,
    hits_at_k,
    reshaped,
    with_class_axis,
)
from tfjit.client.variables.assignments import assign_add
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import nn
from tfjit.ops.arrays.indexing_functions import where_v2
from tfjit.ops.checks.weights import broadcast_weights
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import CollectionNames, DenseOrSparse, TensorLike


def average_precision_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the mean of average precisions at k.

    The average precision of a row is the mean, over its labels (k at most), of the precision of the
    predictions down to each predicted label. labels: int64 [..., labels], dense or sparse, or [...]
    for one label each; predictions [..., classes]: a score for each class; weights: a scalar, or of
    the predictions' rank less one. value: float64. See `mean` for the other arguments. Raises
    ValueError for k below 1, labels of another rank and weights that don't fit.
    """
    if k < 1:
        raise ValueError(f"Invalid k={k}. `k` should be >= 1.")
    default = at_k_name("average_precision", k)
    with name_scope(name, default, [predictions, labels, weights]) as scope:
        _, best = nn.top_k(predictions, k)
        classes = ops.cast(ops.shape(predictions)[-1], dtypes.int64)
        known = _without_unknown_classes(labels, classes)
        return _mean_over_batches(
            known, best, weights, metrics_collections, updates_collections, scope
        )


def sparse_average_precision_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return `average_precision_at_k` under its former name."""
    ends = (labels, predictions, k, weights, metrics_collections, updates_collections)
    return average_precision_at_k(*ends, name)


def _without_unknown_classes(labels: TensorLike, classes: Tensor) -> DenseOrSparse:
    """Return labels with -1 for those that are no class."""
    if isinstance(labels, SparseTensorValue):
        labels = SparseTensor.from_value(labels)
    numbers: DenseOrSparse = labels.values if isinstance(labels, SparseTensor) else labels

    def cleaned() -> DenseOrSparse:
        unknown = ops.greater_equal(numbers, classes)
        found = where_v2(unknown, -1 * ops.ones_like(numbers), numbers)
        if isinstance(labels, SparseTensor):
            return SparseTensor(labels.indices, found, labels.dense_shape)
        return found

    some = ops.greater_equal(ops.reduce_max(numbers), classes)
    return either(some, cleaned, lambda: labels)


def _mean_over_batches(
    labels: DenseOrSparse,
    best: Tensor,
    weights: TensorLike | None,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
    name: str,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the weighted mean of average precisions."""
    with name_scope(name, "average_precision_at_top_k", [best, labels, weights]) as scope:
        precision = _average_precision(labels, best)
        if weights is not None:
            weights = broadcast_weights(ops.cast(weights, dtypes.float64), precision)
            precision = ops.multiply(precision, weights)
        with name_scope(None, "max", [precision]) as inner:
            most = metric_variable([], dtypes.float64, name=inner)
            if weights is None:
                added = ops.cast(ops.size(precision, name="batch_max"), dtypes.float64)
            else:
                added = ops.reduce_sum(weights, name="batch_max")
            new_most = assign_add(most, added, name="update")
        with name_scope(None, "total", [precision]) as inner:
            total = metric_variable([], dtypes.float64, name=inner)
            batch = ops.reduce_sum(precision, name="batch_total")
            new_total = assign_add(total, batch, name="update")
        value = published(ops.div_no_nan(total, most, name="mean"), metrics_collections)
        update = ops.div_no_nan(new_total, new_most, name=scope)
        return value, published(update, updates_collections)


def _average_precision(labels: DenseOrSparse, predictions_idx: Tensor) -> Tensor:
    """Return the average precision of each row.

    Raises ValueError where the number of predictions is not known.
    """
    with name_scope(None, "average_precision", [predictions_idx, labels]) as scope:
        best = ops.cast(predictions_idx, dtypes.int64, name="predictions_idx")
        if best.shape.rank == 0:
            raise ValueError("The rank of `predictions_idx` must be at least 1.")
        k = best.shape.as_list()[-1]
        if k is None:
            raise ValueError(
                "The last dimension of predictions_idx must be set. Currently, it is None."
            )
        labels = with_class_axis(labels, best)
        # a set of one prediction for each place, beside the labels
        each = ops.expand_dims(best, -1, name="predictions_idx_per_k")
        beside = _repeated(labels, k, "labels_per_k")
        relevant = hits_at_k(beside, each, name="relevant_per_k")
        hits = ops.cumsum(relevant, axis=-1, name="tp_per_k")
        seen = ops.cumsum(ops.ones_like(relevant), axis=-1, name="retrieved_per_k")
        precision = ops.divide(
            ops.cast(hits, dtypes.float64), ops.cast(seen, dtypes.float64), name="precision_per_k"
        )
        counted = ops.multiply(
            precision, ops.cast(relevant, dtypes.float64), name="relevant_precision_per_k"
        )
        total = ops.reduce_sum(counted, axis=(-1,), name="precision_sum")
        number = ops.cast(_label_count(labels, k), dtypes.float64)
        return ops.divide(total, number, name=scope)


def _label_count(labels: DenseOrSparse, k: int) -> Tensor:
    """Return the number of labels of each row, k at most.

    Dense labels below zero do not count.
    """
    with name_scope(None, "num_relevant", [labels]) as scope:
        labels = convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(labels, SparseTensor):
            return ops.minimum(set_size(labels), k, name=scope)
        present = ops.greater_equal(labels, 0)
        ones = where_v2(present, ops.ones_like(labels), ops.zeros_like(labels))
        return ops.minimum(ops.reduce_sum(ones, axis=-1), k, name=scope)


def _repeated(labels: DenseOrSparse, times: int, name: str) -> DenseOrSparse:
    """Return labels [..., labels], as [..., times, labels]."""
    with name_scope(name, "expand_and_tile", [labels, times, -1]) as scope:
        labels = convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(labels, SparseTensor):
            return _repeated_sparse(labels, times, scope)
        wide = ops.expand_dims(labels, -2, name="expand")
        if times == 1:
            return wide
        ones = ops.ones_like(ops.shape(labels))
        counts = ops.concat([ones[:-1], [times], ones[-1:]], 0, name="multiples")
        return ops.tile(wide, counts, name=scope)


def _repeated_sparse(labels: SparseTensor, times: int, name: str) -> SparseTensor:
    """Return sparse labels, repeated along a new axis before the last one."""
    sizes = labels.dense_shape
    place = ops.reshape(ops.size(sizes) + -1, [1])
    before, after = ops.slice(sizes, [0], place), ops.slice(sizes, place, [-1])
    shape = ops.concat([before, [1], after], 0, name="expanded_shape")
    wide = reshaped(labels, convert_to_tensor(shape), "expand")
    if times == 1:
        return wide
    found = call(
        "SparseConcat",
        name,
        indices=[wide.indices] * times,
        values=[wide.values] * times,
        shapes=[wide.dense_shape] * times,
        concat_dim=-2,
    )
    return SparseTensor(*found)
