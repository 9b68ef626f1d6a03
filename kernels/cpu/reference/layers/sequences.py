"""Compare label sequences in sparse tensors by edit distances, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.sparse.sparse import refused
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]


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
