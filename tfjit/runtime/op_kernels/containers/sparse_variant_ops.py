"""Sparse tensors as three variants, for datasets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.executor.node_runner import variant_array
from tfjit.runtime.kernel_api.op_kernel import OpContext, variant_kernel


def three_variants(indices: np.ndarray, values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return three variants, each a copy of a tensor."""
    row = np.empty(3, object)
    for i, part in enumerate((indices, values, sizes)):
        row[i] = np.array(part, order="C")
    return row


@variant_kernel("SerializeSparse")
def serialize_sparse(ctx: OpContext, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Return variants of indices, values and dense shape."""
    return (three_variants(*inputs),)


@variant_kernel("SerializeManySparse")
def serialize_many_sparse(ctx: OpContext, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Return a row of variants for each row of a sparse tensor.

    Raises InvalidArgumentError for a tensor of rank 1 and for rows out of order.
    """
    indices, values, sizes = inputs
    if len(sizes) < 2:
        raise errors.InvalidArgumentError(
            None, None, "Rank of input SparseTensor should be > 1, but saw rank: 1"
        )
    rows = indices[:, 0]
    if np.any(rows[1:] < rows[:-1]):
        raise errors.InvalidArgumentError(
            None, None, "indices of the SparseTensor are not in the order of its rows"
        )
    starts = np.searchsorted(rows, np.arange(int(sizes[0]) + 1))
    result = np.empty((int(sizes[0]), 3), object)
    for row in range(len(result)):
        part = slice(starts[row], starts[row + 1])
        result[row] = three_variants(indices[part, 1:], values[part], sizes[1:])
    return (result,)


@variant_kernel("DeserializeSparse")
def deserialize_sparse(ctx: OpContext, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    """Return the sparse tensor of three variants.

    Several of them become one of higher rank. The dense shape has the largest size of each axis.
    Raises InvalidArgumentError for variants that hold no such tensors.
    """
    rows = variant_array(inputs[0])
    if rows.ndim < 1 or rows.shape[-1] != 3 or not rows.size:
        raise errors.InvalidArgumentError(
            None,
            None,
            "Serialized sparse should have 3 as the last dimension and be non-empty, but it has "
            f"shape {format_shape(rows.shape)}",
        )
    dtype, batch = ctx.attrs["dtype"], rows.shape[:-1]
    parts = rows.reshape(-1, 3)
    for indices, values, sizes in parts:
        fits = all(isinstance(part, np.ndarray) for part in (indices, values, sizes))
        if not fits or values.dtype != dtype.as_numpy_dtype or len(sizes) != len(parts[0, 2]):
            raise errors.InvalidArgumentError(
                None, None, f"Requested SparseTensor of type {dtype.name} but got another tensor"
            )
    if not batch:
        return [np.array(part) for part in parts[0]]
    places = np.array(list(np.ndindex(*batch)), np.int64).reshape(len(parts), len(batch))
    counts = [len(values) for values in parts[:, 1]]
    return [
        np.concatenate(
            [np.repeat(places, counts, axis=0), np.concatenate(list(parts[:, 0]))], axis=1
        ),
        np.concatenate(list(parts[:, 1])),
        np.array([*batch, *np.max(np.stack(list(parts[:, 2])), axis=0)], np.int64),
    ]
