"""Pooling and its gradients."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import HALF_TO_DOUBLE, INDEX

register_op(
    "AvgPool",
    inputs=("value: T",),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        f"T: {HALF_TO_DOUBLE}",
    ),
)
register_op(
    "AvgPool3D",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        f"T: {HALF_TO_DOUBLE}",
    ),
)
register_op(
    "AvgPool3DGrad",
    inputs=("orig_input_shape: int32", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        f"T: {HALF_TO_DOUBLE}",
    ),
)
register_op(
    "AvgPoolGrad",
    inputs=("orig_input_shape: int32", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        f"T: {HALF_TO_DOUBLE}",
    ),
)
register_op(
    "FractionalAvgPool",
    inputs=("value: T",),
    outputs=("output: T", "row_pooling_sequence: int64", "col_pooling_sequence: int64"),
    attrs=(
        "pooling_ratio: list(float) >= 4",
        "pseudo_random: bool = false",
        "overlapping: bool = false",
        "deterministic: bool = false",
        "seed: int = 0",
        "seed2: int = 0",
        "T: {float, double, int32, int64}",
    ),
)
register_op(
    "FractionalAvgPoolGrad",
    inputs=("orig_input_tensor_shape: int64", "out_backprop: T", "row_pooling_sequence: int64", "col_pooling_sequence: int64"),
    outputs=("output: T",),
    attrs=("overlapping: bool = false", "T: {float, double, int32, int64}"),
)
register_op(
    "FractionalMaxPool",
    inputs=("value: T",),
    outputs=("output: T", "row_pooling_sequence: int64", "col_pooling_sequence: int64"),
    attrs=(
        "pooling_ratio: list(float) >= 4",
        "pseudo_random: bool = false",
        "overlapping: bool = false",
        "deterministic: bool = false",
        "seed: int = 0",
        "seed2: int = 0",
        "T: {float, double, int32, int64}",
    ),
)
register_op(
    "FractionalMaxPoolGrad",
    inputs=("orig_input: T", "orig_output: T", "out_backprop: T", "row_pooling_sequence: int64", "col_pooling_sequence: int64"),
    outputs=("output: T",),
    attrs=("overlapping: bool = false", "T: {float, double, int32, int64}"),
)
register_op(
    "MaxPool",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = DT_FLOAT",
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    ),
)
register_op(
    "MaxPool3D",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        "T: {half, bfloat16, float}",
    ),
)
register_op(
    "MaxPool3DGrad",
    inputs=("orig_input: TInput", "orig_output: TInput", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        "T: {half, bfloat16, float} = DT_FLOAT",
        "TInput: {half, bfloat16, float} = DT_FLOAT",
    ),
)
register_op(
    "MaxPool3DGradGrad",
    inputs=("orig_input: T", "orig_output: T", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 5",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        "T: realnumbertype",
    ),
)
register_op(
    "MaxPoolGrad",
    inputs=("orig_input: T", "orig_output: T", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "T: realnumbertype = DT_FLOAT",
    ),
)
register_op(
    "MaxPoolGradGrad",
    inputs=("orig_input: T", "orig_output: T", "grad: T"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "T: realnumbertype",
    ),
)
register_op(
    "MaxPoolGradGradV2",
    inputs=("orig_input: T", "orig_output: T", "grad: T", "ksize: int32", "strides: int32"),
    outputs=("output: T",),
    attrs=("padding: {'SAME', 'VALID'}", "data_format: {'NHWC', 'NCHW'} = 'NHWC'", "T: realnumbertype"),
)
register_op(
    "MaxPoolGradGradWithArgmax",
    inputs=("input: T", "grad: T", "argmax: Targmax"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        f"Targmax: {INDEX}",
        "T: realnumbertype",
    ),
)
register_op(
    "MaxPoolGradV2",
    inputs=("orig_input: T", "orig_output: T", "grad: T", "ksize: int32", "strides: int32"),
    outputs=("output: T",),
    attrs=("padding: {'SAME', 'VALID'}", "data_format: {'NHWC', 'NCHW'} = 'NHWC'", "T: realnumbertype = DT_FLOAT"),
)
register_op(
    "MaxPoolGradWithArgmax",
    inputs=("input: T", "grad: T", "argmax: Targmax"),
    outputs=("output: T",),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        f"Targmax: {INDEX}",
        "T: realnumbertype",
    ),
)
register_op(
    "MaxPoolV2",
    inputs=("input: T", "ksize: int32", "strides: int32"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = DT_FLOAT",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    ),
)
register_op(
    "MaxPoolWithArgmax",
    inputs=("input: T",),
    outputs=("output: T", "argmax: Targmax"),
    attrs=(
        "ksize: list(int) >= 4",
        "strides: list(int) >= 4",
        f"Targmax: {INDEX} = DT_INT64",
        "padding: {'SAME', 'VALID'}",
        "include_batch_in_index: bool = false",
        "T: realnumbertype",
    ),
)
