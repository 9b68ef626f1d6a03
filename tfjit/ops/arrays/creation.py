"""Define the functions that make tensors: `zeros`, `range`, `eye`."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs import static_value
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape, as_shape
from tfjit.ops.arrays.array import broadcast_to, expand_dims, reshape, shape, size
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.core.dispatch import unary_elementwise
from tfjit.ops.core.sparse_values import is_sparse

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, TensorLike


def fill(
    dims: TensorLike, value: TensorLike, name: str | None = None, layout: object = None
) -> Tensor:
    """Return a tensor of one value.

    layout: of a DTensor; there is no kernel that lays a tensor out.
    """
    return _laid_out(tensor("Fill", name, dims=dims, value=value), layout)


def _laid_out(value: Tensor, layout: Any) -> Tensor:
    """Return a tensor, or its Relayout where a DTensor layout is given."""
    return (
        value
        if layout is None
        else tensor("Relayout", None, input=value, layout=layout.to_string())
    )


def _filled(shape: ShapeLike, dtype: DTypeLike, name: str, value: TensorLike) -> Tensor:
    dtype = as_dtype(dtype).base_dtype
    one = np.array(value, dtype.as_numpy_dtype) if dtype is not dtypes.string else b""
    with name_scope(name, name, [shape]) as scope:
        if not isinstance(shape, Tensor):
            try:
                sizes = as_shape(shape)
                n = TensorShape(sizes).num_elements()
            except (TypeError, ValueError):
                n = None  # a list that holds tensors
            if n is not None and n < 1000:
                return constant(one, dtype, shape=sizes, name=scope)
            shape = convert_to_tensor(shape, dtype=dtypes.int32 if n is not None else None)
        if shape.shape_tuple is not None and len(shape.shape_tuple) == 0:
            shape = reshape(shape, [-1])
        return fill(shape, constant(one, dtype), name=scope)


def zeros(
    shape: ShapeLike,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    layout: object = None,
) -> Tensor:
    """Return a tensor of zeros (False, or empty strings).

    layout: as of `fill`.
    """
    return _laid_out(_filled(shape, dtype, name or "zeros", 0), layout)


def ones(
    shape: ShapeLike,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    layout: object = None,
) -> Tensor:
    """Return a tensor of ones.

    layout: as of `fill`.
    """
    return _laid_out(_filled(shape, dtype, name or "ones", 1), layout)


@unary_elementwise
def zeros_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Return zeros of a tensor's shape.

    The dtype is the tensor's, too, unless another is given.
    """
    with name_scope(name, "zeros_like", [tensor.values if is_sparse(tensor) else tensor]) as scope:
        if is_sparse(tensor):
            sizes = tensor.shape if tensor.shape.is_fully_defined() else tensor.dense_shape
            return zeros(sizes, dtype or tensor.dtype, name=scope)
        value = convert_to_tensor(tensor, name="tensor")
        wanted = value.dtype.base_dtype if dtype is None else as_dtype(dtype)
        known = value.shape_tuple
        if (
            optimize
            and known is not None
            and None not in known
            and value.dtype is not dtypes.variant
        ):
            return zeros(known, wanted, name=scope)
        if wanted is value.dtype.base_dtype:
            return call("ZerosLike", scope, x=value)
        return zeros(shape(value), wanted, name=scope)


@unary_elementwise
def ones_like(
    tensor: TensorLike,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    optimize: bool = True,
) -> Tensor:
    """Return ones of a tensor's shape.

    The dtype is the tensor's, too, unless another is given.
    """
    with name_scope(name, "ones_like", [tensor]) as scope:
        value = convert_to_tensor(tensor, name="tensor")
        wanted = value.dtype.base_dtype if dtype is None else as_dtype(dtype)
        known = value.shape_tuple
        if optimize and known is not None and None not in known:
            with name_scope(None, "Shape", [value]):
                sizes = convert_to_tensor(value.shape)
        else:
            sizes = shape(value)
        out = ones(sizes, wanted, name=scope)
        out.set_shape(value.shape)
        return out


def range(
    start: TensorLike,
    limit: TensorLike | None = None,
    delta: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str = "range",
) -> Tensor:
    """Return start, start + delta .. up to, not including, limit.

    With one argument the range is 0 .. start.
    """
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        if dtype is None:
            values = [
                v if isinstance(v, Tensor) else convert_to_tensor(v, name=n)
                for v, n in zip((start, limit, delta), ("start", "limit", "delta"))
            ]
            order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            dtype = max(
                (v.dtype.base_dtype for v in values),
                key=lambda d: order.index(d) if d in order else -1,
            )
            start, limit, delta = (_cast(v, dtype) for v in values)
        return tensor("Range", scope, start=start, limit=limit, delta=delta, Tidx=as_dtype(dtype))


def _cast(value: Tensor, dtype: Any) -> Tensor:
    if value.dtype.base_dtype is dtype:
        return value
    known = static_value.constant_value(value)
    if known is not None:
        return constant(known.astype(dtype.as_numpy_dtype), dtype)
    return tensor("Cast", None, x=value, DstT=dtype)


def linspace(
    start: TensorLike, stop: TensorLike, num: TensorLike, name: str | None = None, axis: int = 0
) -> Tensor:
    """Return `num` evenly spaced values from start to stop.

    Both ends are included. The values lie along a new axis of the shape that start and stop
    broadcast to. Integers become floats.
    """
    with name_scope(name, "linspace", [start, stop]):
        first = convert_to_tensor(start, name="start")
        last = convert_to_tensor(stop, name="stop", dtype=first.dtype.base_dtype)
        count = convert_to_tensor(num, name="num")
        kind = first.dtype.base_dtype
        if not (kind.is_floating or kind.is_complex):
            kind = dtypes.float64 if kind.size >= 4 else dtypes.float32
            first, last = _cast(first, kind), _cast(last, kind)
        common = tensor("BroadcastArgs", None, s0=shape(first), s1=shape(last))
        first, last = (expand_dims(broadcast_to(end, common), axis) for end in (first, last))
        return _spaced(first, last, count, axis, kind)


def _spaced(first: Tensor, last: Tensor, count: Tensor, axis: int, kind: Any) -> Tensor:
    """Return evenly spaced values between two tensors.

    The tensors have size 1 along `axis`; the last value is exact.
    """
    one = constant(1, count.dtype)
    steps = tensor("Maximum", None, x=tensor("Sub", None, x=count, y=one), y=one)
    delta = tensor("RealDiv", None, x=tensor("Sub", None, x=last, y=first), y=_cast(steps, kind))
    zero = constant(0, count.dtype)
    places = tensor("Range", None, start=zero, limit=count, delta=one)
    known = first.shape.rank
    if known is not None:
        sizes: Any = [-1 if i == axis % known else 1 for i in builtins.range(known)]
    else:
        rank = tensor("Rank", None, input=first)
        place = constant(axis, dtypes.int32) if axis >= 0 else tensor("AddV2", None, x=rank, y=axis)
        is_axis = tensor(
            "Equal", None, x=place, y=tensor("Range", None, start=0, limit=rank, delta=1)
        )
        sizes = tensor("SelectV2", None, condition=is_axis, t=-1, e=1)
    row = tensor("Reshape", None, tensor=places, shape=sizes)
    between = tensor("AddV2", None, x=first, y=tensor("Mul", None, x=delta, y=_cast(row, kind)))
    at_end = tensor(
        "LogicalAnd",
        None,
        x=tensor("Equal", None, x=row, y=steps),
        y=tensor("Greater", None, x=count, y=one),
    )
    return tensor("SelectV2", None, condition=at_end, t=last, e=between)


lin_space = linspace


def diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor of twice the rank with `diagonal` on its diagonal."""
    return tensor("Diag", name, diagonal=diagonal)


def diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the diagonal of a tensor of even rank."""
    return tensor("DiagPart", name, input=input)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Return coordinate arrays of vectors.

    Indexing "xy" swaps the first two axes. Raises ValueError for another indexing.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(
            f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'"
        )
    with name_scope(name, "meshgrid", args):
        vectors = [convert_to_tensor(a) for a in args]
        n = len(vectors)
        order = (
            [1, 0, *builtins.range(2, n)] if indexing == "xy" and n > 1 else list(builtins.range(n))
        )
        parts = [
            reshape(v, [-1 if i == order[k] else 1 for i in builtins.range(n)])
            for k, v in enumerate(vectors)
        ]
        sizes = [size(v) for v in vectors]
        full = call(
            "Pack",
            None,
            values=[sizes[k] for k in order] if indexing == "xy" and n > 1 else sizes,
            axis=0,
        )
        return [broadcast_to(p, full) for p in parts]


def sequence_mask(
    lengths: TensorLike,
    maxlen: TensorLike | None = None,
    dtype: DTypeLike = dtypes.bool,
    name: str | None = None,
) -> Tensor:
    """Return a mask [..., maxlen], true at the first `length` places.

    lengths [...].
    """
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            maxlen = tensor(
                "Max", None, input=reshape(lengths, [-1]), reduction_indices=[0], keep_dims=False
            )
        row = range(
            convert_to_tensor(0, lengths.dtype.base_dtype),
            _cast(convert_to_tensor(maxlen), lengths.dtype.base_dtype),
            convert_to_tensor(1, lengths.dtype.base_dtype),
            dtype=lengths.dtype.base_dtype,
        )
        mask = tensor("Less", None, x=row, y=expand_dims(lengths, -1))
        return (
            mask
            if as_dtype(dtype) is dtypes.bool
            else tensor("Cast", None, x=mask, DstT=as_dtype(dtype))
        )


def eye(
    num_rows: Any,
    num_columns: TensorLike | None = None,
    batch_shape: Any = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return the identity matrix [*batch_shape, num_rows, num_columns].

    Square by default.
    """
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        square = num_columns is None
        columns = num_rows if square else num_columns
        fixed = all(
            isinstance(n, (int, np.integer)) for n in (num_rows, columns)
        ) and not isinstance(batch_shape, Tensor)
        if fixed:
            front: Any = [int(n) for n in batch_shape or ()]
            diagonal: Any = [*front, min(num_rows, columns)]
            full: Any = [*front, num_rows, columns]
        else:
            short = tensor("Minimum", None, x=num_rows, y=columns)
            front = convert_to_tensor(
                [] if batch_shape is None else batch_shape, dtype=dtypes.int32, name="shape"
            )
            diagonal = tensor("ConcatV2", "concat", values=[front, [short]], axis=0)
            full = (
                None
                if square
                else tensor("ConcatV2", "concat", values=[front, [num_rows, columns]], axis=0)
            )
        ones_there = ones(diagonal, dtype=dtype)
        if square:
            padding = convert_to_tensor(0, dtype=dtype, name="diag/padding_value")
            return tensor(
                "MatrixDiagV3",
                "diag",
                diagonal=ones_there,
                k=0,
                num_rows=-1,
                num_cols=-1,
                padding_value=padding,
            )
        return tensor(
            "MatrixSetDiagV3", "set_diag", input=zeros(full, dtype=dtype), diagonal=ones_there, k=0
        )
