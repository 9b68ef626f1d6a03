"""Decode and compare label sequences in sparse tensors, in NumPy.

Greedy decoding, edit distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.sparse.sparse import refused
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]


@reference("CTCGreedyDecoder")
def _greedy(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode the likeliest class of each step to a sparse tensor.

    Blanks and (with merge_repeated) repeats are left out. Also returns minus the sum of the logits.
    """
    logits, lengths = np.asarray(inputs[0]), np.asarray(inputs[1])
    if logits.ndim != 3:
        raise refused("inputs is not a 3-Tensor")
    steps, batch, classes = logits.shape
    if steps == 0:
        raise refused("max_time is 0")
    if lengths.ndim != 1:
        raise refused("sequence_length is not a vector")
    if lengths.size != batch:
        raise refused(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {lengths.size} "
            f"batch_size: {batch}"
        )
    for k in np.flatnonzero(lengths > steps)[:1]:
        raise refused(f"sequence_length({k}) <= {steps}")
    blank = int(node.attrs["blank_index"])
    blank = blank + classes if blank < 0 else blank
    best = logits.argmax(axis=2)
    rows = []
    cost = np.zeros((batch, 1), logits.dtype)
    for b in range(batch):
        length = int(lengths[b])
        path = best[:length, b]
        cost[b, 0] = -logits[np.arange(length), b, path].sum()
        before = -1
        kept = []
        for label in path.tolist():
            if label != blank and not (node.attrs["merge_repeated"] and label == before):
                kept.append(label)
            before = label
        rows.append(kept)
    indices = [(b, k) for b, row in enumerate(rows) for k in range(len(row))]
    values = np.array([label for row in rows for label in row], np.int64)
    shape = np.array([batch, max(map(len, rows), default=0)], np.int64)
    return np.array(indices, np.int64).reshape(-1, 2), values, shape, cost


def _levenshtein(a: Sequence[Any], b: Sequence[Any]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


def _by_row(indices: np.ndarray, values: np.ndarray) -> dict[tuple[int, ...], list[Any]]:
    rows: dict[tuple[int, ...], list[Any]] = {}
    for row, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        rows.setdefault(tuple(row), []).append(value)
    return rows


@reference("EditDistance")
def _edit_distance(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the edit distance of each row of the hypothesis.

    Insertions, deletions and substitutions count. With `normalize` the distance is divided by the
    length of the truth's row.
    """
    hypothesis, words, shape, truth, true_words, true_shape = (np.asarray(v) for v in inputs)
    for what, array, rank in (("hypothesis_indices", hypothesis, 2), ("truth_indices", truth, 2)):
        if array.ndim != rank:
            raise refused(f"{what} should be a matrix, but got shape: {format_shape(array.shape)}")
    for what, array in (
        ("hypothesis_values", words),
        ("hypothesis_shape", shape),
        ("truth_values", true_words),
        ("truth_shape", true_shape),
    ):
        if array.ndim != 1:
            raise refused(f"{what} should be a vector, but got shape: {format_shape(array.shape)}")
    if shape.size != true_shape.size or shape.size < 2:
        raise refused(
            "Expected hypothesis_shape.NumElements == truth_shape.NumElements, but got "
            f"{shape.size} and {true_shape.size}"
        )
    given, wanted = _by_row(hypothesis, words), _by_row(truth, true_words)
    out = np.zeros(tuple(np.maximum(shape, true_shape)[:-1].tolist()), np.float32)
    for row in {*given, *wanted}:
        if any(not 0 <= i < size for i, size in zip(row, out.shape, strict=True)):
            raise refused(
                f"An index is outside of the output's shape {format_shape(out.shape)}: {list(row)}"
            )
        a, b = given.get(row, []), wanted.get(row, [])
        distance = float(_levenshtein(a, b))
        if node.attrs["normalize"]:
            distance = distance / len(b) if b else float("inf")
        out[row] = distance
    return (out,)
