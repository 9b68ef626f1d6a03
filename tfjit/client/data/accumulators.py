"""Conditional accumulators: sums of gradients that wait until there are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.types.dtypes import DType, as_dtype, int64
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import raw_ops as raw
from tfjit.ops.arithmetic.elementwise_functions import cast
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.framework.graphs.operation import Operation, Tensor
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, TensorLike


class ConditionalAccumulatorBase:
    """Base of both accumulators.

    dtype, shape: of the gradients; a shape of None is unknown. accumulator_ref: the handle.
    """

    def __init__(self, dtype: DTypeLike, shape: ShapeLike | None, accumulator_ref: Tensor) -> None:
        self._dtype = as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.rpartition("/")[2]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """Name of its operation, without scopes."""
        return self._name

    @property
    def dtype(self) -> DType:
        """Dtype of the gradients."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Return the number of gradients since the last take."""
        count: Tensor = raw.ResourceAccumulatorNumAccumulated(
            handle=self._accumulator_ref, name=name or f"{self._name}_NumAccumulated"
        )
        return count

    def set_global_step(self, new_global_step: TensorLike, name: str | None = None) -> Operation:
        """Return an operation after which gradients of earlier steps are dropped."""
        operation: Operation = raw.ResourceAccumulatorSetGlobalStep(
            handle=self._accumulator_ref, new_global_step=_step(new_global_step), name=name
        )
        return operation


def _made(
    make: Callable[..., Tensor],
    dtype: DTypeLike,
    shape: ShapeLike | None,
    shared_name: str | None,
    name: str,
    reduction_type: str,
) -> Tensor:
    """Return the handle of an accumulator that an op function makes."""
    return make(
        dtype=dtype,
        shape=shape,
        shared_name=shared_name or "",
        reduction_type=reduction_type,
        name=name,
    )


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates tensors of one shape.

    shared_name: sessions and graphs on one task share the accumulator of this name. reduction_type:
    "MEAN" or "SUM", the result of a take.
    """

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike | None = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        make = raw.ResourceConditionalAccumulator
        handle = _made(make, dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_grad(
        self, grad: TensorLike, local_step: TensorLike = 0, name: str | None = None
    ) -> Operation:
        """Return an operation that adds a gradient.

        A gradient of an earlier local step than the accumulator's is dropped. Raises ValueError for
        another shape.
        """
        gradient = convert_to_tensor(grad, dtype=self._dtype)
        gradient.get_shape().assert_is_compatible_with(self._shape)
        operation: Operation = raw.ResourceAccumulatorApplyGradient(
            handle=self._accumulator_ref,
            local_step=_step(local_step),
            gradient=gradient,
            name=name,
        )
        return operation

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> Tensor:
        """Return the mean or sum, once there are enough gradients."""
        taken: Tensor = raw.ResourceAccumulatorTakeGradient(
            handle=self._accumulator_ref, num_required=num_required, dtype=self._dtype, name=name
        )
        taken.set_shape(self._shape)
        return taken


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulates rows of tensors, by their indices.

    Arguments are those of ConditionalAccumulator. The mean of a row is over the gradients that had
    it.
    """

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike | None = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        make = raw.SparseConditionalAccumulator
        handle = _made(make, dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_indexed_slices_grad(
        self, grad: IndexedSlices, local_step: TensorLike = 0, name: str | None = None
    ) -> Operation:
        """Return an operation that adds a gradient of slices."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: TensorLike,
        grad_values: TensorLike,
        grad_shape: TensorLike | None = None,
        local_step: TensorLike = 0,
        name: str | None = None,
    ) -> Operation:
        """Return an operation that adds a gradient of indices and rows.

        grad_shape: of the dense gradient, if known.
        """
        known = grad_shape is not None
        operation: Operation = raw.SparseAccumulatorApplyGradient(
            handle=self._accumulator_ref,
            local_step=_step(local_step),
            gradient_indices=cast(grad_indices, int64),
            gradient_values=grad_values,
            gradient_shape=cast(grad_shape if grad_shape is not None else [], int64),
            has_known_shape=known,
            name=name,
        )
        return operation

    def take_grad(self, num_required: TensorLike, name: str | None = None) -> Any:
        """Return indices, rows and shape, once there are enough gradients."""
        return raw.SparseAccumulatorTakeGradient(
            handle=self._accumulator_ref, num_required=num_required, dtype=self._dtype, name=name
        )

    def take_indexed_slices_grad(
        self, num_required: TensorLike, name: str | None = None
    ) -> IndexedSlices:
        """Return the mean or sum as IndexedSlices."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Return the number of gradients since the last take."""
        count: Tensor = raw.AccumulatorNumAccumulated(
            handle=self._accumulator_ref, name=name or f"{self._name}_NumAccumulated"
        )
        return count

    def set_global_step(self, new_global_step: TensorLike, name: str | None = None) -> Operation:
        """Return an operation after which gradients of earlier steps are dropped."""
        operation: Operation = raw.AccumulatorSetGlobalStep(
            handle=self._accumulator_ref, new_global_step=_step(new_global_step), name=name
        )
        return operation


def _step(value: TensorLike) -> Tensor:
    return cast(convert_to_tensor(value), int64)
