"""TensorSpec: the expected shape, dtype and name of a tensor."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dtypes import DType, as_dtype, float32
from tfjit.framework.types.shape import TensorShape, as_shape


class TensorSpec:
    """Shape, dtype and name of a tensor.

    Sizes may be None, or the whole shape.
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = float32, name: str | None = None) -> None:
        self._shape = TensorShape(as_shape(shape))
        self._dtype = as_dtype(dtype)
        self._name = name

    @classmethod
    def from_tensor(cls, tensor: Tensor, name: str | None = None) -> TensorSpec:
        """Return the spec of `tensor`, named as its operation by default."""
        return cls(tensor.shape, tensor.dtype.base_dtype, name or tensor.op.name)

    @classmethod
    def from_spec(cls, spec: TensorSpec, name: str | None = None) -> TensorSpec:
        """Return the same, under another name if one is given."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name, or None."""
        return self._name

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a tensor, or each of another spec's, fits this spec.

        The dtype must be the same and the shapes must agree.
        """
        dtype = getattr(spec_or_value, "dtype", None)
        if dtype is None or as_dtype(dtype).base_dtype is not self._dtype:
            return False
        return self._shape.is_compatible_with(spec_or_value.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        same = self._shape.dims_tuple == other._shape.dims_tuple
        return same and self._dtype is other._dtype and self._name == other._name

    def __hash__(self) -> int:
        return hash((self._shape.dims_tuple, self._dtype, self._name))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"
