"""Crop and pad images to sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.images.image_checks import (
    Size,
    as_batch,
    checked_image,
    image_assertions,
    is_symbolic,
    require,
    sizes_of,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import get_static_value
from tfjit.framework.types import dtypes
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _known(*sizes: Size) -> list[int | None]:
    return [None if is_symbolic(size) else int(size) for size in sizes]


def central_crop(image: TensorLike, central_fraction: Size) -> Tensor:
    """Crop images to their middle.

    image [h, w, c] or [batch, h, w, c]; central_fraction: the part of height and width to keep,
    above 0, at most 1. Raises ValueError for other fractions and ranks.
    """
    with name_scope(None, "central_crop", [image]):
        image = convert_to_tensor(image, name="image")
        fraction: Size = central_fraction
        if isinstance(central_fraction, Tensor):
            fraction = get_static_value(central_fraction)
        if fraction is None:
            inside = ops.logical_or(central_fraction > 0.0, central_fraction <= 1.0)
            checks = require(inside, "central_fraction must be within (0, 1]")
            image = with_dependencies(checks, image)
        elif fraction <= 0.0 or fraction > 1.0:
            raise ValueError("central_fraction must be within (0, 1]")
        elif fraction == 1.0:
            return image
        checked_image(image)  # without effect on the crop, as in TensorFlow
        rank = image.shape.rank
        if rank not in (3, 4):
            raise ValueError(
                f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {rank}."
            )
        first = rank - 3
        starts: list[Size] = []
        static_sizes = image.shape.as_list()
        sizes = [_size_at(image, axis) for axis in (first, first + 1)]
        for size in sizes:
            if fraction is None or isinstance(size, Tensor):
                wide = ops.cast(size, dtypes.float64)
                kept = wide * ops.cast(central_fraction, dtypes.float64)
                starts.append(ops.cast((wide - kept) / 2, dtypes.int32))
            else:
                starts.append(int((float(size) - float(size) * fraction) / 2))
        lengths = [size - start * 2 for size, start in zip(sizes, starts)]
        lead = [0] * first
        begin = ops.stack([*lead, *starts, 0])
        size = ops.stack([*[-1] * first, *lengths, -1])
        cropped = ops.slice(image, begin, size)
        cropped.set_shape([*static_sizes[:first], *_known(*lengths), static_sizes[-1]])
        return cropped


def _size_at(image: Tensor, axis: int) -> Size:
    static = image.shape.as_list()[axis]
    return ops.shape(image)[axis] if static is None else static


def pad_to_bounding_box(
    image: TensorLike,
    offset_height: Size,
    offset_width: Size,
    target_height: Size,
    target_width: Size,
) -> Tensor:
    """Pad images with zeros to a size, from an offset on.

    image [h, w, c] or [batch, h, w, c] -> [..., target_height, target_width, c]. Raises ValueError
    for negative offsets and sizes that are too small; a run raises InvalidArgumentError for those
    that are tensors.
    """
    with name_scope(None, "pad_to_bounding_box", [image]):
        image, is_batch = as_batch(convert_to_tensor(image, name="image"))
        batch, height, width, depth = sizes_of(image, 4)
        right = target_width - offset_width - width
        below = target_height - offset_height - height
        checks = image_assertions(image)
        checks += require(offset_height >= 0, "offset_height must be >= 0")
        checks += require(offset_width >= 0, "offset_width must be >= 0")
        checks += require(right >= 0, "width must be <= target - offset")
        checks += require(below >= 0, "height must be <= target - offset")
        image = with_dependencies(checks, image)
        widths = ops.stack([0, 0, offset_height, below, offset_width, right, 0, 0])
        padded = ops.pad(image, ops.reshape(widths, [4, 2]))
        padded.set_shape(_known(batch, target_height, target_width, depth))
        return padded if is_batch else ops.squeeze(padded, axis=[0])


def crop_to_bounding_box(
    image: TensorLike,
    offset_height: Size,
    offset_width: Size,
    target_height: Size,
    target_width: Size,
) -> Tensor:
    """Crop images to a size, from an offset on.

    image [h, w, c] or [batch, h, w, c] -> [..., target_height, target_width, c]. Raises ValueError
    for a crop that is not inside the image; a run raises InvalidArgumentError for sizes that are
    tensors.
    """
    with name_scope(None, "crop_to_bounding_box", [image]):
        image, is_batch = as_batch(convert_to_tensor(image, name="image"))
        checks = image_assertions(image)
        batch, height, width, depth = sizes_of(image, 4)
        checks += require(offset_width >= 0, "offset_width must be >= 0.")
        checks += require(offset_height >= 0, "offset_height must be >= 0.")
        checks += require(target_width > 0, "target_width must be > 0.")
        checks += require(target_height > 0, "target_height must be > 0.")
        checks += require(width >= target_width + offset_width, "width must be >= target + offset.")
        checks += require(
            height >= target_height + offset_height, "height must be >= target + offset."
        )
        image = with_dependencies(checks, image)
        begin = ops.stack([0, offset_height, offset_width, 0])
        size = ops.stack([ops.shape(image)[0], target_height, target_width, ops.shape(image)[3]])
        cropped = ops.slice(image, begin, size)
        cropped.set_shape(_known(batch, target_height, target_width, depth))
        return cropped if is_batch else ops.squeeze(cropped, axis=[0])


def larger(x: Size, y: Size) -> Size:
    """Return the larger of two sizes."""
    return ops.maximum(x, y) if is_symbolic(x) or is_symbolic(y) else max(x, y)


def smaller(x: Size, y: Size) -> Size:
    """Return the smaller of two sizes."""
    return ops.minimum(x, y) if is_symbolic(x) or is_symbolic(y) else min(x, y)


def _same(x: Size, y: Size) -> object:
    return ops.equal(x, y) if is_symbolic(x) or is_symbolic(y) else x == y


def resize_with_crop_or_pad(image: TensorLike, target_height: Size, target_width: Size) -> Tensor:
    """Crop or pad images to a size, evenly on both sides.

    image [h, w, c] or [batch, h, w, c] -> [..., target_height, target_width, c]. Raises ValueError
    for sizes below 1; a run raises InvalidArgumentError for those that are tensors.
    """
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        image, is_batch = as_batch(convert_to_tensor(image, name="image"))
        checks = image_assertions(image)
        checks += require(target_width > 0, "target_width must be > 0.")
        checks += require(target_height > 0, "target_height must be > 0.")
        image = with_dependencies(checks, image)
        if is_symbolic(target_height):
            target_height = with_dependencies(checks, target_height)
        if is_symbolic(target_width):
            target_width = with_dependencies(checks, target_width)
        _, height, width, _ = sizes_of(image, 4)
        more_columns = target_width - width
        left_crop = larger(-more_columns // 2, 0)
        left_pad = larger(more_columns // 2, 0)
        more_rows = target_height - height
        top_crop = larger(-more_rows // 2, 0)
        top_pad = larger(more_rows // 2, 0)
        cropped = crop_to_bounding_box(
            image,
            top_crop,
            left_crop,
            smaller(target_height, height),
            smaller(target_width, width),
        )
        resized = pad_to_bounding_box(cropped, top_pad, left_pad, target_height, target_width)
        _, rows, columns, _ = sizes_of(resized, 4)
        checks = require(_same(rows, target_height), "resized height is not correct.")
        checks += require(_same(columns, target_width), "resized width is not correct.")
        resized = with_dependencies(checks, resized)
        return resized if is_batch else ops.squeeze(resized, axis=[0])


def random_crop(
    value: TensorLike, size: TensorLike, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Crop a tensor to a size, at a random place.

    value: of any shape, size: int32 [rank] -> a part of that shape. A run raises
    InvalidArgumentError where the tensor is smaller.
    """
    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtype=dtypes.int32, name="size")
        shape = ops.shape(value)
        check = ops.Assert(
            ops.reduce_all(shape >= size),
            ["Need value.shape >= size, got ", shape, size],
            summarize=1000,
        )
        shape = with_dependencies([check], shape)
        limit = shape - size + 1
        draw = ops.random_uniform(
            ops.shape(shape), dtype=size.dtype, maxval=size.dtype.max, seed=seed
        )
        return ops.slice(value, draw % limit, size, name=scope)
