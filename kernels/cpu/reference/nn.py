"""NumPy kernels of matmul, convolution and pooling with their gradients: first runs, constant
folding, tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.conv.window import Layout, Window, layout_of
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray
# A patch matrix above this is built image by image, so that it stays in the cache's reach.
_PATCH_BYTES = 8 << 20


def _compute_dtype(dtype: Any) -> Any:
    """The type to accumulate in: half and bfloat16 sum in float32, as TensorFlow's kernels do."""
    kind = np.dtype(dtype)
    return np.float32 if kind.itemsize <= 2 and kind.kind in "fV" else kind.type


def _widen(*arrays: Array) -> list[Array]:
    return [a.astype(_compute_dtype(a.dtype), copy=False) for a in arrays]


def _product(a: Array, b: Array) -> Array:
    dtype = a.dtype
    x, y = _widen(a, b)
    with np.errstate(all="ignore"):
        return np.matmul(x, y).astype(dtype, copy=False)


def _size_error(a: tuple[int, ...], b: tuple[int, ...], *transposed: Any) -> InvalidArgumentError:
    """TensorFlow's words; those of its batched products end with the two attrs."""
    flags = "".join(f" {int(bool(flag))}" for flag in transposed)
    return InvalidArgumentError(
        None,
        None,
        f"Matrix size-incompatible: In[0]: {format_shape(a)}, In[1]: {format_shape(b)}{flags}",
    )


@reference("MatMul")
def matmul(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """a [m, k] (or [k, m] with transpose_a), b [k, n] (or [n, k]) -> [m, n]."""
    a, b = inputs[:2]
    for value, which in ((a, "a"), (b, "b")):
        if value.ndim != 2:
            raise InvalidArgumentError(
                None,
                None,
                f"In[{'ab'.index(which)}] is not a matrix. Instead it has shape "
                f"{format_shape(value.shape)}",
            )
    x = a.T if node.attrs.get("transpose_a") else a
    y = b.T if node.attrs.get("transpose_b") else b
    if x.shape[1] != y.shape[0]:
        raise _size_error(a.shape, b.shape)
    return [_product(x, y)]


@reference("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """x [..., m, k], y [..., k, n] -> [..., m, n]; adj_x and adj_y take the conjugate transpose of
    the last two axes.
    """
    x, y = inputs[:2]
    for i, value in enumerate((x, y)):
        if value.ndim < 2:
            raise InvalidArgumentError(None, None, f"In[{i}] ndims must be >= 2: {value.ndim}")
    full_x, full_y = x.shape, y.shape
    if node.attrs.get("adj_x"):
        x = x.swapaxes(-1, -2).conj()
    if node.attrs.get("adj_y"):
        y = y.swapaxes(-1, -2).conj()
    if x.shape[-1] != y.shape[-2]:
        raise _size_error(full_x, full_y, node.attrs.get("adj_x"), node.attrs.get("adj_y"))
    out = _product(x, y)
    wanted = node.attrs.get("Tout")
    return [out.astype(wanted.as_numpy_dtype, copy=False) if wanted is not None else out]


def _to_nhwc(layout: Layout, value: Array) -> Array:
    return value if layout.channels_last else value.transpose(0, 2, 3, 1)


def _from_nhwc(layout: Layout, value: Array) -> Array:
    return value if layout.channels_last else np.ascontiguousarray(value.transpose(0, 3, 1, 2))


def _pad(x: Array, rows: Window, cols: Window, value: Any = 0) -> Array:
    """x [b, h, w, c] with the border its windows read; cropped where they read less
    than all of it.
    """
    after = [w.padded - w.before - w.length for w in (rows, cols)]
    x = x[:, : x.shape[1] + min(0, after[0]), : x.shape[2] + min(0, after[1])]
    pads = ((0, 0), (rows.before, max(0, after[0])), (cols.before, max(0, after[1])), (0, 0))
    return np.pad(x, pads, constant_values=value) if any(p != (0, 0) for p in pads) else x


def _shifted(padded: Array, rows: Window, cols: Window, kh: int, kw: int) -> Array:
    """View [b, out_h, out_w, c] of what tap (kh, kw) of every window reads."""
    top, left = kh * rows.dilation, kw * cols.dilation
    return padded[
        :,
        top : top + (rows.out - 1) * rows.stride + 1 : rows.stride,
        left : left + (cols.out - 1) * cols.stride + 1 : cols.stride,
    ]


def _patches(padded: Array, rows: Window, cols: Window) -> Array:
    """View [b, out_h, out_w, k_h, k_w, c] of every window's input."""
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


def convolve(x: Array, w: Array, rows: Window, cols: Window) -> Array:
    """x [b, h, w, groups * in_c], filter [k_h, k_w, in_c, out_c] -> [b, out_h, out_w, out_c]."""
    k_h, k_w, in_c, out_c = w.shape
    b = x.shape[0]
    out = np.zeros((b, rows.out, cols.out, out_c), x.dtype)
    if out.size == 0 or w.size == 0:
        return out
    groups = x.shape[3] // in_c
    if groups == 1 and _is_pointwise(rows, cols):
        np.matmul(x.reshape(-1, in_c), w.reshape(in_c, out_c), out=out.reshape(-1, out_c))
        return out
    padded = _pad(x, rows, cols)
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
    x: Array, dy: Array, filter_shape: tuple[int, ...], rows: Window, cols: Window
) -> Array:
    """x [b, h, w, groups * in_c], dy [b, out_h, out_w, out_c] -> gradient of the filter [k_h, k_w,
    in_c, out_c].
    """
    k_h, k_w, in_c, out_c = filter_shape
    grad = np.zeros(filter_shape, x.dtype)
    if grad.size == 0 or dy.size == 0:
        return grad
    groups = x.shape[3] // in_c
    padded = _pad(x, rows, cols)
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
    dy: Array, w: Array, input_shape: tuple[int, ...], rows: Window, cols: Window
) -> Array:
    """dy [b, out_h, out_w, out_c], filter [k_h, k_w, in_c, out_c] -> gradient of the input [b, h,
    w, groups * in_c].
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
                _shifted(grad, rows, cols, kh, kw)[..., g * in_c : (g + 1) * in_c] += part.reshape(
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
    return layout.windows(
        int(x_shape[1]), int(x_shape[2]), (int(filter_shape[0]), int(filter_shape[1]))
    )


@reference("Conv2D")
def conv2d(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input [b, h, w, groups * in_c] (NCHW: [b, c, h, w]), filter [k_h, k_w, in_c, out_c] -> [b,
    out_h, out_w, out_c].
    """
    layout = layout_of(node.attrs)
    dtype = inputs[0].dtype
    x, w = _widen(*inputs[:2])
    x = _to_nhwc(layout, x)
    with np.errstate(all="ignore"):
        out = convolve(x, w, *_filter_windows(layout, x.shape, w.shape))
    return [_from_nhwc(layout, out.astype(dtype, copy=False))]


def _nhwc_shape(layout: Layout, sizes: Array) -> tuple[int, ...]:
    b, p, q, r = (int(v) for v in sizes)
    return (b, p, q, r) if layout.channels_last else (b, q, r, p)


@reference("Conv2DBackpropInput")
def conv2d_backprop_input(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input_sizes [4] (or [2]: height, width), filter, out_backprop -> gradient of
    Conv2D's input.
    """
    layout = layout_of(node.attrs)
    sizes, w, dy = inputs
    dtype = dy.dtype
    dy = _to_nhwc(layout, dy)
    if sizes.size == 2:
        shape: tuple[int, ...] = (dy.shape[0], int(sizes[0]), int(sizes[1]), w.shape[2])
    else:
        shape = _nhwc_shape(layout, sizes)
    w, dy = _widen(w, dy)
    with np.errstate(all="ignore"):
        grad = convolve_input_grad(dy, w, shape, *_filter_windows(layout, shape, w.shape))
    return [_from_nhwc(layout, grad.astype(dtype, copy=False))]


@reference("Conv2DBackpropFilter")
def conv2d_backprop_filter(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input, filter_sizes [4], out_backprop -> gradient of Conv2D's filter [k_h, k_w,
    in_c, out_c].
    """
    layout = layout_of(node.attrs)
    x, sizes, dy = inputs
    dtype = dy.dtype
    shape = tuple(int(v) for v in sizes)
    x, dy = (_to_nhwc(layout, v) for v in _widen(x, dy))
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
def depthwise_conv2d(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input [b, h, w, c], filter [k_h, k_w, c, multiplier] -> [b, out_h, out_w, c * multiplier]."""
    layout = layout_of(node.attrs)
    dtype = inputs[0].dtype
    x, w = _widen(*inputs[:2])
    x = _to_nhwc(layout, x)
    rows, cols = _depthwise_windows(layout, x.shape, w.shape)
    b, c, multiplier = x.shape[0], w.shape[2], w.shape[3]
    out = np.zeros((b, rows.out, cols.out, c * multiplier), x.dtype)
    if out.size:
        padded = _pad(x, rows, cols)
        if multiplier > 1:
            padded = np.repeat(padded, multiplier, axis=3)
        weights = w.reshape(*w.shape[:2], -1)
        part = np.empty_like(out)
        with np.errstate(all="ignore"):
            for kh in range(rows.size):
                for kw in range(cols.size):
                    np.multiply(_shifted(padded, rows, cols, kh, kw), weights[kh, kw], out=part)
                    out += part
    return [_from_nhwc(layout, out.astype(dtype, copy=False))]


@reference("DepthwiseConv2dNativeBackpropInput")
def depthwise_backprop_input(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input_sizes [4], filter, out_backprop -> gradient of the input [b, h, w, c]."""
    layout = layout_of(node.attrs)
    sizes, w, dy = inputs
    dtype = dy.dtype
    b, height, width, c = _nhwc_shape(layout, sizes)
    w, dy = _widen(w, _to_nhwc(layout, dy))
    rows, cols = _depthwise_windows(layout, (b, height, width, c), w.shape)
    shape = (b, max(rows.padded, rows.before + height), max(cols.padded, cols.before + width), c)
    grad = np.zeros(shape, dy.dtype)
    if dy.size:
        with np.errstate(all="ignore"):
            split = dy.reshape(*dy.shape[:3], c, w.shape[3])
            for kh in range(rows.size):
                for kw in range(cols.size):
                    _shifted(grad, rows, cols, kh, kw)[...] += (split * w[kh, kw]).sum(
                        -1, dtype=dy.dtype
                    )
    grad = np.ascontiguousarray(
        grad[:, rows.before : rows.before + height, cols.before : cols.before + width]
    )
    return [_from_nhwc(layout, grad.astype(dtype, copy=False))]


@reference("DepthwiseConv2dNativeBackpropFilter")
def depthwise_backprop_filter(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input, filter_sizes [4], out_backprop -> gradient of the filter [k_h, k_w, c, multiplier]."""
    layout = layout_of(node.attrs)
    x, sizes, dy = inputs
    dtype = dy.dtype
    shape = tuple(int(v) for v in sizes)
    x, dy = (_to_nhwc(layout, v) for v in _widen(x, dy))
    rows, cols = _depthwise_windows(layout, x.shape, shape)
    grad = np.zeros(shape, dy.dtype)
    if dy.size:
        padded = _pad(x, rows, cols)
        split = dy.reshape(*dy.shape[:3], shape[2], shape[3])
        with np.errstate(all="ignore"):
            for kh in range(rows.size):
                for kw in range(cols.size):
                    grad[kh, kw] = np.einsum(
                        "bijc,bijcm->cm", _shifted(padded, rows, cols, kh, kw), split
                    )
    return [grad.astype(dtype, copy=False)]


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    if dtype.kind == "f":
        return np.finfo(dtype).min
    import ml_dtypes

    return ml_dtypes.finfo(dtype).min


def _pool_depth(layout: Layout, x: Array) -> Array:
    """Maximum over groups of neighbouring channels (TensorFlow pools over depth only without
    overlap).
    """
    b, h, w, c = x.shape
    if layout.depth_size != layout.depth_stride or c % layout.depth_size:
        raise InvalidArgumentError(
            None,
            None,
            "Depthwise max pooling requires the depth window to equal the depth stride and divide "
            "the depth",
        )
    return _fold_max(np.moveaxis(x.reshape(b, h, w, -1, layout.depth_size), -1, 0), x.dtype)


def _fold_max(taps: Any, dtype: np.dtype[Any]) -> Array:
    """Maximum of equally shaped arrays; NaN never wins, and the result is at least the lowest
    finite value.
    """
    best: Array | None = None
    with np.errstate(all="ignore"):
        for tap in taps:
            if best is None:
                best = np.full(tap.shape, _lowest(dtype), dtype)
            np.copyto(best, tap, where=tap > best)
    assert best is not None
    return best


def _window_sizes(inputs: Sequence[Array], first: int) -> dict[str, list[int]]:
    """ksize and strides of the V2 forms, which take them as inputs."""
    return (
        {"ksize": inputs[first].tolist(), "strides": inputs[first + 1].tolist()}
        if len(inputs) > first
        else {}
    )


@reference("MaxPool", "MaxPoolV2")
def max_pool(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input [b, h, w, c] -> [b, out_h, out_w, c]; padding never wins."""
    layout = layout_of(node.attrs, **_window_sizes(inputs, 1))
    x = _to_nhwc(layout, inputs[0])
    if layout.depth_size > 1:
        return [_from_nhwc(layout, _pool_depth(layout, x))]
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    padded = _pad(x, rows, cols, _lowest(x.dtype))
    taps = (
        _shifted(padded, rows, cols, kh, kw) for kh in range(rows.size) for kw in range(cols.size)
    )
    return [_from_nhwc(layout, _fold_max(taps, x.dtype))]


def _max_tap(padded: Array, rows: Window, cols: Window) -> Array:
    """Index of the first tap that holds each window's maximum, [b, out_h, out_w, c].

    With nothing above the lowest value (all NaN) the window's first tap inside the image counts.
    """
    shape = (padded.shape[0], rows.out, cols.out, padded.shape[3])
    lowest = _lowest(padded.dtype)
    best = np.full(shape, lowest, padded.dtype)
    inside_h = np.array([rows.taps(i)[0] for i in range(rows.out)], np.int64).reshape(1, -1, 1, 1)
    inside_w = np.array([cols.taps(i)[0] for i in range(cols.out)], np.int64).reshape(1, 1, -1, 1)
    index = np.broadcast_to(inside_h * cols.size + inside_w, shape).copy()
    for kh in range(rows.size):
        for kw in range(cols.size):
            tap = _shifted(padded, rows, cols, kh, kw)
            better = tap > best
            np.copyto(best, tap, where=better)
            np.copyto(index, kh * cols.size + kw, where=better)
    return index


@reference("MaxPoolGrad", "MaxPoolGradV2")
def max_pool_grad(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """orig_input [b, h, w, c], orig_output, grad [b, out_h, out_w, c] -> gradient of the input;
    ties go to the first tap.
    """
    layout = layout_of(node.attrs, **_window_sizes(inputs, 3))
    x, dy = _to_nhwc(layout, inputs[0]), _to_nhwc(layout, inputs[2])
    if layout.depth_size > 1:
        raise InvalidArgumentError(None, None, "MaxPoolGrad over depth has no kernel")
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    with np.errstate(all="ignore"):
        index = _max_tap(_pad(x, rows, cols, _lowest(x.dtype)), rows, cols)
        return [
            _from_nhwc(
                layout,
                _spread(
                    x.shape,
                    dy,
                    rows,
                    cols,
                    lambda tap: np.where(index == tap, dy, dy.dtype.type(0)),
                ),
            )
        ]


def _spread(
    shape: tuple[int, ...], dy: Array, rows: Window, cols: Window, share: Callable[[int], Array]
) -> Array:
    """Add each window's shares of its gradient to the input positions its taps read:
    [b, h, w, c].
    """
    _, height, width, _ = shape
    total = np.zeros(
        (
            shape[0],
            max(rows.padded, rows.before + height),
            max(cols.padded, cols.before + width),
            shape[3],
        ),
        _compute_dtype(dy.dtype),
    )
    if dy.size:
        for kh in range(rows.size):
            for kw in range(cols.size):
                _shifted(total, rows, cols, kh, kw)[...] += share(kh * cols.size + kw)
    inner = total[:, rows.before : rows.before + height, cols.before : cols.before + width]
    return np.ascontiguousarray(inner.astype(dy.dtype, copy=False))


def _window_counts(rows: Window, cols: Window, dtype: Any) -> Array:
    """How many values inside the image each window averages, [1, out_h, out_w, 1]."""
    count_h = np.array([np.subtract(*rows.taps(i)[::-1]) for i in range(rows.out)], dtype)
    count_w = np.array([np.subtract(*cols.taps(i)[::-1]) for i in range(cols.out)], dtype)
    return (count_h[:, None] * count_w)[None, :, :, None]


@reference("AvgPool")
def avg_pool(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """input [b, h, w, c] -> [b, out_h, out_w, c]; padding is left out of the mean."""
    layout = layout_of(node.attrs)
    dtype = inputs[0].dtype
    (x,) = _widen(_to_nhwc(layout, inputs[0]))
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    padded = _pad(x, rows, cols)
    total = np.zeros((x.shape[0], rows.out, cols.out, x.shape[3]), x.dtype)
    with np.errstate(all="ignore"):
        if total.size:
            for kh in range(rows.size):
                for kw in range(cols.size):
                    total += _shifted(padded, rows, cols, kh, kw)
        mean = total / _window_counts(rows, cols, x.dtype)
    return [_from_nhwc(layout, mean.astype(dtype, copy=False))]


@reference("AvgPoolGrad")
def avg_pool_grad(node: NodeSpec, inputs: Sequence[Array]) -> list[Array]:
    """orig_input_shape [4], grad [b, out_h, out_w, c] -> gradient of the input [b, h, w, c]."""
    layout = layout_of(node.attrs)
    shape = _nhwc_shape(layout, inputs[0])
    dtype = inputs[1].dtype
    (dy,) = _widen(_to_nhwc(layout, inputs[1]))
    rows, cols = layout.windows(shape[1], shape[2])
    with np.errstate(all="ignore"):
        part = dy / _window_counts(rows, cols, dy.dtype)
        grad = _spread(shape, part, rows, cols, lambda tap: part)
    return [_from_nhwc(layout, grad.astype(dtype, copy=False))]
