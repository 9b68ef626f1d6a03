"""Compute convolutions of images and volumes in NumPy, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.cpu.conv.window import Layout, Window, attr_text, layout_of
from tfjit.kernels.cpu.reference.images.patches import padded, taps
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text, widen
from tfjit.kernels.cpu.reference.layers.windows import (
    check_outputs,
    check_volume,
    from_ndhwc,
    from_nhwc,
    nhwc_shape,
    pad_image,
    padded_sizes,
    tap_view,
    to_ndhwc,
    to_nhwc,
    volume_windows,
    widened,
    without_border,
)
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

# A patch matrix above this is built image by image, so that it stays in the cache's reach.
_PATCH_BYTES = 8 << 20


def _patches(padded: np.ndarray, rows: Window, cols: Window) -> np.ndarray:
    """Return a view of every window's input.

    Shape [b, out_h, out_w, k_h, k_w, c].
    """
    b, _, _, c = padded.shape
    sb, sh, sw, sc = padded.strides
    return np.lib.stride_tricks.as_strided(
        padded,
        (b, rows.out, cols.out, rows.size, cols.size, c),
        (sb, sh * rows.stride, sw * cols.stride, sh * rows.dilation, sw * cols.dilation, sc),
        writeable=False,
    )


def _is_pointwise(rows: Window, cols: Window) -> bool:
    return all(
        w.size == 1 and w.stride == 1 and w.before == 0 and w.out == w.length for w in (rows, cols)
    )


def _image_blocks(batch: int, bytes_an_image: int) -> list[slice]:
    step = max(1, _PATCH_BYTES // max(1, bytes_an_image))
    return [slice(i, min(batch, i + step)) for i in range(0, batch, step)]


def convolve(x: np.ndarray, w: np.ndarray, rows: Window, cols: Window) -> np.ndarray:
    """Convolve images with filters.

    x [b, h, w, groups * in_c], filter [k_h, k_w, in_c, out_c] -> [b, out_h, out_w, out_c].
    """
    k_h, k_w, in_c, out_c = w.shape
    b = x.shape[0]
    out = np.zeros((b, rows.out, cols.out, out_c), x.dtype)
    if out.size == 0 or w.size == 0:
        return out
    groups = x.shape[3] // in_c
    if groups == 1 and _is_pointwise(rows, cols):
        np.matmul(x.reshape(-1, in_c), w.reshape(in_c, out_c), out=out.reshape(-1, out_c))
        return out
    padded = pad_image(x, rows, cols)
    taps = k_h * k_w * in_c
    for g in range(groups):
        source = padded[..., g * in_c : (g + 1) * in_c]
        weights = np.ascontiguousarray(
            w[..., g * (out_c // groups) : (g + 1) * (out_c // groups)]
        ).reshape(taps, -1)
        for block in _image_blocks(b, rows.out * cols.out * taps * x.itemsize):
            patches = _patches(source[block], rows, cols).reshape(-1, taps)
            out[block, ..., g * (out_c // groups) : (g + 1) * (out_c // groups)] = np.matmul(
                patches, weights
            ).reshape(out[block].shape[:3] + (-1,))
    return out


def convolve_filter_grad(
    x: np.ndarray, dy: np.ndarray, filter_shape: tuple[int, ...], rows: Window, cols: Window
) -> np.ndarray:
    """Return the gradient of the filter [k_h, k_w, in_c, out_c].

    x [b, h, w, groups * in_c], dy [b, out_h, out_w, out_c].
    """
    k_h, k_w, in_c, out_c = filter_shape
    grad = np.zeros(filter_shape, x.dtype)
    if grad.size == 0 or dy.size == 0:
        return grad
    groups = x.shape[3] // in_c
    padded = pad_image(x, rows, cols)
    share = out_c // groups
    for g in range(groups):
        source = padded[..., g * in_c : (g + 1) * in_c]
        flat_dy = np.ascontiguousarray(dy[..., g * share : (g + 1) * share])
        for block in _image_blocks(x.shape[0], rows.out * cols.out * k_h * k_w * in_c * x.itemsize):
            patches = _patches(source[block], rows, cols).reshape(-1, k_h * k_w * in_c)
            grad[..., g * share : (g + 1) * share] += (
                patches.T @ flat_dy[block].reshape(-1, share)
            ).reshape(k_h, k_w, in_c, share)
    return grad


def convolve_input_grad(
    dy: np.ndarray, w: np.ndarray, input_shape: tuple[int, ...], rows: Window, cols: Window
) -> np.ndarray:
    """Return the gradient of the input [b, h, w, groups * in_c].

    dy [b, out_h, out_w, out_c], filter [k_h, k_w, in_c, out_c].
    """
    k_h, k_w, in_c, out_c = w.shape
    b, height, width, channels = input_shape
    if dy.size == 0 or w.size == 0:
        return np.zeros(input_shape, dy.dtype)
    groups = channels // in_c
    share = out_c // groups
    height_p, width_p = (
        max(rows.padded, rows.before + height),
        max(cols.padded, cols.before + width),
    )
    grad = np.zeros((b, height_p, width_p, channels), dy.dtype)
    for g in range(groups):
        flat_dy = np.ascontiguousarray(dy[..., g * share : (g + 1) * share]).reshape(-1, share)
        for kh in range(k_h):
            for kw in range(k_w):
                part = flat_dy @ w[kh, kw, :, g * share : (g + 1) * share].T
                tap_view(grad, rows, cols, kh, kw)[..., g * in_c : (g + 1) * in_c] += part.reshape(
                    b, rows.out, cols.out, in_c
                )
    return np.ascontiguousarray(
        grad[:, rows.before : rows.before + height, cols.before : cols.before + width]
    )


def _filter_windows(
    layout: Layout, x_shape: Sequence[int], filter_shape: Sequence[int]
) -> tuple[Window, Window]:
    in_c = filter_shape[2]
    if in_c == 0 or x_shape[3] % in_c:
        raise InvalidArgumentError(
            None,
            None,
            f"input depth must be evenly divisible by filter depth: {x_shape[3]} vs {in_c}",
        )
    if not x_shape[3]:
        raise InvalidArgumentError(
            None, None, "grouped convolution must have at least one group: 0 groups"
        )
    return layout.windows(
        int(x_shape[1]), int(x_shape[2]), (int(filter_shape[0]), int(filter_shape[1]))
    )


@reference("Conv2D")
@on_free_cores
def conv2d(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute Conv2D.

    input [b, h, w, groups * in_c] (NCHW: [b, c, h, w]), filter [k_h, k_w, in_c, out_c] -> [b,
    out_h, out_w, out_c].
    """
    layout = layout_of(node.attrs)
    dtype = inputs[0].dtype
    x, w = widen(*inputs[:2])
    x = to_nhwc(layout, x)
    with np.errstate(all="ignore"):
        out = convolve(x, w, *_filter_windows(layout, x.shape, w.shape))
    return [from_nhwc(layout, out.astype(dtype, copy=False))]


@reference("Conv2DBackpropInput")
@on_free_cores
def conv2d_backprop_input(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the gradient of Conv2D's input.

    input_sizes [4] (or [2]: height, width), filter, out_backprop -> gradient of the input.
    """
    layout = layout_of(node.attrs)
    sizes, w, dy = inputs
    dtype = dy.dtype
    dy = to_nhwc(layout, dy)
    if sizes.size == 2:
        shape: tuple[int, ...] = (dy.shape[0], int(sizes[0]), int(sizes[1]), w.shape[2])
    else:
        shape = nhwc_shape(layout, sizes)
    w, dy = widen(w, dy)
    with np.errstate(all="ignore"):
        grad = convolve_input_grad(dy, w, shape, *_filter_windows(layout, shape, w.shape))
    return [from_nhwc(layout, grad.astype(dtype, copy=False))]


@reference("Conv2DBackpropFilter")
@on_free_cores
def conv2d_backprop_filter(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the gradient of Conv2D's filter.

    input, filter_sizes [4], out_backprop -> gradient of the filter [k_h, k_w, in_c, out_c].
    """
    layout = layout_of(node.attrs)
    x, sizes, dy = inputs
    dtype = dy.dtype
    shape = tuple(int(v) for v in sizes)
    x, dy = (to_nhwc(layout, v) for v in widen(x, dy))
    with np.errstate(all="ignore"):
        grad = convolve_filter_grad(x, dy, shape, *_filter_windows(layout, x.shape, shape))
    return [grad.astype(dtype, copy=False)]


def _depthwise_windows(
    layout: Layout, x_shape: Sequence[int], filter_shape: Sequence[int]
) -> tuple[Window, Window]:
    if x_shape[3] != filter_shape[2]:
        raise InvalidArgumentError(
            None,
            None,
            f"input and filter must have the same depth: {x_shape[3]} vs {filter_shape[2]}",
        )
    return layout.windows(
        int(x_shape[1]), int(x_shape[2]), (int(filter_shape[0]), int(filter_shape[1]))
    )


@reference("DepthwiseConv2dNative")
def depthwise_conv2d(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute a depthwise convolution.

    input [b, h, w, c], filter [k_h, k_w, c, multiplier] -> [b, out_h, out_w, c * multiplier].
    """
    layout = layout_of(node.attrs)
    dtype = inputs[0].dtype
    x, w = widen(*inputs[:2])
    x = to_nhwc(layout, x)
    rows, cols = _depthwise_windows(layout, x.shape, w.shape)
    b, c, multiplier = x.shape[0], w.shape[2], w.shape[3]
    out = np.zeros((b, rows.out, cols.out, c * multiplier), x.dtype)
    if out.size:
        padded = pad_image(x, rows, cols)
        if multiplier > 1:
            padded = np.repeat(padded, multiplier, axis=3)
        weights = w.reshape(*w.shape[:2], -1)
        part = np.empty_like(out)
        with np.errstate(all="ignore"):
            for kh in range(rows.size):
                for kw in range(cols.size):
                    np.multiply(tap_view(padded, rows, cols, kh, kw), weights[kh, kw], out=part)
                    out += part
    return [from_nhwc(layout, out.astype(dtype, copy=False))]


@reference("DepthwiseConv2dNativeBackpropInput")
def depthwise_backprop_input(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the gradient of a depthwise convolution's input.

    input_sizes [4], filter, out_backprop -> gradient of the input [b, h, w, c].
    """
    layout = layout_of(node.attrs)
    sizes, w, dy = inputs
    dtype = dy.dtype
    b, height, width, c = nhwc_shape(layout, sizes)
    w, dy = widen(w, to_nhwc(layout, dy))
    rows, cols = _depthwise_windows(layout, (b, height, width, c), w.shape)
    shape = (b, max(rows.padded, rows.before + height), max(cols.padded, cols.before + width), c)
    grad = np.zeros(shape, dy.dtype)
    if dy.size:
        with np.errstate(all="ignore"):
            split = dy.reshape(*dy.shape[:3], c, w.shape[3])
            for kh in range(rows.size):
                for kw in range(cols.size):
                    tap_view(grad, rows, cols, kh, kw)[...] += (split * w[kh, kw]).sum(
                        -1, dtype=dy.dtype
                    )
    grad = np.ascontiguousarray(
        grad[:, rows.before : rows.before + height, cols.before : cols.before + width]
    )
    return [from_nhwc(layout, grad.astype(dtype, copy=False))]


@reference("DepthwiseConv2dNativeBackpropFilter")
def depthwise_backprop_filter(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the gradient of a depthwise convolution's filter.

    input, filter_sizes [4], out_backprop -> gradient of the filter [k_h, k_w, c, multiplier].
    """
    layout = layout_of(node.attrs)
    x, sizes, dy = inputs
    dtype = dy.dtype
    shape = tuple(int(v) for v in sizes)
    x, dy = (to_nhwc(layout, v) for v in widen(x, dy))
    rows, cols = _depthwise_windows(layout, x.shape, shape)
    grad = np.zeros(shape, dy.dtype)
    if dy.size:
        padded = pad_image(x, rows, cols)
        split = dy.reshape(*dy.shape[:3], shape[2], shape[3])
        with np.errstate(all="ignore"):
            for kh in range(rows.size):
                for kw in range(cols.size):
                    grad[kh, kw] = np.einsum(
                        "bijc,bijcm->cm", tap_view(padded, rows, cols, kh, kw), split
                    )
    return [grad.astype(dtype, copy=False)]


def _groups(x_depth: int, filter_depth: int) -> int:
    if filter_depth == 0 or x_depth % filter_depth:
        invalid(
            f"Input depth must be equal to or a multiple of filter depth: {x_depth} vs "
            f"{filter_depth}"
        )
    return x_depth // filter_depth


@reference("Conv3D")
@on_free_cores
def _conv3d(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute Conv3D.

    input [batch, d, h, w, groups * in_c], filter [k_d, k_h, k_w, in_c, out_c] -> [batch, out_d,
    out_h, out_w, out_c].
    """
    for value, what in zip(inputs, ("input", "filter")):
        check_volume(value, what)
    dtype = inputs[0].dtype
    x, w = to_ndhwc(node, widened(inputs[0])), widened(inputs[1])
    groups = _groups(x.shape[4], w.shape[3])
    if groups != 1:
        invalid(f"input depth must be equal to filter depth: {x.shape[4]} vs {w.shape[3]}")
    windows = volume_windows(node, x.shape[1:4], w.shape[:3])
    shape = (x.shape[0], *(v.out for v in windows), w.shape[4])
    check_fits_in_memory(shape, x.dtype, 2)
    out = np.zeros(shape, x.dtype)
    if out.size and w.size:
        bordered = padded(x, windows)
        with np.errstate(all="ignore"):
            for tap, place in taps(windows):
                out += bordered[(slice(None), *place)] @ w[tap]
    return (from_ndhwc(node, out.astype(dtype, copy=False)),)


@reference("Conv3DBackpropInput", "Conv3DBackpropInputV2")
@on_free_cores
def _conv3d_input(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of Conv3D's input.

    input (V2: its sizes [5]), filter, out_backprop -> gradient of the input.
    """
    sizes = tuple(int(v) for v in inputs[0]) if node.op.endswith("V2") else inputs[0].shape
    for value, what in zip(inputs[1:], ("filter", "out_backprop")):
        check_volume(value, what)
    if len(sizes) != 5:
        invalid("input_sizes must be 5-dimensional")
    w, dy = widened(inputs[1]), to_ndhwc(node, widened(inputs[2]))
    first = attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
    batch, depth = sizes[0], sizes[1] if first else sizes[4]
    windows = volume_windows(node, sizes[2:] if first else sizes[1:4], w.shape[:3])
    check_outputs(windows, dy)
    if depth != w.shape[3] or batch != dy.shape[0]:
        invalid(
            f"Conv3DBackpropInput: input of {list(sizes)} does not fit filter {shape_text(w)} and "
            f"out_backprop {shape_text(dy)}"
        )
    total = np.zeros((batch, *padded_sizes(windows), depth), dy.dtype)
    if dy.size:
        with np.errstate(all="ignore"):
            for tap, place in taps(windows):
                total[(slice(None), *place)] += dy @ w[tap].T
    return (
        from_ndhwc(
            node,
            np.ascontiguousarray(without_border(total, windows)).astype(
                inputs[2].dtype, copy=False
            ),
        ),
    )


@reference("Conv3DBackpropFilter", "Conv3DBackpropFilterV2")
@on_free_cores
def _conv3d_filter(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of Conv3D's filter.

    input, filter (V2: its sizes [5]), out_backprop -> gradient of the filter.
    """
    shape = tuple(int(v) for v in inputs[1]) if node.op.endswith("V2") else inputs[1].shape
    for value, what in ((inputs[0], "input"), (inputs[2], "out_backprop")):
        check_volume(value, what)
    if len(shape) != 5:
        invalid("filter_sizes must be 5-dimensional")
    x, dy = to_ndhwc(node, widened(inputs[0])), to_ndhwc(node, widened(inputs[2]))
    windows = volume_windows(node, x.shape[1:4], shape[:3])
    check_outputs(windows, dy)
    grad = np.zeros(shape, dy.dtype)
    if dy.size and grad.size:
        bordered = padded(x, windows)
        flat = np.ascontiguousarray(dy).reshape(-1, dy.shape[4])
        with np.errstate(all="ignore"):
            for tap, place in taps(windows):
                grad[tap] = bordered[(slice(None), *place)].reshape(len(flat), -1).T @ flat
    return (grad.astype(inputs[2].dtype, copy=False),)


def _positions(node: NodeSpec) -> tuple[str, str]:
    return attr_text(node.attrs, "src_format"), attr_text(node.attrs, "dst_format")


@reference("DataFormatDimMap")
def _dim_map(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Map axes of src_format to the axes' numbers in dst_format."""
    source, target = _positions(node)
    places = np.array([target.index(letter) for letter in source], inputs[0].dtype)
    return (places[np.mod(inputs[0], len(source))],)


@reference("DataFormatVecPermute")
def _vec_permute(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Permute values by axis from src_format to dst_format.

    x [n] or [n, 2]: one row for each axis of src_format, or for each of its two spatial axes.
    """
    x = inputs[0]
    source, target = _positions(node)
    if x.ndim not in (1, 2):
        invalid(f"input must be a vector or 2D tensor, but got shape {list(x.shape)}")
    if x.ndim == 2 and x.shape[1] != 2:
        invalid(f"Second dimension of 2D input must be of size 2, but got shape {list(x.shape)}")
    if len(x) == len(source) - 2:
        spatial = [letter for letter in source if letter not in "NC"]
        source, target = "".join(spatial), "".join(letter for letter in target if letter in spatial)
    if len(x) != len(source):
        invalid(
            f"First dimension of input must be of size {len(source)}, but got shape {list(x.shape)}"
        )
    return (x[[source.index(letter) for letter in target]],)
