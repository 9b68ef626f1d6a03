"""Bias, normalisation, softmax and losses, top-k."""

from __future__ import annotations

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.shape import Shape
from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, fail, int_constant, scalar, unchanged_of_rank, unchanged_of_rank_at_least
from tfjit.ops.type_lists import HALF_TO_DOUBLE, INDEX


def _bias_add(c: ShapeContext) -> Shapes:
    layout = c.attrs.get("data_format", b"NHWC")
    shape = c.with_rank_at_least(0, 3 if layout == b"NCHW" else 2)
    (bias,) = c.with_rank(1, 1)
    if shape is None:
        return [None]
    axis = 1 if layout == b"NCHW" else len(shape) - 1
    return [c.replace_dim(shape, axis, c.merge_dim(shape[axis], bias))]


def _bias_add_v1(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 2)
    (bias,) = c.with_rank(1, 1)
    if shape is None:
        return [None]
    return [(*shape[:-1], c.merge_dim(shape[-1], bias))]


def _bias_add_grad(c: ShapeContext) -> Shapes:
    layout = c.attr("data_format")
    shape = c.with_rank_at_least(0, 3 if layout == b"NCHW" else 2)
    if shape is None:
        return [(None,)]
    return [(shape[1 if layout == b"NCHW" else -1],)]


def _channel_axis(c: ShapeContext, shape: tuple[int | None, ...]) -> int:
    return 1 if c.attrs.get("data_format", b"NHWC") in (b"NCHW", b"NCDHW") else len(shape) - 1


def _batch_norm(c: ShapeContext) -> Shapes:
    layout = c.attrs.get("data_format", b"NHWC")
    shape = c.with_rank(0, 5 if layout in (b"NDHWC", b"NCDHW") else 4)
    axis = _channel_axis(c, shape)
    channels = shape[axis]
    for i in (1, 2) if c.attr("is_training") else (1, 2, 3, 4):
        (size,) = c.with_rank(i, 1)
        channels = c.merge_dim(channels, size)
    vector: Shape = (channels,)
    return [c.replace_dim(shape, axis, channels), *[vector] * 4]


def _batch_norm_v3(c: ShapeContext) -> Shapes:
    return [*_batch_norm(c), None]


def _batch_norm_grad(c: ShapeContext) -> Shapes:
    layout = c.attrs.get("data_format", b"NHWC")
    rank = 5 if layout in (b"NDHWC", b"NCDHW") else 4
    upstream, shape = c.with_rank(0, rank), c.with_rank(1, rank)
    axis = _channel_axis(c, shape)
    channels = c.merge_dim(upstream[axis], shape[axis])
    for i in (2, 3, 4):
        (size,) = c.with_rank(i, 1)
        channels = c.merge_dim(channels, size)
    vector: Shape = (channels,)
    return [c.replace_dim(upstream, axis, channels), vector, vector, (0,), (0,)]


def _lrn_grad(c: ShapeContext) -> Shapes:
    shape: Shape = c.with_rank(0, 4)
    for i in (1, 2):
        shape = c.merge(shape, c.with_rank(i, 4))
    return [shape]


def _cross_entropy(c: ShapeContext) -> Shapes:
    logits, labels = c.inputs
    merged_shape: Shape = None
    if logits is None or len(logits) == 2:
        try:
            merged_shape = c.merge(c.with_rank(logits, 2), labels)
        except InvalidArgumentError:
            merged_shape = None
    if merged_shape is None:
        merged_shape = c.broadcast(logits, labels)
        if merged_shape is None or len(merged_shape) != 2:
            found = "unknown" if merged_shape is None else len(merged_shape)
            raise fail(f"Shape must be broadcasted with rank 2, but is rank {found}")
    return [(merged_shape[0],), merged_shape]


def _sparse_cross_entropy(c: ShapeContext) -> Shapes:
    logits, (labels,) = c.with_rank(0, 2), c.with_rank(1, 1)
    batch = c.merge_dim(logits[0], labels)
    return [(batch,), (batch, logits[1])]


def _top_k_sizes(c: ShapeContext, k: int | None) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    if shape is None:
        return [None, None]
    last = shape[-1]
    if last is not None and k is not None and last < k:
        raise fail(f"input must have last dimension >= k = {k} but is {last}")
    out = (*shape[:-1], k)
    return [out, out]


def _top_k(c: ShapeContext) -> Shapes:
    return _top_k_sizes(c, c.attr("k"))


def _top_k_v2(c: ShapeContext) -> Shapes:
    k = int_constant(c, 1)
    if k is not None and k < 0:
        raise fail(f"Dimension size, given by scalar input 1, must be non-negative but is {k}")
    return _top_k_sizes(c, k)


def _top_unique(c: ShapeContext) -> Shapes:
    rows, _ = c.with_rank(0, 2)
    return [(rows, c.attr("k"))] * 2


def _in_top_k(c: ShapeContext) -> Shapes:
    predictions, (targets,) = c.with_rank(0, 2), c.with_rank(1, 1)
    return [(c.merge_dim(predictions[0], targets),)]


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
    "BiasAdd",
    inputs=("value: T", "bias: T"),
    outputs=("output: T",),
    attrs=("T: numbertype", "data_format: {'NHWC', 'NCHW'} = 'NHWC'"),
    shape=_bias_add,
)
register_op(
    "BiasAddGrad",
    inputs=("out_backprop: T",),
    outputs=("output: T",),
    attrs=("T: numbertype", "data_format: {'NHWC', 'NCHW'} = 'NHWC'"),
    shape=_bias_add_grad,
)
register_op("BiasAddV1", inputs=("value: T", "bias: T"), outputs=("output: T",), attrs=("T: numbertype",), shape=_bias_add_v1)
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
    shape=_batch_norm,
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
    shape=_batch_norm_grad,
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
    shape=_batch_norm_grad,
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
    shape=_batch_norm_grad,
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
    shape=_batch_norm,
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
    shape=_batch_norm_v3,
)
register_op(
    "InTopK",
    inputs=("predictions: float", "targets: T"),
    outputs=("precision: bool",),
    attrs=("k: int", f"T: {INDEX} = DT_INT32"),
    shape=_in_top_k,
)
register_op(
    "InTopKV2",
    inputs=("predictions: float", "targets: T", "k: T"),
    outputs=("precision: bool",),
    attrs=(f"T: {INDEX} = DT_INT32",),
    shape=_in_top_k,
)
register_op("KthOrderStatistic", inputs=("input: float",), outputs=("output: float",), attrs=("k: int",))
register_op("L2Loss", inputs=("t: T",), outputs=("output: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=scalar)
register_op(
    "LogSoftmax", inputs=("logits: T",), outputs=("logsoftmax: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=unchanged_of_rank_at_least(1)
)
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
    shape=unchanged_of_rank(4),
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
    shape=_lrn_grad,
)
register_op("Softmax", inputs=("logits: T",), outputs=("softmax: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=unchanged_of_rank_at_least(1))
register_op(
    "SoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: T"),
    outputs=("loss: T", "backprop: T"),
    attrs=(f"T: {HALF_TO_DOUBLE}",),
    shape=_cross_entropy,
)
register_op(
    "SparseSoftmaxCrossEntropyWithLogits",
    inputs=("features: T", "labels: Tlabels"),
    outputs=("loss: T", "backprop: T"),
    attrs=(f"T: {HALF_TO_DOUBLE}", f"Tlabels: {INDEX} = DT_INT64"),
    shape=_sparse_cross_entropy,
)
register_op(
    "TopK",
    inputs=("input: T",),
    outputs=("values: T", "indices: int32"),
    attrs=("k: int >= 0", "sorted: bool = true", "T: realnumbertype"),
    deprecated=(7, "Use TopKV2 instead"),
    shape=_top_k,
)
register_op("TopKUnique", inputs=("input: float",), outputs=("topk: float", "topk_indices: int32"), attrs=("k: int",), shape=_top_unique)
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
    shape=_top_k_v2,
)
register_op(
    "TopKWithUnique", inputs=("input: float",), outputs=("topk: float", "topk_indices: int32"), attrs=("k: int",), shape=_top_unique
)
