"""Define gradients of optionals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("OptionalFromValue")
def _optional_from_value(op: Operation, grad: Tensor) -> Gradients:
    types = tuple(value.dtype.base_dtype for value in op.inputs)
    return raw.OptionalGetValue(
        optional=grad, output_types=types, output_shapes=tuple(value.shape for value in op.inputs)
    )


@RegisterGradient("OptionalGetValue")
def _optional_get_value(op: Operation, *grads: Tensor) -> Gradients:
    return raw.OptionalFromValue(components=list(grads))
