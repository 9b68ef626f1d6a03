"""RaggedTensorSpec: the expected shape, dtype and ragged axes of a ragged tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.client.ragged.conversions import dense_to_variant
from tfjit.client.ragged.ragged_tensor import RaggedTensor
from tfjit.client.ragged.ragged_value import RaggedTensorValue
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types.dtypes import DType, as_dtype, float32, int64
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.dispatch import Dispatching, Kind

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrRagged, DTypeLike, ShapeLike


class RaggedTensorSpec(Dispatching):
    """Shape, dtype and number of ragged axes of a ragged tensor.

    ragged_rank: all axes but the first by default; with 0, the spec is of a Tensor.
    flat_values_spec: of flat values of another class, None for tensors. Raises ValueError for a
    rank that is unknown then, or not above ragged_rank, and for two dtypes or none.
    """

    __slots__ = ("_dtype", "_flat_values_spec", "_ragged_rank", "_row_splits_dtype", "_shape")

    def __init__(
        self,
        shape: ShapeLike | None = None,
        dtype: DTypeLike | None = float32,
        ragged_rank: int | None = None,
        row_splits_dtype: DTypeLike = int64,
        flat_values_spec: TensorSpec | None = None,
    ) -> None:
        self._shape = TensorShape(shape)
        if flat_values_spec is not None:
            if dtype is not None and as_dtype(dtype) != flat_values_spec.dtype:
                raise ValueError("dtype must be the same as flat_values_spec.dtype")
            dtype = flat_values_spec.dtype
        elif dtype is None:
            raise ValueError("At least one of dtype or flat_values_spec must be provided")
        self._dtype = as_dtype(dtype)
        self._flat_values_spec = flat_values_spec
        self._row_splits_dtype = as_dtype(row_splits_dtype)
        rank = self._shape.rank
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        if not isinstance(ragged_rank, int):
            raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
        if rank is not None and ragged_rank >= rank:
            raise ValueError(
                f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank})."
            )
        self._ragged_rank = ragged_rank

    @property
    def shape(self) -> TensorShape:
        """The shape, None along ragged axes."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The dtype of the flat values."""
        return self._dtype

    @property
    def ragged_rank(self) -> int:
        """The number of partitions of rows."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        """The dtype of the splits."""
        return self._row_splits_dtype

    @property
    def flat_values_spec(self) -> TensorSpec | None:
        """The spec of flat values of another class than Tensor."""
        return self._flat_values_spec

    @property
    def value_type(self) -> type:
        """The class of the values: RaggedTensor, or Tensor without ragged axes."""
        return RaggedTensor if self._ragged_rank else Tensor

    @classmethod
    def from_value(cls, value: RaggedTensor | RaggedTensorValue) -> RaggedTensorSpec:
        """Return the spec of a ragged tensor or its value."""
        kind = as_dtype(value.row_splits.dtype)
        return cls(value.shape, as_dtype(value.dtype), value.ragged_rank, kind)

    def is_compatible_with(self, spec_or_value: object) -> bool:
        """Return whether a tensor, or each of another spec's, fits this spec."""
        if not self._ragged_rank and isinstance(spec_or_value, (Tensor, TensorSpec)):
            return TensorSpec(self._shape, self._dtype).is_compatible_with(spec_or_value)
        if isinstance(spec_or_value, (RaggedTensor, RaggedTensorValue)):
            spec_or_value = self.from_value(spec_or_value)
        if not isinstance(spec_or_value, RaggedTensorSpec):
            return False
        return self._key()[1:] == spec_or_value._key()[1:] and self._shape.is_compatible_with(
            spec_or_value._shape
        )

    def of_rows(self) -> RaggedTensorSpec:
        """Return the spec of one row."""
        rank = self._ragged_rank - 1
        return RaggedTensorSpec(self._shape[1:], self._dtype, rank, self._row_splits_dtype)

    def encoded(self, value: DenseOrRagged) -> Tensor:
        """Return a variant of a value of this spec.

        Raises ValueError for a value of another number of ragged axes.
        """
        if self._flat_values_spec is not None:
            raise ValueError("Customized value_type is not supported.")
        if isinstance(value, RaggedTensor):
            if value.ragged_rank != self._ragged_rank:
                raise ValueError(
                    f"Ragged rank of value {value.ragged_rank} does not match ragged rank of type "
                    f"{self._ragged_rank}."
                )
            return value._to_variant()
        if self._ragged_rank:
            raise ValueError(
                f"Expected a RaggedTensor if ragged rank={self._ragged_rank} but got "
                f"{type(value).__name__}."
            )
        return dense_to_variant(value)

    def decoded(self, variant: Tensor, batches: int = 0) -> DenseOrRagged:
        """Return the value of a variant, or of a batch of variants."""
        ragged_rank = self._ragged_rank + batches
        kind = self._row_splits_dtype
        value = RaggedTensor._from_variant(variant, self._dtype, ragged_rank, row_splits_dtype=kind)
        if self._shape.rank is not None:
            outer = variant.shape.with_rank(batches)
            note = value._set_shape if isinstance(value, RaggedTensor) else value.set_shape
            note(outer.concatenate(self._shape))
        return value

    def _shapes(self) -> list[TensorShape]:
        """Return the shapes of splits and flat values."""
        splits = [TensorShape([None])] * self._ragged_rank
        if self._shape.rank is None:
            return [*splits, TensorShape(None)]
        rows = self._shape.as_list()[0]
        if splits and rows is not None:
            splits[0] = TensorShape([rows + 1])
        inner = self._shape[self._ragged_rank + 1 :]
        return [*splits, TensorShape([None]).concatenate(inner)]

    def _key(self) -> tuple[object, ...]:
        dims = self._shape.dims_tuple
        kinds = (self._dtype, self._row_splits_dtype, self._flat_values_spec)
        return dims, self._ragged_rank, *kinds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedTensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (
            f"RaggedTensorSpec({self._shape!r}, {self._dtype!r}, {self._ragged_rank!r}, "
            f"{self._row_splits_dtype!r})"
        )

    def _handle(
        self,
        kind: Kind,
        function: Callable[..., object],
        args: tuple[object, ...],
        keywords: dict[str, object],
    ) -> object:
        from tfjit.client.ragged.handlers import handle

        return handle(kind, function, args, keywords)
