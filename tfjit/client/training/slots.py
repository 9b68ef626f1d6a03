"""Variables under the name of another variable or tensor.

A moving average is one.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from tfjit.client.variables.get_variable import get_variable
from tfjit.client.variables.initializers import Zeros
from tfjit.client.variables.resource_variables import ResourceVariable
from tfjit.client.variables.slice_info import SaveSliceInfo
from tfjit.client.variables.variable_scope import variable_scope
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.creation import zeros
from tfjit.ops.control_flow.conditionals import cond

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import InitializerLike, Structure
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape


def create_slot(primary: Variable | Tensor, value: Tensor, name: str, colocate: bool) -> Variable:
    """Return a new variable "<primary>/<name>" that starts with `value`.

    It is a resource variable where `primary` is one. colocate: place it with the primary.
    """
    return _slot(primary, value, name, colocate, None, None, value.shape.is_fully_defined())


def create_slot_with_initializer(
    primary: Variable | Tensor,
    initializer: InitializerLike,
    shape: TensorShape,
    dtype: DType,
    name: str,
    colocate: bool,
) -> Variable:
    """Return a new variable "<primary>/<name>" that starts with an initializer's value."""
    known = shape.is_fully_defined()
    return _slot(primary, initializer, name, colocate, shape, dtype.base_dtype, known)


def create_zeros_slot(primary: Variable | Tensor, name: str, colocate: bool) -> Variable:
    """Return a new variable "<primary>/<name>" of zeros like the primary."""
    shape, dtype = primary.shape, primary.dtype.base_dtype
    if shape.is_fully_defined():
        return create_slot_with_initializer(primary, Zeros(), shape, dtype, name, colocate)
    like = initialized(primary) if isinstance(primary, Variable) else primary
    return create_slot(primary, zeros(shape_of(like), dtype=dtype), name, colocate)


def initialized(variable: Variable) -> Structure:
    """Return the variable's value, or its initial value while it has none."""
    has_value = variable.is_initialized()
    return cond(has_value, variable.read_value, lambda: variable.initial_value)


def _slot(
    primary: Variable | Tensor,
    initializer: InitializerLike,
    name: str,
    colocate: bool,
    shape: TensorShape | None,
    dtype: DType | None,
    validate_shape: bool,
) -> Variable:
    prefix = primary._shared_name if isinstance(primary, Variable) else primary.op.name
    is_variable = isinstance(primary, Variable)
    place = primary.graph.colocate_with(primary.op) if colocate else nullcontext()
    with variable_scope(None, f"{prefix}/{name}") as scope, place:
        scope.set_partitioner(None)
        slot: Variable = get_variable(
            "",
            initializer=initializer,
            trainable=False,
            use_resource=isinstance(primary, ResourceVariable) if is_variable else None,
            shape=shape,
            dtype=dtype,
            validate_shape=validate_shape,
        )
    _save_as_primary(slot, primary)
    return slot


def _save_as_primary(slot: Variable, primary: Variable | Tensor) -> None:
    """Make the slot of a slice a slice, too.

    Checkpoints have one tensor of all slots of a kind.

    The slot may have fewer dimensions; a scalar is saved as a whole.
    """
    place = primary._save_slice_info if isinstance(primary, Variable) else None
    rank = slot.shape.rank
    if place is None or rank == 0:
        return
    # In a variable scope, slot.name does not begin with primary.op.name. TensorFlow cuts as many
    # characters all the same, and its checkpoints have names that are made so.
    own_name = slot.name[len(primary.op.name) + 1 :].removesuffix(":0")
    slot._set_save_slice_info(
        SaveSliceInfo(
            f"{place.full_name}/{own_name}",
            place.full_shape[:rank],
            place.var_offset[:rank],
            place.var_shape[:rank],
        )
    )
