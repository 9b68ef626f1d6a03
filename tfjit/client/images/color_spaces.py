"""Convert images between color spaces.

Source of the matrices of YIQ and YUV: the NTSC and PAL standards (ITU-R BT.601 luma).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit import ops
from tfjit.client.images.adjustments import convert_image_dtype
from tfjit.client.images.image_checks import checked_grayscale
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

Matrix = tuple[tuple[float, float, float], ...]

_LUMA: Final = [0.2989, 0.587, 0.114]
_RGB_TO_YIQ: Final[Matrix] = (
    (0.299, 0.59590059, 0.2115),
    (0.587, -0.27455667, -0.52273617),
    (0.114, -0.32134392, 0.31119955),
)
_YIQ_TO_RGB: Final[Matrix] = (
    (1, 1, 1),
    (0.95598634, -0.27201283, -1.10674021),
    (0.6208248, -0.64720424, 1.70423049),
)
_RGB_TO_YUV: Final[Matrix] = (
    (0.299, -0.14714119, 0.61497538),
    (0.587, -0.28886916, -0.51496512),
    (0.114, 0.43601035, -0.10001026),
)
_YUV_TO_RGB: Final[Matrix] = (
    (1, 1, 1),
    (0, -0.394642334, 2.03206185),
    (1.13988303, -0.58062185, 0),
)


def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert RGB to grayscale.

    images [..., 3] -> [..., 1] of the same dtype: the luma, computed in float32.
    """
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        values = convert_image_dtype(images, dtypes.float32)
        gray = ops.expand_dims(ops.tensordot(values, _LUMA, [-1, -1]), -1)
        return convert_image_dtype(gray, images.dtype, name=scope)


def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert grayscale to RGB.

    images [..., 1] -> [..., 3] of the same dtype. Raises ValueError for another last size; a run
    raises InvalidArgumentError where that is not known before.
    """
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = checked_grayscale(images)
        axes = ops.expand_dims(ops.rank(images) - 1, 0)
        ones = ops.ones(axes, dtype=dtypes.int32)
        multiples = ops.concat([ones, ops.expand_dims(3, 0)], 0)
        rgb = ops.tile(images, multiples, name=scope)
        rgb.set_shape(images.shape[:-1].concatenate([3]))
        return rgb


def _converted(images: TensorLike, matrix: Matrix) -> Tensor:
    images = convert_to_tensor(images, name="images")
    kernel = convert_to_tensor(matrix, dtype=images.dtype, name="kernel")
    last = (images.shape.rank or 0) - 1
    return ops.tensordot(images, kernel, axes=[[last], [0]])


def rgb_to_yiq(images: TensorLike) -> Tensor:
    """Convert RGB to luma and chrominance, YIQ.

    images [..., 3] floats of known rank, in 0 .. 1 -> the same shape and dtype.
    """
    return _converted(images, _RGB_TO_YIQ)


def yiq_to_rgb(images: TensorLike) -> Tensor:
    """Convert YIQ to RGB.

    images [..., 3] floats of known rank -> the same shape and dtype.
    """
    return _converted(images, _YIQ_TO_RGB)


def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Convert RGB to luma and chrominance, YUV.

    images [..., 3] floats of known rank, in 0 .. 1 -> the same shape and dtype.
    """
    return _converted(images, _RGB_TO_YUV)


def yuv_to_rgb(images: TensorLike) -> Tensor:
    """Convert YUV to RGB.

    images [..., 3] floats of known rank -> the same shape and dtype.
    """
    return _converted(images, _YUV_TO_RGB)


def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert RGB to HSV.

    images [..., 3] red, green, blue -> [..., 3] hue, saturation, value.
    """
    return tensor("RGBToHSV", name, images=images)


def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert HSV to RGB.

    images [..., 3] hue, saturation, value -> [..., 3] red, green, blue.
    """
    return tensor("HSVToRGB", name, images=images)
