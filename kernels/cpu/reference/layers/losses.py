"""Compute losses of softmax and squares in NumPy."""

from __future__ import annotations

import numpy as np

from tfjit.kernels.cpu.reference.arithmetic.reduction import wide
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.layers.normalization import softmax_parts
from tfjit.kernels.registry import NodeSpec, reference


@reference("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(node: NodeSpec, inputs: Arrays) -> Arrays:
    logits, labels = inputs
    try:
        shape = np.broadcast_shapes(logits.shape, labels.shape)
    except ValueError:
        invalid(
            f"logits and labels must be broadcastable: logits_size={shape_text(logits)} "
            f"labels_size={shape_text(labels)}"
        )
    if len(shape) != 2:
        invalid(
            "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional"
        )
    logits, labels = np.broadcast_to(logits, shape), np.broadcast_to(labels, shape)
    if not shape[0] or not shape[1]:
        return np.zeros(shape[0], logits.dtype), np.zeros(shape, logits.dtype)
    shifted, weights = softmax_parts(logits)
    total = weights.sum(-1, keepdims=True, dtype=weights.dtype)
    targets = wide(labels)
    with np.errstate(invalid="ignore"):
        terms = targets * (np.log(total) - shifted)
    return terms.sum(-1, dtype=weights.dtype).astype(logits.dtype), (
        weights / total - targets
    ).astype(logits.dtype)


@reference("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(node: NodeSpec, inputs: Arrays) -> Arrays:
    logits, labels = inputs
    if logits.ndim != 2:
        invalid(f"logits must be 2-D, but got shape {shape_text(logits)}")
    if labels.ndim != 1:
        invalid(f"labels must be 1-D, but got shape {shape_text(labels)}")
    rows, classes = logits.shape
    if labels.size != rows:
        invalid(
            "logits and labels must have the same first dimension, got logits shape "
            f"{shape_text(logits)} and labels shape {shape_text(labels)}"
        )
    if rows and not classes:
        invalid(f"Must have at least one class, but got logits shape {shape_text(logits)}")
    if not logits.size:
        return np.zeros(rows, logits.dtype), np.zeros(logits.shape, logits.dtype)
    bad = (labels < 0) | (labels >= classes)
    if bad.any():
        wrong = labels[np.flatnonzero(bad)[0]]
        invalid(
            f"Received a label value of {wrong} which is outside the valid range of [0, "
            f"{classes}).  "
            f"Label values: {' '.join(map(str, labels))}"
        )
    shifted, weights = softmax_parts(logits)
    total = weights.sum(-1, dtype=weights.dtype)
    each = np.arange(rows)
    loss = np.log(total) - shifted[each, labels]
    gradient = weights / total[:, None]
    gradient[each, labels] -= 1
    return loss.astype(logits.dtype), gradient.astype(logits.dtype)


@reference("L2Loss")
def _l2_loss(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    values = wide(x)
    return (np.asarray(np.sum(values * values, dtype=values.dtype) / 2).astype(x.dtype),)
