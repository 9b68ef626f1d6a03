"""Find the largest elements of rows in NumPy, and targets among them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference


def _top_k(x: np.ndarray, k: int, index_type: np.dtype[Any]) -> Arrays:
    if k < 0:
        invalid(f"Need k >= 0, got {k}")
    if x.ndim < 1:
        invalid(f"input must be >= 1-D, got shape {shape_text(x)}")
    if x.shape[-1] < k:
        invalid(f"input must have at least k columns. Had {x.shape[-1]}, needed {k}")
    # A stable sort of the reversed row, read backwards: descending, and equal values by rising
    # index.
    order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    order = order[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(index_type)


@reference("TopK")
def _top_k_v1(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _top_k(inputs[0], node.attrs["k"], np.dtype(np.int32))


@reference("TopKV2")
def _top_k_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    index_type = node.attrs.get("index_type")
    if inputs[1].ndim:
        invalid(f"k must be scalar, got shape {shape_text(inputs[1])}")
    return _top_k(
        inputs[0],
        int(inputs[1]),
        np.dtype(np.int32 if index_type is None else index_type.as_numpy_dtype),
    )


@reference("ApproxTopK")
def _approximate(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the k largest or smallest along an axis, the best first."""
    x, axis, k = inputs[0], int(node.attrs["reduction_dimension"]), int(node.attrs["k"])
    if not -x.ndim <= axis < x.ndim:
        invalid(
            f"Invalid reduction dimension: {axis}. Must be within the range of [{-x.ndim}, "
            f"{x.ndim - 1}]"
        )
    if x.shape[axis] < k:
        invalid(f"input must have last dimension >= k = {k} but was {x.shape[axis]}")
    keys = -x if node.attrs["is_max_k"] else x
    order = np.argsort(keys, axis=axis, kind="stable").take(np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


@reference("InTopK", "InTopKV2")
def _in_top_k(node: NodeSpec, inputs: Arrays) -> Arrays:
    predictions, targets = inputs[:2]
    k = node.attrs["k"] if node.op == "InTopK" else int(inputs[2])
    if predictions.ndim != 2:
        invalid("predictions must be 2-dimensional")
    if targets.ndim != 1:
        invalid("targets must be 1-dimensional")
    if predictions.shape[0] != targets.size:
        invalid(
            f"First dimension of predictions {predictions.shape[0]} must match length of targets "
            f"{targets.size}"
        )
    out = np.zeros(targets.size, bool)
    for row, target in enumerate(targets.tolist()):
        scores = predictions[row]
        if not 0 <= target < scores.size or not np.isfinite(scores[target]):
            continue
        better = 0
        for score in scores.tolist():
            if not math.isfinite(score):
                better = k  # nothing can be said beside a NaN or infinity
                break
            if score > scores[target]:
                better += 1
                if better > k:
                    break
        out[row] = better < k
    return (out,)
