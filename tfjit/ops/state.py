"""Variables."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import INDEX

register_op(
    "Assign",
    inputs=("ref: Ref(T)", "value: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: type", "validate_shape: bool = true", "use_locking: bool = true"),
    allows_uninitialized_input=True,
)
register_op(
    "AssignAdd", inputs=("ref: Ref(T)", "value: T"), outputs=("output_ref: Ref(T)",), attrs=("T: numbertype", "use_locking: bool = false")
)
register_op("AssignAddVariableOp", inputs=("resource: resource", "value: dtype"), attrs=("dtype: type",), stateful=True)
register_op(
    "AssignSub", inputs=("ref: Ref(T)", "value: T"), outputs=("output_ref: Ref(T)",), attrs=("T: numbertype", "use_locking: bool = false")
)
register_op("AssignSubVariableOp", inputs=("resource: resource", "value: dtype"), attrs=("dtype: type",), stateful=True)
register_op(
    "AssignVariableOp", inputs=("resource: resource", "value: dtype"), attrs=("dtype: type", "validate_shape: bool = false"), stateful=True
)
register_op("CountUpTo", inputs=("ref: Ref(T)",), outputs=("output: T",), attrs=("limit: int", f"T: {INDEX}"))
register_op("DestroyResourceOp", inputs=("resource: resource",), attrs=("ignore_lookup_error: bool = true",), stateful=True)
register_op("DestroyTemporaryVariable", inputs=("ref: Ref(T)",), outputs=("value: T",), attrs=("T: type", "var_name: string"))
register_op("DisableCopyOnRead", inputs=("resource: resource",), stateful=True)
register_op(
    "IsVariableInitialized",
    inputs=("ref: Ref(dtype)",),
    outputs=("is_initialized: bool",),
    attrs=("dtype: type",),
    allows_uninitialized_input=True,
)
register_op("ReadVariableOp", inputs=("resource: resource",), outputs=("value: dtype",), attrs=("dtype: type",), stateful=True)
register_op(
    "_ReadVariablesOp",
    inputs=("resources: N * resource",),
    outputs=("values: dtypes",),
    attrs=("N: int >= 0", "dtypes: list(type) >= 1"),
    stateful=True,
)
register_op("ResourceCountUpTo", inputs=("resource: resource",), outputs=("output: T",), attrs=("limit: int", f"T: {INDEX}"), stateful=True)
register_op(
    "TemporaryVariable", outputs=("ref: Ref(dtype)",), attrs=("shape: shape", "dtype: type", "var_name: string = ''"), stateful=True
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
)
register_op(
    "_VarHandlesOp",
    outputs=("resources: N * resource",),
    attrs=("containers: list(string)", "shared_names: list(string)", "N: int >= 0", "dtypes: list(type)", "shapes: list(shape)"),
    stateful=True,
)
register_op(
    "Variable",
    outputs=("ref: Ref(dtype)",),
    attrs=("shape: shape", "dtype: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
)
register_op(
    "VariableShape", inputs=("input: resource",), outputs=("output: out_type",), attrs=(f"out_type: {INDEX} = DT_INT32",), stateful=True
)
register_op(
    "VariableV2",
    outputs=("ref: Ref(dtype)",),
    attrs=("shape: shape", "dtype: type", "container: string = ''", "shared_name: string = ''"),
    stateful=True,
)
register_op("VarIsInitializedOp", inputs=("resource: resource",), outputs=("is_initialized: bool",), stateful=True)
