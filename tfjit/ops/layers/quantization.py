"""Declare quantised arithmetic."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.layers.layer_shapes import by_axis

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
for _op_type in ("QuantizedAdd", "QuantizedMul"):
    register_op(
        _op_type,
        inputs=("x: T1", "y: T2", "min_x: float", "max_x: float", "min_y: float", "max_y: float"),
        outputs=("z: Toutput", "min_z: float", "max_z: float"),
        attrs=("T1: quantizedtype", "T2: quantizedtype", "Toutput: quantizedtype = DT_QINT32"),
    )
for _op_type in ("QuantizedAvgPool", "QuantizedMaxPool"):
    register_op(
        _op_type,
        inputs=("input: T", "min_input: float", "max_input: float"),
        outputs=("output: T", "min_output: float", "max_output: float"),
        attrs=(
            "T: quantizedtype",
            "ksize: list(int)",
            "strides: list(int)",
            "padding: {'SAME', 'VALID'}",
        ),
    )
register_op(
    "QuantizedBiasAdd",
    inputs=(
        "input: T1",
        "bias: T2",
        "min_input: float",
        "max_input: float",
        "min_bias: float",
        "max_bias: float",
    ),
    outputs=("output: out_type", "min_out: float", "max_out: float"),
    attrs=("T1: quantizedtype", "T2: quantizedtype", "out_type: quantizedtype"),
)
register_op(
    "QuantizedConcat",
    inputs=(
        "concat_dim: int32",
        "values: N * T",
        "input_mins: N * float",
        "input_maxes: N * float",
    ),
    outputs=("output: T", "output_min: float", "output_max: float"),
    attrs=("N: int >= 2", "T: type"),
)
register_op(
    "QuantizedConcatV2",
    inputs=("values: N * T", "axis: Tidx", "input_mins: N * float", "input_maxes: N * float"),
    outputs=("output: T", "output_min: float", "output_max: float"),
    attrs=("N: int >= 2", "T: type", f"Tidx: {INDEX} = DT_INT32"),
)
register_op(
    "QuantizedInstanceNorm",
    inputs=("x: T", "x_min: float", "x_max: float"),
    outputs=("y: T", "y_min: float", "y_max: float"),
    attrs=(
        "T: quantizedtype",
        "output_range_given: bool = false",
        "given_y_min: float = 0.0",
        "given_y_max: float = 0.0",
        "variance_epsilon: float = 1e-05",
        "min_separation: float = 0.001",
    ),
)
register_op(
    "QuantizedMatMul",
    inputs=("a: T1", "b: T2", "min_a: float", "max_a: float", "min_b: float", "max_b: float"),
    outputs=("out: Toutput", "min_out: float", "max_out: float"),
    attrs=(
        "T1: quantizedtype",
        "T2: quantizedtype",
        "Toutput: quantizedtype = DT_QINT32",
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "Tactivation: quantizedtype = DT_QUINT8",
    ),
)
register_op(
    "QuantizeDownAndShrinkRange",
    inputs=("input: Tinput", "input_min: float", "input_max: float"),
    outputs=("output: out_type", "output_min: float", "output_max: float"),
    attrs=("Tinput: quantizedtype", "out_type: quantizedtype"),
)
for _op_type in ("QuantizedRelu", "QuantizedRelu6"):
    register_op(
        _op_type,
        inputs=("features: Tinput", "min_features: float", "max_features: float"),
        outputs=("activations: out_type", "min_activations: float", "max_activations: float"),
        attrs=("Tinput: quantizedtype", "out_type: quantizedtype = DT_QUINT8"),
    )
register_op(
    "QuantizedReluX",
    inputs=("features: Tinput", "max_value: float", "min_features: float", "max_features: float"),
    outputs=("activations: out_type", "min_activations: float", "max_activations: float"),
    attrs=("Tinput: quantizedtype", "out_type: quantizedtype = DT_QUINT8"),
)
register_op(
    "QuantizedReshape",
    inputs=("tensor: T", "shape: Tshape", "input_min: float", "input_max: float"),
    outputs=("output: T", "output_min: float", "output_max: float"),
    attrs=("T: type", f"Tshape: {INDEX} = DT_INT32"),
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
)
register_op(
    "RequantizationRangePerChannel",
    inputs=("input: T", "input_min: float", "input_max: float"),
    outputs=("output_min: float", "output_max: float"),
    attrs=("T: quantizedtype = DT_QINT32", "clip_value_max: float"),
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
)
