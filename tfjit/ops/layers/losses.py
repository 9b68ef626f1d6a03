"""Declare losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.op_traits import CANNOT_FAIL
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.renamed import renamed
from tfjit.ops.core.shape_rules import Shapes, fail, product, scalar
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE, INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


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


register_op(
    "L2Loss",
    inputs=("t: T",),
    outputs=("output: T",),
    attrs=(f"T: {HALF_TO_DOUBLE}",),
    shape=scalar,
    traits=CANNOT_FAIL,
)
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
    labels: object = None,
    logits: object = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Tensor:
    """Return the loss of softmax; gradients reach the logits alone.

    labels, logits [..., classes] -> loss [...]. Raises ValueError when one is missing.
    """
    axis = renamed(axis, None if dim == -1 else dim, "axis", "dim")
    _need_both("softmax_cross_entropy_with_logits", labels, logits)
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        fixed = tensor("StopGradient", "labels_stop_gradient", input=convert_to_tensor(labels))
        return softmax_cross_entropy_with_logits_v2(fixed, logits, axis, name=scope)


def softmax_cross_entropy_with_logits_v2(
    labels: object,
    logits: object,
    axis: int | None = None,
    name: str | None = None,
    dim: int | None = None,
) -> Tensor:
    """Return the loss of softmax; gradients reach labels and logits.

    labels, logits [..., classes] -> loss [...]. Half floats are summed in float32.
    """
    axis = renamed(axis, dim, "axis", "dim")
    axis = -1 if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        given = convert_to_tensor(logits, name="logits")
        logits, narrow = _precise(given)
        labels = convert_to_tensor(labels, name="labels")
        if labels.dtype.base_dtype is not logits.dtype.base_dtype:
            labels = tensor("Cast", None, x=labels, DstT=logits.dtype.base_dtype)
        rank = logits.shape.rank
        if rank is not None and not -rank <= axis < rank:
            raise ValueError(
                f"`axis` = {axis} is not in range [{-rank}, {rank}) of logits.shape={logits.shape}"
            )
        if axis != -1 and axis + 1 != rank:
            logits, labels = (_axis_last(t, axis) for t in (logits, labels))
        if rank == 2:
            loss = create(
                "SoftmaxCrossEntropyWithLogits",
                None if narrow else scope,
                features=logits,
                labels=labels,
            ).outputs[0]
        else:
            sizes = tensor("Shape", None, input=logits)
            rows = [_rows(t) for t in (logits, labels)]
            loss = create(
                "SoftmaxCrossEntropyWithLogits", None, features=rows[0], labels=rows[1]
            ).outputs[0]
            outer = tensor(
                "StridedSlice", None, input=sizes, begin=[0], end=[-1], strides=[1], begin_mask=1
            )
            loss = tensor("Reshape", None if narrow else scope, tensor=loss, shape=outer)
        if rank is not None:
            known = given.shape_tuple or ()
            place = axis % rank
            loss.set_shape((*known[:place], *known[place + 1 :]))
        return tensor("Cast", scope, x=loss, DstT=given.dtype.base_dtype) if narrow else loss


def _need_both(function: str, labels: object, logits: object) -> None:
    """Raise ValueError unless labels and logits are given."""
    if labels is None or logits is None:
        raise ValueError(
            f"Both `labels` and `logits` must be provided for {function}. Received: "
            f"labels={labels} and logits={logits}"
        )


def _precise(logits: Tensor) -> tuple[Tensor, bool]:
    """Return half floats as float32, and whether they were."""
    if logits.dtype.base_dtype not in (dtypes.float16, dtypes.bfloat16):
        return logits, False
    return tensor("Cast", None, x=logits, DstT=dtypes.float32), True


def _axis_last(x: Tensor, axis: int) -> Tensor:
    """Return x with an axis moved behind the others."""
    rank = x.shape.rank
    if rank is not None:
        place = axis % rank
        return tensor("Transpose", None, x=x, perm=[*range(place), *range(place + 1, rank), place])
    size = tensor("Rank", None, input=x)
    start: object = axis if axis >= 0 else tensor("AddV2", None, x=size, y=axis)
    behind = tensor("AddV2", None, x=start, y=1)
    before = tensor("Range", None, start=0, limit=start, delta=1)
    after = tensor("Range", None, start=behind, limit=size, delta=1)
    own = tensor("Pack", None, values=[start])
    return tensor(
        "Transpose", None, x=x, perm=tensor("ConcatV2", None, values=[before, after, own], axis=0)
    )


def _rows(x: Tensor) -> Tensor:
    """Return x [..., classes] as [rows, classes]."""
    sizes = tensor("Shape", None, input=x)
    classes = tensor(
        "StridedSlice", None, input=sizes, begin=[-1], end=[0], strides=[1], end_mask=1
    )
    rows = tensor(
        "Reshape", None, tensor=x, shape=tensor("ConcatV2", None, values=[[-1], classes], axis=0)
    )
    known = x.shape_tuple
    if known is not None:
        rows.set_shape((product(known[:-1]), known[-1]))
    return rows


def sparse_softmax_cross_entropy_with_logits(
    labels: object = None, logits: object = None, name: str | None = None
) -> Tensor:
    """Return the loss of softmax for class numbers.

    labels [...] of class numbers, logits [..., classes] -> loss [...]. float16 is summed in
    float32.

    Raises ValueError for ranks or known sizes that don't fit; a run raises InvalidArgumentError for
    others.
    """
    _need_both("sparse_softmax_cross_entropy_with_logits", labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels, given = convert_to_tensor(labels), convert_to_tensor(logits)
        rank, places = given.shape.rank, given.shape_tuple
        labels_shape = tensor("Shape", None, input=labels) if rank != 2 else None
        if rank == 0:
            raise ValueError(f"`logits` cannot be a scalar. Received logits={given}")
        if rank is not None and labels.shape.rank is not None and labels.shape.rank != rank - 1:
            raise ValueError(
                "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: "
                f"labels.shape={labels.shape} of rank {labels.shape.rank} and "
                f"logits.shape={given.shape} of rank {rank}"
            )
        all_known = (
            labels.shape.is_fully_defined() and places is not None and None not in places[:-1]
        )
        if all_known and places is not None and labels.shape_tuple != places[:-1]:
            raise ValueError(
                "`labels.shape` must equal `logits.shape` except for the last dimension. "
                f"Received: labels.shape={labels.shape} and logits.shape={given.shape}"
            )
        logits = (
            tensor("Cast", None, x=given, DstT=dtypes.float32)
            if given.dtype.base_dtype is dtypes.float16
            else given
        )
        if labels_shape is None:
            loss = create(
                "SparseSoftmaxCrossEntropyWithLogits", name, features=logits, labels=labels
            ).outputs[0]
        else:
            checks = [] if all_known else [_fits(labels_shape, given)]
            with control_dependencies(checks):
                flat = tensor("Reshape", None, tensor=labels, shape=[-1])
                loss = create(
                    "SparseSoftmaxCrossEntropyWithLogits", name, features=_rows(logits), labels=flat
                ).outputs[0]
                loss = tensor("Reshape", None, tensor=loss, shape=labels_shape)
            loss.set_shape(labels.shape)
        return (
            loss if logits is given else tensor("Cast", None, x=loss, DstT=given.dtype.base_dtype)
        )


def _fits(labels_shape: Tensor, logits: Tensor) -> Operation:
    """Return the operation that checks the labels' shape in a run.

    It fails unless labels have the logits' shape without classes.
    """
    sizes = tensor("Shape", None, input=logits)
    outer = tensor(
        "StridedSlice", None, input=sizes, begin=[0], end=[-1], strides=[1], begin_mask=1
    )
    same = tensor(
        "All", None, input=tensor("Equal", None, x=labels_shape, y=outer), reduction_indices=[0]
    )
    data = [
        "`labels.shape` must equal `logits.shape` except for the last dimension. labels.shape:",
        labels_shape,
        "logits.shape:",
        sizes,
    ]
    return create("Assert", None, condition=same, data=data)


def sigmoid_cross_entropy_with_logits(
    labels: object = None, logits: object = None, name: str | None = None
) -> Tensor:
    """Return the loss of independent yes/no answers.

    max(x, 0) - x * z + log(1 + exp(-|x|)).
    """
    _need_both("sigmoid_cross_entropy_with_logits", labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(labels, name="labels", dtype=x.dtype.base_dtype)
        if not x.shape.is_compatible_with(z.shape):
            raise ValueError(
                f"`logits` and `labels` must have the same shape, received ({x.shape} vs "
                f"{z.shape})."
            )
        zeros = tensor("ZerosLike", None, x=x)
        positive = tensor("GreaterEqual", None, x=x, y=zeros)
        high = tensor("SelectV2", None, condition=positive, t=x, e=zeros)
        negative_abs = tensor("SelectV2", None, condition=positive, t=tensor("Neg", None, x=x), e=x)
        linear = tensor("Sub", None, x=high, y=tensor("Mul", None, x=x, y=z))
        return tensor(
            "AddV2", scope, x=linear, y=tensor("Log1p", None, x=tensor("Exp", None, x=negative_abs))
        )


def weighted_cross_entropy_with_logits(
    labels: TensorLike | None = None,
    logits: TensorLike | None = None,
    pos_weight: TensorLike | None = None,
    name: str | None = None,
    targets: TensorLike | None = None,
) -> Tensor:
    """Return the loss with positive answers weighted.

    As `sigmoid_cross_entropy_with_logits`. targets: the former name of labels.
    """
    labels = renamed(labels, targets, "labels", "targets")
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(labels, name="labels", dtype=x.dtype.base_dtype)
        if not x.shape.is_compatible_with(z.shape):
            raise ValueError(
                f"`logits` and `labels` must have the same shape, received ({x.shape} vs "
                f"{z.shape})."
            )
        weight = tensor(
            "AddV2",
            None,
            x=tensor(
                "Mul",
                None,
                x=tensor(
                    "Sub",
                    None,
                    x=convert_to_tensor(pos_weight, x.dtype.base_dtype),
                    y=convert_to_tensor(1, x.dtype.base_dtype),
                ),
                y=z,
            ),
            y=convert_to_tensor(1, x.dtype.base_dtype),
        )
        soft = tensor(
            "Log1p", None, x=tensor("Exp", None, x=tensor("Neg", None, x=tensor("Abs", None, x=x)))
        )
        inner = tensor(
            "AddV2", None, x=soft, y=tensor("Relu", None, features=tensor("Neg", None, x=x))
        )
        rest = tensor(
            "Mul", None, x=tensor("Sub", None, x=convert_to_tensor(1, x.dtype.base_dtype), y=z), y=x
        )
        return tensor("AddV2", scope, x=rest, y=tensor("Mul", None, x=weight, y=inner))


def l2_loss(t: TensorLike, name: str | None = None) -> Tensor:
    """Return sum(t * t) / 2."""
    return tensor("L2Loss", name, t=t)
