"""Partitioners of variables, and `create_partitioned_variables`.

A partitioner is a function of a shape and a dtype that returns the number of slices of each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.client.variables.variable_scope import variable_scope
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.client.variables.variables import Variable
    from tfjit.framework.graphs.typing import (
        DTypeLike,
        InitializerLike,
        PartitionerLike,
        Structure,
    )


def variable_axis_size_partitioner(
    max_shard_bytes: int,
    axis: int = 0,
    bytes_per_string_element: int = 16,
    max_shards: int | None = None,
) -> PartitionerLike:
    """Return a partitioner that limits the bytes of a slice.

    It cuts one axis.

    max_shards: the most slices. A slice has at least one row, however large the row is. Raises
    ValueError for numbers below 1.
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError(
            "Both max_shard_bytes and bytes_per_string_element must be positive. "
            f"Currently, max_shard_bytes is {max_shard_bytes} and"
            f"bytes_per_string_element is {bytes_per_string_element}"
        )
    if max_shards and max_shards < 1:
        raise ValueError("max_shards must be positive.")

    def partitioner(shape: TensorShape, dtype: DTypeLike) -> list[int]:
        if not isinstance(shape, TensorShape):
            raise ValueError(f"shape is not a TensorShape: {shape}")
        if not shape.is_fully_defined():
            raise ValueError(f"shape is not fully defined: {shape}")
        sizes: Structure = shape.as_list()
        row_bytes = math.prod(sizes) / sizes[axis] * _element_bytes(dtype, bytes_per_string_element)
        rows = max(1, math.floor(max_shard_bytes / row_bytes))
        count = math.ceil(sizes[axis] / rows)
        return _cut(len(sizes), axis, min(max_shards, count) if max_shards else count)

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> PartitionerLike:
    """Return a partitioner whose slices have at least min_slice_size bytes."""

    def partitioner(shape: TensorShape, dtype: DTypeLike) -> list[int]:
        if axis >= len(shape):
            raise ValueError(
                f"Cannot partition variable along axis {axis} when shape is only {shape}"
            )
        sizes: Structure = shape.as_list()
        total = math.prod(sizes) * _element_bytes(dtype, bytes_per_string_element)
        count = min(sizes[axis], max_partitions, math.ceil(total / min_slice_size))
        return _cut(len(sizes), axis, max(1, count))

    return partitioner


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> PartitionerLike:
    """Return a partitioner that cuts an axis into num_shards slices.

    An axis with fewer rows has one slice a row.
    """

    def partitioner(shape: TensorShape, **unused_args: object) -> list[int]:
        sizes: Structure = shape.as_list()
        return _cut(len(sizes), axis, min(num_shards, sizes[axis]))

    return partitioner


def _cut(rank: int, axis: int, count: int) -> list[int]:
    counts = [1] * rank
    counts[axis] = count
    return counts


def _element_bytes(dtype: DTypeLike, bytes_per_string_element: int) -> int:
    found = as_dtype(dtype)
    return bytes_per_string_element if found.base_dtype is dtypes.string else found.size


def create_partitioned_variables(
    shape: Sequence[int],
    slicing: Sequence[int],
    initializer: InitializerLike,
    dtype: DTypeLike = dtypes.float32,
    trainable: bool = True,
    collections: Sequence[str] | None = None,
    name: str | None = None,
    reuse: object = None,
) -> list[Variable]:
    """Return the slices of a new partitioned variable.

    slicing: the number of slices of each axis. name: of a variable scope, which names the slices.
    Raises ValueError for a scalar and for slicing of another length than shape.
    """
    if len(shape) != len(slicing):
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the length: shape: "
            f"{shape}, slicing: {slicing}"
        )
    if len(shape) < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1: shape: {shape}")

    def partitioner(**unused: object) -> Sequence[int]:
        return slicing

    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        return list(
            scope._get_partitioned(partitioner, shape, dtype, initializer, trainable, collections)
        )
