"""Start, add and order gradients, which are tensors or IndexedSlices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor, register_tensor_conversion_function

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, Structure

Gradient = Any  # Tensor | IndexedSlices

TRAINABLE: Final = frozenset(
    {
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.complex64,
        dtypes.complex128,
        dtypes.resource,
        dtypes.variant,
    }
)
"""Dtypes of tensors that gradients flow through."""


def as_list(values: Structure) -> list[Any]:
    """Return values as a list, which one value is put into."""
    return list(values) if isinstance(values, (list, tuple)) else [values]


def is_trainable(tensor: Tensor) -> bool:
    """Return whether gradients flow through a tensor of this dtype."""
    return tensor.dtype.base_dtype in TRAINABLE


def start_gradient(y: Tensor, gradient: object, index: int) -> Gradient:
    """Return the gradient that a y begins with.

    Raises TypeError where it does not fit y's dtype.
    """
    dtype = y.dtype.base_dtype
    if gradient is not None and dtype in (dtypes.resource, dtypes.variant):
        return gradient
    if gradient is None:
        if dtype in (dtypes.complex64, dtypes.complex128):
            raise TypeError(
                f"Gradients of complex tensors ({y.name}) must set grad_ys (y.dtype = {dtype.name})"
            )
        if dtype not in TRAINABLE:
            raise TypeError(f"gradients: {y.name} is {dtype.name}, which is not differentiable")
        return raw.Fill(
            dims=raw.Shape(input=y),
            value=convert_to_tensor(1, dtype=dtype),
            name=f"grad_ys_{index}",
        )
    if isinstance(gradient, IndexedSlices):
        return gradient
    given = convert_to_tensor(gradient, dtype=dtype, name=f"grad_ys_{index}")
    return given


def sum_gradients(arrived: Sequence[Gradient], tensor: Tensor) -> Gradient | None:
    """Add the gradients that meet at a tensor."""
    if not arrived:
        return None
    if len(arrived) == 1:
        return arrived[0]
    if all(isinstance(gradient, IndexedSlices) for gradient in arrived):
        from tfjit.ops.arrays.movement_functions import concat

        with tensor.graph.name_scope(f"{tensor.op.name}_grad_sum"):
            dtype = (
                dtypes.int64
                if any(g.indices.dtype is dtypes.int64 for g in arrived)
                else dtypes.int32
            )
            indices = [
                g.indices if g.indices.dtype is dtype else raw.Cast(x=g.indices, DstT=dtype)
                for g in arrived
            ]
            return IndexedSlices(
                concat([g.values for g in arrived], 0), concat(indices, 0), arrived[0].dense_shape
            )
    return raw.AddN(inputs=[convert_to_tensor(gradient) for gradient in arrived])


def all_ready(gradients: Sequence[Gradient | None]) -> list[Gradient | None]:
    """Return the same gradients, none of which is ready before all are."""
    from tfjit.ops.control_flow.control_flow import tuple as grouped

    parts = [
        part
        for g in gradients
        for part in ((g.values, g.indices) if isinstance(g, IndexedSlices) else (g,))
        if part is not None
    ]
    ready = iter(grouped(parts) if parts else [])
    made: list[Gradient | None] = []
    for g in gradients:
        if isinstance(g, IndexedSlices):
            values = next(ready)
            made.append(IndexedSlices(values, next(ready), g.dense_shape))
        else:
            made.append(None if g is None else next(ready))
    return made


def _dense(
    value: IndexedSlices,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    as_ref: bool = False,
) -> Any:
    """Return IndexedSlices as a tensor.

    Rows of the same index are added, other rows are zeros.
    """
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for IndexedSlices "
            f"with dtype {value.dtype.name}"
        )
    if value.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices without dense_shape: {value}"
        )
    rows = value.dense_shape[0]
    return raw.UnsortedSegmentSum(
        data=value.values, segment_ids=value.indices, num_segments=rows, name=name
    )


register_tensor_conversion_function(IndexedSlices, _dense)
