"""Define the public functions of the family `indexing`: `gather`, `where`, `unique`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import dispatched

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, ShapeLike, TensorLike


@dispatched
def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: object = None,
    name: str | None = None,
    axis: AxisLike | None = None,
    batch_dims: int = 0,
) -> Tensor:
    """Gather slices of `params` along an axis, by number."""
    del validate_indices  # always checked
    if axis is None:
        axis = batch_dims
    return tensor(
        "GatherV2", name, params=params, indices=indices, axis=axis, batch_dims=batch_dims
    )


@dispatched
def gather_nd(
    params: TensorLike,
    indices: TensorLike,
    name: str | None = None,
    batch_dims: int = 0,
    bad_indices_policy: str = "",
) -> Tensor:
    """Gather elements or slices of `params` by index vectors.

    The first `batch_dims` axes are batches, each gathered alone.

    bad_indices_policy: "ERROR" (as "" and "DEFAULT"), or "IGNORE": an index outside gives zero.
    """
    if isinstance(batch_dims, int) and batch_dims == 0:
        return tensor(
            "GatherNd", name, params=params, indices=indices, bad_indices_policy=bad_indices_policy
        )
    with name_scope(name, "BatchGatherND", [params, indices]):
        places = _with_batch_places(convert_to_tensor(indices, name="indices"), batch_dims)
        return tensor(
            "GatherNd", None, params=params, indices=places, bad_indices_policy=bad_indices_policy
        )


def _with_batch_places(indices: Tensor, batch_dims: int) -> Tensor:
    """Return index vectors that begin with the place of their batch.

    Raises ValueError for an unknown rank of indices.
    """
    rank = indices.shape.rank
    if rank is None:
        raise ValueError("gather_nd with batch_dims needs indices of known rank")
    if not 0 <= batch_dims < rank:
        raise ValueError(f"batch_dims = {batch_dims} must be less than rank(indices) = {rank}")
    kind = indices.dtype.base_dtype
    sizes = tensor(
        "Shape", None, input=indices, out_type=kind if kind is dtypes.int64 else dtypes.int32
    )
    outer = tensor(
        "StridedSlice", None, input=sizes, begin=[0], end=[-1], strides=[1], begin_mask=1
    )
    full = tensor("ConcatV2", None, values=[outer, [1]], axis=0)
    columns = []
    for axis in range(batch_dims):
        size = tensor(
            "StridedSlice",
            None,
            input=sizes,
            begin=[axis],
            end=[axis + 1],
            strides=[1],
            shrink_axis_mask=1,
        )
        zero = tensor("ZerosLike", None, x=size)
        places = tensor(
            "Range", None, start=zero, limit=size, delta=tensor("OnesLike", None, x=size)
        )
        shape = [-1 if i == axis else 1 for i in range(rank)]
        column = tensor(
            "BroadcastTo",
            None,
            input=tensor("Reshape", None, tensor=places, shape=shape),
            shape=full,
        )
        columns.append(
            column if column.dtype.base_dtype is kind else tensor("Cast", None, x=column, DstT=kind)
        )
    return tensor("ConcatV2", None, values=[*columns, indices], axis=-1)


def scatter_nd(
    indices: TensorLike,
    updates: TensorLike,
    shape: ShapeLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Return a tensor of zeros with `updates` added at index vectors.

    bad_indices_policy: "ERROR" (as "" and "DEFAULT"), or "IGNORE": an update outside is left out.
    """
    return tensor(
        "ScatterNd",
        name,
        indices=indices,
        updates=updates,
        shape=shape,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Tensor:
    """Copy `tensor` with `updates` put at index vectors."""
    return call("TensorScatterUpdate", name, tensor=tensor, indices=indices, updates=updates)


def tensor_scatter_nd_add(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with `updates` added at index vectors."""
    return call(
        "TensorScatterAdd",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_sub(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with `updates` subtracted at index vectors."""
    return call(
        "TensorScatterSub",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_max(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with the maximum of value and update at index vectors."""
    return call(
        "TensorScatterMax",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


def tensor_scatter_nd_min(
    tensor: TensorLike,
    indices: TensorLike,
    updates: TensorLike,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """Copy `tensor` with the minimum of value and update at index vectors."""
    return call(
        "TensorScatterMin",
        name,
        tensor=tensor,
        indices=indices,
        updates=updates,
        bad_indices_policy=bad_indices_policy,
    )


tensor_scatter_update = tensor_scatter_nd_update
tensor_scatter_add = tensor_scatter_nd_add
tensor_scatter_sub = tensor_scatter_nd_sub


@dispatched
def one_hot(
    indices: TensorLike,
    depth: TensorLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Return one-hot rows: indices [...] -> [..., depth].

    The element at the index is on_value (1), others are off_value (0). dtype: of the result; that
    of the values, else float32, by default. Raises TypeError for differing dtypes.
    """
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        kind = None if dtype is None else as_dtype(dtype)
        given = [
            None if value is None else convert_to_tensor(value, preferred_dtype=kind)
            for value in (on_value, off_value)
        ]
        for value, what in zip(given, ("on_value", "off_value")):
            if value is not None and kind is not None and value.dtype.base_dtype is not kind:
                raise TypeError(
                    f"dtype {value.dtype.base_dtype} of {what} does not match dtype parameter "
                    f"{kind}"
                )
        kinds = [value.dtype.base_dtype for value in given if value is not None]
        if len(set(kinds)) > 1:
            raise TypeError(
                f"dtype {kinds[0]} of on_value does not match dtype {kinds[1]} of off_value"
            )
        wanted = kind or (kinds[0] if kinds else dtypes.float32)
        on, off = (
            convert_to_tensor(default, wanted, name=what) if value is None else value
            for value, what, default in zip(given, ("on_value", "off_value"), (1, 0))
        )
        return tensor(
            "OneHot",
            scope,
            indices=indices,
            depth=depth,
            on_value=on,
            off_value=off,
            axis=-1 if axis is None else axis,
        )


@dispatched
def where(
    condition: object,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Select elements of x or y, or return the indices of true elements.

    A vector condition selects rows. With neither x nor y, the result is index vectors int64 [n,
    rank].
    """
    if x is None and y is None:
        with name_scope(name, "Where", [condition]) as scope:
            return tensor("Where", scope, input=convert_to_tensor(condition, name="condition"))
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return tensor("Select", name, condition=condition, t=x, e=y)


@dispatched
def where_v2(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: str | None = None,
) -> Tensor:
    """Select as `where`, with all three broadcast."""
    if x is None and y is None:
        return where(condition, name=name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return tensor("SelectV2", name, condition=condition, t=x, e=y)


def unique(x: TensorLike, out_idx: DTypeLike = dtypes.int32, name: str | None = None) -> Any:
    """Return (y, idx): distinct values, and each element's number.

    Values are in order of first appearance.
    """
    return call("Unique", name, x=x, out_idx=as_dtype(out_idx))


def unique_with_counts(
    x: TensorLike, out_idx: DTypeLike = dtypes.int32, name: str | None = None
) -> Any:
    """Return (y, idx, count): as `unique`, with the count of each value."""
    return call("UniqueWithCounts", name, x=x, out_idx=as_dtype(out_idx))


def setdiff1d(
    x: TensorLike, y: TensorLike, index_dtype: DTypeLike = dtypes.int32, name: str | None = None
) -> Any:
    """Return (out, idx): elements of x not in y, and their places."""
    return call("ListDiff", name, x=x, y=y, out_idx=as_dtype(index_dtype))


def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return insertion places of values in sorted rows [..., n].

    Raises ValueError for another side.
    """
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left', but got '{side}'")
    with name_scope(name, "searchsorted", [sorted_sequence, values]):
        rows, wanted = convert_to_tensor(sorted_sequence), convert_to_tensor(values)
        shape = create("Shape", None, input=wanted).outputs[0]
        last = [
            tensor(
                "StridedSlice",
                None,
                input=tensor("Shape", None, input=t),
                begin=[-1],
                end=[0],
                strides=[1],
                shrink_axis_mask=1,
            )
            for t in (rows, wanted)
        ]
        flat = [
            create("Reshape", None, tensor=t, shape=[-1, n]).outputs[0]
            for t, n in zip((rows, wanted), last)
        ]
        op = "LowerBound" if side == "left" else "UpperBound"
        found = tensor(op, None, sorted_inputs=flat[0], values=flat[1], out_type=as_dtype(out_type))
        return tensor("Reshape", None, tensor=found, shape=shape)


def unravel_index(indices: TensorLike, dims: TensorLike, name: str | None = None) -> Tensor:
    """Convert flat indices to index vectors [rank, n]."""
    return tensor("UnravelIndex", name, indices=indices, dims=dims)


@dispatched
def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Split `data` into lists by number."""
    return list(
        create(
            "DynamicPartition",
            name,
            data=data,
            partitions=partitions,
            num_partitions=num_partitions,
        ).outputs
    )


def dynamic_stitch(indices: TensorLike, data: TensorLike, name: str | None = None) -> Tensor:
    """Merge tensors by index.

    Where an index repeats, the last element stays.
    """
    return tensor("DynamicStitch", name, indices=indices, data=data)


def nth_element(
    input: TensorLike, n: TensorLike, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Return the n-th smallest (largest) value of each row."""
    return tensor("NthElement", name, input=input, n=n, reverse=reverse)


def bucketize(input: TensorLike, boundaries: TensorLike, name: str | None = None) -> Tensor:
    """Return the bucket number of each value."""
    return tensor("Bucketize", name, input=input, boundaries=boundaries)


def resource_gather(
    resource: Tensor, indices: TensorLike, dtype: DTypeLike, name: str | None = None
) -> Tensor:
    """Gather rows of a resource variable by number."""
    return tensor("ResourceGather", name, resource=resource, indices=indices, dtype=dtype)
