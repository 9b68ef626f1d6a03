"""Losses over a sample of many classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.composites.embeddings import embedding_lookup, tables_of
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import nn
from tfjit.ops.core.apply import tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def nce_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: Tensor,
    inputs: Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sequence[Tensor] | None = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str | None = "nce_loss",
) -> Tensor:
    """Return the loss of noise-contrastive estimation for each example, [batch].

    weights [num_classes, dim], or a list of it; biases [num_classes]; labels: integers [batch,
    num_true]; inputs [batch, dim]. sampled_values: results of a candidate sampler, by
    default of `log_uniform_candidate_sampler` with `num_sampled` classes.
    remove_accidental_hits: leave out sampled classes that are labels. partition_strategy: "mod" or
    "div", of weights in parts. Raises ValueError for shapes that don't fit.
    """
    logits, truth = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        (num_sampled, num_classes, num_true),
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        name,
        None,
    )
    losses = nn.sigmoid_cross_entropy_with_logits(
        labels=truth, logits=logits, name="sampled_losses"
    )
    return _row_sums(losses)


def sampled_softmax_loss(
    weights: TensorLike,
    biases: TensorLike,
    labels: Tensor,
    inputs: Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Sequence[Tensor] | None = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str | None = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Return the softmax loss over sampled classes for each example, [batch].

    seed: of the default sampler. See `nce_loss` for the other arguments.
    """
    logits, truth = _sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        (num_sampled, num_classes, num_true),
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        name,
        seed,
    )
    truth = ops.stop_gradient(truth, name="labels_stop_gradient")
    return nn.softmax_cross_entropy_with_logits_v2(labels=truth, logits=logits)


def _row_sums(x: Tensor) -> Tensor:
    """Return the sum of each row, as a product with ones."""
    columns = ops.shape(x)[1]
    ones = ops.ones(ops.stack([columns, 1]), x.dtype)
    return ops.reshape(ops.matmul(x, ones), [-1])


def _sampled_logits(
    weights: TensorLike,
    biases: TensorLike,
    labels: Tensor,
    inputs: Tensor,
    counts: tuple[int, int, int],
    sampled_values: Sequence[Tensor] | None,
    remove_accidental_hits: bool,
    partition_strategy: str,
    name: str | None,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Return (logits, labels) of true and sampled classes, [batch, num_true + num_sampled].

    counts: num_sampled, num_classes, num_true. The logarithm of each class's expected count is
    taken off its logit. The labels of an example sum to 1.
    """
    num_sampled, num_classes, num_true = counts
    parts = tables_of(weights)
    with name_scope(name, "compute_sampled_logits", [*parts, biases, inputs, labels]):
        truth = labels if labels.dtype == dtypes.int64 else ops.cast(labels, dtypes.int64)
        flat = ops.reshape(truth, [-1])
        if sampled_values is None:
            sampled_values = nn.log_uniform_candidate_sampler(
                true_classes=truth,
                num_true=num_true,
                num_sampled=num_sampled,
                unique=True,
                range_max=num_classes,
                seed=seed,
            )
        sampled, true_count, sampled_count = (ops.stop_gradient(v) for v in sampled_values)
        sampled = ops.cast(sampled, dtypes.int64)
        ids = ops.concat([flat, sampled], 0)

        def looked_up(table: TensorLike) -> Tensor:
            found = embedding_lookup(table, ids, partition_strategy=partition_strategy)
            return found if found.dtype == inputs.dtype else ops.cast(found, inputs.dtype)

        rows = looked_up(parts)
        true_rows = ops.slice(rows, [0, 0], ops.stack([ops.shape(flat)[0], -1]))
        sampled_rows = ops.slice(rows, ops.stack([ops.shape(flat)[0], 0]), [-1, -1])
        sampled_logits = ops.matmul(inputs, sampled_rows, transpose_b=True)
        offsets = looked_up(biases)
        true_offsets = ops.slice(offsets, [0], ops.shape(flat))
        sampled_offsets = ops.slice(offsets, ops.shape(flat), [-1])
        dim = ops.shape(true_rows)[1:2]
        by_example = ops.concat([[-1, num_true], dim], 0)
        products = ops.multiply(ops.expand_dims(inputs, 1), ops.reshape(true_rows, by_example))
        matrix = ops.reshape(products, ops.concat([[-1], dim], 0))
        true_logits = ops.reshape(_row_sums(matrix), [-1, num_true])
        true_offsets = ops.reshape(true_offsets, [-1, num_true])
        true_logits += true_offsets
        sampled_logits += sampled_offsets
        if remove_accidental_hits:
            sampled_logits += _hits(truth, sampled, sampled_logits, num_sampled, num_true)
        true_logits -= ops.log(true_count)
        sampled_logits -= ops.log(sampled_count)
        logits = ops.concat([true_logits, sampled_logits], 1)
        shares = ops.ones_like(true_logits) / num_true
        return logits, ops.concat([shares, ops.zeros_like(sampled_logits)], 1)


def _hits(
    labels: Tensor, sampled: Tensor, logits: Tensor, num_sampled: int, num_true: int
) -> Tensor:
    """Return large negative numbers where a sampled class is a label.

    The result is [batch, num_sampled].
    """
    rows, ids, values = nn.compute_accidental_hits(labels, sampled, num_true=num_true)
    rows = ops.reshape(rows, [-1, 1])
    columns = ops.reshape(ops.cast(ids, dtypes.int32), [-1, 1])
    places = ops.concat([rows, columns], 1, "sparse_indices")
    shape = ops.concat([ops.shape(labels)[:1], ops.expand_dims(num_sampled, 0)], 0)
    if logits.dtype != values.dtype:
        values = ops.cast(values, logits.dtype)
    return tensor(
        "SparseToDense",
        None,
        sparse_indices=places,
        output_shape=shape,
        sparse_values=values,
        default_value=0.0,
        validate_indices=False,
    )
