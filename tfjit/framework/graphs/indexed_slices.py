"""Some rows of a tensor: the form of a gather's gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.operation import Operation, Tensor
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape


class IndexedSlicesValue(NamedTuple):
    """The value of IndexedSlices in `run`'s results and feeds: arrays.

    dense_shape may be None.
    """

    values: Any
    indices: Any
    dense_shape: Any


class IndexedSlices:
    """Rows `values[i, ...]` that belong to row `indices[i]` of a larger tensor.

    Rows of the same index add up. values: [n, ...]. indices: [n], int32 or int64. dense_shape: the
    larger tensor's shape, or None where it is not known. Where a tensor is asked for, the slices
    become one (with zeros in the other rows), which needs `dense_shape`.
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self) -> Tensor:
        """The rows."""
        return self._values

    @property
    def indices(self) -> Tensor:
        """For each row, its index in the larger tensor."""
        return self._indices

    @property
    def dense_shape(self) -> Tensor | None:
        """Shape of the larger tensor."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """Known part of the larger tensor's static shape."""
        from tfjit.framework.graphs.static_value import constant_value_as_shape
        from tfjit.framework.types.shape import TensorShape

        known = (
            constant_value_as_shape(self._dense_shape) if self._dense_shape is not None else None
        )
        if known is not None:
            return TensorShape(known)
        rows = self._values.shape_tuple
        return TensorShape(None if rows is None else (None, *rows[1:]))

    def get_shape(self) -> TensorShape:
        """Return the same as `shape`."""
        return self.shape

    @property
    def dtype(self) -> DType:
        """Dtype of the rows."""
        return self._values.dtype

    @property
    def name(self) -> str:
        """Name of the rows."""
        return self._values.name

    @property
    def op(self) -> Operation:
        """The operation that makes the rows."""
        return self._values.op

    @property
    def device(self) -> str:
        """Device of the rows."""
        return self._values.device

    @property
    def graph(self) -> Graph:
        """The graph that holds all parts."""
        return self._values.graph

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __repr__(self) -> str:
        shape: Any = f", dense_shape={self._dense_shape}" if self._dense_shape is not None else ""
        return f"IndexedSlices(indices={self._indices}, values={self._values}{shape})"
