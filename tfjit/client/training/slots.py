"""Variables that accompany a variable or tensor under its name, such as its moving average."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from tfjit.client.variables.initializers import Zeros
from tfjit.client.variables.resource_variables import ResourceVariable
from tfjit.client.variables.variable_scope import get_variable, variable_scope
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.creation import zeros

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import InitializerLike
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape


def create_slot(primary: Variable | Tensor, value: Tensor, name: str, colocate: bool) -> Variable:
    """Return a new variable "<primary>/<name>" that starts with `value`.

    It is a resource variable where `primary` is one. colocate: place it with the primary.
    """
    return _slot(primary, value, name, colocate, None, None, value.shape.is_fully_defined())


def create_zeros_slot(primary: Tensor, name: str, colocate: bool) -> Variable:
    """Return a new variable "<primary>/<name>" of zeros of the primary's shape and dtype."""
    shape = primary.shape
    if shape.is_fully_defined():
        return _slot(primary, Zeros(), name, colocate, shape, primary.dtype, True)
    return create_slot(primary, zeros(shape_of(primary), dtype=primary.dtype), name, colocate)


def _slot(
    primary: Variable | Tensor,
    initializer: InitializerLike,
    name: str,
    colocate: bool,
    shape: TensorShape | None,
    dtype: DType | None,
    validate_shape: bool,
) -> Variable:
    is_variable = isinstance(primary, Variable)
    prefix = primary._shared_name if is_variable else primary.op.name
    place = primary.graph.colocate_with(primary.op) if colocate else nullcontext()
    with variable_scope(None, f"{prefix}/{name}"), place:
        slot: Variable = get_variable(
            "",
            initializer=initializer,
            trainable=False,
            use_resource=isinstance(primary, ResourceVariable) if is_variable else None,
            shape=shape,
            dtype=dtype,
            validate_shape=validate_shape,
        )
    return slot
