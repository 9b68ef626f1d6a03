"""Convolution and pooling of volumes in NumPy, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.kernels.cpu.conv.window import Window, attr_text, make_window
from tfjit.kernels.cpu.reference.array import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.nn import _compute_dtype, _lowest
from tfjit.kernels.cpu.reference.patches import padded, taps
from tfjit.kernels.memory_limits import check_room
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray


def _wide(value: Array) -> Array:
    return value.astype(_compute_dtype(value.dtype), copy=False)


def _last(node: NodeSpec, value: Array) -> Array:
    """[batch, d, h, w, c], whatever the layout."""
    return (
        value.transpose(0, 2, 3, 4, 1)
        if attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
        else value
    )


def _restored(node: NodeSpec, value: Array) -> Array:
    first = attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
    return np.ascontiguousarray(value.transpose(0, 4, 1, 2, 3)) if first else value


def _spatial(node: NodeSpec, name: str) -> list[int]:
    """An attr of five numbers, without those of batch and channels."""
    values = list(node.attrs.get(name) or (1,) * 5)
    return values[2:] if attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW" else values[1:4]


def _windows(node: NodeSpec, spatial: Sequence[int], sizes: Sequence[int]) -> list[Window]:
    padding = attr_text(node.attrs, "padding")
    steps = zip(spatial, sizes, _spatial(node, "strides"), _spatial(node, "dilations"))
    return [
        make_window(int(length), int(size), stride, dilation, padding)
        for length, size, stride, dilation in steps
    ]


def _check_volume(value: Array, what: str) -> None:
    if value.ndim != 5:
        invalid(f"{what} must be 5-dimensional")


def _groups(x_depth: int, filter_depth: int) -> int:
    if filter_depth == 0 or x_depth % filter_depth:
        invalid(
            f"Input depth must be equal to or a multiple of filter depth: {x_depth} vs "
            f"{filter_depth}"
        )
    return x_depth // filter_depth


@reference("Conv3D")
def _conv3d(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input [batch, d, h, w, groups * in_c], filter [k_d, k_h, k_w, in_c, out_c] -> [batch, out_d,
    out_h, out_w, out_c].
    """
    for value, what in zip(inputs, ("input", "filter")):
        _check_volume(value, what)
    dtype = inputs[0].dtype
    x, w = _last(node, _wide(inputs[0])), _wide(inputs[1])
    groups = _groups(x.shape[4], w.shape[3])
    if groups != 1:
        invalid(f"input depth must be equal to filter depth: {x.shape[4]} vs {w.shape[3]}")
    windows = _windows(node, x.shape[1:4], w.shape[:3])
    shape = (x.shape[0], *(v.out for v in windows), w.shape[4])
    check_room(shape, x.dtype, 2)
    out = np.zeros(shape, x.dtype)
    if out.size and w.size:
        bordered = padded(x, windows)
        with np.errstate(all="ignore"):
            for tap, place in taps(windows):
                out += bordered[(slice(None), *place)] @ w[tap]
    return (_restored(node, out.astype(dtype, copy=False)),)


def _grown(windows: Sequence[Window]) -> list[int]:
    """Sizes of the padded input."""
    return [max(w.padded, w.before + w.length) for w in windows]


def _inner(value: Array, windows: Sequence[Window]) -> Array:
    """A padded array without its border."""
    return value[(slice(None), *(slice(w.before, w.before + w.length) for w in windows))]


def _check_outputs(windows: Sequence[Window], dy: Array) -> None:
    if dy.shape[1:4] != tuple(w.out for w in windows):
        invalid(
            f"Conv3D: Size of out_backprop doesn't match computed: actual = {shape_text(dy)}, "
            f"computed = {[w.out for w in windows]}"
        )


@reference("Conv3DBackpropInput", "Conv3DBackpropInputV2")
def _conv3d_input(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input (V2: its sizes [5]), filter, out_backprop -> gradient of the input."""
    sizes = tuple(int(v) for v in inputs[0]) if node.op.endswith("V2") else inputs[0].shape
    for value, what in zip(inputs[1:], ("filter", "out_backprop")):
        _check_volume(value, what)
    if len(sizes) != 5:
        invalid("input_sizes must be 5-dimensional")
    w, dy = _wide(inputs[1]), _last(node, _wide(inputs[2]))
    first = attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
    batch, depth = sizes[0], sizes[1] if first else sizes[4]
    windows = _windows(node, sizes[2:] if first else sizes[1:4], w.shape[:3])
    _check_outputs(windows, dy)
    if depth != w.shape[3] or batch != dy.shape[0]:
        invalid(
            f"Conv3DBackpropInput: input of {list(sizes)} does not fit filter {shape_text(w)} and "
            f"out_backprop {shape_text(dy)}"
        )
    total = np.zeros((batch, *_grown(windows), depth), dy.dtype)
    if dy.size:
        with np.errstate(all="ignore"):
            for tap, place in taps(windows):
                total[(slice(None), *place)] += dy @ w[tap].T
    return (
        _restored(
            node, np.ascontiguousarray(_inner(total, windows)).astype(inputs[2].dtype, copy=False)
        ),
    )


@reference("Conv3DBackpropFilter", "Conv3DBackpropFilterV2")
def _conv3d_filter(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input, filter (V2: its sizes [5]), out_backprop -> gradient of the filter."""
    shape = tuple(int(v) for v in inputs[1]) if node.op.endswith("V2") else inputs[1].shape
    for value, what in ((inputs[0], "input"), (inputs[2], "out_backprop")):
        _check_volume(value, what)
    if len(shape) != 5:
        invalid("filter_sizes must be 5-dimensional")
    x, dy = _last(node, _wide(inputs[0])), _last(node, _wide(inputs[2]))
    windows = _windows(node, x.shape[1:4], shape[:3])
    _check_outputs(windows, dy)
    grad = np.zeros(shape, dy.dtype)
    if dy.size and grad.size:
        bordered = padded(x, windows)
        flat = np.ascontiguousarray(dy).reshape(-1, dy.shape[4])
        with np.errstate(all="ignore"):
            for tap, place in taps(windows):
                grad[tap] = bordered[(slice(None), *place)].reshape(len(flat), -1).T @ flat
    return (grad.astype(inputs[2].dtype, copy=False),)


def _pool(node: NodeSpec, x: Array) -> list[Window]:
    if node.attrs["ksize"][0] != 1 or node.attrs["strides"][0] != 1:
        invalid("Pooling is not yet supported on the batch dimension.")
    return _windows(node, x.shape[1:4], _spatial(node, "ksize"))


@reference("MaxPool3D")
def _max_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input [batch, d, h, w, c] -> the largest value of each window; padding never wins."""
    _check_volume(inputs[0], "tensor_in")
    x = _last(node, inputs[0])
    windows = _pool(node, x)
    bordered = padded(x, windows, _lowest(x.dtype))
    best = np.full((x.shape[0], *(w.out for w in windows), x.shape[4]), _lowest(x.dtype), x.dtype)
    if best.size:
        for _, place in taps(windows):
            part = bordered[(slice(None), *place)]
            np.copyto(best, part, where=part > best)
    return (_restored(node, best),)


def _counts(windows: Sequence[Window], dtype: Any) -> Array:
    """How many values inside the volume each window averages, [1, out_d, out_h, out_w, 1]."""
    along = [
        np.array([np.subtract(*w.taps(i)[::-1]) for i in range(w.out)], dtype) for w in windows
    ]
    return (along[0][:, None, None] * along[1][:, None] * along[2])[None, ..., None]


@reference("AvgPool3D")
def _avg_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input [batch, d, h, w, c] -> the mean of each window, padding left out."""
    _check_volume(inputs[0], "tensor_in")
    x = _last(node, _wide(inputs[0]))
    windows = _pool(node, x)
    bordered = padded(x, windows)
    total = np.zeros((x.shape[0], *(w.out for w in windows), x.shape[4]), x.dtype)
    with np.errstate(all="ignore"):
        if total.size:
            for _, place in taps(windows):
                total += bordered[(slice(None), *place)]
        total /= _counts(windows, x.dtype)
    return (_restored(node, total.astype(inputs[0].dtype, copy=False)),)


@reference("AvgPool3DGrad")
def _avg_pool_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """orig_input_shape [5], grad -> gradient of the input."""
    sizes, grad = inputs
    if sizes.ndim != 1 or len(sizes) != 5:
        invalid("orig_input must be 1-dimensional and 5 elements")
    _check_volume(grad, "out_backprop")
    dy = _last(node, _wide(grad))
    first = attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
    shape = [int(v) for v in sizes]
    if first:
        shape = [shape[0], *shape[2:], shape[1]]
    windows = _windows(node, shape[1:4], _spatial(node, "ksize"))
    _check_outputs(windows, dy)
    total = np.zeros((shape[0], *_grown(windows), shape[4]), dy.dtype)
    if dy.size:
        share = dy / _counts(windows, dy.dtype)
        for _, place in taps(windows):
            total[(slice(None), *place)] += share
    return (
        _restored(
            node, np.ascontiguousarray(_inner(total, windows)).astype(grad.dtype, copy=False)
        ),
    )


def _first_taps(x: Array, windows: Sequence[Window]) -> Array:
    """The number of the first tap that holds each window's maximum, [batch, *out, c]."""
    lowest = _lowest(x.dtype)
    bordered = padded(x, windows, lowest)
    shape = (x.shape[0], *(w.out for w in windows), x.shape[-1])
    best, found = np.full(shape, lowest, x.dtype), np.full(shape, -1, np.int64)
    for number, (_, place) in enumerate(taps(windows)):
        part = bordered[(slice(None), *place)]
        better = part > best
        np.copyto(best, part, where=better)
        np.copyto(found, number, where=better)
    return found


@reference("MaxPool3DGrad")
def _max_pool_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """orig_input, orig_output, grad -> gradient of the input; of equal values the
    first takes it.
    """
    for value, what in zip(inputs, ("tensor_in", "tensor_out", "out_backprop")):
        _check_volume(value, what)
    x, dy = _last(node, inputs[0]), _last(node, _wide(inputs[2]))
    windows = _pool(node, x)
    _check_outputs(windows, dy)
    total = np.zeros((x.shape[0], *_grown(windows), x.shape[4]), dy.dtype)
    if dy.size:
        found = _first_taps(x, windows)
        for number, (_, place) in enumerate(taps(windows)):
            total[(slice(None), *place)] += np.where(found == number, dy, dy.dtype.type(0))
    return (
        _restored(
            node, np.ascontiguousarray(_inner(total, windows)).astype(inputs[2].dtype, copy=False)
        ),
    )


@reference("MaxPool3DGradGrad", "MaxPoolGradGrad", "MaxPoolGradGradV2")
def _max_pool_grad_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """orig_input, orig_output, grad (of the input's gradient) -> the grad at each
    window's maximum.
    """
    volume = node.op == "MaxPool3DGradGrad"
    if volume:
        x, grad = _last(node, inputs[0]), _last(node, inputs[2])
        windows = _pool(node, x)
    else:
        first = attr_text(node.attrs, "data_format", "NHWC") == "NCHW"
        sizes, strides = (
            (v.tolist() for v in inputs[3:5])
            if len(inputs) > 3
            else (node.attrs["ksize"], node.attrs["strides"])
        )
        x, grad = (v.transpose(0, 2, 3, 1) if first else v for v in (inputs[0], inputs[2]))
        along = (2, 3) if first else (1, 2)
        padding = attr_text(node.attrs, "padding")
        windows = [
            make_window(n, sizes[i], strides[i], 1, padding) for n, i in zip(x.shape[1:3], along)
        ]
    if grad.shape != x.shape:
        invalid(f"Expected grad shape to be {shape_text(x)}, but got {shape_text(grad)}")
    out = np.zeros((x.shape[0], *(w.out for w in windows), x.shape[-1]), grad.dtype)
    if out.size:
        found = _first_taps(x, windows)
        bordered = padded(grad, windows)
        for number, (_, place) in enumerate(taps(windows)):
            np.copyto(out, bordered[(slice(None), *place)], where=found == number)
    if volume:
        return (_restored(node, out),)
    return (np.ascontiguousarray(out.transpose(0, 3, 1, 2)) if first else out,)
