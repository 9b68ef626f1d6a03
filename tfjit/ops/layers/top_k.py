"""Define the largest elements of rows, and targets among them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

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


def _top_unique(c: ShapeContext) -> Shapes:
    rows, _ = c.with_rank(0, 2)
    return [(rows, c.attr("k"))] * 2


# Elements that a TPU reduces together, of vectors and of other tensors.
_TILE_OF_VECTORS: Final = 1024
_TILE: Final = 128


def _candidates(c: ShapeContext, size: int, rank: int) -> int:
    """Return the number of candidates that a TPU's reduction leaves.

    Source: Chern et al. 2022, "TPU-KNN", https://arxiv.org/abs/2206.14286.
    """
    k, recall = int(c.attr("k")), float(c.attr("recall_target"))
    whole = int(c.attr("reduction_input_size_override"))
    tile = _TILE_OF_VECTORS if rank == 1 else _TILE
    if size <= tile:
        return size
    if k == 1:
        return tile
    if recall == 1:
        return size
    least = min(max(int((1 - k) / math.log(recall)), tile), size)
    halvings = ((size if whole < 0 else whole) // least).bit_length() - 1
    if halvings <= 0:
        return size
    halvings = min(halvings, (size // tile - 1).bit_length())
    tiles = -(-size // tile)
    return -(-tiles // 2**halvings) * tile


def _approximate_top_k(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    axis, k, recall = int(c.attr("reduction_dimension")), int(c.attr("k")), c.attr("recall_target")
    if shape is None:
        return [None, None]
    if not -len(shape) <= axis < len(shape):
        raise fail(
            f"Invalid reduction dimension: {axis}. Must be within the range of [{-len(shape)}, "
            f"{len(shape) - 1}]"
        )
    if not 0 < recall <= 1:
        raise fail(f"Invalid recall target: {recall:g}. Valid value range in : [0, 1.0].")
    size = shape[axis]
    if size is not None and size < k:
        raise fail(f"input must have last dimension >= k = {k} but was {size}")
    if c.attr("aggregate_to_topk"):
        count: int | None = k
    else:
        count = None if size is None else _candidates(c, size, len(shape))
    out = list(shape)
    out[axis] = count
    return [tuple(out)] * 2


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
    shape=_approximate_top_k,
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


def _approximate(
    largest: bool,
    operand: TensorLike,
    k: int,
    reduction_dimension: int,
    recall_target: float,
    reduction_input_size_override: int,
    aggregate_to_topk: bool,
    name: str | None,
) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = call(
        "ApproxTopK",
        name,
        input=operand,
        k=k,
        reduction_dimension=reduction_dimension,
        recall_target=recall_target,
        is_max_k=largest,
        reduction_input_size_override=reduction_input_size_override,
        aggregate_to_topk=aggregate_to_topk,
    )
    return found


def approx_max_k(
    operand: TensorLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (values, indices) of the k largest along an axis.

    They are exact. recall_target, reduction_input_size_override, aggregate_to_topk: of the
    reduction on a TPU; here they change static shapes alone.
    """
    return _approximate(
        True,
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        name,
    )


def approx_min_k(
    operand: TensorLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (values, indices) of the k smallest along an axis, as `approx_max_k`."""
    return _approximate(
        False,
        operand,
        k,
        reduction_dimension,
        recall_target,
        reduction_input_size_override,
        aggregate_to_topk,
        name,
    )


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
