"""Losses and decoders of label sequences (CTC), and tidied labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.composites.dense_ctc import Size, dense_loss, size_of
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.renamed import renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjit.framework.graphs.typing import TensorLike


def ctc_loss(
    labels: SparseTensor,
    inputs: TensorLike | None = None,
    sequence_length: TensorLike | None = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: TensorLike | None = None,
) -> Tensor:
    """Return minus the log likelihood of each label sequence, [batch].

    labels: sparse int32 [batch, labels]. inputs: logits [steps, batch, classes], or [batch, steps,
    classes] without time_major, of which the last class is the blank; another name is `logits`.
    sequence_length: int32 [batch], the number of steps of each sequence.
    preprocess_collapse_repeated: take repeated labels as one. ctc_merge_repeated: merge repeated
    classes of neighbouring steps, as CTC does. ignore_longer_outputs_than_inputs: give sequences
    with more labels than steps no loss instead of an error. Raises TypeError for labels that are
    not sparse.

    Source: Graves et al. 2006, "Connectionist Temporal Classification".
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError(
            "Expected argument `labels` to be a SparseTensor. "
            f"Received labels={labels} of type: {type(labels).__name__}"
        )
    given = renamed(logits, inputs, "logits", "inputs")
    values = convert_to_tensor(given, name="logits")
    if not time_major:
        values = ops.transpose(values, [1, 0, 2])
    kind = values.dtype
    narrow = kind in (dtypes.float16, dtypes.bfloat16)
    if narrow:
        values = ops.cast(values, dtypes.float32)
    loss: Tensor = call(
        "CTCLoss",
        None,
        inputs=values,
        labels_indices=labels.indices,
        labels_values=labels.values,
        sequence_length=sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )[0]
    return ops.cast(loss, kind) if narrow else loss


def ctc_loss_v2(
    labels: TensorLike | SparseTensor,
    logits: TensorLike,
    label_length: TensorLike | None,
    logit_length: TensorLike,
    logits_time_major: bool = True,
    unique: Sequence[Tensor] | None = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return minus the log likelihood of each label sequence, [batch].

    labels: sparse int32 [batch, labels], or dense with label_length [batch]. logits as for
    `ctc_loss`; logit_length [batch]: their steps. blank_index: the class of the blank, needed with
    sparse labels; the first class by default. unique: the result of `ctc_unique_labels`, which
    makes the gradient of many classes cheaper. Raises ValueError for sparse labels without a
    blank_index.
    """
    if not isinstance(labels, SparseTensor):
        return dense_loss(
            labels,
            logits,
            label_length,
            logit_length,
            logits_time_major,
            unique,
            0 if blank_index is None else blank_index,
            name,
        )
    if blank_index is None:
        raise ValueError("Argument `blank_index` must be provided when labels is a SparseTensor.")
    values = convert_to_tensor(logits)
    classes = size_of(values, 2)
    blank: Size = blank_index + classes if blank_index < 0 else blank_index
    if not (isinstance(blank, int) and isinstance(classes, int) and blank == classes - 1):
        values = ops.concat(
            [values[:, :, :blank], values[:, :, blank + 1 :], values[:, :, blank : blank + 1]],
            axis=2,
        )
        moved = ops.where(labels.values < blank, labels.values, labels.values - 1)
        labels = SparseTensor(labels.indices, moved, labels.dense_shape)
    return ctc_loss(
        labels=labels, inputs=values, sequence_length=logit_length, time_major=logits_time_major
    )


def ctc_greedy_decoder(
    inputs: TensorLike,
    sequence_length: TensorLike,
    merge_repeated: bool = True,
    blank_index: int | None = None,
) -> tuple[list[SparseTensor], Tensor]:
    """Decode the likeliest class of each step; return ([labels], cost).

    inputs: logits [steps, batch, classes]; sequence_length: int32 [batch]. labels: sparse int64
    [batch, labels]. cost [batch, 1]: minus the sum of the chosen logits. blank_index: the class
    that is left out, the last one by default.
    """
    indices, values, shape, cost = call(
        "CTCGreedyDecoder",
        None,
        inputs=inputs,
        sequence_length=sequence_length,
        merge_repeated=merge_repeated,
        blank_index=-1 if blank_index is None else blank_index,
    )
    return [SparseTensor(indices, values, shape)], cost


def ctc_beam_search_decoder(
    inputs: TensorLike,
    sequence_length: TensorLike,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
) -> tuple[list[SparseTensor], Tensor]:
    """Decode the likeliest label sequences; return (a list of labels, log probabilities).

    inputs, sequence_length, labels: as for `ctc_greedy_decoder`; the last class is the blank.
    beam_width: the number of prefixes that are kept. Log probabilities: [batch, top_paths].
    merge_repeated: take repeated labels of a result as one.
    """
    found = call(
        "CTCBeamSearchDecoder",
        None,
        inputs=inputs,
        sequence_length=sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    *parts, scores = found
    return [SparseTensor(*path) for path in zip(*parts, strict=True)], scores


def ctc_beam_search_decoder_v2(
    inputs: TensorLike, sequence_length: TensorLike, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """Decode as `ctc_beam_search_decoder`, with repeated labels as they are."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, False)


def ctc_unique_labels(labels: TensorLike, name: str | None = None) -> list[Tensor]:
    """Return (unique labels, index of each label) of each row.

    The first are int64, the second int32. labels [batch, labels]; both results have its shape. Rows
    of unique labels end in zeros.
    """
    with name_scope(name, "ctc_unique_labels", [labels]):

        def of_row(row: Tensor) -> list[Tensor]:
            values, places = ops.unique(row)
            more = [[0, size_of(places, 0) - size_of(values, 0)]]
            return [ops.cast(ops.pad(values, more), dtypes.int64), places]

        rows = convert_to_tensor(labels, name="labels")
        found: list[Tensor] = ops.map_fn(of_row, rows, dtype=[dtypes.int64, dtypes.int32])
        return found


def collapse_repeated(
    labels: TensorLike, seq_length: TensorLike, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Take repeated neighbouring labels as one; return (labels, lengths).

    labels [batch, labels], seq_length [batch] -> labels [batch, longest], with zeros behind each
    row, and their lengths.
    """
    with name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        rows = convert_to_tensor(labels, name="labels")
        lengths = convert_to_tensor(seq_length, name="seq_length")
        differs = ops.concat(
            [
                ops.ones_like(rows[:, :1], dtypes.bool),
                ops.not_equal(rows[:, 1:], rows[:, :-1]),
            ],
            axis=1,
        )
        kept = ops.logical_and(differs, ops.sequence_mask(lengths, maxlen=size_of(rows, 1)))
        counts = ops.reduce_sum(ops.cast(kept, dtypes.int32), axis=1)
        longest = ops.reduce_max(counts)
        targets = ops.reshape(ops.sequence_mask(counts, maxlen=longest), [-1])
        flat, flat_kept = ops.reshape(rows, [-1]), ops.reshape(kept, [-1])
        places = ops.boolean_mask(ops.range(size_of(targets, 0)), targets)
        packed = ops.scatter_nd(
            indices=ops.expand_dims(places, axis=1),
            updates=ops.boolean_mask(flat, flat_kept),
            shape=ops.shape(targets),
        )
        shape = [size_of(rows, 0), longest]
        return ops.reshape(packed, shape), ops.cast(counts, lengths.dtype)
