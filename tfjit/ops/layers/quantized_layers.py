"""Declare layers of quantised tensors: products, sums, pooling, activations, convolutions."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.arithmetic.matrix_product import matmul_shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    broadcast,
    concat_shape,
    require_scalars,
    unchanged,
)
from tfjit.ops.core.type_lists import INDEX
from tfjit.ops.layers.convolution import conv2d_shape
from tfjit.ops.layers.layer_shapes import ranged_outputs
from tfjit.ops.layers.normalization import bias_add_shape
from tfjit.ops.layers.pooling import pool_shape


def _concat(c: ShapeContext) -> Shapes:
    count = int(c.attr("N"))
    (shape,) = concat_shape(c, c.inputs[1 : 1 + count], 0)
    require_scalars(c, *range(1 + count, 1 + 3 * count))
    return [shape, (), ()]


def _concat_v2(c: ShapeContext) -> Shapes:
    count = int(c.attr("N"))
    (shape,) = concat_shape(c, c.inputs[:count], count)
    require_scalars(c, *range(1 + count, 1 + 3 * count))
    return [shape, (), ()]


def _instance_norm(c: ShapeContext) -> Shapes:
    c.with_rank(0, 4)
    return [c.inputs[0]]


for _op_type, _shape in (
    ("QuantizedAdd", ranged_outputs(broadcast, *range(2, 6))),
    ("QuantizedMul", ranged_outputs(broadcast)),
):
    register_op(
        _op_type,
        inputs=("x: T1", "y: T2", "min_x: float", "max_x: float", "min_y: float", "max_y: float"),
        outputs=("z: Toutput", "min_z: float", "max_z: float"),
        attrs=("T1: quantizedtype", "T2: quantizedtype", "Toutput: quantizedtype = DT_QINT32"),
        shape=_shape,
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
        shape=ranged_outputs(pool_shape, 1, 2),
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
    shape=ranged_outputs(bias_add_shape, *range(2, 6)),
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
    shape=_concat,
)
register_op(
    "QuantizedConcatV2",
    inputs=("values: N * T", "axis: Tidx", "input_mins: N * float", "input_maxes: N * float"),
    outputs=("output: T", "output_min: float", "output_max: float"),
    attrs=("N: int >= 2", "T: type", f"Tidx: {INDEX} = DT_INT32"),
    shape=_concat_v2,
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
    shape=ranged_outputs(_instance_norm, 1, 2),
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
    shape=ranged_outputs(matmul_shape, *range(2, 6)),
)
for _op_type in ("QuantizedRelu", "QuantizedRelu6"):
    register_op(
        _op_type,
        inputs=("features: Tinput", "min_features: float", "max_features: float"),
        outputs=("activations: out_type", "min_activations: float", "max_activations: float"),
        attrs=("Tinput: quantizedtype", "out_type: quantizedtype = DT_QUINT8"),
        shape=ranged_outputs(unchanged, 1, 2),
    )
register_op(
    "QuantizedReluX",
    inputs=("features: Tinput", "max_value: float", "min_features: float", "max_features: float"),
    outputs=("activations: out_type", "min_activations: float", "max_activations: float"),
    attrs=("Tinput: quantizedtype", "out_type: quantizedtype = DT_QUINT8"),
    shape=ranged_outputs(unchanged, 1, 2),
)
register_op(
    "QuantizedConv2D",
    inputs=(
        "input: Tinput",
        "filter: Tfilter",
        "min_input: float",
        "max_input: float",
        "min_filter: float",
        "max_filter: float",
    ),
    outputs=("output: out_type", "min_output: float", "max_output: float"),
    attrs=(
        "Tinput: quantizedtype",
        "Tfilter: quantizedtype",
        "out_type: quantizedtype = DT_QINT32",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
    shape=ranged_outputs(conv2d_shape, *range(2, 6)),
)
