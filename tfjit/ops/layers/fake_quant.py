"""Declare quantization simulated in floats."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import unchanged
from tfjit.ops.core.type_lists import FLOAT
from tfjit.ops.layers.layer_shapes import (
    by_axis,
    channels,
    channels_gradient,
    ranged,
    ranged_gradient,
)

register_op(
    "FakeQuantWithMinMaxArgs",
    inputs=("inputs: float",),
    outputs=("outputs: float",),
    attrs=(
        "min: float = -6.0",
        "max: float = 6.0",
        "num_bits: int = 8",
        "narrow_range: bool = false",
    ),
    shape=unchanged,
)
register_op(
    "FakeQuantWithMinMaxArgsGradient",
    inputs=("gradients: float", "inputs: float"),
    outputs=("backprops: float",),
    attrs=(
        "min: float = -6.0",
        "max: float = 6.0",
        "num_bits: int = 8",
        "narrow_range: bool = false",
    ),
    shape=unchanged,
)
register_op(
    "FakeQuantWithMinMaxVars",
    inputs=("inputs: float", "min: float", "max: float"),
    outputs=("outputs: float",),
    attrs=("num_bits: int = 8", "narrow_range: bool = false"),
    shape=ranged,
)
register_op(
    "FakeQuantWithMinMaxVarsGradient",
    inputs=("gradients: float", "inputs: float", "min: float", "max: float"),
    outputs=("backprops_wrt_input: float", "backprop_wrt_min: float", "backprop_wrt_max: float"),
    attrs=("num_bits: int = 8", "narrow_range: bool = false"),
    shape=ranged_gradient,
)
register_op(
    "FakeQuantWithMinMaxVarsPerChannel",
    inputs=("inputs: float", "min: float", "max: float"),
    outputs=("outputs: float",),
    attrs=("num_bits: int = 8", "narrow_range: bool = false"),
    shape=channels,
)
register_op(
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    inputs=("gradients: float", "inputs: float", "min: float", "max: float"),
    outputs=("backprops_wrt_input: float", "backprop_wrt_min: float", "backprop_wrt_max: float"),
    attrs=("num_bits: int = 8", "narrow_range: bool = false"),
    shape=channels_gradient,
)
register_op(
    "QuantizeAndDequantize",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "signed_input: bool = true",
        "num_bits: int = 8",
        "range_given: bool = false",
        "input_min: float = 0.0",
        "input_max: float = 0.0",
        f"T: {FLOAT}",
    ),
    deprecated=(22, "Replaced by QuantizeAndDequantizeV2"),
    shape=unchanged,
)
for _op_type in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"):
    register_op(
        _op_type,
        inputs=("input: T", "input_min: T", "input_max: T"),
        outputs=("output: T",),
        attrs=(
            "signed_input: bool = true",
            "num_bits: int = 8",
            "range_given: bool = false",
            f"T: {FLOAT}",
            "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN'",
            "narrow_range: bool = false",
            "axis: int = -1",
        ),
        shape=by_axis(1, 0),
    )
register_op(
    "QuantizeAndDequantizeV3",
    inputs=("input: T", "input_min: T", "input_max: T", "num_bits: int32"),
    outputs=("output: T",),
    attrs=(
        "signed_input: bool = true",
        "range_given: bool = true",
        f"T: {FLOAT}",
        "narrow_range: bool = false",
        "axis: int = -1",
    ),
    shape=by_axis(1, 0),
)
register_op(
    "QuantizeAndDequantizeV4Grad",
    inputs=("gradients: T", "input: T", "input_min: T", "input_max: T"),
    outputs=("input_backprop: T", "input_min_backprop: T", "input_max_backprop: T"),
    attrs=(f"T: {FLOAT}", "axis: int = -1"),
    shape=by_axis(2, 2),
)
