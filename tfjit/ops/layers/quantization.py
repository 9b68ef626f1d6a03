"""Declare quantised arithmetic."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, require_scalars, reshape_shape, unchanged
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.layers.layer_shapes import by_axis, ranged_outputs


def _scalars(c: ShapeContext) -> Shapes:
    for index in (1, 2):
        c.with_rank(index, 1 if c.op.endswith("PerChannel") else 0)
    return [(), ()]


def _per_channel(c: ShapeContext) -> Shapes:
    for index in (1, 2):
        c.with_rank(index, 1)
    require_scalars(c, 3, 4)
    return [c.inputs[0], (), ()]


register_op(
    "Dequantize",
    inputs=("input: T", "min_range: float", "max_range: float"),
    outputs=("output: dtype",),
    attrs=(
        "T: quantizedtype",
        "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'",
        "narrow_range: bool = false",
        "axis: int = -1",
        "dtype: {bfloat16, float} = DT_FLOAT",
    ),
    shape=by_axis(1, 0),
)
register_op(
    "QuantizeDownAndShrinkRange",
    inputs=("input: Tinput", "input_min: float", "input_max: float"),
    outputs=("output: out_type", "output_min: float", "output_max: float"),
    attrs=("Tinput: quantizedtype", "out_type: quantizedtype"),
    shape=ranged_outputs(unchanged, 1, 2),
)
register_op(
    "QuantizedReshape",
    inputs=("tensor: T", "shape: Tshape", "input_min: float", "input_max: float"),
    outputs=("output: T", "output_min: float", "output_max: float"),
    attrs=("T: type", f"Tshape: {INDEX} = DT_INT32"),
    shape=ranged_outputs(reshape_shape, 2, 3),
)
register_op(
    "QuantizeV2",
    inputs=("input: float", "min_range: float", "max_range: float"),
    outputs=("output: T", "output_min: float", "output_max: float"),
    attrs=(
        "T: quantizedtype",
        "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'",
        "round_mode: {'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'} = 'HALF_AWAY_FROM_ZERO'",
        "narrow_range: bool = false",
        "axis: int = -1",
        "ensure_minimum_range: float = 0.01",
    ),
    shape=by_axis(1, 2),
)
register_op(
    "RequantizationRange",
    inputs=("input: Tinput", "input_min: float", "input_max: float"),
    outputs=("output_min: float", "output_max: float"),
    attrs=("Tinput: quantizedtype",),
    shape=_scalars,
)
register_op(
    "RequantizationRangePerChannel",
    inputs=("input: T", "input_min: float", "input_max: float"),
    outputs=("output_min: float", "output_max: float"),
    attrs=("T: quantizedtype = DT_QINT32", "clip_value_max: float"),
    shape=_scalars,
)
register_op(
    "Requantize",
    inputs=(
        "input: Tinput",
        "input_min: float",
        "input_max: float",
        "requested_output_min: float",
        "requested_output_max: float",
    ),
    outputs=("output: out_type", "output_min: float", "output_max: float"),
    attrs=("Tinput: quantizedtype", "out_type: quantizedtype"),
    shape=ranged_outputs(unchanged, *range(1, 5)),
)
register_op(
    "RequantizePerChannel",
    inputs=(
        "input: T",
        "input_min: float",
        "input_max: float",
        "requested_output_min: float",
        "requested_output_max: float",
    ),
    outputs=("output: out_type", "output_min: float", "output_max: float"),
    attrs=("T: quantizedtype = DT_QINT32", "out_type: quantizedtype = DT_QUINT8"),
    shape=_per_channel,
)
