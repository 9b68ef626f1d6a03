"""Shapes of batches, events and samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.probability.parameters import pick_vector
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def size_tensor(shape: TensorShape, name: str) -> Tensor:
    """Return a known shape as a constant of the name."""
    return convert_to_tensor(shape.as_list(), dtypes.int32, name=name)


def is_scalar(known: TensorShape, tensor: Callable[[], Tensor]) -> bool | Tensor:
    """Return whether a shape is that of a scalar.

    tensor: makes the shape for a run, where its rank is not known.
    """
    if known.rank is not None:
        return known.rank == 0
    found = tensor()
    length = found.shape.as_list() if found.shape.rank is not None else [None]
    if length != [None]:
        return length == [0]
    return ops.equal(ops.shape(found)[0], 0)


def as_vector(shape: Tensor, name: str) -> tuple[Tensor, TensorLike]:
    """Return a shape as a vector, and its number of elements."""
    known, rank = constant_value(shape), shape.shape.rank
    count: TensorLike
    if known is None:
        count = ops.reduce_prod(shape)
    else:
        count = np.prod(known, dtype=np.int32)
    if rank is None:
        no_vector = ops.equal(ops.rank(shape), 0)
        sizes = pick_vector(no_vector, np.array([1], np.int32), ops.shape(shape))
        return ops.reshape(shape, sizes), count
    if rank > 1:
        raise ValueError("Input is neither scalar nor vector.")
    if rank == 1:
        return shape, count
    if known is None:
        return ops.reshape(shape, [1]), count
    return convert_to_tensor(np.array([known], np.int32), name=name), count


def set_sample_shape(
    samples: Tensor, sample_shape: Tensor, batch: TensorShape, event: TensorShape
) -> None:
    """Set the known part of the shape [sample_shape, batch, event]."""
    known = constant_value(sample_shape)
    outer = TensorShape(None if known is None else known.tolist())
    parts = [outer, batch, event]
    ranks = [part.rank for part in parts]
    total = samples.shape.rank
    if total is None:
        if None in ranks:
            return
        total = sum(rank for rank in ranks if rank is not None)
        samples.set_shape([None] * total)
    if ranks.count(None) == 1:  # the rank of the whole gives the one that lacks
        lacking = total - sum(rank for rank in ranks if rank is not None)
        ranks = [lacking if rank is None else rank for rank in ranks]
    before = 0
    for part, rank in zip(parts, ranks, strict=True):
        if rank is None:
            break
        after = total - before - rank
        if part.rank is not None:
            samples.set_shape([*[None] * before, *part.as_list(), *[None] * after])
        before += rank
    if parts[2].rank is not None:
        samples.set_shape([*[None] * (total - parts[2].rank), *parts[2].as_list()])
