"""Compute dilations in grayscale and their gradients, in NumPy.

Source: the sum of an image and a structuring function, Serra 1982.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfjit.framework.errors import UnimplementedError
from tfjit.kernels.cpu.conv.window import Window, attr_text, make_window
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.layers.pooling import lowest_finite
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray


class _Dilation(NamedTuple):
    """The windows of a dilation, the largest sums, and where these are.

    best [batch, out_h, out_w, c]; row, column: taps of the kernel, -1 where nothing is above the
    lowest value.
    """

    rows: Window
    columns: Window
    best: Array
    row: Array
    column: Array


def _windows(node: NodeSpec, image: Array, kernel: Array) -> tuple[Window, Window]:
    attrs = {"stride": node.attrs["strides"], "rates": node.attrs["rates"]}
    for name, values in attrs.items():
        if len(values) != 4:
            invalid(f"{name} must have 4 dimensions")
        if values[0] != 1 or values[3] != 1:
            raise UnimplementedError(
                None,
                None,
                "Current implementation does not yet support strides or rates in the "
                "batch and depth dimensions.",
            )
        if min(values) < 1:
            invalid(f"{name} is out of range.")
    if image.ndim != 4:
        invalid(f"input must be 4-dimensional{shape_text(image)}")
    if kernel.ndim != 3:
        invalid(f"filter must be 3-dimensional: {shape_text(kernel)}")
    if image.shape[3] != kernel.shape[2]:
        invalid(f"input and filter must have the same depth: {image.shape[3]} vs {kernel.shape[2]}")
    padding = attr_text(node.attrs, "padding")
    rows, columns = (
        make_window(
            image.shape[axis],
            kernel.shape[axis - 1],
            attrs["stride"][axis],
            attrs["rates"][axis],
            padding,
        )
        for axis in (1, 2)
    )
    return rows, columns


def _reached(window: Window, tap: int) -> tuple[slice, slice]:
    """Return the outputs of a tap inside the image, and its inputs."""
    shift = tap * window.dilation - window.before
    first = max(0, -(shift // window.stride)) if shift < 0 else 0
    last = min(window.out, (window.length - 1 - shift) // window.stride + 1)
    last = max(first, last)
    start = first * window.stride + shift
    return slice(first, last), slice(start, start + (last - first) * window.stride, window.stride)


def _dilate(node: NodeSpec, image: Array, kernel: Array) -> _Dilation:
    rows, columns = _windows(node, image, kernel)
    shape = (image.shape[0], rows.out, columns.out, image.shape[3])
    check_fits_in_memory(shape, image.dtype, 4)
    best = np.full(shape, lowest_finite(image.dtype), image.dtype)
    row, column = np.full(shape, -1), np.full(shape, -1)
    for place in np.ndindex(*kernel.shape[:2]):
        (out_rows, in_rows), (out_columns, in_columns) = (
            _reached(window, tap) for window, tap in zip((rows, columns), place)
        )
        at = (slice(None), out_rows, out_columns)
        sums = image[:, in_rows, in_columns] + kernel[place]
        higher = sums > best[at]
        best[at] = np.where(higher, sums, best[at])
        row[at][higher], column[at][higher] = place
    return _Dilation(rows, columns, best, row, column)


@reference("Dilation2D")
def _dilation(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the largest sum of image and kernel in each window.

    input [batch, h, w, c], filter [k_h, k_w, c] -> [batch, out_h, out_w, c].
    """
    with np.errstate(all="ignore"):
        return (_dilate(node, *inputs).best,)


def _upstream(found: _Dilation, gradient: Array) -> tuple[Array, ...]:
    """Return the index of each output, (batch, row, column, channel).

    Raises InvalidArgumentError for a gradient of another shape.
    """
    if gradient.shape != found.best.shape:
        invalid("out_backprop has incompatible size.")
    return tuple(np.indices(gradient.shape))


@reference("Dilation2DBackpropInput")
def _input_gradient(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Add each output's gradient to the input of its sum.

    The first of equal sums counts.
    """
    image, kernel, gradient = inputs
    with np.errstate(all="ignore"):
        found = _dilate(node, image, kernel)
        batch, row, column, channel = _upstream(found, gradient)
        # without a sum, the first place of the window that is inside
        places = [
            np.where(
                taps >= 0,
                at * window.stride - window.before + taps * window.dilation,
                np.maximum(at * window.stride - window.before, 0),
            )
            for taps, at, window in (
                (found.row, row, found.rows),
                (found.column, column, found.columns),
            )
        ]
        out = np.zeros_like(image)
        np.add.at(out, (batch, *places, channel), gradient)
    return (out,)


@reference("Dilation2DBackpropFilter")
def _filter_gradient(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Add each output's gradient to the tap of its sum.

    The first of equal sums counts.
    """
    image, kernel, gradient = inputs
    with np.errstate(all="ignore"):
        found = _dilate(node, image, kernel)
        channel = _upstream(found, gradient)[3]
        out = np.zeros_like(kernel)
        taps = (np.maximum(found.row, 0), np.maximum(found.column, 0), channel)
        np.add.at(out, taps, gradient)
    return (out,)
