"""`tf.ragged.constant`, `constant_value`, `placeholder`: ragged tensors of lists and of feeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.ragged.ragged_tensor import RaggedTensor, is_ragged
from tfjit.client.ragged.ragged_value import RaggedTensorValue
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.types.dtypes import DType, as_dtype, int64
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged, DTypeLike, ShapeLike, Structure


def constant(
    pylist: object,
    dtype: DTypeLike | None = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    name: str | None = None,
    row_splits_dtype: DTypeLike = int64,
) -> DenseOrRagged:
    """Return a constant of nested lists whose lengths differ.

    pylist: lists of lists of values at one depth. ragged_rank: the number of ragged axes, by
    default all but the first. inner_shape: the uniform axes inside. Without ragged axes, the result
    is a Tensor. Raises ValueError for values at different depths and lists that fit neither.
    """
    splits_dtype = as_dtype(row_splits_dtype)

    def ragged(values: DenseOrRagged, splits: list[int]) -> RaggedTensor:
        limits = ops.constant(splits, dtype=splits_dtype)
        return RaggedTensor.from_row_splits(values, limits, validate=False)

    with name_scope(name, "RaggedConstant"):
        return _from_lists(ragged, ops.constant, pylist, dtype, ragged_rank, inner_shape)


def constant_value(
    pylist: object,
    dtype: DTypeLike | None = None,
    ragged_rank: int | None = None,
    inner_shape: Sequence[int] | None = None,
    row_splits_dtype: DTypeLike = "int64",
) -> RaggedTensorValue | np.ndarray:
    """Return the RaggedTensorValue of nested lists; see `constant`."""
    kind = dtype.as_numpy_dtype if isinstance(dtype, DType) else dtype
    splits_dtype = as_dtype(row_splits_dtype).as_numpy_dtype

    def ragged(values: np.ndarray | RaggedTensorValue, splits: list[int]) -> RaggedTensorValue:
        return RaggedTensorValue(values, np.array(splits, dtype=splits_dtype))

    def dense(
        values: Structure,
        dtype: Structure = None,
        shape: Structure = None,
        name: str | None = None,
    ) -> np.ndarray:
        array = np.array(values, dtype=dtype) if dtype in (object, None) else _cast(values, dtype)
        return array if shape is None else np.reshape(array, shape)

    found: RaggedTensorValue | np.ndarray = _from_lists(
        ragged, dense, pylist, kind, ragged_rank, inner_shape
    )
    return found


def _cast(values: Structure, dtype: Structure) -> np.ndarray:
    return np.array(values).astype(dtype)


def _is_list(value: Structure) -> bool:
    return isinstance(value, (list, tuple)) or np.ndim(value) != 0


def _from_lists(
    ragged: Callable[..., Structure],
    dense: Callable[..., Structure],
    pylist: Structure,
    dtype: object,
    ragged_rank: int | None,
    inner_shape: Sequence[int] | None,
) -> Structure:
    """Return nested lists as a tensor whose parts two functions make."""
    if is_ragged(pylist):
        raise TypeError("pylist may not be a RaggedTensor or RaggedTensorValue.")
    if not _is_list(pylist):
        if ragged_rank:
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}"
            )
        if inner_shape:
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with dim(inner_shape)={len(inner_shape)}"
            )
        return dense(pylist, dtype, ())
    if ragged_rank is not None and ragged_rank < 0:
        raise ValueError(f"Invalid ragged_rank={ragged_rank!r}: must be nonnegative")
    scalar_depth, depth = _depths(pylist)
    _check_depths(pylist, scalar_depth, depth, ragged_rank, inner_shape)
    inner_axes = 0 if inner_shape is None else len(inner_shape)
    if ragged_rank == 0 or (
        ragged_rank is None and (depth < 2 or (inner_shape is not None and depth - inner_axes < 2))
    ):
        return dense(pylist, dtype, inner_shape)
    if ragged_rank is None:
        found = depth - 1 if scalar_depth is None else scalar_depth - 1 - inner_axes
        levels = max(1, found)
        inner = () if inner_shape is None else tuple(inner_shape)
    else:
        levels = ragged_rank
        inner = _inner_shape(pylist, levels) if inner_shape is None else tuple(inner_shape)
    splits: list[list[int]] = []
    values = pylist
    for _ in range(levels):
        splits.append(np.cumsum([0, *(len(row) for row in values)]).tolist())
        values = list(chain.from_iterable(values))
    made = dense(values, dtype=dtype, shape=(len(values), *inner), name="values")
    for limits in reversed(splits):
        made = ragged(made, limits)
    return made


def _check_depths(
    pylist: object,
    scalar_depth: int | None,
    depth: int,
    ragged_rank: int | None,
    inner_shape: Sequence[int] | None,
) -> None:
    """Raise ValueError where lists do not fit each other or the arguments."""
    if scalar_depth is not None:
        if depth > scalar_depth:
            raise ValueError(
                f"Invalid pylist={pylist!r}: empty list nesting is greater than scalar value "
                "nesting"
            )
        if ragged_rank is not None and depth < ragged_rank:
            raise ValueError(
                f"Invalid pylist={pylist}, max depth smaller than ragged_rank={ragged_rank}"
            )
    if inner_shape is not None and ragged_rank is not None:
        wanted = ragged_rank + len(inner_shape) + 1
        if wanted != scalar_depth if scalar_depth is not None else wanted < depth:
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank} and "
                f"dim(inner_shape)={len(inner_shape)}"
            )


def _depths(value: Structure) -> tuple[int | None, int]:
    """Return the depth of scalars, if any, and of the deepest list."""
    if not _is_list(value):
        return 0, 0
    scalar_depth: int | None = None
    deepest = 1
    for child in value:
        scalars, depth = _depths(child)
        if scalars is not None:
            if scalar_depth not in (None, scalars + 1):
                raise ValueError("all scalar values must have the same nesting depth")
            scalar_depth = scalars + 1
        deepest = max(deepest, depth + 1)
    return scalar_depth, deepest


def _inner_shape(pylist: Structure, ragged_rank: int) -> tuple[int, ...]:
    """Return the shape of the values inside the ragged axes.

    Raises ValueError where they differ.
    """
    values = list(pylist)
    for level in range(ragged_rank):
        if not all(map(_is_list, values)):
            raise ValueError(
                f"pylist has scalar values depth {level + 1}, but ragged_rank={ragged_rank} "
                f"requires scalar value depth greater than {ragged_rank}"
            )
        values = list(chain.from_iterable(values))
    shape: list[int] = []
    item: Structure = values
    while _is_list(item):
        shape.append(len(item))
        if not len(item):
            break
        item = item[0]

    def check(value: Structure, sizes: list[int]) -> None:
        if _is_list(value) != bool(sizes) or (sizes and len(value) != sizes[0]):
            raise ValueError("inner values have inconsistent shape")
        for child in value if sizes else ():
            check(child, sizes[1:])

    check(values, shape)
    return tuple(shape[1:])


def placeholder(
    dtype: DTypeLike,
    ragged_rank: int,
    value_shape: ShapeLike | None = None,
    name: str | None = None,
) -> DenseOrRagged:
    """Return a ragged tensor to be fed, with a RaggedTensorValue.

    value_shape: the shape of the values inside the ragged axes. Without ragged axes, the result is
    a placeholder of that shape.
    """
    if ragged_rank == 0:
        return ops.placeholder(dtype, value_shape, name)
    with name_scope(name, "RaggedPlaceholder", []):
        shape = TensorShape([None]).concatenate(TensorShape(value_shape))
        made: DenseOrRagged = ops.placeholder(dtype, shape, "flat_values")
        for axis in reversed(range(ragged_rank)):
            splits = ops.placeholder(int64, [None], f"row_splits_{axis}")
            made = RaggedTensor.from_row_splits(made, splits, validate=False)
        return made
