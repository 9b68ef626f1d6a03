"""`tf.sort` and `tf.argsort`, made of `TopKV2`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import get_static_value
from tfjit.ops.arrays.array import rank, shape
from tfjit.ops.arrays.creation import range as range_of
from tfjit.ops.arrays.indexing_functions import tensor_scatter_nd_update
from tfjit.ops.arrays.movement_functions import transpose
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.layers.top_k import top_k

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


def sort(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """Return the values in order along an axis.

    direction: "ASCENDING" or "DESCENDING". Raises ValueError for another one and for an axis that
    is not known.
    """
    with name_scope(name, "sort"):
        return _sorted(values, axis, direction, False)


def argsort(
    values: TensorLike,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the indices that sort the values along an axis, as int32.

    The order of equal values is kept, whether it has to be `stable` or not. Other arguments and
    errors are as of `sort`.
    """
    del stable
    with name_scope(name, "argsort"):
        return _sorted(values, axis, direction, True)


def _sorted(values: TensorLike, axis: TensorLike, direction: str, indices: bool) -> Tensor:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            "Argument `direction` should be one of ASCENDING, DESCENDING. Received: "
            f"direction={direction}"
        )
    place = convert_to_tensor(axis, name="axis")
    known = get_static_value(place)
    if place.shape.rank not in (None, 0) or known is None:
        raise ValueError(f"Argument `axis` must be a constant scalar. Received: axis={place}.")
    data = convert_to_tensor(values, name="values")
    if direction == "DESCENDING":
        return _descending(data, int(known), indices)
    dtype = data.dtype.base_dtype
    # The map to the opposite order, which is its own inverse, keeps the order of equal values.
    if dtype.is_unsigned:
        found = _descending(dtype.max - data, int(known), indices)
        return found if indices else dtype.max - found
    if dtype.is_integer:  # -x would not fit for the least number
        found = _descending(-data - 1, int(known), indices)
        return found if indices else -found - 1
    found = _descending(-data, int(known), indices)
    return found if indices else -found


def _descending(values: Tensor, axis: int, indices: bool) -> Tensor:
    size: Structure = shape(values)[axis]
    dimensions = rank(values)
    known_rank = values.shape.rank
    exchange = None  # of the axis and the last one
    if axis != -1 and axis + 1 != known_rank:
        if known_rank is not None:
            place = axis + known_rank if axis < 0 else axis
            order = [*range(known_rank)]
            order[place], order[-1] = order[-1], order[place]
            exchange = constant(order, dtype="int64", name="transposition")
        else:
            place_at_run: Structure = axis + dimensions if axis < 0 else axis
            exchange = tensor_scatter_nd_update(
                range_of(dimensions),
                [[place_at_run], [dimensions - 1]],
                [dimensions - 1, place_at_run],
            )
        values = transpose(values, exchange)
    found = top_k(values, size)[1 if indices else 0]
    return found if exchange is None else transpose(found, exchange)
