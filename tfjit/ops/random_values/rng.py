"""Declare random values of generators that are resources."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Rule, Shapes
from tfjit.ops.core.type_lists import INDEX


def _from_resource(index: int) -> Rule:
    """Return a rule for the shape in an input.

    The stream of these ops is a resource.
    """

    def rule(c: ShapeContext) -> Shapes:
        c.with_rank(0, 0)
        return [c.constant_as_shape(index)]

    return rule


register_op(
    "RngReadAndSkip",
    inputs=("resource: resource", "alg: int32", "delta: uint64"),
    outputs=("value: int64",),
    stateful=True,
)
register_op(
    "RngSkip", inputs=("resource: resource", "algorithm: int64", "delta: int64"), stateful=True
)
register_op(
    "StatefulRandomBinomial",
    inputs=("resource: resource", "algorithm: int64", "shape: S", "counts: T", "probs: T"),
    outputs=("output: dtype",),
    attrs=(
        f"S: {INDEX}",
        "T: {half, float, double, int32, int64} = DT_DOUBLE",
        "dtype: {half, float, double, int32, int64} = DT_INT64",
    ),
    stateful=True,
)
register_op(
    "StatefulStandardNormal",
    inputs=("resource: resource", "shape: shape_dtype"),
    outputs=("output: dtype",),
    attrs=("dtype: type = DT_FLOAT", "shape_dtype: type = DT_INT64"),
    stateful=True,
    deprecated=(29, "Use StatefulStandardNormalV2 instead"),
)
for _op_type in ("StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniform"):
    register_op(
        _op_type,
        inputs=("resource: resource", "algorithm: int64", "shape: shape_dtype"),
        outputs=("output: dtype",),
        attrs=("dtype: type = DT_FLOAT", "shape_dtype: type = DT_INT64"),
        stateful=True,
        shape=_from_resource(2),
    )
register_op(
    "StatefulUniformFullInt",
    inputs=("resource: resource", "algorithm: int64", "shape: shape_dtype"),
    outputs=("output: dtype",),
    attrs=("dtype: type = DT_UINT64", "shape_dtype: type = DT_INT64"),
    stateful=True,
    shape=_from_resource(2),
)
register_op(
    "StatefulUniformInt",
    inputs=(
        "resource: resource",
        "algorithm: int64",
        "shape: shape_dtype",
        "minval: dtype",
        "maxval: dtype",
    ),
    outputs=("output: dtype",),
    attrs=("dtype: type = DT_INT64", "shape_dtype: type = DT_INT64"),
    stateful=True,
    shape=_from_resource(2),
)
