"""Scatter updates of variables, and reads of parts of them."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import INDEX

register_op("InplaceAdd", inputs=("x: T", "i: int32", "v: T"), outputs=("y: T",), attrs=("T: type",))
register_op("InplaceSub", inputs=("x: T", "i: int32", "v: T"), outputs=("y: T",), attrs=("T: type",))
register_op("InplaceUpdate", inputs=("x: T", "i: int32", "v: T"), outputs=("y: T",), attrs=("T: type",))
register_op(
    "ResourceGather",
    inputs=("resource: resource", "indices: Tindices"),
    outputs=("output: dtype",),
    attrs=("batch_dims: int = 0", "validate_indices: bool = true", "dtype: type", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceGatherNd",
    inputs=("resource: resource", "indices: Tindices"),
    outputs=("output: dtype",),
    attrs=("dtype: type", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceScatterAdd",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: numbertype", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceScatterDiv",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: numbertype", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceScatterMax",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: numbertype", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceScatterMin",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: numbertype", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceScatterMul",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: numbertype", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceScatterNdAdd",
    inputs=("ref: resource", "indices: Tindices", "updates: T"),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true", "bad_indices_policy: string = ''"),
    stateful=True,
)
register_op(
    "ResourceScatterNdMax",
    inputs=("ref: resource", "indices: Tindices", "updates: T"),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true", "bad_indices_policy: string = ''"),
    stateful=True,
)
register_op(
    "ResourceScatterNdMin",
    inputs=("ref: resource", "indices: Tindices", "updates: T"),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true", "bad_indices_policy: string = ''"),
    stateful=True,
)
register_op(
    "ResourceScatterNdSub",
    inputs=("ref: resource", "indices: Tindices", "updates: T"),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true", "bad_indices_policy: string = ''"),
    stateful=True,
)
register_op(
    "ResourceScatterNdUpdate",
    inputs=("ref: resource", "indices: Tindices", "updates: T"),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true", "bad_indices_policy: string = ''"),
    stateful=True,
)
register_op(
    "ResourceScatterSub",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: numbertype", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceScatterUpdate",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: type", f"Tindices: {INDEX}"),
    stateful=True,
)
register_op(
    "ResourceStridedSliceAssign",
    inputs=("ref: resource", "begin: Index", "end: Index", "strides: Index", "value: T"),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
    stateful=True,
)
register_op(
    "ScatterAdd",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "ScatterDiv",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "ScatterMax",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: {half, bfloat16, float, double, int32, int64}", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "ScatterMin",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: {half, bfloat16, float, double, int32, int64}", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "ScatterMul",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "ScatterNdAdd",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "bad_indices_policy: string = ''"),
)
register_op(
    "ScatterNdMax",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "bad_indices_policy: string = ''"),
)
register_op(
    "ScatterNdMin",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "bad_indices_policy: string = ''"),
)
register_op(
    "ScatterNdSub",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "bad_indices_policy: string = ''"),
)
register_op(
    "ScatterNdUpdate",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true", "bad_indices_policy: string = ''"),
)
register_op(
    "ScatterSub",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "ScatterUpdate",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true"),
)
register_op(
    "StridedSliceAssign",
    inputs=("ref: Ref(T)", "begin: Index", "end: Index", "strides: Index", "value: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=(
        "T: type",
        f"Index: {INDEX}",
        "begin_mask: int = 0",
        "end_mask: int = 0",
        "ellipsis_mask: int = 0",
        "new_axis_mask: int = 0",
        "shrink_axis_mask: int = 0",
    ),
)
