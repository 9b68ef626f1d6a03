"""`SparseTensorSpec`: sparse tensors as components of datasets' elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape, as_shape
from tfjit.ops.core.apply import call, tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.operation import Tensor
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike


class SparseTensorSpec:
    """Dense shape and dtype of a sparse tensor.

    Sizes may be None, or the whole shape.
    """

    __slots__ = ("_dtype", "_shape")

    value_type: Final = SparseTensor

    def __init__(self, shape: ShapeLike | None = None, dtype: DTypeLike = dtypes.float32) -> None:
        self._shape = TensorShape(as_shape(shape))
        self._dtype = as_dtype(dtype)

    @classmethod
    def from_value(cls, value: SparseTensor) -> SparseTensorSpec:
        """Return the spec of a sparse tensor."""
        return cls(value.shape, value.dtype)

    @property
    def shape(self) -> TensorShape:
        """The dense shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The dtype of the values."""
        return self._dtype

    @property
    def rank(self) -> int | None:
        """The number of axes, or None."""
        return self._shape.rank

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SparseTensorSpec)
            and self._dtype is other._dtype
            and self._shape.dims_tuple == other._shape.dims_tuple
        )

    def __hash__(self) -> int:
        return hash((self._dtype, self._shape.dims_tuple))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"


def encode(value: SparseTensor, rows: bool = False) -> Tensor:
    """Return a sparse tensor as variants, [3].

    rows: as those of each row, [rows, 3], which a dataset of rows slices.
    """
    return tensor(
        "SerializeManySparse" if rows else "SerializeSparse",
        None,
        sparse_indices=value.indices,
        sparse_values=value.values,
        sparse_shape=value.dense_shape,
        out_type=dtypes.variant,
    )


def decode(spec: SparseTensorSpec, variants: Tensor) -> SparseTensor:
    """Return the sparse tensor of variants, or of a batch."""
    indices, values, sizes = call(
        "DeserializeSparse", None, serialized_sparse=variants, dtype=spec.dtype
    )
    indices.set_shape([None, spec.rank])
    values.set_shape([None])
    dims = spec.shape.dims_tuple
    if dims is not None and None not in dims:
        sizes = ops.constant(dims, dtypes.int64, name="shape")
    elif dims is not None and any(size is not None for size in dims):
        pieces = ops.unstack(sizes, num=len(dims))
        sizes = ops.stack(
            [
                piece if size is None else ops.constant(size, dtypes.int64)
                for piece, size in zip(pieces, dims, strict=True)
            ]
        )
    else:
        sizes.set_shape([spec.rank])
    found = SparseTensor(indices, values, sizes)
    found._known_shape = spec.shape
    return found
