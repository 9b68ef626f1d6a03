"""Define the largest elements of rows, and targets among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    fail,
    int_constant,
)
from tfjit.ops.core.type_lists import INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def _top_k_sizes(c: ShapeContext, k: int | None) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    if shape is None:
        return [None, None]
    last = shape[-1]
    if last is not None and k is not None and last < k:
        raise fail(f"input must have last dimension >= k = {k} but is {last}")
    out = (*shape[:-1], k)
    return [out, out]


def _top_k(c: ShapeContext) -> Shapes:
    return _top_k_sizes(c, c.attr("k"))


def _top_k_v2(c: ShapeContext) -> Shapes:
    k = int_constant(c, 1)
    if k is not None and k < 0:
        raise fail(f"Dimension size, given by scalar input 1, must be non-negative but is {k}")
    return _top_k_sizes(c, k)


def _approx_top_k(c: ShapeContext) -> Shapes:
    shape, axis, k = c.with_rank_at_least(0, 1), c.attr("reduction_dimension"), c.attr("k")
    if shape is None:
        return [None, None]
    rank = len(shape)
    if not -rank <= axis < rank:
        raise fail(f"reduction_dimension={axis} must be in [-{rank}, {rank})")
    size = shape[axis]
    if size is not None and size < k:
        raise fail(f"input must have last dimension >= k = {k} but was {size}")
    # Without the last step an accelerator keeps as many candidates as it likes.
    out = c.replace_dim(shape, axis, k if c.attr("aggregate_to_topk") else None)
    return [out, out]


def _top_unique(c: ShapeContext) -> Shapes:
    rows, _ = c.with_rank(0, 2)
    return [(rows, c.attr("k"))] * 2


register_op(
    "ApproxTopK",
    inputs=("input: T",),
    outputs=("values: T", "indices: int32"),
    attrs=(
        "k: int >= 0",
        "reduction_dimension: int = -1",
        "recall_target: float = 0.95",
        "is_max_k: bool = true",
        "reduction_input_size_override: int = -1",
        "aggregate_to_topk: bool = true",
        "T: {half, bfloat16, float}",
    ),
    shape=_approx_top_k,
)
register_op(
    "KthOrderStatistic", inputs=("input: float",), outputs=("output: float",), attrs=("k: int",)
)
register_op(
    "TopK",
    inputs=("input: T",),
    outputs=("values: T", "indices: int32"),
    attrs=("k: int >= 0", "sorted: bool = true", "T: realnumbertype"),
    deprecated=(7, "Use TopKV2 instead"),
    shape=_top_k,
)
for _op_type in (
    "TopKUnique",
    "TopKWithUnique",
):
    register_op(
        _op_type,
        inputs=("input: float",),
        outputs=("topk: float", "topk_indices: int32"),
        attrs=("k: int",),
        shape=_top_unique,
    )
register_op(
    "TopKV2",
    inputs=("input: T", "k: Tk"),
    outputs=("values: T", "indices: index_type"),
    attrs=(
        "sorted: bool = true",
        "T: realnumbertype",
        "Tk: {int16, int32, int64} = DT_INT32",
        "index_type: {int16, int32, int64} = DT_INT32",
    ),
    shape=_top_k_v2,
)


def top_k(
    input: TensorLike,
    k: TensorLike = 1,
    sorted: bool = True,
    index_type: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Any:
    """Return (values, indices) of the k largest of each row."""
    return call("TopKV2", name, input=input, k=k, sorted=sorted, index_type=index_type)


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


def in_top_k(
    predictions: TensorLike, targets: TensorLike, k: TensorLike, name: str | None = None
) -> Tensor:
    """Return whether targets are among their rows' k largest predictions."""
    with name_scope(name, "in_top_k"):
        return tensor("InTopKV2", None, predictions=predictions, targets=targets, k=k)
