"""Declare scatter updates of variables, and reads of their parts."""

from __future__ import annotations

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.op_traits import WRITES_ROWS
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import format_shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, nothing
from tfjit.ops.core.type_lists import INDEX


def _scatter(c: ShapeContext) -> Shapes:
    """Check ref [rows, inner...], indices [any] and updates.

    Updates are [any, inner...] or a scalar.
    """
    ref = c.with_rank_at_least(0, 1)
    indices, updates = c.inputs[1], c.inputs[2]
    if ref is not None and indices is not None and updates is not None and updates != ():
        c.merge(updates, indices + ref[1:])
    return [ref]


def _scatter_nd(c: ShapeContext) -> Shapes:
    ref, indices, updates = c.inputs[0], c.with_rank_at_least(1, 1), c.inputs[2]
    if ref is not None and indices is not None and updates is not None and indices[-1] is not None:
        depth, outer = indices[-1], indices[:-1]
        try:
            c.merge(updates, outer + ref[depth:])
        except InvalidArgumentError as error:
            raise fail(
                f"updates {format_shape(updates)} do not fit indices {format_shape(indices)} into "
                f"{format_shape(ref)}: {error.message}"
            ) from None
    return [ref]


def _inplace(c: ShapeContext) -> Shapes:
    return [c.inputs[0]]


for _op_type in ("InplaceAdd", "InplaceSub", "InplaceUpdate"):
    register_op(
        _op_type,
        inputs=("x: T", "i: int32", "v: T"),
        outputs=("y: T",),
        attrs=("T: type",),
        shape=_inplace,
    )
for _op_type in (
    "ResourceScatterAdd",
    "ResourceScatterDiv",
    "ResourceScatterMax",
    "ResourceScatterMin",
    "ResourceScatterMul",
    "ResourceScatterSub",
):
    register_op(
        _op_type,
        inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
        attrs=("dtype: numbertype", f"Tindices: {INDEX}"),
        stateful=True,
        shape=nothing,
        traits=WRITES_ROWS,
    )
for _op_type in (
    "ResourceScatterNdAdd",
    "ResourceScatterNdMax",
    "ResourceScatterNdMin",
    "ResourceScatterNdSub",
    "ResourceScatterNdUpdate",
):
    register_op(
        _op_type,
        inputs=("ref: resource", "indices: Tindices", "updates: T"),
        attrs=(
            "T: type",
            f"Tindices: {INDEX}",
            "use_locking: bool = true",
            "bad_indices_policy: string = ''",
        ),
        stateful=True,
        shape=nothing,
        traits=WRITES_ROWS,
    )
register_op(
    "ResourceScatterUpdate",
    inputs=("resource: resource", "indices: Tindices", "updates: dtype"),
    attrs=("dtype: type", f"Tindices: {INDEX}"),
    stateful=True,
    shape=nothing,
    traits=WRITES_ROWS,
)
for _op_type in ("ScatterAdd", "ScatterDiv", "ScatterMul", "ScatterSub"):
    register_op(
        _op_type,
        inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
        outputs=("output_ref: Ref(T)",),
        attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
        shape=_scatter,
        traits=WRITES_ROWS,
    )
for _op_type in ("ScatterMax", "ScatterMin"):
    register_op(
        _op_type,
        inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
        outputs=("output_ref: Ref(T)",),
        attrs=(
            "T: {half, bfloat16, float, double, int32, int64}",
            f"Tindices: {INDEX}",
            "use_locking: bool = false",
        ),
        shape=_scatter,
        traits=WRITES_ROWS,
    )
for _op_type in ("ScatterNdAdd", "ScatterNdMax", "ScatterNdMin", "ScatterNdSub"):
    register_op(
        _op_type,
        inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
        outputs=("output_ref: Ref(T)",),
        attrs=(
            "T: numbertype",
            f"Tindices: {INDEX}",
            "use_locking: bool = false",
            "bad_indices_policy: string = ''",
        ),
        shape=_scatter_nd,
        traits=WRITES_ROWS,
    )
register_op(
    "ScatterNdUpdate",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=(
        "T: type",
        f"Tindices: {INDEX}",
        "use_locking: bool = true",
        "bad_indices_policy: string = ''",
    ),
    shape=_scatter_nd,
    traits=WRITES_ROWS,
)
register_op(
    "ScatterUpdate",
    inputs=("ref: Ref(T)", "indices: Tindices", "updates: T"),
    outputs=("output_ref: Ref(T)",),
    attrs=("T: type", f"Tindices: {INDEX}", "use_locking: bool = true"),
    shape=_scatter,
    traits=WRITES_ROWS,
)
