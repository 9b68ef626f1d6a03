"""Declare accumulators of gradients (synchronous replicas)."""

from __future__ import annotations

from typing import Final

from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.ops.core.declare import register_op

ACCUMULATOR: Final = (
    "dtype: numbertype",
    "shape: shape",
    "container: string = ''",
    "shared_name: string = ''",
    "reduction_type: {'MEAN', 'SUM'} = 'MEAN'",
)

register_op(
    "AccumulatorApplyGradient",
    inputs=("handle: Ref(string)", "local_step: int64", "gradient: dtype"),
    attrs=("dtype: numbertype",),
)
register_op(
    "AccumulatorNumAccumulated",
    inputs=("handle: Ref(string)",),
    outputs=("num_accumulated: int32",),
)
register_op("AccumulatorSetGlobalStep", inputs=("handle: Ref(string)", "new_global_step: int64"))
register_op(
    "AccumulatorTakeGradient",
    inputs=("handle: Ref(string)", "num_required: int32"),
    outputs=("average: dtype",),
    attrs=("dtype: numbertype",),
    traits=BLOCKING,
)
for _op_type in ("ConditionalAccumulator", "SparseConditionalAccumulator"):
    register_op(_op_type, outputs=("handle: Ref(string)",), attrs=ACCUMULATOR, stateful=True)
register_op(
    "ResourceAccumulatorApplyGradient",
    inputs=("handle: resource", "local_step: int64", "gradient: dtype"),
    attrs=("dtype: numbertype",),
    stateful=True,
)
register_op(
    "ResourceAccumulatorNumAccumulated",
    inputs=("handle: resource",),
    outputs=("num_accumulated: int32",),
    stateful=True,
)
register_op(
    "ResourceAccumulatorSetGlobalStep",
    inputs=("handle: resource", "new_global_step: int64"),
    stateful=True,
)
register_op(
    "ResourceAccumulatorTakeGradient",
    inputs=("handle: resource", "num_required: int32"),
    outputs=("average: dtype",),
    attrs=("dtype: numbertype",),
    stateful=True,
    traits=BLOCKING,
)
register_op(
    "ResourceConditionalAccumulator",
    outputs=("handle: resource",),
    attrs=ACCUMULATOR,
    stateful=True,
)
register_op(
    "SparseAccumulatorApplyGradient",
    inputs=(
        "handle: Ref(string)",
        "local_step: int64",
        "gradient_indices: int64",
        "gradient_values: dtype",
        "gradient_shape: int64",
    ),
    attrs=("dtype: numbertype", "has_known_shape: bool"),
)
register_op(
    "SparseAccumulatorTakeGradient",
    inputs=("handle: Ref(string)", "num_required: int32"),
    outputs=("indices: int64", "values: dtype", "shape: int64"),
    attrs=("dtype: numbertype",),
    traits=BLOCKING,
)
