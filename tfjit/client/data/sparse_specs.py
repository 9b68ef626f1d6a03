"""`tf.SparseTensorSpec`: the expected dense shape and dtype of a sparse tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.sparse_tensors import SparseTensor
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes as dt
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape, as_shape
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike


class SparseTensorSpec:
    """Dense shape and dtype of a sparse tensor.

    Sizes may be None, or the whole shape.
    """

    __slots__ = ("_dtype", "_shape")

    value_type = SparseTensor

    def __init__(self, shape: ShapeLike | None = None, dtype: DTypeLike = dt.float32) -> None:
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
        """Element type of the values."""
        return self._dtype

    def is_compatible_with(self, spec_or_value: object) -> bool:
        """Return whether a sparse tensor or another spec fits this one."""
        if not isinstance(spec_or_value, (SparseTensor, SparseTensorSpec)):
            return False
        same = as_dtype(spec_or_value.dtype) is self._dtype
        return same and bool(self._shape.is_compatible_with(spec_or_value.shape))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTensorSpec):
            return NotImplemented
        same = self._shape.dims_tuple == other._shape.dims_tuple
        return same and self._dtype is other._dtype

    def __hash__(self) -> int:
        return hash((self._shape.dims_tuple, self._dtype))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"


def as_variants(value: SparseTensor, slices: bool = False) -> Tensor:
    """Return indices, values and dense shape as a vector of three variants.

    slices: those of each slice along the first axis, variant [slices, 3].
    """
    return tensor(
        "SerializeManySparse" if slices else "SerializeSparse",
        None,
        sparse_indices=value.indices,
        sparse_values=value.values,
        sparse_shape=value.dense_shape,
        out_type=dt.variant,
    )


def from_variants(spec: SparseTensorSpec, variants: Tensor) -> SparseTensor:
    """Return the sparse tensor of a vector of variants.

    Of several vectors it has a further first axis. spec: of the result.
    """
    parts: Sequence[Tensor] = call(
        "DeserializeSparse", None, serialized_sparse=variants, dtype=spec.dtype
    )
    indices, values, shape = parts
    dims = spec.shape.dims_tuple
    indices.set_shape([None, None if dims is None else len(dims)])
    values.set_shape([None])
    if dims is not None and None not in dims:
        shape = convert_to_tensor(list(dims), dtype=dt.int64, name="shape")
    elif dims is not None and any(dim is not None for dim in dims):
        pieces = ops.unstack(shape, num=len(dims))
        for k, dim in enumerate(dims):
            if dim is not None:
                pieces[k] = ops.constant(dim, shape.dtype)
        shape = ops.stack(pieces)
    else:
        shape.set_shape([None if dims is None else len(dims)])
    found = SparseTensor(indices, values, shape)
    found._known_shape = spec.shape
    return found


__all__ = ["SparseTensorSpec", "as_variants", "from_variants"]
