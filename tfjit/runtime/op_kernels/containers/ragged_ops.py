"""Ragged tensors as variants, for datasets and loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.runtime.executor.node_runner import variant_array
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


class RaggedVariant:
    """A ragged tensor in a variant: nested splits and flat values.

    No tuple: NumPy would make an array of its parts.
    """

    __slots__ = ("splits", "values")

    def __init__(self, splits: list[np.ndarray], values: np.ndarray) -> None:
        self.splits = splits
        self.values = values


def _invalid(text: str) -> NoReturn:
    raise errors.InvalidArgumentError(None, None, text)


@runtime_kernel("RaggedTensorToVariant")
def to_variant(ctx: OpContext, inputs: Sequence[np.ndarray]) -> Sequence[object]:
    """Return a variant of a ragged tensor, or of each row.

    Copies the tensors: a buffer of the step that made them may be written again.
    """
    *splits, values = (np.array(part) for part in inputs)
    if not ctx.attrs["batched_input"]:
        return (RaggedVariant(splits, values),)
    if not values.ndim:
        _invalid("Input values must have rank of at least 1.")
    limits = splits[0] if splits else np.arange(len(values) + 1)
    rows = np.empty(max(len(limits) - 1, 0), object)
    for row, (start, limit) in enumerate(pairwise(limits.tolist())):
        rows[row] = _row(splits[1:], values, start, limit, dense=not splits)
    return (rows,)


def _row(
    splits: list[np.ndarray], values: np.ndarray, start: int, limit: int, dense: bool
) -> RaggedVariant:
    """Return the part of nested rows from `start` to `limit`."""
    if dense:
        return RaggedVariant([], values[start])
    inner = []
    for limits in splits:
        if limit >= len(limits):
            _invalid(f"row splits end at {limit}, but there are {len(limits) - 1} rows inside")
        part = limits[start : limit + 1]
        inner.append(part - part[0])
        start, limit = int(part[0]), int(part[-1])
    return RaggedVariant(inner, values[start:limit])


@runtime_kernel("RaggedTensorFromVariant")
def from_variant(ctx: OpContext, inputs: Sequence[np.ndarray]) -> Sequence[object]:
    """Return the ragged tensor of variants.

    Their shape is that of the outer axes.
    """
    encoded = variant_array(inputs[0])
    wanted, given = ctx.attrs["output_ragged_rank"], ctx.attrs["input_ragged_rank"]
    inner = wanted - encoded.ndim if given == -1 else given
    if given == -1 and wanted == 0:  # dense tensors, which are stacked
        inner = 0
    if inner < 0:
        _invalid(
            "Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) must be >= "
            f"0, found output_ragged_rank: {wanted}, encoded_variant.dims(): {encoded.ndim}, "
            f"inferred input_ragged_rank: {inner}"
        )
    if wanted and wanted != inner + encoded.ndim:
        _invalid(
            "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
            f"output_ragged_rank: {wanted}, input_ragged_rank: {inner}, encoded_variant.dims(): "
            f"{encoded.ndim}"
        )
    kind, splits_kind = as_dtype(ctx.attrs["Tvalues"]), as_dtype(ctx.attrs["Tsplits"])
    parts = [_checked(part, inner, kind) for part in encoded.reshape(-1)]
    splits_dtype = splits_kind.as_numpy_dtype
    if not encoded.ndim:
        return (*(s.astype(splits_dtype) for s in parts[0].splits), parts[0].values)
    if not wanted:
        return (np.stack([part.values for part in parts]),)
    outer = [
        np.arange(rows + 1, dtype=splits_dtype) * size
        for rows, size in zip(np.cumprod(encoded.shape[:-1]), encoded.shape[1:])
    ]
    lengths = [len(part.splits[0]) - 1 if inner else len(part.values) for part in parts]
    nested = [*outer, np.cumsum([0, *lengths], dtype=splits_dtype)]
    for level in range(inner):
        nested.append(_appended([part.splits[level] for part in parts], splits_dtype))
    if parts:
        values = np.concatenate([part.values for part in parts])
    else:
        values = np.zeros(0, kind.as_numpy_dtype)
    return (*nested, values)


def _checked(part: object, ragged_rank: int, kind: DType) -> RaggedVariant:
    if not isinstance(part, RaggedVariant):
        _invalid("Input Variant element doesn't hold a RaggedTensorVariant")
    if len(part.splits) != ragged_rank:
        _invalid(
            f"Encoded input RaggedTensorVariant has ragged_rank={len(part.splits)}.  Expected "
            f"ragged_rank={ragged_rank}."
        )
    if part.values.dtype != kind.as_numpy_dtype:
        _invalid(
            f"Expected values Tensor dtype: {short_name(kind)}, found: "
            f"{short_name(as_dtype(part.values.dtype))}"
        )
    return part


def _appended(splits: list[np.ndarray], dtype: type) -> np.ndarray:
    """Return the splits of all rows, those of one tensor after another's."""
    lengths = [np.diff(limits) for limits in splits]
    return np.cumsum(np.concatenate([[0], *lengths]), dtype=dtype)


@runtime_kernel("RaggedTensorToVariantGradient")
def to_variant_gradient(ctx: OpContext, inputs: Sequence[np.ndarray]) -> Sequence[object]:
    """Return the gradient of the flat values from those of rows."""
    encoded, _, shape = inputs
    kind = as_dtype(ctx.attrs["Tvalues"])
    sizes = tuple(int(size) for size in np.asarray(shape))
    parts = variant_array(encoded)
    if parts.ndim > 1:
        _invalid("encoded_ragged_grad should be a scalar or a vector")
    values = [
        part.values.reshape(-1, *sizes[1:])
        for part in parts.reshape(-1)
        if isinstance(part, RaggedVariant)
    ]
    joined = np.concatenate(values) if values else np.zeros(sizes, kind.as_numpy_dtype)
    if joined.size != int(np.prod(sizes)):
        _invalid(f"the gradients of the rows have {joined.size} elements, not those of {sizes}")
    return (np.ascontiguousarray(joined.reshape(sizes)),)
