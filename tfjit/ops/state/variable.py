"""Declare variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.op_traits import ASSIGN, ASSIGN_ADD, CANNOT_FAIL, READS_STATE, VARIABLE
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    merged,
    nothing,
    scalar,
    shape_attr,
    unchanged,
    unknown,
)
from tfjit.ops.core.type_lists import INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, TensorLike


def _assign(c: ShapeContext) -> Shapes:
    if c.attr("validate_shape"):
        return [c.merge(c.inputs[0], c.inputs[1])]
    return [c.inputs[1]]


def _variable(c: ShapeContext) -> Shapes:
    # The attr of the first Variable op writes an unknown shape as a scalar's.
    shape = c.shape_attr("shape")
    return [None if shape == () and c.op == "Variable" else shape]


def _count_up_to(c: ShapeContext) -> Shapes:
    return [c.with_rank(0, 0)]


def _variable_shape(c: ShapeContext) -> Shapes:
    return [(None,)]


register_op(
    "Assign",
    inputs=("ref: Ref(T)", "value: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: type", "validate_shape: bool = true", "use_locking: bool = true"),
    allows_uninitialized_input=True,
    shape=_assign,
    traits=ASSIGN | CANNOT_FAIL,
)
for _op_type in (
    "AssignAdd",
    "AssignSub",
):
    register_op(
        _op_type,
        inputs=("ref: Ref(T)", "value: T"),
        outputs=("output_ref: Ref(T)",),
        attrs=("T: numbertype", "use_locking: bool = false"),
        shape=merged,
        traits=ASSIGN_ADD | CANNOT_FAIL,
    )
for _op_type in (
    "AssignAddVariableOp",
    "AssignSubVariableOp",
):
    register_op(
        _op_type,
        inputs=("resource: resource", "value: dtype"),
        attrs=("dtype: type",),
        stateful=True,
        shape=nothing,
        traits=ASSIGN_ADD | CANNOT_FAIL,
    )
register_op(
    "AssignVariableOp",
    inputs=("resource: resource", "value: dtype"),
    attrs=("dtype: type", "validate_shape: bool = false"),
    stateful=True,
    shape=nothing,
    traits=ASSIGN | CANNOT_FAIL,
)
register_op(
    "CountUpTo",
    inputs=("ref: Ref(T)",),
    outputs=("output: T",),
    attrs=("limit: int", f"T: {INDEX}"),
    shape=_count_up_to,
)
register_op(
    "DestroyResourceOp",
    inputs=("resource: resource",),
    attrs=("ignore_lookup_error: bool = true",),
    stateful=True,
    shape=nothing,
)
register_op(
    "DestroyTemporaryVariable",
    inputs=("ref: Ref(T)",),
    outputs=("value: T",),
    attrs=("T: type", "var_name: string"),
    shape=unchanged,
)
register_op("DisableCopyOnRead", inputs=("resource: resource",), stateful=True, shape=nothing)
register_op(
    "IsVariableInitialized",
    inputs=("ref: Ref(dtype)",),
    outputs=("is_initialized: bool",),
    attrs=("dtype: type",),
    allows_uninitialized_input=True,
    shape=scalar,
    traits=READS_STATE,
)
register_op(
    "ReadVariableOp",
    inputs=("resource: resource",),
    outputs=("value: dtype",),
    attrs=("dtype: type",),
    stateful=True,
    shape=unknown,
    traits=READS_STATE | CANNOT_FAIL,
)
register_op(
    "_ReadVariablesOp",
    inputs=("resources: N * resource",),
    outputs=("values: dtypes",),
    attrs=("N: int >= 0", "dtypes: list(type) >= 1"),
    stateful=True,
    shape=unknown,
)
register_op(
    "ResourceCountUpTo",
    inputs=("resource: resource",),
    outputs=("output: T",),
    attrs=("limit: int", f"T: {INDEX}"),
    stateful=True,
    shape=unknown,
)
register_op(
    "TemporaryVariable",
    outputs=("ref: Ref(dtype)",),
    attrs=("shape: shape", "dtype: type", "var_name: string = ''"),
    stateful=True,
    shape=shape_attr(),
)
register_op(
    "VarHandleOp",
    outputs=("resource: resource",),
    attrs=(
        "container: string = ''",
        "shared_name: string = ''",
        "debug_name: string = ''",
        "dtype: type",
        "shape: shape",
        "allowed_devices: list(string) = []",
    ),
    stateful=True,
    shape=scalar,
    traits=VARIABLE,
)
register_op(
    "_VarHandlesOp",
    outputs=("resources: N * resource",),
    attrs=(
        "containers: list(string)",
        "shared_names: list(string)",
        "N: int >= 0",
        "dtypes: list(type)",
        "shapes: list(shape)",
    ),
    stateful=True,
    shape=scalar,
)
register_op(
    "Variable",
    outputs=("ref: Ref(dtype)",),
    attrs=("shape: shape", "dtype: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=_variable,
    traits=VARIABLE,
)
register_op(
    "VariableShape",
    inputs=("input: resource",),
    outputs=("output: out_type",),
    attrs=(f"out_type: {INDEX} = DT_INT32",),
    stateful=True,
    shape=_variable_shape,
    traits=READS_STATE | CANNOT_FAIL,
)
register_op(
    "VariableV2",
    outputs=("ref: Ref(dtype)",),
    attrs=("shape: shape", "dtype: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=shape_attr(),
    traits=VARIABLE,
)
register_op(
    "VarIsInitializedOp",
    inputs=("resource: resource",),
    outputs=("is_initialized: bool",),
    stateful=True,
    shape=scalar,
    traits=READS_STATE,
)


def variable_op(
    shape: ShapeLike,
    dtype: DTypeLike,
    name: str = "Variable",
    container: str = "",
    shared_name: str = "",
) -> Tensor:
    """Return a reference variable (VariableV2).

    The result is its value, or its reference where an op writes it.
    """
    attrs = {
        "shape": TensorShape(shape),
        "dtype": as_dtype(dtype),
        "container": container,
        "shared_name": shared_name,
    }
    return get_default_graph().create_op("VariableV2", (), attrs=attrs, name=name).outputs[0]


variable_op_v2 = variable_op


def var_handle_op(
    dtype: DTypeLike,
    shape: ShapeLike,
    shared_name: str = "",
    container: str = "",
    name: str = "VarHandleOp",
) -> Tensor:
    """Return the handle of a resource variable.

    The variable is `shared_name` of the container, or the node's alone without that name.
    """
    attrs = {
        "shape": TensorShape(shape),
        "dtype": as_dtype(dtype),
        "container": container,
        "shared_name": shared_name,
    }
    return get_default_graph().create_op("VarHandleOp", (), attrs=attrs, name=name).outputs[0]


def read_variable_op(resource: Tensor, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """Return the value of a resource variable.

    Its static shape is known where the handle is a VarHandleOp's output.
    """
    value = tensor("ReadVariableOp", name, resource=resource, dtype=as_dtype(dtype))
    if resource.op.type == "VarHandleOp":
        value.set_shape(resource.op.attr("shape"))
    return value


def assign_variable_op(resource: Tensor, value: TensorLike, name: str | None = None) -> Operation:
    """Give a resource variable a value."""
    return create("AssignVariableOp", name, resource=resource, value=value)


def assign_add_variable_op(
    resource: Tensor, value: TensorLike, name: str | None = None
) -> Operation:
    """Add to a resource variable."""
    return create("AssignAddVariableOp", name, resource=resource, value=value)


def assign_sub_variable_op(
    resource: Tensor, value: TensorLike, name: str | None = None
) -> Operation:
    """Subtract from a resource variable."""
    return create("AssignSubVariableOp", name, resource=resource, value=value)


def var_is_initialized_op(resource: Tensor, name: str | None = None) -> Tensor:
    """Return whether a resource variable has a value."""
    return tensor("VarIsInitializedOp", name, resource=resource)


def destroy_resource_op(
    resource: Tensor, ignore_lookup_error: bool = True, name: str | None = None
) -> Operation:
    """Delete a resource and its value."""
    return create(
        "DestroyResourceOp", name, resource=resource, ignore_lookup_error=ignore_lookup_error
    )
