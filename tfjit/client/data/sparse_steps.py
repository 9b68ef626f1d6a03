"""Steps on sparse tensors that functions of several ops share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


def reshaped(sparse: SparseTensor, shape: TensorLike | Structure) -> SparseTensor:
    """Return the same values in another dense shape.

    One size may be -1.
    """
    wanted = ops.cast(shape, dtypes.int64)
    with name_scope(None, "SparseReshape", [sparse.values]) as scope:
        indices, sizes = call(
            "SparseReshape",
            scope,
            input_indices=sparse.indices,
            input_shape=sparse.dense_shape,
            new_shape=wanted,
        )
        return SparseTensor(indices, ops.identity(sparse.values), sizes)


def retained(sparse: SparseTensor, kept: Tensor) -> SparseTensor:
    """Return the values for which `kept`, bool [n], is true."""
    rows = ops.reshape(tensor("Where", None, input=kept), [-1])
    return SparseTensor(
        ops.gather(sparse.indices, rows),
        ops.gather(sparse.values, rows),
        ops.identity(sparse.dense_shape),
    )


def filled(sparse: SparseTensor, default: TensorLike) -> tuple[SparseTensor, Tensor]:
    """Return the tensor with a default in each empty row.

    The second result tells of each row whether it was empty.
    """
    with name_scope(None, "SparseFillEmptyRows", [sparse.values]):
        value = convert_to_tensor(default, dtype=sparse.dtype)
        indices, values, empty, _ = call(
            "SparseFillEmptyRows",
            None,
            indices=sparse.indices,
            values=sparse.values,
            dense_shape=sparse.dense_shape,
            default_value=value,
        )
        return SparseTensor(indices, values, sparse.dense_shape), empty
