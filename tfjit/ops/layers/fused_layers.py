"""Define layers fused with the ops around them into one node.

Graph optimizers write such nodes.
"""

from __future__ import annotations

from typing import Final

from tfjit.ops.arithmetic.matrix_product import matmul_shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    unchanged,
)
from tfjit.ops.core.type_lists import (
    HALF_TO_DOUBLE,
)
from tfjit.ops.layers.convolution import CONV_3D, conv2d_shape, conv3d_shape
from tfjit.ops.layers.layer_shapes import mirrored_conv
from tfjit.ops.layers.normalization import batch_norm_v3_shape

# Attrs of the ops that follow a matmul or convolution in one node.
_EPILOGUE: Final = (
    "fused_ops: list(string) = []",
    "epsilon: float = 1e-04",
    "leakyrelu_alpha: float = 0.2",
)
# Attrs of a convolution after a mirrored padding.
_MIRRORED_CONV: Final = (
    "mode: {'REFLECT', 'SYMMETRIC'}",
    "strides: list(int)",
    "padding: {'SAME', 'VALID'}",
)

register_op(
    "_FusedConv2D",
    inputs=("input: T", "filter: T", "args: TArgs", "host_args: num_host_args * float"),
    outputs=("output: T",),
    attrs=(
        "T: {half, float, double, int8, qint8}",
        "TArgs: list(type) >= 1",
        "num_args: int >= 0",
        "num_host_args: int >= 0 = 0",
        "strides: list(int)",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
        "filter_format: {'HWIO', 'OIHW', 'OIHW_VECT_I'} = 'HWIO'",
        "dilations: list(int) = [1, 1, 1, 1]",
        "use_cudnn_on_gpu: bool = true",
        *_EPILOGUE,
    ),
    shape=conv2d_shape,
)
register_op(
    "_FusedConv3D",
    inputs=("input: T", "filter: T", "args: num_args * T"),
    outputs=("output: T",),
    attrs=(
        "T: {bfloat16, float, half}",
        "num_args: int >= 0",
        *CONV_3D,
        "padding_list: list(int) = []",
        *_EPILOGUE,
    ),
    shape=conv3d_shape,
)
register_op(
    "_FusedDepthwiseConv2dNative",
    inputs=("input: T", "filter: T", "args: num_args * T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "num_args: int >= 0",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
        *_EPILOGUE,
    ),
)
register_op(
    "FusedPadConv2D",
    inputs=("input: T", "paddings: int32", "filter: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        *_MIRRORED_CONV,
    ),
    shape=mirrored_conv,
)
register_op(
    "_FusedMatMul",
    inputs=("a: T", "b: T", "args: num_args * T"),
    outputs=("product: T",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float}",
        "num_args: int >= 0",
        *_EPILOGUE,
    ),
    shape=matmul_shape,
)
register_op(
    "_UnaryOpsComposition",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=("T: {float, half, double}", "op_names: list(string)"),
    shape=unchanged,
)
register_op(
    "_FusedBatchNormEx",
    inputs=(
        "x: T",
        "scale: U",
        "offset: U",
        "mean: U",
        "variance: U",
        "side_input: num_side_inputs * T",
    ),
    outputs=(
        "y: T",
        "batch_mean: U",
        "batch_variance: U",
        "reserve_space_1: U",
        "reserve_space_2: U",
        "reserve_space_3: U",
    ),
    attrs=(
        "T: {half, float, bfloat16}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "exponential_avg_factor: float = 1.0",
        "num_side_inputs: int >= 0 = 0",
        "activation_mode: string = 'Identity'",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
    shape=batch_norm_v3_shape,
)
register_op(
    "_FusedBatchNormGradEx",
    inputs=(
        "y_backprop: T",
        "x: T",
        "scale: float",
        "reserve_space_1: U",
        "reserve_space_2: U",
        "reserve_space_3: U",
        "offset: float",
        "y: T",
    ),
    outputs=(
        "x_backprop: T",
        "scale_backprop: U",
        "offset_backprop: U",
        "reserve_space_4: U",
        "reserve_space_5: U",
        "side_input_backprop: num_side_inputs * T",
    ),
    attrs=(
        "T: {half, float}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "num_side_inputs: int >= 0 = 0",
        "activation_mode: string = 'Identity'",
        "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
)
register_op(
    "FusedResizeAndPadConv2D",
    inputs=("input: T", "size: int32", "paddings: int32", "filter: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, float, double}",
        "resize_align_corners: bool = false",
        *_MIRRORED_CONV,
    ),
    shape=mirrored_conv,
)
