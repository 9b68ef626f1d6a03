"""Runtime kernels of variables: creation, assignment, reads, initialisation tests.

In a static step a reference or resource edge is the `Variable` itself, and so it is in the dataflow
executor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape, is_compatible, is_fully_defined
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.runtime.host.completion import Values
from tfjit.runtime.kernel_api.op_kernel import (
    OpContext,
    RuntimeKernel,
    kernel_maker,
    runtime_kernel,
)
from tfjit.runtime.resources.variables_and_resources import (
    DEFAULT_CONTAINER,
    SessionState,
    Variable,
)

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node


def find_variable(session: SessionState, device: str, node: Node) -> Variable:
    """Return the session's variable of a variable node.

    The node is a Variable, VariableV2 or VarHandleOp placed on `device`.
    """
    return _variable(session, device, node.op, node.name, node.attrs)


def _variable(session: SessionState, device: str, op: str, node_name: str, attrs: Any) -> Variable:
    name = attrs.get("shared_name", b"").decode() or node_name
    container = attrs.get("container", b"").decode() or DEFAULT_CONTAINER
    return session.variable(
        device, container, name, attrs["dtype"], attrs["shape"].dims_tuple, op == "VarHandleOp"
    )


@kernel_maker("Variable", "VariableV2", "VarHandleOp")
def variable_op(node: Node) -> RuntimeKernel:
    """Return the kernel that gives the variable itself.

    A variable of an accelerator is looked up there: its node may run in the host's partition.
    """
    assigned = node.assigned_device

    def compute(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        of_accelerator = assigned and ctx.step.host.devices.accelerator(assigned) is not None
        device = assigned if of_accelerator else ctx.device.name
        return (_variable(ctx.session, device, ctx.op, ctx.name, ctx.attrs),)

    return RuntimeKernel(compute)


@runtime_kernel("ReadVariableOp")
def read_variable(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a copy of the value: later assignments do not show through."""
    return (inputs[0].initialized_value().copy(),)


@runtime_kernel("Assign")
def assign(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Assign to a reference variable and pass the reference on."""
    variable, value = inputs
    value = np.asarray(value)
    if ctx.attrs.get("validate_shape", True):
        declared = variable.shape
        if declared is not None and not is_compatible(declared, value.shape):
            raise errors.InvalidArgumentError(
                None,
                None,
                "Assign requires shapes of both tensors to match. "
                f"lhs shape= {format_shape(declared)} rhs shape= {format_shape(value.shape)}",
            )
    variable.assign(value)
    return (variable,)


@runtime_kernel("AssignVariableOp")
def assign_variable(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Assign to a resource variable.

    Raises InvalidArgumentError on another dtype, or another shape when validate_shape is set.
    """
    variable, value = inputs
    value = np.asarray(value)
    if ctx.attrs["dtype"] != variable.dtype:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Variable and value dtypes don't match; respectively, {variable.dtype.name} and "
            f"{ctx.attrs['dtype'].name}",
        )
    if (
        ctx.attrs.get("validate_shape", False)
        and variable.shape is not None
        and not is_compatible(variable.shape, value.shape)
    ):
        raise errors.InvalidArgumentError(
            None,
            None,
            "Trying to assign to variable with tensor with wrong shape. "
            f"Expected {format_shape(variable.shape)} got {format_shape(value.shape)}",
        )
    variable.assign(value)
    return ()


def _same_shape(variable: Variable, value: np.ndarray) -> np.ndarray:
    current = variable.initialized_value()
    if current.shape == value.shape:
        return current
    if variable.is_resource:
        text = (
            f"Cannot update variable with shape {format_shape(current.shape)} using a Tensor "
            f"with shape {format_shape(value.shape)}"
        )
        text += ", shapes must be equal."
    else:
        text = "Parameters and update must be the same size: "
        text += (
            f"the variable has shape {format_shape(current.shape)}, "
            f"the update {format_shape(value.shape)}"
        )
    raise errors.InvalidArgumentError(None, None, text)


@runtime_kernel("AssignAdd", "AssignAddVariableOp")
def assign_add(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Add to the variable atomically."""
    variable, value = inputs
    with variable.lock:
        current = _same_shape(variable, np.asarray(value))
        np.add(current, value, out=current)
    return (variable,) if ctx.op == "AssignAdd" else ()


@runtime_kernel("AssignSub", "AssignSubVariableOp")
def assign_sub(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Subtract from the variable atomically."""
    variable, value = inputs
    with variable.lock:
        current = _same_shape(variable, np.asarray(value))
        np.subtract(current, value, out=current)
    return (variable,) if ctx.op == "AssignSub" else ()


@runtime_kernel("IsVariableInitialized", "VarIsInitializedOp")
def is_initialized(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return whether the variable has a value, as a bool scalar."""
    return (np.array(inputs[0].value_shape is not None),)


@runtime_kernel("DisableCopyOnRead")
def disable_copy_on_read(ctx: OpContext, inputs: Values) -> Values:
    """Do nothing.

    A read is a copy only where a later assignment would show.
    """
    return ()


@runtime_kernel("VariableShape")
def variable_shape(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the shape of a resource variable's value, as out_type [rank]."""
    return (np.array(inputs[0].initialized_value().shape, ctx.attrs["out_type"].as_numpy_dtype),)


@runtime_kernel("DestroyResourceOp")
def destroy_resource(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Forget the variable's value. Raises NotFoundError when it has none, unless
    ignore_lookup_error.
    """
    variable = inputs[0]
    if variable.value is None and not ctx.attrs.get("ignore_lookup_error", True):
        raise errors.NotFoundError(
            None, None, f"Resource {variable.container}/{variable.name} does not exist."
        )
    variable.clear()
    return ()


@runtime_kernel("TemporaryVariable")
def temporary_variable(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Make a variable of the step, with memory but no value yet.

    It lives as long as its reference, so two of one name do not meet. Raises InvalidArgumentError
    for a partly known shape.
    """
    shape = ctx.attrs["shape"].dims_tuple
    if not is_fully_defined(shape):
        raise errors.InvalidArgumentError(
            None, None, f"Shape {format_shape(shape)} is not fully defined"
        )
    name = ctx.attrs.get("var_name", b"").decode() or ctx.name
    dtype = ctx.attrs["dtype"]
    check_fits_in_memory(shape, dtype.as_numpy_dtype)
    variable = Variable(DEFAULT_CONTAINER, name, dtype, shape)
    variable.assign(np.zeros(shape, dtype.as_numpy_dtype), take=True)
    return (variable,)


@runtime_kernel("DestroyTemporaryVariable")
def destroy_temporary_variable(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the value of a step's variable, which ends.

    Raises NotFoundError when it has ended before, or has another name than `var_name`.
    """
    (variable,) = inputs
    name = ctx.attrs["var_name"].decode()
    with variable.lock:
        value = variable.value
        if value is None or variable.name != name:
            raise errors.NotFoundError(
                None,
                None,
                f"Temporary variable {name} does not exist: the reference is to {variable.name}"
                + (", which has been destroyed" if value is None else ""),
            )
        variable.clear()
    return (value,)


@runtime_kernel("CountUpTo", "ResourceCountUpTo")
def count_up_to(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the value before adding one. Raises OutOfRangeError at the limit."""
    variable = inputs[0]
    limit = ctx.attrs["limit"]
    with variable.lock:
        current = variable.initialized_value()
        if current.shape != ():
            raise errors.InvalidArgumentError(
                None, None, f"input is not a scalar: {format_shape(current.shape)}"
            )
        before = current.copy()
        if before >= limit:
            raise errors.OutOfRangeError(None, None, f"Reached limit of {limit}")
        current += 1
    return (before,)
