"""Pool images and volumes in NumPy, with the gradients of pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.cpu.conv.window import Layout, Window, attr_text, layout_of, make_window
from tfjit.kernels.cpu.reference.images.patches import padded, taps
from tfjit.kernels.cpu.reference.inputs import Arrays, compute_dtype, invalid, shape_text, widen
from tfjit.kernels.cpu.reference.layers.windows import (
    check_outputs,
    check_volume,
    from_ndhwc,
    from_nhwc,
    nhwc_shape,
    pad_image,
    padded_sizes,
    spatial_attr,
    tap_view,
    to_ndhwc,
    to_nhwc,
    volume_windows,
    widened,
    without_border,
)
from tfjit.kernels.registry import NodeSpec, reference


def lowest_finite(dtype: np.dtype[Any]) -> Any:
    """Return the lowest finite value of a dtype."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    if dtype.kind == "f":
        return np.finfo(dtype).min
    import ml_dtypes

    return ml_dtypes.finfo(dtype).min


def _pool_depth(layout: Layout, x: np.ndarray) -> np.ndarray:
    """Return the maximum over groups of neighbouring channels.

    TensorFlow pools over depth only without overlap.
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


def _fold_max(taps: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the elementwise maximum of arrays of one shape.

    NaN never wins, and the result is at least the lowest finite value.
    """
    best: np.ndarray | None = None
    with np.errstate(all="ignore"):
        for tap in taps:
            if best is None:
                best = np.full(tap.shape, lowest_finite(dtype), dtype)
            np.copyto(best, tap, where=tap > best)
    assert best is not None
    return best


def _window_sizes(inputs: Sequence[np.ndarray], first: int) -> dict[str, list[int]]:
    """Return ksize and strides of the V2 forms, which are inputs."""
    return (
        {"ksize": inputs[first].tolist(), "strides": inputs[first + 1].tolist()}
        if len(inputs) > first
        else {}
    )


@reference("MaxPool", "MaxPoolV2")
def max_pool(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute MaxPool; padding never wins.

    input [b, h, w, c] -> [b, out_h, out_w, c].
    """
    layout = layout_of(node.attrs, **_window_sizes(inputs, 1))
    if inputs[0].ndim != 4:
        invalid("Input must be 4 or 5-dimensional")
    x = to_nhwc(layout, inputs[0])
    if layout.depth_size > 1:
        return [from_nhwc(layout, _pool_depth(layout, x))]
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    padded = pad_image(x, rows, cols, lowest_finite(x.dtype))
    taps = (
        tap_view(padded, rows, cols, kh, kw) for kh in range(rows.size) for kw in range(cols.size)
    )
    return [from_nhwc(layout, _fold_max(taps, x.dtype))]


def _max_tap(padded: np.ndarray, rows: Window, cols: Window) -> np.ndarray:
    """Return the first tap with each window's maximum.

    Shape [b, out_h, out_w, c]. With nothing above the lowest value (all NaN) the window's first tap
    inside the image counts.
    """
    shape = (padded.shape[0], rows.out, cols.out, padded.shape[3])
    least = lowest_finite(padded.dtype)
    best = np.full(shape, least, padded.dtype)
    inside_h = np.array([rows.taps(i)[0] for i in range(rows.out)], np.int64).reshape(1, -1, 1, 1)
    inside_w = np.array([cols.taps(i)[0] for i in range(cols.out)], np.int64).reshape(1, 1, -1, 1)
    index = np.broadcast_to(inside_h * cols.size + inside_w, shape).copy()
    for kh in range(rows.size):
        for kw in range(cols.size):
            tap = tap_view(padded, rows, cols, kh, kw)
            better = tap > best
            np.copyto(best, tap, where=better)
            np.copyto(index, kh * cols.size + kw, where=better)
    return index


@reference("MaxPoolGrad", "MaxPoolGradV2")
def max_pool_grad(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the gradient of MaxPool's input; ties go to the first tap.

    orig_input [b, h, w, c], orig_output, grad [b, out_h, out_w, c] -> gradient of the input.
    """
    layout = layout_of(node.attrs, **_window_sizes(inputs, 3))
    x, dy = to_nhwc(layout, inputs[0]), to_nhwc(layout, inputs[2])
    if layout.depth_size > 1:
        raise InvalidArgumentError(None, None, "MaxPoolGrad over depth has no kernel")
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    with np.errstate(all="ignore"):
        index = _max_tap(pad_image(x, rows, cols, lowest_finite(x.dtype)), rows, cols)
        return [
            from_nhwc(
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
    shape: tuple[int, ...],
    dy: np.ndarray,
    rows: Window,
    cols: Window,
    share: Callable[[int], np.ndarray],
) -> np.ndarray:
    """Add each window's shares of its gradient to its input positions.

    Returns [b, h, w, c]; the positions are those that the window's taps read.
    """
    _, height, width, _ = shape
    total = np.zeros(
        (
            shape[0],
            max(rows.padded, rows.before + height),
            max(cols.padded, cols.before + width),
            shape[3],
        ),
        compute_dtype(dy.dtype),
    )
    if dy.size:
        for kh in range(rows.size):
            for kw in range(cols.size):
                tap_view(total, rows, cols, kh, kw)[...] += share(kh * cols.size + kw)
    inner = total[:, rows.before : rows.before + height, cols.before : cols.before + width]
    return np.ascontiguousarray(inner.astype(dy.dtype, copy=False))


def _window_counts(rows: Window, cols: Window, dtype: Any) -> np.ndarray:
    """Return the number of values inside the image in each window.

    Shape [1, out_h, out_w, 1].
    """
    count_h = np.array([np.subtract(*rows.taps(i)[::-1]) for i in range(rows.out)], dtype)
    count_w = np.array([np.subtract(*cols.taps(i)[::-1]) for i in range(cols.out)], dtype)
    return (count_h[:, None] * count_w)[None, :, :, None]


@reference("AvgPool")
def avg_pool(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute AvgPool; padding is left out of the mean.

    input [b, h, w, c] -> [b, out_h, out_w, c].
    """
    layout = layout_of(node.attrs)
    dtype = inputs[0].dtype
    (x,) = widen(to_nhwc(layout, inputs[0]))
    total, counts = window_sums(layout, x)
    with np.errstate(all="ignore"):
        mean = total / counts
    return [from_nhwc(layout, mean.astype(dtype, copy=False))]


def window_sums(layout: Layout, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum and the number of values in each window.

    x [b, h, w, c] -> [b, out_h, out_w, c] and [1, out_h, out_w, 1].
    """
    rows, cols = layout.windows(x.shape[1], x.shape[2])
    padded = pad_image(x, rows, cols)
    total = np.zeros((x.shape[0], rows.out, cols.out, x.shape[3]), x.dtype)
    with np.errstate(all="ignore"):
        if total.size:
            for kh in range(rows.size):
                for kw in range(cols.size):
                    total += tap_view(padded, rows, cols, kh, kw)
    return total, _window_counts(rows, cols, x.dtype)


@reference("AvgPoolGrad")
def avg_pool_grad(node: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the gradient of AvgPool's input.

    orig_input_shape [4], grad [b, out_h, out_w, c] -> gradient of the input [b, h, w, c].
    """
    layout = layout_of(node.attrs)
    shape = nhwc_shape(layout, inputs[0])
    dtype = inputs[1].dtype
    (dy,) = widen(to_nhwc(layout, inputs[1]))
    rows, cols = layout.windows(shape[1], shape[2])
    with np.errstate(all="ignore"):
        part = dy / _window_counts(rows, cols, dy.dtype)
        grad = _spread(shape, part, rows, cols, lambda tap: part)
    return [from_nhwc(layout, grad.astype(dtype, copy=False))]


def _pool(node: NodeSpec, x: np.ndarray) -> list[Window]:
    if node.attrs["ksize"][0] != 1 or node.attrs["strides"][0] != 1:
        invalid("Pooling is not yet supported on the batch dimension.")
    return volume_windows(node, x.shape[1:4], spatial_attr(node, "ksize"))


@reference("MaxPool3D")
def _max_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute MaxPool3D; padding never wins.

    input [batch, d, h, w, c] -> the largest value of each window.
    """
    check_volume(inputs[0], "tensor_in")
    x = to_ndhwc(node, inputs[0])
    windows = _pool(node, x)
    bordered = padded(x, windows, lowest_finite(x.dtype))
    best = np.full(
        (x.shape[0], *(w.out for w in windows), x.shape[4]), lowest_finite(x.dtype), x.dtype
    )
    if best.size:
        for _, place in taps(windows):
            part = bordered[(slice(None), *place)]
            np.copyto(best, part, where=part > best)
    return (from_ndhwc(node, best),)


def _counts(windows: Sequence[Window], dtype: Any) -> np.ndarray:
    """Return the number of values inside the volume in each window.

    Shape [1, out_d, out_h, out_w, 1].
    """
    along = [
        np.array([np.subtract(*w.taps(i)[::-1]) for i in range(w.out)], dtype) for w in windows
    ]
    return (along[0][:, None, None] * along[1][:, None] * along[2])[None, ..., None]


@reference("AvgPool3D")
def _avg_pool(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute AvgPool3D; padding is left out of the mean.

    input [batch, d, h, w, c] -> the mean of each window.
    """
    check_volume(inputs[0], "tensor_in")
    x = to_ndhwc(node, widened(inputs[0]))
    windows = _pool(node, x)
    bordered = padded(x, windows)
    total = np.zeros((x.shape[0], *(w.out for w in windows), x.shape[4]), x.dtype)
    with np.errstate(all="ignore"):
        if total.size:
            for _, place in taps(windows):
                total += bordered[(slice(None), *place)]
        total /= _counts(windows, x.dtype)
    return (from_ndhwc(node, total.astype(inputs[0].dtype, copy=False)),)


@reference("AvgPool3DGrad")
def _avg_pool_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of AvgPool3D's input.

    orig_input_shape [5], grad -> gradient of the input.
    """
    sizes, grad = inputs
    if sizes.ndim != 1 or len(sizes) != 5:
        invalid("orig_input must be 1-dimensional and 5 elements")
    check_volume(grad, "out_backprop")
    dy = to_ndhwc(node, widened(grad))
    first = attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
    shape = [int(v) for v in sizes]
    if first:
        shape = [shape[0], *shape[2:], shape[1]]
    windows = volume_windows(node, shape[1:4], spatial_attr(node, "ksize"))
    check_outputs(windows, dy)
    total = np.zeros((shape[0], *padded_sizes(windows), shape[4]), dy.dtype)
    if dy.size:
        share = dy / _counts(windows, dy.dtype)
        for _, place in taps(windows):
            total[(slice(None), *place)] += share
    return (
        from_ndhwc(
            node,
            np.ascontiguousarray(without_border(total, windows)).astype(grad.dtype, copy=False),
        ),
    )


def _first_taps(x: np.ndarray, windows: Sequence[Window]) -> np.ndarray:
    """Return the first tap with each window's maximum, [batch, *out, c]."""
    least = lowest_finite(x.dtype)
    bordered = padded(x, windows, least)
    shape = (x.shape[0], *(w.out for w in windows), x.shape[-1])
    best, found = np.full(shape, least, x.dtype), np.full(shape, -1, np.int64)
    for number, (_, place) in enumerate(taps(windows)):
        part = bordered[(slice(None), *place)]
        better = part > best
        np.copyto(best, part, where=better)
        np.copyto(found, number, where=better)
    return found


@reference("MaxPool3DGrad")
def _max_pool_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of the input; ties go to the first value.

    orig_input, orig_output, grad -> gradient of the input.
    """
    for value, what in zip(inputs, ("tensor_in", "tensor_out", "out_backprop")):
        check_volume(value, what)
    x, dy = to_ndhwc(node, inputs[0]), to_ndhwc(node, widened(inputs[2]))
    windows = _pool(node, x)
    check_outputs(windows, dy)
    total = np.zeros((x.shape[0], *padded_sizes(windows), x.shape[4]), dy.dtype)
    if dy.size:
        found = _first_taps(x, windows)
        for number, (_, place) in enumerate(taps(windows)):
            total[(slice(None), *place)] += np.where(found == number, dy, dy.dtype.type(0))
    return (
        from_ndhwc(
            node,
            np.ascontiguousarray(without_border(total, windows)).astype(
                inputs[2].dtype, copy=False
            ),
        ),
    )


@reference("MaxPool3DGradGrad", "MaxPoolGradGrad", "MaxPoolGradGradV2")
def _max_pool_grad_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the input gradient's grad at each window's maximum.

    orig_input, orig_output, grad (of the input's gradient) -> gradient of grad.
    """
    volume = node.op == "MaxPool3DGradGrad"
    if volume:
        x, grad = to_ndhwc(node, inputs[0]), to_ndhwc(node, inputs[2])
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
        return (from_ndhwc(node, out),)
    return (np.ascontiguousarray(out.transpose(0, 3, 1, 2)) if first else out,)


def _windows(node: NodeSpec, x: np.ndarray) -> list[Window]:
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


def _places(node: NodeSpec, x: np.ndarray, windows: list[Window]) -> np.ndarray:
    """Return each input value's number in the flattened image.

    With `include_batch_in_index` in the flattened batch.
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
    """Compute MaxPoolWithArgmax; ties go to the first value.

    input [batch, h, w, c] -> the largest value of each window, and its place in the flattened
    input.
    """
    x = inputs[0]
    windows = _windows(node, x)
    kind = np.dtype(node.attrs["Targmax"].as_numpy_dtype)
    shape = (x.shape[0], *(w.out for w in windows), x.shape[3])
    best, found = np.full(shape, lowest_finite(x.dtype), x.dtype), np.full(shape, -1, np.int64)
    if best.size:
        values, places = (
            padded(x, windows, lowest_finite(x.dtype)),
            padded(_places(node, x, windows), windows, -1),
        )
        for _, place in taps(windows):
            at = (slice(None), *place)
            inside = places[at] >= 0
            better = inside & ((values[at] > best) | (found < 0))
            np.copyto(best, values[at], where=better)
            np.copyto(found, places[at], where=better)
    return best, found.astype(kind)


def _flat_places(node: NodeSpec, x: np.ndarray, argmax: np.ndarray) -> np.ndarray:
    """Return the places of maxima in the flattened batch.

    Raises InvalidArgumentError for one outside of the batch.
    """
    flat = argmax.astype(np.int64)
    if not node.attrs["include_batch_in_index"]:
        size = int(np.prod(x.shape[1:], dtype=np.int64))
        flat = flat + np.arange(len(argmax)).reshape(-1, *[1] * (argmax.ndim - 1)) * size
    outside = (flat < 0) | (flat >= x.size)
    if outside.any():
        invalid(f"Invalid input index: {flat[outside][0]}")
    return flat


@reference("MaxPoolGradWithArgmax")
def _grad_with_argmax(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of the input from the places of maxima.

    input, grad [batch, out_h, out_w, c], argmax -> gradient of the input.
    """
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
    """Return the input gradient's grad at each maximum.

    input, grad of the input's gradient, argmax.
    """
    x, grad, argmax = inputs
    if grad.shape != x.shape:
        invalid(f"Expected grad shape to be {shape_text(x)}, but got {shape_text(grad)}")
    return (grad.ravel()[_flat_places(node, x, argmax)],)
