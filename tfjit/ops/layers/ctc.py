"""Declare losses and decoders of connectionist temporal classification (CTC)."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes


def _batch_of_sequences(c: ShapeContext) -> int | None:
    logits, lengths = c.with_rank(0, 3), c.with_rank(1, 1)
    return c.merge_dim(logits[1], lengths[0])


def _loss(c: ShapeContext) -> Shapes:
    logits, indices = c.with_rank(0, 3), c.with_rank(1, 2)
    values, lengths = c.with_rank(2, 1), c.with_rank(3, 1)
    c.merge_dim(indices[0], values[0])
    batch = c.merge_dim(logits[1], lengths[0])
    return [(batch,), (logits[0], batch, logits[2])]


register_op(
    "CTCLoss",
    inputs=("inputs: T", "labels_indices: int64", "labels_values: int32", "sequence_length: int32"),
    outputs=("loss: T", "gradient: T"),
    attrs=(
        "preprocess_collapse_repeated: bool = false",
        "ctc_merge_repeated: bool = true",
        "ignore_longer_outputs_than_inputs: bool = false",
        "T: {float, double} = DT_FLOAT",
    ),
    shape=_loss,
)
register_op(
    "CTCLossV2",
    inputs=(
        "inputs: float",
        "labels_indices: int64",
        "labels_values: int32",
        "sequence_length: int32",
    ),
    outputs=("loss: float", "gradient: float"),
    attrs=(
        "preprocess_collapse_repeated: bool = false",
        "ctc_merge_repeated: bool = true",
        "ignore_longer_outputs_than_inputs: bool = false",
    ),
    shape=_loss,
)


def _greedy(c: ShapeContext) -> Shapes:
    return [(None, 2), (None,), (2,), (_batch_of_sequences(c), 1)]


def _beam_search(c: ShapeContext) -> Shapes:
    paths = int(c.attr("top_paths"))
    batch = _batch_of_sequences(c)
    return [*[(None, 2)] * paths, *[(None,)] * paths, *[(2,)] * paths, (batch, paths)]


register_op(
    "CTCBeamSearchDecoder",
    inputs=("inputs: T", "sequence_length: int32"),
    outputs=(
        "decoded_indices: top_paths * int64",
        "decoded_values: top_paths * int64",
        "decoded_shape: top_paths * int64",
        "log_probability: T",
    ),
    attrs=(
        "beam_width: int >= 1",
        "top_paths: int >= 1",
        "merge_repeated: bool = true",
        "T: {float, double} = DT_FLOAT",
    ),
    shape=_beam_search,
)
register_op(
    "CTCGreedyDecoder",
    inputs=("inputs: T", "sequence_length: int32"),
    outputs=(
        "decoded_indices: int64",
        "decoded_values: int64",
        "decoded_shape: int64",
        "log_probability: T",
    ),
    attrs=(
        "merge_repeated: bool = false",
        "blank_index: int = -1",
        "T: {float, double} = DT_FLOAT",
    ),
    shape=_greedy,
)
