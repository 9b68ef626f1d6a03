"""Pooling in NumPy that says where each maximum stood, with its gradients."""

from __future__ import annotations

import numpy as np

from tfjit.kernels.cpu.conv.window import Window, attr_text, make_window
from tfjit.kernels.cpu.reference.array import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.nn import _lowest
from tfjit.kernels.cpu.reference.patches import padded, taps
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray


def _windows(node: NodeSpec, x: Array) -> list[Window]:
    if x.ndim != 4:
        invalid("tensor_in must be 4-dimensional")
    sizes, strides = node.attrs["ksize"], node.attrs["strides"]
    if sizes[0] != 1 or strides[0] != 1:
        invalid("Pooling is not yet supported on the batch dimension.")
    if sizes[3] != 1 or strides[3] != 1:
        invalid(
            "Depthwise max pooling is currently only supported for depth windows without overlap"
        )
    padding = attr_text(node.attrs, "padding")
    return [make_window(x.shape[i], sizes[i], strides[i], 1, padding) for i in (1, 2)]


def _places(node: NodeSpec, x: Array, windows: list[Window]) -> Array:
    """Each input value's number in the flattened input: of its image, or with
    `include_batch_in_index` of the batch.
    """
    batch, height, width, channels = x.shape
    one = np.arange(height * width * channels, dtype=np.int64).reshape(1, height, width, channels)
    if node.attrs["include_batch_in_index"]:
        return one + np.arange(batch, dtype=np.int64).reshape(-1, 1, 1, 1) * (
            height * width * channels
        )
    return np.broadcast_to(one, x.shape)


@reference("MaxPoolWithArgmax")
def _max_pool_with_argmax(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input [batch, h, w, c] -> the largest value of each window, and its place in the flattened
    input; the first of equal ones.
    """
    x = inputs[0]
    windows = _windows(node, x)
    kind = np.dtype(node.attrs["Targmax"].as_numpy_dtype)
    shape = (x.shape[0], *(w.out for w in windows), x.shape[3])
    best, found = np.full(shape, _lowest(x.dtype), x.dtype), np.full(shape, -1, np.int64)
    if best.size:
        values, places = (
            padded(x, windows, _lowest(x.dtype)),
            padded(_places(node, x, windows), windows, -1),
        )
        for _, place in taps(windows):
            at = (slice(None), *place)
            inside = places[at] >= 0
            better = inside & ((values[at] > best) | (found < 0))
            np.copyto(best, values[at], where=better)
            np.copyto(found, places[at], where=better)
    return best, found.astype(kind)


def _flat_places(node: NodeSpec, x: Array, argmax: Array) -> Array:
    """The places of maxima in the flattened batch. Raises InvalidArgumentError for one outside of
    it.
    """
    flat = argmax.astype(np.int64)
    if not node.attrs["include_batch_in_index"]:
        size = int(np.prod(x.shape[1:], dtype=np.int64))
        flat = flat + np.arange(len(argmax)).reshape(-1, *[1] * (argmax.ndim - 1)) * size
    outside = (flat < 0) | (flat >= x.size)
    if outside.any():
        invalid(f"Invalid input index: {flat[outside][0]} for an input of {x.size} values")
    return flat


@reference("MaxPoolGradWithArgmax")
def _grad_with_argmax(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input, grad [batch, out_h, out_w, c], argmax -> gradient of the input."""
    x, grad, argmax = inputs
    if grad.shape != argmax.shape:
        invalid(
            f"grad shape {shape_text(grad)} and argmax shape {shape_text(argmax)} must be the same"
        )
    out = np.zeros(x.size, grad.dtype)
    np.add.at(out, _flat_places(node, x, argmax).ravel(), grad.ravel())
    return (out.reshape(x.shape),)


@reference("MaxPoolGradGradWithArgmax")
def _grad_grad_with_argmax(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input, grad of the input's gradient, argmax -> that grad at each maximum."""
    x, grad, argmax = inputs
    if grad.shape != x.shape:
        invalid(f"Expected grad shape to be {shape_text(x)}, but got {shape_text(grad)}")
    return (grad.ravel()[_flat_places(node, x, argmax)],)
