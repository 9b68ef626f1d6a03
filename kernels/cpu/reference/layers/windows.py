"""Lay out windows of images and volumes in NumPy: layouts, borders, taps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.kernels.cpu.conv.window import Layout, Window, attr_text, make_window
from tfjit.kernels.cpu.reference.inputs import compute_dtype, invalid, shape_text
from tfjit.kernels.registry import NodeSpec


def to_nhwc(layout: Layout, value: np.ndarray) -> np.ndarray:
    """View images with channels last, whatever the layout."""
    return value if layout.channels_last else value.transpose(0, 2, 3, 1)


def from_nhwc(layout: Layout, value: np.ndarray) -> np.ndarray:
    """Return images in the layout of the node."""
    return value if layout.channels_last else np.ascontiguousarray(value.transpose(0, 3, 1, 2))


def pad_image(x: np.ndarray, rows: Window, cols: Window, value: Any = 0) -> np.ndarray:
    """Pad x [b, h, w, c] with the border of its windows.

    Parts beyond the last window are cut off.
    """
    after = [w.padded - w.before - w.length for w in (rows, cols)]
    x = x[:, : x.shape[1] + min(0, after[0]), : x.shape[2] + min(0, after[1])]
    pads = ((0, 0), (rows.before, max(0, after[0])), (cols.before, max(0, after[1])), (0, 0))
    return np.pad(x, pads, constant_values=value) if any(p != (0, 0) for p in pads) else x


def tap_view(padded: np.ndarray, rows: Window, cols: Window, kh: int, kw: int) -> np.ndarray:
    """View the inputs of tap (kh, kw) of every window.

    Shape [b, out_h, out_w, c].
    """
    top, left = kh * rows.dilation, kw * cols.dilation
    return padded[
        :,
        top : top + (rows.out - 1) * rows.stride + 1 : rows.stride,
        left : left + (cols.out - 1) * cols.stride + 1 : cols.stride,
    ]


def nhwc_shape(layout: Layout, sizes: np.ndarray) -> tuple[int, ...]:
    """Return the shape with channels last of sizes in the layout."""
    b, p, q, r = (int(v) for v in sizes)
    return (b, p, q, r) if layout.channels_last else (b, q, r, p)


def widened(value: np.ndarray) -> np.ndarray:
    """Return the array in the type that sums are kept in."""
    return value.astype(compute_dtype(value.dtype), copy=False)


def to_ndhwc(node: NodeSpec, value: np.ndarray) -> np.ndarray:
    """View volumes as [batch, d, h, w, c], whatever the layout."""
    return (
        value.transpose(0, 2, 3, 4, 1)
        if attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
        else value
    )


def from_ndhwc(node: NodeSpec, value: np.ndarray) -> np.ndarray:
    """Return volumes in the layout of the node."""
    first = attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW"
    return np.ascontiguousarray(value.transpose(0, 4, 1, 2, 3)) if first else value


def spatial_attr(node: NodeSpec, name: str) -> list[int]:
    """Return an attr of five numbers without those of batch and channels."""
    values = list(node.attrs.get(name) or (1,) * 5)
    return values[2:] if attr_text(node.attrs, "data_format", "NDHWC") == "NCDHW" else values[1:4]


def volume_windows(node: NodeSpec, spatial: Sequence[int], sizes: Sequence[int]) -> list[Window]:
    """Return the windows along depth, height and width."""
    padding = attr_text(node.attrs, "padding")
    steps = zip(spatial, sizes, spatial_attr(node, "strides"), spatial_attr(node, "dilations"))
    return [
        make_window(int(length), int(size), stride, dilation, padding)
        for length, size, stride, dilation in steps
    ]


def check_volume(value: np.ndarray, what: str) -> None:
    """Raise InvalidArgumentError unless the array has five axes."""
    if value.ndim != 5:
        invalid(f"{what} must be 5-dimensional")


def padded_sizes(windows: Sequence[Window]) -> list[int]:
    """Return the sizes of the padded input."""
    return [max(w.padded, w.before + w.length) for w in windows]


def without_border(value: np.ndarray, windows: Sequence[Window]) -> np.ndarray:
    """Return a padded array without its border."""
    return value[(slice(None), *(slice(w.before, w.before + w.length) for w in windows))]


def check_outputs(windows: Sequence[Window], dy: np.ndarray) -> None:
    """Raise InvalidArgumentError where the gradient does not fit the windows."""
    if dy.shape[1:4] != tuple(w.out for w in windows):
        invalid(
            f"Conv3D: Size of out_backprop doesn't match computed: actual = {shape_text(dy)}, "
            f"computed = {[w.out for w in windows]}"
        )
