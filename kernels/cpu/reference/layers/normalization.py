"""Compute bias, batch and local normalisation and softmax in NumPy."""

from __future__ import annotations

import math

import numpy as np

from tfjit.kernels.cpu.reference.arithmetic.reduction import wide
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference


def _channels_first(node: NodeSpec) -> bool:
    return node.attrs.get("data_format", b"NHWC") in (b"NCHW", b"NCDHW")


@reference("BiasAdd", "BiasAddV1")
def _bias_add(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, bias = inputs
    if x.ndim < 2:
        invalid(f"Input tensor must be at least 2D: {shape_text(x)}")
    if bias.ndim != 1:
        invalid(f"Biases must be 1D: {shape_text(bias)}")
    axis = 1 if _channels_first(node) else x.ndim - 1
    if x.shape[axis] != bias.size:
        invalid(
            "Must provide as many biases as the last dimension of the input tensor: "
            f"{shape_text(bias)} vs. {shape_text(x)}"
        )
    with np.errstate(over="ignore"):
        return (x + bias.reshape(-1, *([1] * (x.ndim - 1 - axis))),)


@reference("BiasAddGrad")
def _bias_add_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    (dy,) = inputs
    if dy.ndim < 2:
        invalid(f"Input tensor must be at least 2D: {shape_text(dy)}")
    channel = 1 if _channels_first(node) else dy.ndim - 1
    values = wide(dy)
    return (
        np.sum(
            values, axis=tuple(i for i in range(dy.ndim) if i != channel), dtype=values.dtype
        ).astype(dy.dtype),
    )


def softmax_parts(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (logits - max, their exponentials) along the last axis.

    Both are float32 or wider.
    """
    values = wide(logits)
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = values - values.max(-1, keepdims=True, initial=-np.inf)
        return shifted, np.exp(shifted)


@reference("Softmax")
def _softmax(node: NodeSpec, inputs: Arrays) -> Arrays:
    (logits,) = inputs
    if logits.ndim < 1:
        invalid(f"logits must have >= 1 dimension, got {shape_text(logits)}")
    if logits.size == 0:
        return (logits.copy(),)
    _, weights = softmax_parts(logits)
    return ((weights / weights.sum(-1, keepdims=True, dtype=weights.dtype)).astype(logits.dtype),)


@reference("LogSoftmax")
def _log_softmax(node: NodeSpec, inputs: Arrays) -> Arrays:
    (logits,) = inputs
    if logits.ndim < 1:
        invalid(f"logits must have >= 1 dimension, got {shape_text(logits)}")
    if logits.size == 0:
        return (logits.copy(),)
    shifted, weights = softmax_parts(logits)
    return (
        (shifted - np.log(weights.sum(-1, keepdims=True, dtype=weights.dtype))).astype(
            logits.dtype
        ),
    )


def _per_channel(values: np.ndarray, rank: int, first: bool) -> np.ndarray:
    return values.reshape(-1, *([1] * (rank - 2))) if first else values


@reference("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, scale, offset, mean, variance = inputs
    epsilon = np.float32(node.attrs.get("epsilon", 1e-4))
    factor = np.float32(node.attrs.get("exponential_avg_factor", 1.0))
    first = _channels_first(node)
    channel = 1 if first else x.ndim - 1
    axes = tuple(i for i in range(x.ndim) if i != channel)
    values = x.astype(np.float32)
    saved_mean, saved_variance = mean, variance
    if node.attrs.get("is_training", True):
        count = math.prod(x.shape[i] for i in axes)
        if count == 0:
            nan = np.full(scale.shape, np.nan, np.float32)
            outputs: tuple[np.ndarray, ...] = (
                x.copy(),
                nan,
                nan.copy(),
                np.zeros_like(scale),
                np.zeros_like(scale),
            )
            return (*outputs, np.zeros(0, np.float32)) if node.op.endswith("V3") else outputs
        saved_mean = values.mean(axes, dtype=np.float32)
        centered = values - _per_channel(saved_mean, x.ndim, first)
        saved_variance = (centered * centered).mean(axes, dtype=np.float32)
        unbiased = saved_variance * np.float32(count / max(count - 1, 1))
        if factor == 1:
            out_mean, out_variance = saved_mean, unbiased
        else:
            out_mean = (1 - factor) * mean + factor * saved_mean
            out_variance = (1 - factor) * variance + factor * unbiased
    else:
        out_mean, out_variance = mean.copy(), variance.copy()
        centered = values - _per_channel(mean, x.ndim, first)
    factor_channel = scale / np.sqrt(saved_variance + epsilon)
    y = centered * _per_channel(factor_channel, x.ndim, first) + _per_channel(offset, x.ndim, first)
    if node.attrs.get("_activation") == b"Relu":
        y = np.maximum(y, 0)
    outputs = (y.astype(x.dtype), out_mean, out_variance, saved_mean.copy(), saved_variance.copy())
    return (*outputs, np.zeros(0, np.float32)) if node.op.endswith("V3") else outputs


@reference("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _batch_norm_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    dy, x, scale, mean, variance = inputs[:5]
    epsilon = np.float32(node.attrs.get("epsilon", 1e-4))
    first = _channels_first(node)
    channel = 1 if first else x.ndim - 1
    axes = tuple(i for i in range(x.ndim) if i != channel)
    upstream, values = dy.astype(np.float32), x.astype(np.float32)
    centered = values - _per_channel(mean, x.ndim, first)
    inverse = 1 / np.sqrt(variance + epsilon)
    offset_grad = upstream.sum(axes, dtype=np.float32)
    projection = (upstream * centered).sum(axes, dtype=np.float32)
    scale_grad = projection * inverse
    if node.attrs.get("is_training", True):
        count = np.float32(max(math.prod(x.shape[i] for i in axes), 1))
        correction = _per_channel(projection * inverse * inverse / count, x.ndim, first)
        centered_dy = upstream - _per_channel(offset_grad / count, x.ndim, first)
        dx = _per_channel(scale * inverse, x.ndim, first) * (centered_dy - centered * correction)
    else:
        dx = upstream * _per_channel(scale * inverse, x.ndim, first)
    return (
        dx.astype(x.dtype),
        scale_grad,
        offset_grad,
        np.zeros((), np.float32),
        np.zeros((), np.float32),
    )


def _window_sums(x: np.ndarray, radius: int) -> np.ndarray:
    """Sum windows of 2 * radius + 1 channels.

    Windows are cut off at the ends.
    """
    sums = np.concatenate(
        [np.zeros((*x.shape[:-1], 1), np.float64), np.cumsum(x, -1, dtype=np.float64)], -1
    )
    depth = x.shape[-1]
    high = np.minimum(np.arange(depth) + radius + 1, depth)
    low = np.maximum(np.arange(depth) - radius, 0)
    return sums[..., high] - sums[..., low]


def _lrn_attrs(node: NodeSpec) -> tuple[int, float, float, float]:
    a = node.attrs
    return a.get("depth_radius", 5), a.get("bias", 1.0), a.get("alpha", 1.0), a.get("beta", 0.5)


@reference("LRN")
def _lrn(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim != 4:
        invalid("in must be 4-dimensional")
    radius, bias, alpha, beta = _lrn_attrs(node)
    values = wide(x)
    norm = bias + alpha * _window_sums(values * values, radius)
    return ((values * norm**-beta).astype(x.dtype),)


@reference("LRNGrad")
def _lrn_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    dy, x, y = (wide(v).astype(np.float64) for v in inputs)
    radius, bias, alpha, beta = _lrn_attrs(node)
    norm = bias + alpha * _window_sums(x * x, radius)
    out = dy * norm**-beta - 2 * alpha * beta * x * _window_sums(dy * y / norm, radius)
    return (out.astype(inputs[0].dtype),)
