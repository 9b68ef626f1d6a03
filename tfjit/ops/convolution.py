"""Convolutions, their gradients, dilations."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import HALF_TO_DOUBLE, INDEX

register_op(
    "Conv2D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32}",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "Conv2DBackpropFilter",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "Conv2DBackpropFilterV2",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "Conv2DBackpropInput",
    inputs=("input_sizes: int32", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32}",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "Conv2DBackpropInputV2",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, bfloat16, float, double, int32}",
        "strides: list(int)",
        "use_cudnn_on_gpu: bool = true",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "Conv3D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ),
)
register_op(
    "Conv3DBackpropFilter",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=("T: {half, float, double}", "strides: list(int) >= 5", "padding: {'SAME', 'VALID'}", "dilations: list(int) = [1, 1, 1, 1, 1]"),
    deprecated=(10, "Use Conv3DBackpropFilterV2"),
)
register_op(
    "Conv3DBackpropFilterV2",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
    ),
)
register_op(
    "Conv3DBackpropInput",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=("T: {half, float, double}", "strides: list(int) >= 5", "padding: {'SAME', 'VALID'}", "dilations: list(int) = [1, 1, 1, 1, 1]"),
    deprecated=(10, "Use Conv3DBackpropInputV2"),
)
register_op(
    "Conv3DBackpropInputV2",
    inputs=("input_sizes: Tshape", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
        f"Tshape: {INDEX} = DT_INT32",
    ),
)
register_op(
    "DataFormatDimMap",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(f"T: {INDEX} = DT_INT32", "src_format: string = 'NHWC'", "dst_format: string = 'NCHW'"),
)
register_op(
    "DataFormatVecPermute",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(f"T: {INDEX} = DT_INT32", "src_format: string = 'NHWC'", "dst_format: string = 'NCHW'"),
)
register_op(
    "DepthwiseConv2dNative",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int)",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "DepthwiseConv2dNativeBackpropFilter",
    inputs=("input: T", "filter_sizes: int32", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int)",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "DepthwiseConv2dNativeBackpropInput",
    inputs=("input_sizes: int32", "filter: T", "out_backprop: T"),
    outputs=("output: T",),
    attrs=(
        f"T: {HALF_TO_DOUBLE}",
        "strides: list(int)",
        "padding: {'SAME', 'VALID', 'EXPLICIT'}",
        "explicit_paddings: list(int) = []",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "dilations: list(int) = [1, 1, 1, 1]",
    ),
)
register_op(
    "Dilation2D",
    inputs=("input: T", "filter: T"),
    outputs=("output: T",),
    attrs=("T: realnumbertype", "strides: list(int) >= 4", "rates: list(int) >= 4", "padding: {'SAME', 'VALID'}"),
)
register_op(
    "Dilation2DBackpropFilter",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("filter_backprop: T",),
    attrs=("T: realnumbertype", "strides: list(int) >= 4", "rates: list(int) >= 4", "padding: {'SAME', 'VALID'}"),
)
register_op(
    "Dilation2DBackpropInput",
    inputs=("input: T", "filter: T", "out_backprop: T"),
    outputs=("in_backprop: T",),
    attrs=("T: realnumbertype", "strides: list(int) >= 4", "rates: list(int) >= 4", "padding: {'SAME', 'VALID'}"),
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
        "fused_ops: list(string) = []",
        "epsilon: float = 1e-04",
        "leakyrelu_alpha: float = 0.2",
    ),
)
register_op(
    "_FusedConv3D",
    inputs=("input: T", "filter: T", "args: num_args * T"),
    outputs=("output: T",),
    attrs=(
        "T: {bfloat16, float, half}",
        "num_args: int >= 0",
        "strides: list(int) >= 5",
        "padding: {'SAME', 'VALID'}",
        "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'",
        "dilations: list(int) = [1, 1, 1, 1, 1]",
        "padding_list: list(int) = []",
        "fused_ops: list(string) = []",
        "epsilon: float = 1e-04",
        "leakyrelu_alpha: float = 0.2",
    ),
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
        "fused_ops: list(string) = []",
        "epsilon: float = 1e-04",
        "leakyrelu_alpha: float = 0.2",
    ),
)
register_op(
    "FusedPadConv2D",
    inputs=("input: T", "paddings: int32", "filter: T"),
    outputs=("output: T",),
    attrs=(f"T: {HALF_TO_DOUBLE}", "mode: {'REFLECT', 'SYMMETRIC'}", "strides: list(int)", "padding: {'SAME', 'VALID'}"),
)
