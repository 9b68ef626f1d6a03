"""Metrics of the k best predictions, compared with labels as sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sets import set_difference, set_intersection, set_size
from tfjit.client.data.sparse_tensors import (
    SparseTensor,
    convert_to_tensor_or_sparse_tensor,
)
from tfjit.client.evaluation.metric_parts import metric_variable, published
from tfjit.client.variables.assignments import assign_add
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import nn
from tfjit.ops.checks.weights import assert_broadcastable
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import CollectionNames, DenseOrSparse, Structure, TensorLike


def at_k_name(name: str, k: int | None = None, class_id: int | None = None) -> str:
    """Return the name of a metric at k."""
    name = f"{name}_at_k" if k is None else f"{name}_at_{k:d}"
    return name if class_id is None else f"{name}_class{class_id:d}"


def either(
    condition: Tensor, yes: Callable[[], DenseOrSparse], no: Callable[[], DenseOrSparse]
) -> DenseOrSparse:
    """Return the result of one of two functions, dense or sparse.

    Both results are of the same kind.
    """
    sparse = []

    def parts(function: Callable[[], DenseOrSparse]) -> Structure:
        found = function()
        sparse.append(isinstance(found, SparseTensor))
        return [found.indices, found.values, found.dense_shape] if sparse[-1] else found

    chosen = ops.cond(condition, lambda: parts(yes), lambda: parts(no))
    return SparseTensor(*chosen) if sparse[0] else chosen


def reshaped(sparse: SparseTensor, shape: TensorLike, name: str | None) -> SparseTensor:
    """Return a sparse tensor in another dense shape."""
    with name_scope(name, "SparseReshape", [sparse.values]) as scope:
        indices, dense_shape = call(
            "SparseReshape",
            scope,
            input_indices=sparse.indices,
            input_shape=sparse.dense_shape,
            new_shape=shape,
        )
        return SparseTensor(indices, ops.identity(sparse.values), dense_shape)


def with_class_axis(labels: TensorLike, predictions: Tensor) -> DenseOrSparse:
    """Return labels of the predictions' rank.

    Labels without it get a last axis of size 1.

    Raises ValueError for labels of another rank.
    """
    with name_scope(None, "expand_labels", [labels, predictions]) as scope:
        truth: DenseOrSparse = convert_to_tensor_or_sparse_tensor(labels)
        if isinstance(truth, SparseTensor):
            sizes = truth.dense_shape
            lacks = ops.equal(ops.rank(predictions), ops.size(sizes) + 1)
            return either(
                lacks,
                lambda: reshaped(truth, ops.concat([sizes, [1]], 0), scope),
                lambda: truth,
            )
        own, wanted = truth.shape.rank, predictions.shape.rank
        if own is not None and wanted is not None:
            if wanted == own:
                return truth
            if wanted == own + 1:
                return ops.expand_dims(truth, -1, name=scope)
            raise ValueError(
                f"Unexpected labels shape {truth.shape} for predictions shape "
                f"{predictions.shape}. Predictions rank should be the same rank as labels rank or "
                "labels rank plus one ."
            )
        lacks = ops.equal(ops.rank(predictions), ops.rank(truth) + 1)
        return ops.cond(lacks, lambda: ops.expand_dims(truth, -1, name=scope), lambda: truth)


def _of_class(ids: TensorLike, class_id: int) -> SparseTensor:
    """Return the members of sets that are one class."""
    ids = convert_to_tensor_or_sparse_tensor(ids)
    if isinstance(ids, SparseTensor):
        return _retained(ids, ops.equal(ids.values, class_id))
    sizes = ops.shape(ids, out_type=dtypes.int64)
    last = ops.size(sizes) - 1
    one_each = _with_ones_at(sizes, ops.reshape(last, [1]))
    wanted = ops.fill(one_each, ops.cast(class_id, dtypes.int64))
    found = set_intersection(wanted, ids)
    return SparseTensor(found.indices, found.values, sizes)


def _retained(sparse: SparseTensor, kept: Tensor) -> SparseTensor:
    """Return the values of a sparse tensor for which `kept` is true."""
    places = ops.reshape(ops.where(kept), [-1])
    return SparseTensor(
        ops.gather(sparse.indices, places),
        ops.gather(sparse.values, places),
        ops.identity(sparse.dense_shape),
    )


def _with_ones_at(sizes: Tensor, axes: Tensor) -> Tensor:
    """Return sizes, with 1 at some axes."""
    rank = ops.size(sizes)
    axes = (axes + rank) % rank
    number = ops.shape(axes)
    return ops.dynamic_stitch([ops.range(rank), axes], [sizes, ops.ones(number, dtype=sizes.dtype)])


def _set_sizes(
    scope: str | None,
    default: str,
    labels: DenseOrSparse,
    best: DenseOrSparse,
    class_id: int | None,
    weights: TensorLike | None,
    operate: Callable[[DenseOrSparse, DenseOrSparse], SparseTensor],
) -> Tensor:
    """Return weighted sizes of sets made of predictions and labels."""
    with name_scope(scope, default, [best, labels, weights]):
        if class_id is not None:
            labels, best = _of_class(labels, class_id), _of_class(best, class_id)
        sizes = ops.cast(set_size(operate(best, labels)), dtypes.float64)
        if weights is not None:
            with control_dependencies([assert_broadcastable(weights, sizes)]):
                sizes = ops.multiply(sizes, ops.cast(weights, dtypes.float64))
        return sizes


def hits_at_k(
    labels: DenseOrSparse,
    best: DenseOrSparse,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Count the predictions of each row that are labels."""
    return _set_sizes(name, "true_positives", labels, best, class_id, weights, set_intersection)


def _false_alarms(
    labels: DenseOrSparse, best: DenseOrSparse, class_id: int | None, weights: TensorLike | None
) -> Tensor:
    """Count the predictions of each row that are no labels."""
    return _set_sizes(None, "false_positives", labels, best, class_id, weights, set_difference)


def _missed(
    labels: DenseOrSparse, best: DenseOrSparse, class_id: int | None, weights: TensorLike | None
) -> Tensor:
    """Count the labels of each row that are not predicted."""

    def lacking(best: DenseOrSparse, labels: DenseOrSparse) -> SparseTensor:
        return set_difference(best, labels, aminusb=False)

    return _set_sizes(None, "false_negatives", labels, best, class_id, weights, lacking)


def _summed(
    count: Callable[..., Tensor],
    name: str,
    labels: DenseOrSparse,
    best: Tensor,
    k: int | None,
    class_id: int | None,
    weights: TensorLike | None,
) -> tuple[Variable, Tensor]:
    """Return a summing variable and the operation that adds a batch."""
    with name_scope(None, at_k_name(name, k, class_id), [best, labels, weights]) as scope:
        counted = count(labels, best, class_id, weights)
        batch = ops.cast(ops.reduce_sum(counted), dtypes.float64)
        total = metric_variable([], dtypes.float64, name=scope)
        return total, assign_add(total, batch, name="update")


def _share_at_top_k(
    metric: str,
    others: tuple[str, Callable[..., Tensor]],
    labels: TensorLike,
    predictions_idx: TensorLike,
    k: int | None,
    class_id: int | None,
    weights: TensorLike | None,
    metrics_collections: CollectionNames | None,
    updates_collections: CollectionNames | None,
    name: str | None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of hits by hits and another count."""
    default = at_k_name(metric, k, class_id)
    with name_scope(name, default, [predictions_idx, labels, weights]) as scope:
        best = convert_to_tensor(predictions_idx)
        truth = with_class_axis(labels, best)
        best = ops.cast(best, dtypes.int64)
        ends = (truth, best, k, class_id, weights)
        hits, new_hits = _summed(hits_at_k, "true_positive", *ends)
        rest, new_rest = _summed(others[1], others[0], *ends)
        value = published(ops.divide(hits, ops.add(hits, rest), name=scope), metrics_collections)
        update = ops.divide(new_hits, ops.add(new_hits, new_rest), name="update")
        return value, published(update, updates_collections)


def recall_at_top_k(
    labels: TensorLike,
    predictions_idx: TensorLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the share of labels that are among predictions.

    labels: int64 [..., labels], dense or sparse, or [...] for one label each; predictions_idx: the
    predicted classes [..., k]; k: for names alone; class_id: count this class only; weights: a
    scalar, or of the predictions' rank less one, with sizes that are 1 or theirs. value: float64;
    NaN where there is no label. See `mean` for the other arguments. Raises ValueError for labels of
    another rank and weights that don't fit.
    """
    ends = (labels, predictions_idx, k, class_id, weights)
    ends_of_metric = (metrics_collections, updates_collections, name)
    return _share_at_top_k("recall", ("false_negative", _missed), *ends, *ends_of_metric)


def precision_at_top_k(
    labels: TensorLike,
    predictions_idx: TensorLike,
    k: int | None = None,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (value, update_op) of the share of predictions that are labels.

    See `recall_at_top_k`; NaN where there is no prediction.
    """
    ends = (labels, predictions_idx, k, class_id, weights)
    ends_of_metric = (metrics_collections, updates_collections, name)
    return _share_at_top_k("precision", ("false_positive", _false_alarms), *ends, *ends_of_metric)


def recall_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the share of labels among the k best predictions.

    predictions [..., classes]: a score for each class. See `recall_at_top_k`.
    """
    default = at_k_name("recall", k, class_id)
    with name_scope(name, default, [predictions, labels, weights]) as scope:
        _, best = nn.top_k(predictions, k)
        ends = (labels, best, k, class_id, weights)
        return recall_at_top_k(*ends, metrics_collections, updates_collections, scope)


def precision_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Measure the share of the k best predictions that are labels.

    predictions [..., classes]: a score for each class. See `recall_at_top_k`.
    """
    default = at_k_name("precision", k, class_id)
    with name_scope(name, default, [predictions, labels, weights]) as scope:
        _, best = nn.top_k(predictions, k)
        ends = (labels, best, k, class_id, weights)
        return precision_at_top_k(*ends, metrics_collections, updates_collections, scope)


def sparse_precision_at_k(
    labels: TensorLike,
    predictions: TensorLike,
    k: int,
    class_id: int | None = None,
    weights: TensorLike | None = None,
    metrics_collections: CollectionNames | None = None,
    updates_collections: CollectionNames | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return `precision_at_k` under its former name."""
    ends = (labels, predictions, k, class_id, weights)
    return precision_at_k(*ends, metrics_collections, updates_collections, name)
