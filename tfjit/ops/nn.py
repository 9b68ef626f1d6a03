"""Bias, normalisation, softmax and losses, top-k."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import HALF_TO_DOUBLE, INDEX

register_op(
    "ApproxTopK",
    inputs=("input: T",),
    outputs=("values: T", "indices: int32"),
    attrs=(
        "k: int >= 0",
        "reduction_dimension: int = -1",
        "recall_target: float = 0.95",
        "is_max_k: bool = true",
        "reduction_input_size_override: int = -1",
        "aggregate_to_topk: bool = true",
        "T: {half, bfloat16, float}",
    ),
)
register_op(
    "BiasAdd", inputs=("value: T", "bias: T"), outputs=("output: T",), attrs=("T: numbertype", "data_format: {'NHWC', 'NCHW'} = 'NHWC'")
)
register_op(
    "BiasAddGrad", inputs=("out_backprop: T",), outputs=("output: T",), attrs=("T: numbertype", "data_format: {'NHWC', 'NCHW'} = 'NHWC'")
)
register_op("BiasAddV1", inputs=("value: T", "bias: T"), outputs=("output: T",), attrs=("T: numbertype",))
register_op(
    "FusedBatchNorm",
    inputs=("x: T", "scale: T", "offset: T", "mean: T", "variance: T"),
    outputs=("y: T", "batch_mean: T", "batch_variance: T", "reserve_space_1: T", "reserve_space_2: T"),
    attrs=(
        "T: {float}",
        "epsilon: float = 1e-04",
        "exponential_avg_factor: float = 1.0",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
)
register_op(
    "_FusedBatchNormEx",
    inputs=("x: T", "scale: U", "offset: U", "mean: U", "variance: U", "side_input: num_side_inputs * T"),
    outputs=("y: T", "batch_mean: U", "batch_variance: U", "reserve_space_1: U", "reserve_space_2: U", "reserve_space_3: U"),
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
)
register_op(
    "FusedBatchNormGrad",
    inputs=("y_backprop: T", "x: T", "scale: T", "reserve_space_1: T", "reserve_space_2: T"),
    outputs=("x_backprop: T", "scale_backprop: T", "offset_backprop: T", "reserve_space_3: T", "reserve_space_4: T"),
    attrs=("T: {float}", "epsilon: float = 1e-04", "data_format: {'NHWC', 'NCHW'} = 'NHWC'", "is_training: bool = true"),
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
    "FusedBatchNormGradV2",
    inputs=("y_backprop: T", "x: T", "scale: float", "reserve_space_1: U", "reserve_space_2: U"),
    outputs=("x_backprop: T", "scale_backprop: U", "offset_backprop: U", "reserve_space_3: U", "reserve_space_4: U"),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
)
register_op(
    "FusedBatchNormGradV3",
    inputs=("y_backprop: T", "x: T", "scale: float", "reserve_space_1: U", "reserve_space_2: U", "reserve_space_3: U"),
    outputs=("x_backprop: T", "scale_backprop: U", "offset_backprop: U", "reserve_space_4: U", "reserve_space_5: U"),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
)
register_op(
    "FusedBatchNormV2",
    inputs=("x: T", "scale: U", "offset: U", "mean: U", "variance: U"),
    outputs=("y: T", "batch_mean: U", "batch_variance: U", "reserve_space_1: U", "reserve_space_2: U"),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {float}",
        "epsilon: float = 1e-04",
        "exponential_avg_factor: float = 1.0",
        "data_format: {'NHWC', 'NCHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
)
register_op(
    "FusedBatchNormV3",
    inputs=("x: T", "scale: U", "offset: U", "mean: U", "variance: U"),
    outputs=("y: T", "batch_mean: U", "batch_variance: U", "reserve_space_1: U", "reserve_space_2: U", "reserve_space_3: U"),
    attrs=(
        "T: {half, bfloat16, float}",
        "U: {bfloat16, float}",
        "epsilon: float = 1e-04",
        "exponential_avg_factor: float = 1.0",
        "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'",
        "is_training: bool = true",
    ),
)
register_op("InTopK", inputs=("predictions: float", "targets: T"), outputs=("precision: bool",), attrs=("k: int", f"T: {INDEX} = DT_INT32"))
register_op(
    "InTopKV2", inputs=("predictions: float", "targets: T", "k: T"), outputs=("precision: bool",), attrs=(f"T: {INDEX} = DT_INT32",)
)
register_op("KthOrderStatistic", inputs=("input: float",), outputs=("output: float",), attrs=("k: int",))
register_op("L2Loss", inputs=("t: T",), outputs=("output: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("LogSoftmax", inputs=("logits: T",), outputs=("logsoftmax: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op(
    "LRN",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "depth_radius: int = 5",
        "bias: float = 1.0",
        "alpha: float = 1.0",
        "beta: float = 0.5",
        "T: {half, bfloat16, float} = DT_FLOAT",
    ),
)
register_op(
    "LRNGrad",
    inputs=("input_grads: T", "input_image: T", "output_image: T"),
    outputs=("output: T",),
    attrs=(
        "depth_radius: int = 5",
        "bias: float = 1.0",
        "alpha: float = 1.0",
        "beta: float = 0.5",
        "T: {half, bfloat16, float} = DT_FLOAT",
    ),
)
register_op("Softmax", inputs=("logits: T",), outputs=("softmax: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op(
    "SoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: T"),
    outputs=("loss: T", "backprop: T"),
    attrs=(f"T: {HALF_TO_DOUBLE}",),
)
register_op(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: Tlabels"),
    outputs=("loss: T", "backprop: T"),
    attrs=(f"T: {HALF_TO_DOUBLE}", f"Tlabels: {INDEX} = DT_INT64"),
)
register_op(
    "TopK",
    inputs=("input: T",),
    outputs=("values: T", "indices: int32"),
    attrs=("k: int >= 0", "sorted: bool = true", "T: realnumbertype"),
    deprecated=(7, "Use TopKV2 instead"),
)
register_op("TopKUnique", inputs=("input: float",), outputs=("topk: float", "topk_indices: int32"), attrs=("k: int",))
register_op(
    "TopKV2",
    inputs=("input: T", "k: Tk"),
    outputs=("values: T", "indices: index_type"),
    attrs=(
        "sorted: bool = true",
        "T: realnumbertype",
        "Tk: {int16, int32, int64} = DT_INT32",
        "index_type: {int16, int32, int64} = DT_INT32",
    ),
)
register_op("TopKWithUnique", inputs=("input: float",), outputs=("topk: float", "topk_indices: int32"), attrs=("k: int",))
