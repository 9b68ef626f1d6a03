"""Crop and project images in NumPy.

Crops of boxes with their gradients, glimpses, and projective transforms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tfjit.kernels.cpu.reference.images.resize import round_away
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.rows import update_rows
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray
f32 = np.float32


class _Axis(NamedTuple):
    """Hold the positions that crops [n, out] read along one axis.

    Each position has two neighbours and the fraction of the way from the first.
    """

    lower: Array
    upper: Array
    fraction: Array
    inside: Array
    nearest: Array


def _axis(start: Array, end: Array, size: int, out: int) -> _Axis:
    """Return the positions along one axis.

    start, end [n]: of the boxes, in 0..1 of the image.
    """
    if out > 1:
        scale = (end - start) * f32(size - 1) / f32(out - 1)
        place = start[:, None] * f32(size - 1) + np.arange(out, dtype=f32) * scale[:, None]
    else:
        place = (f32(0.5) * (start + end) * f32(size - 1))[:, None]
    inside = (place >= 0) & (place <= size - 1)
    place = np.where(inside, place, f32(0))
    lower = np.floor(place)
    return _Axis(
        lower.astype(np.int64),
        np.ceil(place).astype(np.int64),
        place - lower,
        inside,
        round_away(place).astype(np.int64),
    )


def _boxes(boxes: Array, index: Array) -> int:
    """Return the number of boxes.

    Raises InvalidArgumentError for arrays that are not boxes.
    """
    if not boxes.size and not index.size:
        return 0
    if boxes.ndim != 2:
        invalid(f"boxes must be 2-D{shape_text(boxes)}")
    if boxes.shape[1] != 4:
        invalid("boxes must have 4 columns")
    if index.ndim != 1:
        invalid(f"box_index must be 1-D{shape_text(index)}")
    if len(index) != len(boxes):
        invalid("box_index has incompatible shape")
    return len(boxes)


def _check_index(index: Array, batch: int) -> None:
    if ((index < 0) | (index >= batch)).any():
        invalid("box_index has values outside [0, batch_size)")


def _axes(
    boxes: Array, image_size: tuple[int, int], crop_size: tuple[int, int]
) -> tuple[_Axis, _Axis]:
    boxes = boxes.reshape(-1, 4)
    return (
        _axis(boxes[:, 0], boxes[:, 2], image_size[0], crop_size[0]),
        _axis(boxes[:, 1], boxes[:, 3], image_size[1], crop_size[1]),
    )


def _across(values: Array) -> Array:
    """Shape [n, width] to broadcast against [n, height, width, channels]."""
    return values[:, None, :, None]


def _down(values: Array) -> Array:
    """Shape [n, height] to broadcast against [n, height, width, channels]."""
    return values[:, :, None, None]


@reference("CropAndResize")
def _crop_and_resize(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute CropAndResize.

    image [batch, h, w, c], boxes [n, 4] (y1, x1, y2, x2 in 0..1), box_ind [n], crop_size [2] ->
    float32 [n, crop_h, crop_w, c].
    """
    image, boxes, index, size = inputs
    if image.ndim != 4:
        invalid(f"input image must be 4-D{shape_text(image)}")
    batch, height, width, channels = image.shape
    if height <= 0 or width <= 0:
        invalid("image dimensions must be positive")
    if boxes.ndim != 2:
        invalid(f"boxes must be 2-D, got: {shape_text(boxes)}")
    if not np.isfinite(boxes).all():
        invalid("Boxes contains at least one element that is not finite")
    if index.ndim != 1:
        invalid(f"box_indices must be rank 1 but is shape {shape_text(index)}")
    count = _boxes(boxes, index)
    if size.ndim != 1:
        invalid(f"crop_size must be 1-D{shape_text(size)}")
    if len(size) != 2:
        invalid(f"crop_size must have two elements{shape_text(size)}")
    crop = int(size[0]), int(size[1])
    if crop[0] <= 0 or crop[1] <= 0:
        invalid("crop dimensions must be positive")
    check_fits_in_memory((count, *crop, channels), f32)
    _check_index(index, batch)
    rows, cols = _axes(boxes, (height, width), crop)
    which = index.reshape(-1)[:, None, None]
    if node.attrs["method"] == b"nearest":
        out = image[which, rows.nearest[:, :, None], cols.nearest[:, None]].astype(f32)
    else:
        out = _interpolated(image, which, rows, cols)
    outside = ~(rows.inside[:, :, None] & cols.inside[:, None])
    if outside.any():
        out[outside] = node.attrs["extrapolation_value"]
    return (out,)


def _corner(image: Array, which: Array, y: Array, x: Array) -> Array:
    return image[which, y[:, :, None], x[:, None]].astype(f32)


def _interpolated(image: Array, which: Array, rows: _Axis, cols: _Axis) -> Array:
    corners = [
        [_corner(image, which, y, x) for x in (cols.lower, cols.upper)]
        for y in (rows.lower, rows.upper)
    ]
    top, bottom = (left + (right - left) * _across(cols.fraction) for left, right in corners)
    return top + (bottom - top) * _down(rows.fraction)


def _check_grads(grads: Array, count: int) -> tuple[int, int]:
    """Return (height, width) of the crops."""
    if grads.shape[1] <= 0 or grads.shape[2] <= 0:
        invalid("grads dimensions must be positive")
    if grads.shape[0] != count:
        invalid("boxes and grads have incompatible shape")
    return grads.shape[1], grads.shape[2]


@reference("CropAndResizeGradImage")
def _crop_grad_image(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of CropAndResize's image.

    grads [n, crop_h, crop_w, c], boxes [n, 4], box_ind [n], image_size [4] -> gradient of the
    image.
    """
    grads, boxes, index, size = inputs
    if grads.ndim != 4:
        invalid(f"grads image must be 4-D{shape_text(grads)}")
    if grads.shape[1] <= 0 or grads.shape[2] <= 0:
        invalid("grads dimensions must be positive")
    crop = _check_grads(grads, _boxes(boxes, index))
    if size.ndim != 1:
        invalid(f"image_size must be 1-D{shape_text(size)}")
    if len(size) != 4:
        invalid(f"image_size must have 4 elements{shape_text(size)}")
    batch, height, width, channels = (int(v) for v in size)
    if height <= 0 or width <= 0:
        invalid("image dimensions must be positive")
    if channels != grads.shape[3]:
        invalid("image_size and grads are incompatible")
    dtype = np.dtype(node.attrs["T"].as_numpy_dtype)
    check_fits_in_memory((batch, height, width, channels), dtype)
    _check_index(index, batch)
    rows, cols = _axes(boxes, (height, width), crop)
    total = np.zeros((batch * height * width, channels), np.float64 if dtype == np.float64 else f32)
    grads = np.where(_down(rows.inside) & _across(cols.inside), grads, f32(0))
    first = index.reshape(-1)[:, None, None] * (height * width)

    def add(y: Array, x: Array, values: Array) -> None:
        place = (first + y[:, :, None] * width + x[:, None]).ravel()
        update_rows(np.add, total, place, values.reshape(len(place), channels))

    if node.attrs["method"] == b"nearest":
        add(rows.nearest, cols.nearest, grads)
    else:
        for y, down in ((rows.lower, 1 - rows.fraction), (rows.upper, rows.fraction)):
            for x, across in ((cols.lower, 1 - cols.fraction), (cols.upper, cols.fraction)):
                add(y, x, grads * _down(down) * _across(across))
    return (total.reshape(batch, height, width, channels).astype(dtype, copy=False),)


@reference("CropAndResizeGradBoxes")
def _crop_grad_boxes(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of CropAndResize's boxes.

    grads [n, crop_h, crop_w, c], image [batch, h, w, c], boxes [n, 4], box_ind [n] -> gradient of
    the boxes [n, 4].
    """
    grads, image, boxes, index = inputs
    if grads.ndim != 4:
        invalid(f"grads image must be 4-D{shape_text(grads)}")
    if grads.shape[1] <= 0 or grads.shape[2] <= 0:
        invalid("grads dimensions must be positive")
    if image.ndim != 4:
        invalid(f"input image must be 4-D{shape_text(image)}")
    batch, height, width, depth = image.shape
    if height <= 0 or width <= 0:
        invalid("image dimensions must be positive")
    if depth != grads.shape[3]:
        invalid("image, grads depth differ")
    crop = _check_grads(grads, _boxes(boxes, index))
    _check_index(index, batch)
    rows, cols = _axes(boxes, (height, width), crop)
    which = index.reshape(-1)[:, None, None]
    ((top_left, top_right), (bottom_left, bottom_right)) = (
        [_corner(image, which, y, x) for x in (cols.lower, cols.upper)]
        for y in (rows.lower, rows.upper)
    )
    across, down = _across(cols.fraction), _down(rows.fraction)
    by_y = (1 - across) * (bottom_left - top_left) + across * (bottom_right - top_right)
    by_x = (1 - down) * (top_right - top_left) + down * (bottom_right - bottom_left)
    grads = np.where(_down(rows.inside) & _across(cols.inside), grads, f32(0))
    out = np.zeros((len(grads), 4), f32)
    for i, (part, axis, size) in enumerate(((by_y, 1, height), (by_x, 2, width))):
        along = (part * grads).sum((3 - axis, 3))  # [n, crop size of the axis]
        share = (
            np.arange(crop[i], dtype=f32) / f32(crop[i] - 1)
            if crop[i] > 1
            else np.full(1, 0.5, f32)
        )
        out[:, i] = (along * (f32(size - 1) * (1 - share))).sum(1)
        out[:, 2 + i] = (along * (f32(size - 1) * share)).sum(1)
    return (out,)


def _folded(place: Array, size: int, mode: bytes) -> Array:
    """Bring coordinates outside of 0..size-1 in as `mode` says.

    CONSTANT leaves them.
    """
    length = f32(size)
    if mode == b"CONSTANT":
        return place
    if mode == b"NEAREST":
        return np.clip(place, f32(0), length - 1)
    if size <= 1:
        folded = np.zeros_like(place)
    elif mode == b"REFLECT":
        twice = 2 * length
        low = np.where(place < -twice, twice * np.trunc(-place / twice) + place, place)
        low = np.where(low < -length, low + twice, -low - 1)
        high = place - twice * np.trunc(place / twice)
        high = np.where(high >= length, twice - high - 1, high)
        folded = np.where(place < 0, low, np.where(place > length - 1, high, place))
    else:
        last = length - 1
        low = place + length * (np.trunc(-place / last) + 1)
        high = place - length * np.trunc(place / last)
        folded = np.where(place < 0, low, np.where(place > last, high, place))
    return np.clip(folded, f32(0), length - 1)


def _read(images: Array, y: Array, x: Array, fill: Any) -> Array:
    """Read images [batch, h, w, c] at y, x [batch, out_h, out_w].

    Coordinates are whole numbers; pixels outside of the images are `fill`.
    """
    _, height, width, _ = images.shape
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    rows, columns = np.where(inside, y, 0).astype(np.int64), np.where(inside, x, 0).astype(np.int64)
    found = images[np.arange(len(images))[:, None, None], rows, columns]
    return np.where(inside[..., None], found, np.asarray(fill).astype(images.dtype))


@reference("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _project(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute ImageProjectiveTransform.

    images [batch, h, w, c], transforms [batch or 1, 8], output_shape [2], V3: fill_value [] ->
    [batch, out_h, out_w, c].

    Output pixel (x, y) is the image at ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k), k = c0 x +
    c1 y + 1.
    """
    images, transforms, size = inputs[:3]
    if images.ndim != 4:
        invalid("Input images must have rank 4")
    if (
        transforms.ndim != 2
        or (transforms.shape[0] not in (1, images.shape[0]))
        or transforms.shape[1] != 8
    ):
        invalid("Input transform should be num_images x 8 or 1 x 8")
    if size.ndim != 1:
        invalid(f"output shape must be 1-dimensional{shape_text(size)}")
    if len(size) != 2:
        invalid(f"output shape must have two elements{shape_text(size)}")
    height, width = (int(v) for v in size)
    if height <= 0 or width <= 0:
        invalid("output dimensions must be positive")
    fill = inputs[3][()] if len(inputs) > 3 else f32(0)
    if len(inputs) > 3 and inputs[3].ndim:
        invalid(f"fill_value must be a scalar{shape_text(inputs[3])}")
    check_fits_in_memory((images.shape[0], height, width, images.shape[3]), images.dtype)
    mode = node.attrs["fill_mode"].upper()
    a0, a1, a2, b0, b1, b2, c0, c1 = (transforms[:, i, None, None] for i in range(8))
    x, y = np.arange(width, dtype=f32), np.arange(height, dtype=f32)[:, None]
    with np.errstate(all="ignore"):
        depth = c0 * x + c1 * y + f32(1)
        shape = (images.shape[0], height, width)
        across = np.broadcast_to(
            _folded((a0 * x + a1 * y + a2) / depth, images.shape[2], mode), shape
        )
        down = np.broadcast_to(
            _folded((b0 * x + b1 * y + b2) / depth, images.shape[1], mode), shape
        )
        if node.attrs["interpolation"].upper() == b"NEAREST":
            out = _read(images, round_away(down), round_away(across), fill)
        else:
            out = _bilinear(images, down, across, fill)
        flat = np.broadcast_to(depth == 0, shape)
        if flat.any():
            out[flat] = np.asarray(fill).astype(images.dtype)
    return (out,)


def _bilinear(images: Array, down: Array, across: Array, fill: Any) -> Array:
    top, left = np.floor(down), np.floor(across)
    kind = f32 if images.dtype.itemsize <= 4 else np.float64
    if images.dtype.kind in "iu":
        kind = f32
    rows = []
    for y in (top, top + 1):
        near, far = (_read(images, y, x, fill).astype(kind) for x in (left, left + 1))
        rows.append((left + 1 - across)[..., None] * near + (across - left)[..., None] * far)
    mixed = (top + 1 - down)[..., None] * rows[0] + (down - top)[..., None] * rows[1]
    return mixed.astype(images.dtype)


@reference("ExtractGlimpse", "ExtractGlimpseV2")
def _glimpse(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute ExtractGlimpse; pixels outside of the image are noise.

    input [batch, h, w, c], size [2], offsets [batch, 2] (y, x) -> [batch, glimpse_h, glimpse_w, c].
    """
    images, size, offsets = inputs
    noise = node.attrs["noise"]
    if noise not in (b"uniform", b"gaussian", b"zero"):
        invalid(f"The noise could only be uniform, gaussian, or zero, got{noise.decode()}")
    if images.ndim != 4:
        invalid(
            f"input must be 4-dimensional (batch_size, height, width, depth){shape_text(images)}"
        )
    if size.ndim != 1 or len(size) != 2:
        what = (
            f"must be a vector of size 2 (height, width){shape_text(size)}"
            if size.ndim == 1
            else f"must be 1-D{shape_text(size)}"
        )
        invalid(f"input {what}")
    if offsets.ndim != 2:
        invalid(f"input must be a matrix{shape_text(offsets)}")
    batch, height, width, channels = images.shape
    if len(offsets) != batch:
        invalid(f"first dimension should be batch{shape_text(offsets)}")
    if offsets.shape[1] != 2:
        invalid(f"second dimension should be of size 2 (y,x){shape_text(offsets)}")
    out_height, out_width = (int(v) for v in size)
    for length in (out_height, out_width):
        if length < 0:
            invalid(f"Expected a non-negative size, got {length}")
    check_fits_in_memory((batch, out_height, out_width, channels), f32)
    y = _starts(node, offsets[:, 0], height, out_height) + np.arange(out_height)
    x = _starts(node, offsets[:, 1], width, out_width) + np.arange(out_width)
    inside = (((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None])[..., None]
    if not inside.size or not images.size:
        return (np.zeros((batch, out_height, out_width, channels), f32),)
    rows, columns = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
    found = images[np.arange(batch)[:, None, None], rows[:, :, None], columns[:, None]]
    return (
        np.where(inside, found, f32(0) if inside.all() else _noise(noise, images, found.shape)),
    )


def _starts(node: NodeSpec, offset: Array, size: int, out: int) -> Array:
    """Return the first position of each glimpse along one axis, [batch, 1].

    V1 always counts from the middle of the glimpse.
    """
    centered, normalized = node.attrs["centered"], node.attrs["normalized"]
    place = offset * f32(size) if normalized else offset
    if centered:
        place = (place / 2 if normalized or node.op == "ExtractGlimpse" else place) + f32(size / 2)
    if node.op == "ExtractGlimpse" or (centered and normalized):
        place = place - f32(out / 2)
    with np.errstate(invalid="ignore"):
        return np.trunc(place).astype(np.int64)[:, None]


def _noise(kind: bytes, images: Array, shape: tuple[int, ...]) -> Any:
    """Return random values distributed like the images' own.

    Values lie between the images' least and greatest, or have their mean and deviation.
    """
    if kind == b"zero":
        return f32(0)
    random = np.random.default_rng()
    if kind == b"uniform":
        low, high = images.min(), images.max()
        return (low + random.random(shape, f32) * (high - low)).astype(f32)
    return (images.mean() + random.standard_normal(shape, f32) * images.std()).astype(f32)
