"""`tf.batch_gather`: elements by index, in each batch alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arrays.array import reshape, shape
from tfjit.ops.arrays.creation import ones, zeros
from tfjit.ops.arrays.indexing_functions import gather
from tfjit.ops.arrays.movement_functions import concat, stack
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import dispatched

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


@dispatched
def batch_gather(params: TensorLike, indices: TensorLike, name: str | None = None) -> Tensor:
    """Return elements of each batch by index.

    params [*batch, n, *rest], indices [*batch, m] -> [*batch, m, *rest]. Raises ValueError for
    indices of unknown rank.
    """
    with name_scope(name, "BatchGather", [params, indices]):
        places = convert_to_tensor(indices, name="indices")
        values = convert_to_tensor(params, name="params")
        rank = places.shape.rank
        if rank is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        batches = rank - 1
        if batches < 0 or (values.shape.rank is not None and batches >= values.shape.rank):
            raise ValueError(
                f"Argument `batch_dims` = {batches} must be less than rank(`params`) = "
                f"{values.shape.rank}"
            )
        return _gathered(values, places, batches)


def _gathered(params: Tensor, indices: Tensor, batches: int) -> Tensor:
    """Gather from joined batches.

    The start of each batch is added to its indices.
    """
    rank, dtype = batches + 1, indices.dtype.base_dtype
    indices_shape, params_shape = shape(indices), shape(params)
    places: Structure = indices
    rows: Structure = ones((), dtype=dtype)
    sizes: Structure = tensor("Cast", None, x=params_shape, DstT=dtype)
    for axis in range(batches, 0, -1):
        size = sizes[axis - 1]
        rows *= sizes[axis]
        start, step = zeros((), dtype=dtype), ones((), dtype=dtype)
        starts = tensor("Range", None, start=start, limit=size, delta=step)
        starts *= rows
        along = stack([1] * (axis - 1) + [size] + [1] * (rank - axis), axis=0)
        places += reshape(starts, along)
    flat_places = reshape(places, [-1])
    rest = params_shape[batches + 1 :]
    count = tensor("Prod", None, input=params_shape[: batches + 1], reduction_indices=[0])
    joined = reshape(params, concat([[count], rest], axis=0))
    found = reshape(gather(joined, flat_places), concat([indices_shape, rest], axis=0))
    batch_shape = indices.shape[:batches].merge_with(params.shape[:batches])
    inner = params.shape[batches + 1 :]
    found.set_shape(batch_shape.concatenate(indices.shape[batches:]).concatenate(inner))
    return found
