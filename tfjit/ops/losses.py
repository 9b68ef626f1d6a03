"""Losses, and whether a target is among the best."""

from __future__ import annotations

from typing import Any

from tfjit.framework.default_graph import name_scope
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.operation import Tensor
from tfjit.framework.shape import Shape
from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.apply import create, tensor
from tfjit.ops.convert import convert_to_tensor
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, fail, scalar
from tfjit.ops.type_lists import HALF_TO_DOUBLE, INDEX


def _cross_entropy(c: ShapeContext) -> Shapes:
    logits, labels = c.inputs
    merged_shape: Shape = None
    if logits is None or len(logits) == 2:
        try:
            merged_shape = c.merge(c.with_rank(logits, 2), labels)
        except InvalidArgumentError:
            merged_shape = None
    if merged_shape is None:
        merged_shape = c.broadcast(logits, labels)
        if merged_shape is None or len(merged_shape) != 2:
            found = "unknown" if merged_shape is None else len(merged_shape)
            raise fail(f"Shape must be broadcasted with rank 2, but is rank {found}")
    return [(merged_shape[0],), merged_shape]


def _sparse_cross_entropy(c: ShapeContext) -> Shapes:
    logits, (labels,) = c.with_rank(0, 2), c.with_rank(1, 1)
    batch = c.merge_dim(logits[0], labels)
    return [(batch,), (batch, logits[1])]


def _in_top_k(c: ShapeContext) -> Shapes:
    predictions, (targets,) = c.with_rank(0, 2), c.with_rank(1, 1)
    return [(c.merge_dim(predictions[0], targets),)]


register_op(
    "InTopK",
    inputs=("predictions: float", "targets: T"),
    outputs=("precision: bool",),
    attrs=("k: int", f"T: {INDEX} = DT_INT32"),
    shape=_in_top_k,
)
register_op(
    "InTopKV2",
    inputs=("predictions: float", "targets: T", "k: T"),
    outputs=("precision: bool",),
    attrs=(f"T: {INDEX} = DT_INT32",),
    shape=_in_top_k,
)
register_op("L2Loss", inputs=("t: T",), outputs=("output: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=scalar)
register_op(
    "SoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: T"),
    outputs=("loss: T", "backprop: T"),
    attrs=(f"T: {HALF_TO_DOUBLE}",),
    shape=_cross_entropy,
)
register_op(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: Tlabels"),
    outputs=("loss: T", "backprop: T"),
    attrs=(f"T: {HALF_TO_DOUBLE}", f"Tlabels: {INDEX} = DT_INT64"),
    shape=_sparse_cross_entropy,
)


def softmax_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, dim: int = -1, name: str | None = None, axis: int | None = None
) -> Tensor:
    """labels, logits [..., classes] -> loss [...]; gradients reach both. Raises ValueError when one is missing."""
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")
    axis = dim if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels", dtype=logits.dtype.base_dtype)
        rank = logits.shape.rank
        if rank is None:
            raise ValueError("softmax_cross_entropy_with_logits needs logits of known rank")
        if axis not in (-1, rank - 1):
            order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
            logits, labels = (tensor("Transpose", None, x=t, perm=order) for t in (logits, labels))
        if rank == 2:
            return create("SoftmaxCrossEntropyWithLogits", scope, features=logits, labels=labels).outputs[0]
        sizes = tensor("Shape", None, input=logits)
        classes = tensor("StridedSlice", None, input=sizes, begin=[rank - 1], end=[rank], strides=[1])
        flat = tensor("ConcatV2", None, values=[[-1], classes], axis=0)
        rows = [tensor("Reshape", None, tensor=t, shape=flat) for t in (logits, labels)]
        loss = create("SoftmaxCrossEntropyWithLogits", None, features=rows[0], labels=rows[1]).outputs[0]
        outer = tensor("StridedSlice", None, input=sizes, begin=[0], end=[rank - 1], strides=[1])
        out = tensor("Reshape", scope, tensor=loss, shape=outer)
        out.set_shape(logits.shape[:-1])
        return out


def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """labels, logits [..., classes] -> loss [...]; gradients reach both."""
    axis = dim if axis is None else axis
    return softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=-1 if axis is None else axis, name=name)


def sparse_softmax_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """labels [...] of class numbers, logits [..., classes] -> loss [...]. Raises ValueError for ranks that don't fit."""
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels, logits = convert_to_tensor(labels), convert_to_tensor(logits)
        rank = logits.shape.rank
        labels_shape = tensor("Shape", None, input=labels) if rank != 2 else None
        if rank == 0:
            raise ValueError(f"`logits` cannot be a scalar. Received logits={logits}`")
        if rank is not None and labels.shape.rank is not None and labels.shape.rank != rank - 1:
            raise ValueError(
                "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: "
                f"labels.shape={labels.shape} of rank {labels.shape.rank} and logits.shape={logits.shape} of rank {rank}"
            )
        if labels_shape is None:
            return create("SparseSoftmaxCrossEntropyWithLogits", None, features=logits, labels=labels).outputs[0]
        sizes = tensor("Shape", None, input=logits)
        classes = tensor("StridedSlice", None, input=sizes, begin=[-1], end=[0], strides=[1], end_mask=1)
        flat = tensor("Reshape", None, tensor=logits, shape=tensor("ConcatV2", None, values=[[-1], classes], axis=0))
        loss = create(
            "SparseSoftmaxCrossEntropyWithLogits", None, features=flat, labels=tensor("Reshape", None, tensor=labels, shape=[-1])
        ).outputs[0]
        out = tensor("Reshape", None, tensor=loss, shape=labels_shape)
        out.set_shape(labels.shape)
        return out


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Loss of independent yes/no answers: max(x, 0) - x * z + log(1 + exp(-|x|))."""
    if labels is None or logits is None:
        raise ValueError("Both `labels` and `logits` must be provided.")
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(labels, name="labels", dtype=x.dtype.base_dtype)
        if not x.shape.is_compatible_with(z.shape):
            raise ValueError(f"`logits` and `labels` must have the same shape, received ({x.shape} vs {z.shape}).")
        zeros = tensor("ZerosLike", None, x=x)
        positive = tensor("GreaterEqual", None, x=x, y=zeros)
        high = tensor("SelectV2", None, condition=positive, t=x, e=zeros)
        negative_abs = tensor("SelectV2", None, condition=positive, t=tensor("Neg", None, x=x), e=x)
        linear = tensor("Sub", None, x=high, y=tensor("Mul", None, x=x, y=z))
        return tensor("AddV2", scope, x=linear, y=tensor("Log1p", None, x=tensor("Exp", None, x=negative_abs)))


def weighted_cross_entropy_with_logits(labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None) -> Tensor:
    """As `sigmoid_cross_entropy_with_logits`, with positive answers weighted."""
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(labels, name="labels", dtype=x.dtype.base_dtype)
        weight = tensor(
            "AddV2",
            None,
            x=tensor(
                "Mul",
                None,
                x=tensor("Sub", None, x=convert_to_tensor(pos_weight, x.dtype.base_dtype), y=convert_to_tensor(1, x.dtype.base_dtype)),
                y=z,
            ),
            y=convert_to_tensor(1, x.dtype.base_dtype),
        )
        soft = tensor("Log1p", None, x=tensor("Exp", None, x=tensor("Neg", None, x=tensor("Abs", None, x=x))))
        inner = tensor("AddV2", None, x=soft, y=tensor("Relu", None, features=tensor("Neg", None, x=x)))
        rest = tensor("Mul", None, x=tensor("Sub", None, x=convert_to_tensor(1, x.dtype.base_dtype), y=z), y=x)
        return tensor("AddV2", scope, x=rest, y=tensor("Mul", None, x=weight, y=inner))


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """sum(t * t) / 2."""
    return tensor("L2Loss", name, t=t)


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether each target is among its row's k largest predictions."""
    with name_scope(name, "in_top_k"):
        return tensor("InTopKV2", None, predictions=predictions, targets=targets, k=k)
