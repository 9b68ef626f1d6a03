"""Resize images in NumPy, with the gradients of resizing.

Methods: bilinear, nearest neighbour, bicubic and by area. Rows and columns are resampled one axis
after the other, each output a weighted sum of a few inputs. All coordinates are float32, as
TensorFlow's are, so that a pixel on a border falls to the same side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.quantized_values import integer, levels, quantized, scalar
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

f32 = np.float32
Array = np.ndarray


class Taps(NamedTuple):
    """Hold each output position's inputs along one axis.

    place and weight [taps, out]; `used` is False where a tap does not count.
    """

    place: Array
    weight: Array
    used: Array


def resample(images: Array, axis: int, taps: Taps) -> Array:
    """Return the weighted sums along one axis.

    They are added up in the order of the taps. A tap that is not used adds nothing, NaN or not.
    """
    shape = [1] * images.ndim
    shape[axis] = -1
    total: Array | None = None
    for index, weight, used in zip(*taps):
        part = images.take(index, axis) * weight.reshape(shape)
        if not used.all():
            part[~np.broadcast_to(used.reshape(shape), part.shape)] = 0
        total = part if total is None else total + part
    assert total is not None
    return total


def sum_by_index(values: Array, axis: int, index: Array, size: int) -> Array:
    """Sum slices along an axis by target: out[index[i]] += values[i].

    `index` never falls. Other positions are 0.
    """
    moved = np.moveaxis(values, axis, 0)
    out = np.zeros((size, *moved.shape[1:]), values.dtype)
    if len(index):
        starts = np.flatnonzero(np.r_[True, index[1:] != index[:-1]])
        out[index[starts]] = np.add.reduceat(moved, starts, axis=0)
    return np.moveaxis(out, 0, axis)


def spread(grads: Array, axis: int, taps: Taps, size: int) -> Array:
    """Return the gradient of `resample`.

    Each output's gradient is added, by weight, to the inputs that the output read.
    """
    shape = [1] * grads.ndim
    shape[axis] = -1
    total: Array | None = None
    for index, weight, used in zip(*taps):
        if not used.any():
            continue
        part = grads.compress(used, axis) * weight[used].reshape(shape)
        summed = sum_by_index(part, axis, index[used], size)
        total = summed if total is None else total + summed
    if total is None:
        return np.zeros((*grads.shape[:axis], size, *grads.shape[axis + 1 :]), grads.dtype)
    return total


def _spread_both(grads: Array, original: Array, taps: Sequence[Taps]) -> Array:
    """Return the gradient of resampling rows, then columns.

    The gradient has the original's dtype. In float64 TensorFlow adds up products that it rounds to
    float32, so each pair of taps is one.
    """
    sizes = original.shape[1:3]
    if original.dtype != np.float64:
        total = grads.astype(f32, copy=False)
        for axis, tap, size in zip((1, 2), taps, sizes):
            total = spread(total, axis, tap, size)
        return total.astype(original.dtype, copy=False)
    rows, columns = taps
    total = np.zeros((grads.shape[0], *sizes, grads.shape[3]))
    for down, weight, _ in zip(*rows):
        weighted = grads * weight[:, None, None]
        for across, other, _ in zip(*columns):
            products = (weighted * other[:, None]).astype(np.float64)
            total += sum_by_index(sum_by_index(products, 2, across, sizes[1]), 1, down, sizes[0])
    return total


def _scale(size: int, out: int, align_corners: bool) -> Any:
    """Return input positions per output position."""
    return f32(size - 1) / f32(out - 1) if align_corners and out > 1 else f32(size) / f32(out)


def _positions(node: NodeSpec, size: int, out: int) -> Array:
    """Return the input coordinate of each output position, float32 [out]."""
    scale = _scale(size, out, bool(node.attrs.get("align_corners")))
    places = np.arange(out, dtype=f32)
    return (
        (places + f32(0.5)) * scale - f32(0.5)
        if node.attrs.get("half_pixel_centers")
        else places * scale
    )


def _check_corners(node: NodeSpec) -> None:
    if node.attrs.get("half_pixel_centers") and node.attrs.get("align_corners"):
        invalid("If half_pixel_centers is True, align_corners must be False.")


def check_size(size: Array, name: str = "shape_t") -> None:
    """Raise InvalidArgumentError unless `size` is a vector of two."""
    if size.ndim != 1:
        invalid(f"{name} must be 1-dimensional{shape_text(size)}")
    if len(size) != 2:
        invalid(f"{name} must have two elements{shape_text(size)}")


def sized(node: NodeSpec, images: Array, size: Array, name: str = "shape_t") -> tuple[int, int]:
    """Return (height, width) of the output.

    Raises InvalidArgumentError for impossible sizes, images or attrs.
    """
    _check_corners(node)
    return output_size(images, size, name)


def output_size(images: Array, size: Array, name: str = "shape_t") -> tuple[int, int]:
    """Return (height, width) of the output as `sized`, for any attrs."""
    if images.ndim != 4:
        invalid(f"input must be 4-dimensional{shape_text(images)}")
    check_size(size, name)
    height, width = (int(v) for v in size)
    if height <= 0 or width <= 0:
        invalid("output dimensions must be positive")
    batch, in_height, in_width, channels = images.shape
    if channels <= 0:
        invalid("image must have at least one channel")
    if in_height <= 0 or in_width <= 0:
        invalid("input image must be of non-zero size")
    check_fits_in_memory((batch, height, width, channels), f32)
    return height, width


def _original(node: NodeSpec, grads: Array, original: Array) -> tuple[int, int]:
    """Return (height, width) of the gradient of the images."""
    _check_corners(node)
    for value, name in ((grads, "input_grad"), (original, "original_image")):
        if value.ndim != 4:
            invalid(f"{name} must be 4-dimensional{shape_text(value)}")
    for value, name in ((original, "original"), (grads, "resized")):
        if value.shape[1] <= 0 or value.shape[2] <= 0:
            invalid(f"{name} dimensions must be positive")
    return original.shape[1], original.shape[2]


def _wide(grads: Array, out: np.dtype[Any]) -> Array:
    return grads.astype(np.float64 if out == np.float64 else f32, copy=False)


class LinearPlaces(NamedTuple):
    """Hold each output's two inputs along one axis.

    fraction: the way from the lower to the upper. lower and upper never fall.
    """

    lower: Array
    upper: Array
    fraction: Array


def linear_places(node: NodeSpec, size: int, out: int) -> LinearPlaces:
    """Return the inputs that bilinear resizing reads along one axis, [out] each."""
    place = _positions(node, size, out)
    floor = np.floor(place)
    lower = np.maximum(floor, 0).astype(np.int64)
    upper = np.minimum(np.ceil(place).astype(np.int64), size - 1)
    return LinearPlaces(np.minimum(lower, size - 1), np.maximum(upper, 0), place - floor)


def linear_taps(node: NodeSpec, size: int, out: int) -> Taps:
    """Return the inputs of bilinear resizing along one axis with their weights."""
    lower, upper, fraction = linear_places(node, size, out)
    all_used = np.ones((2, len(lower)), bool)
    return Taps(np.stack([lower, upper]), np.stack([1 - fraction, fraction]), all_used)


def bilinear(node: NodeSpec, images: Array, height: int, width: int) -> Array:
    """Resize images [batch, h, w, c] to float32 [batch, height, width, c]."""
    if images.shape[1:3] == (height, width):
        return images.astype(f32)
    rows, cols = (
        linear_places(node, images.shape[1], height),
        linear_places(node, images.shape[2], width),
    )
    read, place = np.unique(np.concatenate([rows.lower, rows.upper]), return_inverse=True)
    wide = images.take(read, 1).astype(f32)
    left = wide.take(cols.lower, 2)
    across = left + (wide.take(cols.upper, 2) - left) * cols.fraction[:, None]
    top = across.take(place[:height], 1)
    return top + (across.take(place[height:], 1) - top) * rows.fraction[:, None, None]


@reference("ResizeBilinear")
def _resize_bilinear(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Resize images bilinearly.

    images [batch, h, w, c], size [2] (height, width) -> float32 [batch, height, width, c].
    """
    images, size = inputs
    return (bilinear(node, images, *sized(node, images, size)),)


@reference("QuantizedResizeBilinear")
def _resize_quantized(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Resize quantised or float images bilinearly.

    images [batch, h, w, c], size [2], min, max -> [batch, height, width, c], and the range.
    """
    images, size = inputs[:2]
    low, high = scalar(inputs[2], "min"), scalar(inputs[3], "max")
    height, width = output_size(images, size)
    if images.dtype == f32:
        out = bilinear(node, images, height, width)
    else:
        rows = linear_places(node, images.shape[1], height)
        cols = linear_places(node, images.shape[2], width)
        whole = levels(images)
        corners = [whole.take(at, 1).astype(np.int64) for at in (rows.lower, rows.upper)]
        ends = [(at.take(cols.lower, 2), at.take(cols.upper, 2)) for at in corners]
        across, down = cols.fraction[:, None], rows.fraction[:, None, None]
        if integer(images.dtype).bits == 8:
            out = quantized(_lerp_in_7_bits(ends, across, down), images.dtype)
        else:
            top, bottom = (a + (b - a) * across.astype(np.float64) for a, b in ends)
            between = (top + (bottom - top) * down).astype(f32)
            limits = integer(images.dtype)
            moved = np.clip(between.astype(np.float64), limits.min, limits.max)
            out = quantized(moved, images.dtype)
    return out, np.asarray(low), np.asarray(high)


def _lerp_in_7_bits(ends: list[tuple[Array, Array]], across: Array, down: Array) -> Array:
    """Interpolate whole numbers by weights of 7 bits.

    TensorFlow does so for images of 8 bits.

    ends: (left, right) above and below.
    """
    x, y = (np.floor(weight * 128).astype(np.int64) for weight in (across, down))
    top, bottom = ((left << 7) + (right - left) * x for left, right in ends)
    step = np.trunc((bottom - top) / 128).astype(np.int64)
    return (top + step * y + 64) >> 7


@reference("ResizeBilinearGrad")
def _resize_bilinear_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of bilinear resizing.

    grads [batch, height, width, c], original_image [batch, h, w, c] -> gradient of the images.
    """
    grads, original = inputs
    taps = [
        linear_taps(node, size, grads.shape[axis])
        for axis, size in zip((1, 2), _original(node, grads, original))
    ]
    return (_spread_both(grads, original, taps),)


def round_away(values: Array) -> Array:
    """Return the nearest whole numbers; halves go away from zero."""
    whole = np.trunc(values)
    return np.where(np.abs(values - whole) >= 0.5, whole + np.sign(values), whole)


def nearest_places(node: NodeSpec, size: int, out: int) -> Array:
    """Return the input position of each output position."""
    scale = _scale(size, out, bool(node.attrs["align_corners"]))
    half = bool(node.attrs["half_pixel_centers"])
    place = (np.arange(out, dtype=f32) + f32(0.5 if half else 0)) * scale
    rounded = round_away(place) if node.attrs["align_corners"] else np.floor(place)
    return np.clip(rounded.astype(np.int64), 0, size - 1)


@reference("ResizeNearestNeighbor")
def _resize_nearest(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Resize images by nearest neighbour.

    images [batch, h, w, c], size [2] (height, width) -> [batch, height, width, c] of the same
    dtype.
    """
    images, size = inputs
    height, width = sized(node, images, size)
    return (
        images.take(nearest_places(node, images.shape[1], height), 1).take(
            nearest_places(node, images.shape[2], width), 2
        ),
    )


@reference("ResizeNearestNeighborGrad")
def _resize_nearest_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of nearest neighbour resizing.

    grads [batch, height, width, c], size [2] of the images -> gradient of the images.
    """
    grads, size = inputs
    if grads.ndim != 4:
        invalid(f"input must be 4-dimensional{shape_text(grads)}")
    check_size(size)
    if (size <= 0).any():
        invalid("shape_t's elements must be positive")
    check_fits_in_memory((grads.shape[0], int(size[0]), int(size[1]), grads.shape[3]), f32)
    total = grads if grads.dtype.kind in "iu" else _wide(grads, grads.dtype)
    for axis in (1, 2):
        total = sum_by_index(
            total,
            axis,
            nearest_places(node, int(size[axis - 1]), grads.shape[axis]),
            int(size[axis - 1]),
        )
    return (total.astype(grads.dtype, copy=False),)


_STEPS = 1024  # the bicubic kernel is read from a table with this many fractions


def _kernel(sharpness: float) -> tuple[Array, Array]:
    """Return Keys' cubic kernel at distances 0..1 and 1..2.

    The steps are 1/1024; values are rounded to float32 once, as in TensorFlow.

    Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """
    a = sharpness
    near = np.arange(_STEPS + 1) / _STEPS
    far = near + 1
    return (
        (((a + 2) * near - (a + 3)) * near * near + 1).astype(f32),
        (((a * far - 5 * a) * far + 8 * a) * far - 4 * a).astype(f32),
    )


def cubic_taps(node: NodeSpec, size: int, out: int) -> Taps:
    """Return the inputs of bicubic resizing along one axis with their weights."""
    keys = bool(node.attrs["half_pixel_centers"])
    near, far = _kernel(-0.5 if keys else -0.75)
    place = _positions(node, size, out)
    floor = np.floor(place)
    step = np.rint((place - floor) * f32(_STEPS)).astype(np.int64)
    weight = np.stack([far[step], near[step], near[_STEPS - step], far[_STEPS - step]])
    unbound = floor.astype(np.int64) + np.arange(-1, 3)[:, None]
    index = np.clip(unbound, 0, size - 1)
    if not keys:
        return Taps(index, weight, np.ones(index.shape, bool))
    # Positions outside of the image do not count, and the other weights grow to a sum of 1.
    weight[index != unbound] = 0
    total = ((weight[0] + weight[1]) + weight[2]) + weight[3]
    normal = np.abs(total) >= f32(1000) * np.finfo(f32).tiny
    weight = np.where(normal, weight * (f32(1) / np.where(normal, total, f32(1))), weight)
    return Taps(index, weight, np.ones(index.shape, bool))


@reference("ResizeBicubic")
def _resize_bicubic(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Resize images bicubically.

    images [batch, h, w, c], size [2] (height, width) -> float32 [batch, height, width, c].
    """
    images, size = inputs
    height, width = sized(node, images, size)
    down = resample(images.astype(f32), 1, cubic_taps(node, images.shape[1], height))
    return (resample(down, 2, cubic_taps(node, images.shape[2], width)),)


@reference("ResizeBicubicGrad")
def _resize_bicubic_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of bicubic resizing.

    grads float32 [batch, height, width, c], original_image [batch, h, w, c] -> gradient of the
    images.
    """
    grads, original = inputs
    total = _wide(grads, original.dtype)
    for axis, size in zip((1, 2), _original(node, grads, original)):
        total = spread(total, axis, cubic_taps(node, size, grads.shape[axis]), size)
    return (total.astype(original.dtype, copy=False),)


def _extent(node: NodeSpec, size: int, out: int) -> Any:
    """Return the input extent of an output position; never 0.

    The corners of a single input row would leave 0.
    """
    return np.maximum(_scale(size, out, bool(node.attrs["align_corners"])), f32(1e-6))


def _covered(node: NodeSpec, size: int, out: int) -> Taps:
    """Return the share of each input position in an output position.

    The border counts for positions outside of the image.
    """
    scale = _extent(node, size, out)
    start = np.arange(out, dtype=f32) * scale
    end = np.arange(1, out + 1, dtype=f32) * scale
    first, last = np.floor(start).astype(np.int64), np.ceil(end).astype(np.int64)
    place = first + np.arange(max(1, int((last - first).max(initial=1))))[:, None]
    before, after = place < start, place + 1 > end
    whole = np.where(after, end - place, f32(1))
    weight = np.where(before, np.where(after, scale, place + 1 - start), whole).astype(f32)
    return Taps(np.clip(place, 0, size - 1), weight, place < last)


@reference("ResizeArea")
def _resize_area(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Resize images by area: means over each output pixel's extent.

    images [batch, h, w, c], size [2] (height, width) -> float32 [batch, height, width, c].
    """
    images, size = inputs
    height, width = sized(node, images, size)
    scales = [_extent(node, s, out) for s, out in zip(images.shape[1:3], (height, width))]
    across = resample(images.astype(f32), 2, _covered(node, images.shape[2], width))
    covered = resample(across, 1, _covered(node, images.shape[1], height))
    return (covered * (f32(1) / (scales[0] * scales[1])),)


Kernel = Callable[[Array], Array]


def _lanczos(radius: float) -> Kernel:
    def value(x: Array) -> Array:
        distance = np.abs(x)
        angle = f32(np.pi) * distance
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = f32(radius) * np.sin(angle) * np.sin(angle / f32(radius)) / (angle * angle)
        return np.where(
            distance <= 1e-3, f32(1), np.where(distance > radius, f32(0), inside)
        ).astype(f32)

    return value


def _gaussian(x: Array) -> Array:
    distance = np.abs(x)
    return np.where(distance >= 1.5, f32(0), np.exp(-(distance * distance) / f32(2 * 0.25))).astype(
        f32
    )


def _box(x: Array) -> Array:
    distance = np.abs(x)
    return np.where(distance < 0.5, f32(1), np.where(distance == 0.5, f32(0.5), f32(0)))


def _triangle(x: Array) -> Array:
    return np.maximum(f32(1) - np.abs(x), 0).astype(f32)


def _keys_cubic(x: Array) -> Array:
    d = np.abs(x)
    near, far = (
        ((f32(1.5) * d - f32(2.5)) * d) * d + 1,
        ((f32(-0.5) * d + f32(2.5)) * d - 4) * d + 2,
    )
    return np.where(d >= 2, f32(0), np.where(d >= 1, far, near)).astype(f32)


def _mitchell_cubic(x: Array) -> Array:
    """Return the cubic kernel with B = C = 1/3.

    Source: D. Mitchell and A. Netravali, "Reconstruction filters in computer graphics", 1988.
    """
    d = np.abs(x)
    near = ((f32(7 / 6) * d - 2) * d) * d + f32(8 / 9)
    far = ((f32(-7 / 18) * d + 2) * d - f32(10 / 3)) * d + f32(16 / 9)
    return np.where(d >= 2, f32(0), np.where(d >= 1, far, near)).astype(f32)


# kernel_type -> (radius, weight at a distance)
_KERNELS: dict[str, tuple[float, Kernel]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, _gaussian),
    "box": (0.5, _box),
    "triangle": (1, _triangle),
    "keyscubic": (2, _keys_cubic),
    "mitchellcubic": (2, _mitchell_cubic),
}


def _spans(node: NodeSpec, size: int, out: int, scale: Any, translation: Any) -> Taps:
    """Return the inputs under the kernel around each output position.

    Weights are normalised to a sum of 1. An output position with its centre outside has no inputs.
    """
    radius, kernel = _KERNELS[node.attrs["kernel_type"].decode().lower()]
    inverse = f32(1) / f32(scale)
    kernel_scale = np.maximum(inverse, f32(1)) if node.attrs["antialias"] else f32(1)
    reach = f32(radius) * kernel_scale
    centre = (np.arange(out, dtype=f32) + f32(0.5)) * inverse - inverse * f32(translation)
    outside = (centre < 0) | (centre > size)
    first = np.clip(np.ceil(centre - reach - f32(0.5)), 0, size - 1).astype(np.int64)
    last = np.clip(np.floor(centre + reach - f32(0.5)), -1, size - 1).astype(np.int64)
    place = first + np.arange(max(1, int((last - first).max(initial=0)) + 1))[:, None]
    used = (place <= last) & ~outside
    weight = np.where(used, kernel((place.astype(f32) + f32(0.5) - centre) / kernel_scale), f32(0))
    total = weight.sum(0)
    normal = np.abs(total) >= f32(1000) * np.finfo(f32).tiny
    weight = np.where(normal, weight / np.where(normal, total, f32(1)), f32(0)).astype(f32)
    return Taps(np.clip(place, 0, size - 1), weight, used & normal)


def _pair(value: Array) -> tuple[Any, Any]:
    if value.ndim != 1:
        invalid(f"t must be 1-dimensional{shape_text(value)}")
    if len(value) != 2:
        invalid(f"t must have two elements{shape_text(value)}")
    return value[0], value[1]


def _moves(node: NodeSpec, scale: Array, translation: Array) -> list[tuple[Any, Any]]:
    """Return (scale, translation) of rows and of columns."""
    name = node.attrs["kernel_type"].decode()
    if name.lower() not in _KERNELS:
        invalid(f"Unrecognized kernel type: {name}")
    scales, moves = _pair(scale), _pair(translation)
    if not (scales[0] > 0 and scales[1] > 0):
        invalid("Scale must be greater than zero.")
    return list(zip(scales, moves))


@reference("ScaleAndTranslate")
def _scale_and_translate(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Resize and move images; 0 outside of the image.

    images [batch, h, w, c], size [2], scale [2], translation [2] -> float32 [batch, height, width,
    c].
    """
    images, size, scale, translation = inputs
    sizes = sized(node, images, size, "output_shape_t")
    total = images.astype(f32)
    for axis, (factor, move) in zip((1, 2), _moves(node, scale, translation)):
        total = resample(
            total, axis, _spans(node, images.shape[axis], sizes[axis - 1], factor, move)
        )
    return (total,)


@reference("ScaleAndTranslateGrad")
def _scale_and_translate_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradient of ScaleAndTranslate.

    grads [batch, height, width, c], original_image [batch, h, w, c], scale [2], translation [2] ->
    gradient of the images.
    """
    grads, original, scale, translation = inputs
    sizes = _original(node, grads, original)
    total = grads.astype(f32, copy=False)
    for axis, (factor, move) in zip((1, 2), _moves(node, scale, translation)):
        total = spread(
            total,
            axis,
            _spans(node, sizes[axis - 1], grads.shape[axis], factor, move),
            sizes[axis - 1],
        )
    return (total.astype(original.dtype, copy=False),)
