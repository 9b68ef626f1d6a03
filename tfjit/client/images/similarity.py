"""Measure how alike two images are, and how much one varies.

Sources of SSIM: Wang, Bovik, Sheikh and Simoncelli 2004; of its form over several scales: Wang,
Simoncelli and Bovik 2003.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tfjit import ops
from tfjit.client.images.adjustments import convert_image_dtype
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arrays.array import shape_n
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.layers.activation import relu
from tfjit.ops.layers.convolution_functions import depthwise_conv2d
from tfjit.ops.layers.normalization_functions import softmax
from tfjit.ops.layers.pooling_functions import avg_pool

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_SCALE_WEIGHTS: Final = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


class _Window(NamedTuple):
    """The Gaussian window of SSIM, and the factors of its constants."""

    size: TensorLike
    sigma: TensorLike
    k1: float
    k2: float


def _comparable(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, list[Operation]]:
    """Return the shapes of two batches, and assertions on them.

    The images of both have one shape. Raises ValueError where shapes are known to differ.
    """
    first, second = (image.shape.with_rank_at_least(3) for image in (a, b))
    first[-3:].assert_is_compatible_with(second[-3:])
    if first.rank is not None and second.rank is not None:
        outer = zip(reversed(first.as_list()[:-3]), reversed(second.as_list()[:-3]))
        if any(x != 1 and y != 1 and None not in (x, y) and x != y for x, y in outer):
            raise ValueError(f"Two images are not compatible: {first} and {second}")
    shape_of_a, shape_of_b = shape_n([a, b])
    shapes = [shape_of_a, shape_of_b]
    enough = ops.Assert(ops.greater_equal(ops.size(shape_of_a), 3), shapes, summarize=10)
    equal = ops.reduce_all(ops.equal(shape_of_a[-3:], shape_of_b[-3:]))
    return shape_of_a, shape_of_b, [enough, ops.Assert(equal, shapes, summarize=10)]


def psnr(a: Tensor, b: Tensor, max_val: TensorLike, name: str | None = None) -> Tensor:
    """Return the peak signal-to-noise ratio of images, in decibel.

    a, b [..., h, w, c] of one dtype, max_val: the largest value that pixels may have -> float32
    [...]. Raises ValueError for shapes that differ; a run raises InvalidArgumentError for those.
    """
    with name_scope(name, "PSNR", [a, b]):
        max_val = convert_image_dtype(ops.cast(max_val, a.dtype), dtypes.float32)
        a = convert_image_dtype(a, dtypes.float32)
        b = convert_image_dtype(b, dtypes.float32)
        error = ops.reduce_mean(ops.squared_difference(a, b), [-3, -2, -1])
        ratio = ops.subtract(
            20 * ops.log(max_val) / ops.log(10.0),
            np.float32(10 / np.log(10)) * ops.log(error),
            name="psnr",
        )
        checks = _comparable(a, b)[2]
        with control_dependencies(checks):
            return ops.identity(ratio)


def _gaussian(size: Tensor, sigma: Tensor) -> Tensor:
    """Return a Gaussian window of sum 1, [size, size, 1, 1]."""
    size = convert_to_tensor(size, dtypes.int32)
    sigma = convert_to_tensor(sigma)
    places = ops.cast(ops.range(size), sigma.dtype)
    places -= ops.cast(size - 1, sigma.dtype) / 2.0
    exponents = ops.square(places)
    exponents *= -0.5 / ops.square(sigma)
    both = ops.reshape(exponents, shape=[1, -1]) + ops.reshape(exponents, shape=[-1, 1])
    weights = softmax(ops.reshape(both, shape=[1, -1]))
    return ops.reshape(weights, shape=[size, size, 1, 1])


def _by_channel(
    a: Tensor, b: Tensor, max_val: Tensor, window: _Window, return_index_map: bool = False
) -> tuple[Tensor, Tensor]:
    """Return (SSIM, contrast and structure alone) of each channel, float32 [..., c].

    return_index_map: for each place of the window, [..., out_h, out_w, c].
    """
    size = constant(window.size, dtype=dtypes.int32)
    sigma = constant(window.sigma, dtype=a.dtype)
    shapes = shape_n([a, b])
    checks = [
        ops.Assert(
            ops.reduce_all(ops.greater_equal(shape[-3:-1], size)), [shape, size], summarize=8
        )
        for shape in shapes
    ]
    with control_dependencies(checks):
        a = ops.identity(a)
    kernel = ops.tile(_gaussian(size, sigma), multiples=[1, 1, shapes[0][-1], 1])

    def mean(x: Tensor) -> Tensor:
        shape = ops.shape(x)
        x = ops.reshape(x, shape=ops.concat([[-1], shape[-3:]], 0))
        y = depthwise_conv2d(x, kernel, strides=[1, 1, 1, 1], padding="VALID")
        return ops.reshape(y, ops.concat([shape[:-3], ops.shape(y)[1:]], 0))

    c1 = (window.k1 * max_val) ** 2
    c2 = (window.k2 * max_val) ** 2
    mean_a, mean_b = mean(a), mean(b)
    twice_product = mean_a * mean_b * 2.0
    squares = ops.square(mean_a) + ops.square(mean_b)
    luminance = (twice_product + c1) / (squares + c1)
    products = mean(a * b) * 2.0
    energies = mean(ops.square(a) + ops.square(b))
    c2 *= 1.0
    structure = (products - twice_product + c2) / (energies - squares + c2)
    if return_index_map:
        return luminance * structure, structure
    axes = constant([-3, -2], dtype=dtypes.int32)
    index = ops.reduce_mean(luminance * structure, axes)
    return index, ops.reduce_mean(structure, axes)


def _as_floats(a: Tensor, b: Tensor, max_val: TensorLike) -> tuple[Tensor, Tensor, Tensor]:
    max_val = convert_image_dtype(ops.cast(max_val, a.dtype), dtypes.float32)
    a = convert_image_dtype(a, dtypes.float32)
    return a, convert_image_dtype(b, dtypes.float32), max_val


def ssim(
    img1: TensorLike,
    img2: TensorLike,
    max_val: TensorLike,
    filter_size: TensorLike = 11,
    filter_sigma: TensorLike = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """Return the structural similarity of images, the mean over channels and places.

    img1, img2 [..., h, w, c] of one dtype, h and w at least filter_size; max_val: the largest value
    that pixels may have -> float32 [...], or [..., out_h, out_w] with `return_index_map`. Raises
    ValueError for shapes that differ; a run raises InvalidArgumentError for those, and for images
    that are too small.
    """
    with name_scope(None, "SSIM", [img1, img2]):
        a = convert_to_tensor(img1, name="img1")
        b = convert_to_tensor(img2, name="img2")
        checks = _comparable(a, b)[2]
        with control_dependencies(checks):
            a = ops.identity(a)
        a, b, max_val = _as_floats(a, b, max_val)
        window = _Window(filter_size, filter_sigma, k1, k2)
        index, _ = _by_channel(a, b, max_val, window, return_index_map)
        return ops.reduce_mean(index, [-1])


def ssim_multiscale(
    img1: TensorLike,
    img2: TensorLike,
    max_val: TensorLike,
    power_factors: Sequence[float] | Tensor = _SCALE_WEIGHTS,
    filter_size: TensorLike = 11,
    filter_sigma: TensorLike = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """Return the structural similarity of images over several scales.

    Each scale has half the height and width of the one before. See `ssim` for the arguments;
    power_factors: the weight of each scale, the largest image first.
    """
    with name_scope(None, "MS-SSIM", [img1, img2]):
        a = convert_to_tensor(img1, name="img1")
        b = convert_to_tensor(img2, name="img2")
        shape_of_a, shape_of_b, checks = _comparable(a, b)
        with control_dependencies(checks):
            a = ops.identity(a)
        a, b, max_val = _as_floats(a, b, max_val)
        images, shapes = [a, b], [shape_of_a, shape_of_b]
        heads = [shape[:-3] for shape in shapes]
        tails = [shape[-3:] for shape in shapes]
        halves = constant([2, 2, 1], dtype=dtypes.int32)
        window = _Window(filter_size, filter_sigma, k1, k2)
        found: list[Tensor] = []
        for scale in range(len(power_factors)):
            with name_scope(None, f"Scale{scale}", images):
                if scale:
                    images, tails = _halved(images, heads, tails, halves)
                index, structure = _by_channel(images[0], images[1], max_val, window)
                found.append(relu(structure))
        found.pop()  # the smallest scale counts with its luminance
        by_scale = ops.stack([*found, relu(index)], axis=-1)
        product = ops.reduce_prod(ops.pow(by_scale, power_factors), [-1])
        return ops.reduce_mean(product, [-1])


def _halved(
    images: list[Tensor], heads: list[Tensor], tails: list[Tensor], halves: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Return images of half the size, and the shapes of one.

    Odd heights and widths are padded by reflection.
    """
    flat = [ops.reshape(image, ops.concat([[-1], tail], 0)) for image, tail in zip(images, tails)]
    odd = ops.mod(tails[0], halves, name="mod")

    def padded() -> list[Tensor]:
        widths = ops.pad(ops.expand_dims(odd, -1), [[1, 0], [1, 0]])
        return [ops.pad(image, widths, mode="SYMMETRIC") for image in flat]

    even = ops.cond(ops.reduce_any(ops.not_equal(odd, 0)), padded, lambda: flat)
    steps = [1, 2, 2, 1]
    small = [avg_pool(image, ksize=steps, strides=steps, padding="VALID") for image in even]
    tails = [shape[1:] for shape in shape_n(small)]
    shaped = [
        ops.reshape(image, ops.concat([head, tail], 0))
        for image, head, tail in zip(small, heads, tails)
    ]
    return shaped, tails


def total_variation(images: Tensor, name: str | None = None) -> Tensor:
    """Return the sum of absolute differences of neighbouring pixels.

    images [h, w, c] -> [], or [batch, h, w, c] -> [batch]. Raises ValueError for other ranks.
    """
    with name_scope(name, "total_variation"):
        rank = images.shape.rank
        if rank == 3:
            down = images[1:, :, :] - images[:-1, :, :]
            right = images[:, 1:, :] - images[:, :-1, :]
            axes = None
        elif rank == 4:
            down = images[:, 1:, :, :] - images[:, :-1, :, :]
            right = images[:, :, 1:, :] - images[:, :, :-1, :]
            axes = [1, 2, 3]
        else:
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        vertical = ops.reduce_sum(ops.abs(down), axis=axes)
        return vertical + ops.reduce_sum(ops.abs(right), axis=axes)
