"""Sparse forms of feature columns' inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.data.sparse_merging import merged
from tfjit.client.data.sparse_tensors import SparseTensor, convert_to_tensor_or_sparse_tensor
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, TensorLike


def without_ignored(value: TensorLike, ignored: TensorLike | None = None) -> SparseTensor:
    """Return a dense value's elements other than `ignored`; a sparse value stays.

    ignored: by default "" of strings, -1 of integers, 0 of other numbers.
    """
    found: DenseOrSparse = convert_to_tensor_or_sparse_tensor(value)
    if isinstance(found, SparseTensor):
        return found
    with name_scope(None, "to_sparse_input", [found]):
        kind = found.dtype
        if ignored is None:
            ignored = "" if kind == dtypes.string else -1 if kind.is_integer else _zero(found)
        dropped = ops.cast(ignored, kind, name="ignore_value")
        places = tensor("Where", "indices", input=ops.not_equal(found, dropped))
        return SparseTensor(
            places,
            ops.gather_nd(found, places, name="values"),
            ops.shape(found, out_type=dtypes.int64, name="dense_shape"),
        )


def _zero(value: Tensor) -> TensorLike:
    zero: np.generic = value.dtype.as_numpy_dtype()
    return zero


def weights_by_id(ids: SparseTensor, weights: SparseTensor, count: int) -> Tensor:
    """Return the sum of the weights of each id, [batch, count]."""
    found = merged([ids], weights, [count])
    # ids out of range are left out
    start = convert_to_tensor([0, 0], dtype=dtypes.int64)
    with name_scope(None, "SparseSlice", [found.values]) as scope:
        parts = call(
            "SparseSlice",
            scope,
            indices=found.indices,
            values=found.values,
            shape=found.dense_shape,
            start=start,
            size=found.dense_shape,
        )
        kept = SparseTensor(*parts)
    return ops.scatter_nd(kept.indices, kept.values, kept.dense_shape)
