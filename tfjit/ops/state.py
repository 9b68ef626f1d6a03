"""Variables."""

from __future__ import annotations

from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, merged, nothing, scalar, shape_attr, unknown
from tfjit.ops.type_lists import INDEX


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
)
register_op(
    "AssignAdd",
    inputs=("ref: Ref(T)", "value: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=merged,
)
register_op("AssignAddVariableOp", inputs=("resource: resource", "value: dtype"), attrs=("dtype: type",), stateful=True, shape=nothing)
register_op(
    "AssignSub",
    inputs=("ref: Ref(T)", "value: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=merged,
)
register_op("AssignSubVariableOp", inputs=("resource: resource", "value: dtype"), attrs=("dtype: type",), stateful=True, shape=nothing)
register_op(
    "AssignVariableOp",
    inputs=("resource: resource", "value: dtype"),
    attrs=("dtype: type", "validate_shape: bool = false"),
    stateful=True,
    shape=nothing,
)
register_op("CountUpTo", inputs=("ref: Ref(T)",), outputs=("output: T",), attrs=("limit: int", f"T: {INDEX}"), shape=_count_up_to)
register_op("DestroyResourceOp", inputs=("resource: resource",), attrs=("ignore_lookup_error: bool = true",), stateful=True, shape=nothing)
register_op(
    "DestroyTemporaryVariable", inputs=("ref: Ref(T)",), outputs=("value: T",), attrs=("T: type", "var_name: string"), shape=unknown
)
register_op("DisableCopyOnRead", inputs=("resource: resource",), stateful=True, shape=nothing)
register_op(
    "IsVariableInitialized",
    inputs=("ref: Ref(dtype)",),
    outputs=("is_initialized: bool",),
    attrs=("dtype: type",),
    allows_uninitialized_input=True,
    shape=scalar,
)
register_op(
    "ReadVariableOp", inputs=("resource: resource",), outputs=("value: dtype",), attrs=("dtype: type",), stateful=True, shape=unknown
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
)
register_op(
    "_VarHandlesOp",
    outputs=("resources: N * resource",),
    attrs=("containers: list(string)", "shared_names: list(string)", "N: int >= 0", "dtypes: list(type)", "shapes: list(shape)"),
    stateful=True,
    shape=scalar,
)
register_op(
    "Variable",
    outputs=("ref: Ref(dtype)",),
    attrs=("shape: shape", "dtype: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=_variable,
)
register_op(
    "VariableShape",
    inputs=("input: resource",),
    outputs=("output: out_type",),
    attrs=(f"out_type: {INDEX} = DT_INT32",),
    stateful=True,
    shape=_variable_shape,
)
register_op(
    "VariableV2",
    outputs=("ref: Ref(dtype)",),
    attrs=("shape: shape", "dtype: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
    shape=shape_attr(),
)
register_op("VarIsInitializedOp", inputs=("resource: resource",), outputs=("is_initialized: bool",), stateful=True, shape=scalar)
