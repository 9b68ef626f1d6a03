"""Resize images by interpolation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit import ops
from tfjit.client.images.cropping import larger, pad_to_bounding_box
from tfjit.client.images.image_checks import (
    Size,
    as_batch,
    image_assertions,
    is_symbolic,
    require,
    sizes_of,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value_as_shape, get_static_value
from tfjit.framework.types import dtypes
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class ResizeMethod:
    """The methods of `resize_images`."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_OPS: Final = {
    ResizeMethod.BILINEAR: "ResizeBilinear",
    ResizeMethod.NEAREST_NEIGHBOR: "ResizeNearestNeighbor",
    ResizeMethod.BICUBIC: "ResizeBicubic",
    ResizeMethod.AREA: "ResizeArea",
    # TensorFlow 2 names the methods by text
    "bilinear": "ResizeBilinear",
    "nearest": "ResizeNearestNeighbor",
    "bicubic": "ResizeBicubic",
    "area": "ResizeArea",
}


def resize_images(
    images: TensorLike,
    size: TensorLike,
    method: int | str = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resize images by a method.

    images [h, w, c] or [batch, h, w, c], size: int32 [2] -> [..., *size, c]: float32, or the
    images' dtype for the nearest neighbour and where nothing changes. preserve_aspect_ratio: `size`
    is the largest size, which keeps the ratio of height and width. Raises ValueError for other
    ranks, sizes and methods.
    """
    with name_scope(name, "resize", [images, size]):
        images = convert_to_tensor(images, name="images")
        rank = images.shape.rank
        if rank is None:
            raise ValueError("'images' contains no shape.")
        if rank not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        is_batch = rank == 4
        batch = images if is_batch else ops.expand_dims(images, 0)
        _, height, width, _ = batch.shape.as_list()
        try:
            wanted = convert_to_tensor(size, dtypes.int32, name="size")
        except (TypeError, ValueError):
            raise ValueError("'size' must be a 1-D int32 Tensor") from None
        if not wanted.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        fitted: list[int | None] = [None, None]
        if preserve_aspect_ratio:
            fitted = _static_size_in(height, width, get_static_value(wanted))
            wanted = _size_in(batch, wanted)
        known = constant_value_as_shape(wanted) or (None, None)
        if None not in known and known == (height, width):
            return batch if is_batch else ops.squeeze(batch, axis=[0])
        op_type = _OPS.get(method)
        if op_type is None:
            raise ValueError(f"Resize method is not implemented: {method}")
        resized = tensor(op_type, images=batch, size=wanted, align_corners=align_corners)
        resized.set_shape([None, *known, None])
        resized.set_shape([None, *fitted, None])
        return resized if is_batch else ops.squeeze(resized, axis=[0])


def _size_in(images: Tensor, size: Tensor) -> Tensor:
    """Return the largest size within `size` of the images' ratio."""
    _, height, width, _ = sizes_of(images, 4)

    def number(value: Size) -> Tensor:
        return ops.cast(value, dtypes.float32)

    scale_of_height = number(size[0]) / number(height)
    scale_of_width = number(size[1]) / number(width)
    scale = ops.minimum(scale_of_height, scale_of_width)
    scaled = [
        ops.cast(ops.round(scale * number(length)), dtypes.int32) for length in (height, width)
    ]
    return convert_to_tensor(scaled, dtypes.int32, name="size")


def _static_size_in(
    height: int | None, width: int | None, limits: np.ndarray | None
) -> list[int | None]:
    """Return the sizes of `_size_in`, None where they are not known."""
    if height is None or width is None or limits is None or 0 in (height, width):
        return [None, None]
    scale = min(
        np.float32(limits[0]) / np.float32(height), np.float32(limits[1]) / np.float32(width)
    )
    return [int(np.rint(scale * np.float32(length))) for length in (height, width)]


def _static_size_with_pad(*sizes: Size) -> list[int | None]:
    """Return the size that `resize_image_with_pad` resizes to, where its sizes are known."""
    if any(is_symbolic(size) for size in sizes) or 0 in sizes:
        return [None, None]
    rows, columns, wanted_rows, wanted_columns = (np.float32(size) for size in sizes)
    ratio = max(columns / wanted_columns, rows / wanted_rows)
    return [int(np.floor(rows / ratio)), int(np.floor(columns / ratio))]


def resize_image_with_pad(
    image: TensorLike,
    target_height: Size,
    target_width: Size,
    method: int | str = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """Resize images to fit a size, and pad them to it.

    image [h, w, c] or [batch, h, w, c] -> [..., target_height, target_width, c]; the ratio of
    height and width stays, and the padding is zeros. Errors are those of `resize_images` and
    `pad_to_bounding_box`.
    """
    with name_scope(None, "resize_image_with_pad", [image]):
        image, is_batch = as_batch(convert_to_tensor(image, name="image"))
        checks = image_assertions(image)
        checks += require(target_width > 0, "target_width must be > 0.")
        checks += require(target_height > 0, "target_height must be > 0.")
        image = with_dependencies(checks, image)
        _, height, width, _ = sizes_of(image, 4)
        lengths = [
            ops.cast(value, dtypes.float32)
            for value in (height, width, target_height, target_width)
        ]
        rows, columns, wanted_rows, wanted_columns = lengths
        ratio = larger(columns / wanted_columns, rows / wanted_rows)
        exact_rows, exact_columns = rows / ratio, columns / ratio
        new_rows = ops.cast(ops.floor(exact_rows), dtypes.int32)
        new_columns = ops.cast(ops.floor(exact_columns), dtypes.int32)
        above = (wanted_rows - exact_rows) / 2
        left = (wanted_columns - exact_columns) / 2
        above, left = ops.floor(above), ops.floor(left)
        top = larger(0, ops.cast(above, dtypes.int32))
        start = larger(0, ops.cast(left, dtypes.int32))
        resized = resize_images(image, [new_rows, new_columns], method, align_corners)
        fitted = _static_size_with_pad(height, width, target_height, target_width)
        resized.set_shape([None, *fitted, None])
        padded = pad_to_bounding_box(resized, top, start, target_height, target_width)
        sizes_of(padded, 4)  # TensorFlow's graph has these nodes
        return padded if is_batch else ops.squeeze(padded, axis=[0])


def _resized(
    op_type: str, name: str | None, images: TensorLike, size: TensorLike, **options: object
) -> Tensor:
    return tensor(op_type, name, images=images, size=size, **options)


def resize_bilinear(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images between the four nearest pixels.

    images [batch, h, w, c], size [2] -> float32 [batch, *size, c].
    """
    return _resized(
        "ResizeBilinear",
        name,
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


def resize_nearest_neighbor(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images to the nearest pixel.

    images [batch, h, w, c], size [2] -> [batch, *size, c] of the same dtype.
    """
    return _resized(
        "ResizeNearestNeighbor",
        name,
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


def resize_bicubic(
    images: TensorLike,
    size: TensorLike,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """Resize images by a cubic through the 16 nearest pixels.

    images [batch, h, w, c], size [2] -> float32 [batch, *size, c].
    """
    return _resized(
        "ResizeBicubic",
        name,
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


def resize_area(
    images: TensorLike, size: TensorLike, align_corners: bool = False, name: str | None = None
) -> Tensor:
    """Resize images by the mean of each pixel's area.

    images [batch, h, w, c], size [2] -> float32 [batch, *size, c].
    """
    return _resized("ResizeArea", name, images, size, align_corners=align_corners)
