"""Change dtypes, brightness, contrast and colours of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.images.image_checks import Size, checked_image, is_symbolic, require
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def convert_image_dtype(
    image: TensorLike, dtype: DTypeLike, saturate: bool = False, name: str | None = None
) -> Tensor:
    """Convert images to a dtype, and their values to its range.

    Values of floats are 0 .. 1, values of integers 0 .. the largest one. saturate: clip values
    before a conversion that may overflow. Raises AttributeError for dtypes that are neither float
    nor integer.
    """
    image = convert_to_tensor(image, name="image")
    old, new = image.dtype.base_dtype, as_dtype(dtype)
    if not (new.is_floating or new.is_integer):
        raise AttributeError("dtype must be either floating point or integer")
    if not (old.is_floating or old.is_integer):
        raise AttributeError("image dtype must be either floating point or integer")
    if new == old:
        return ops.identity(image, name=name)
    with name_scope(name, "convert_image", [image]) as scope:
        last = ops.saturate_cast if saturate else ops.cast
        if old.is_integer and new.is_integer:
            return _between_integers(image, old, new, last, scope)
        if old.is_floating and new.is_floating:
            return ops.cast(image, new, name=scope)
        if old.is_integer:
            return ops.multiply(ops.cast(image, new), 1.0 / old.max, name=scope)
        # the half lets the largest integer stand for as many floats as the others
        return last(ops.multiply(image, new.max + 0.5), new, name=scope)


def _between_integers(
    image: Tensor, old: DType, new: DType, last: Callable[..., Tensor], scope: str
) -> Tensor:
    if old.max > new.max:
        divisor = (old.max + 1) // (new.max + 1)
        return last(ops.floordiv(image, divisor), new, name=scope)
    wide = last(image, new)
    return ops.multiply(wide, (new.max + 1) // (old.max + 1), name=scope)


def _as_float(image: Tensor) -> Tensor:
    """Return an image as float32, except for halves."""
    if image.dtype.base_dtype in (dtypes.float16, dtypes.float32):
        return image
    return convert_image_dtype(image, dtypes.float32)


def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """Add a number to images.

    image: of any shape, delta: scalar, in the range 0 .. 1 of floats -> the same shape and dtype;
    integers are clipped.
    """
    with name_scope(None, "adjust_brightness", [image, delta]) as scope:
        image = convert_to_tensor(image, name="image")
        values = _as_float(image)
        brighter = ops.add(values, ops.cast(delta, values.dtype), name=scope)
        return convert_image_dtype(brighter, image.dtype, saturate=True)


def adjust_contrast(images: TensorLike, contrast_factor: TensorLike) -> Tensor:
    """Move each channel of images away from its mean by a factor.

    images [..., h, w, c], contrast_factor: scalar -> the same shape and dtype; integers are
    clipped.
    """
    with name_scope(None, "adjust_contrast", [images, contrast_factor]) as scope:
        images = convert_to_tensor(images, name="images")
        adjusted = tensor(
            "AdjustContrastv2", scope, images=_as_float(images), contrast_factor=contrast_factor
        )
        return convert_image_dtype(adjusted, images.dtype, saturate=True)


def adjust_gamma(image: TensorLike, gamma: Size = 1, gain: TensorLike = 1) -> Tensor:
    """Return gain * image ** gamma.

    image: of any shape, in the range 0 .. 1 of floats; integers are clipped. Raises ValueError for
    a gamma below 0; a run raises InvalidArgumentError where gamma is a tensor.
    """
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        image = convert_to_tensor(image, name="image")
        values = _as_float(image)
        checks = require(gamma >= 0, "Gamma should be a non-negative real number.")
        if checks:
            gamma = with_dependencies(checks, gamma)
        return convert_image_dtype(gain * values**gamma, image.dtype, saturate=True)


def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Tensor:
    """Turn the hue of images.

    image [..., h, w, 3], delta: scalar in whole turns -> the same shape and dtype.
    """
    with name_scope(name, "adjust_hue", [image]):
        image = convert_to_tensor(image, name="image")
        adjusted = tensor("AdjustHue", images=_as_float(image), delta=delta)
        return convert_image_dtype(adjusted, image.dtype)


def adjust_saturation(
    image: TensorLike, saturation_factor: TensorLike, name: str | None = None
) -> Tensor:
    """Multiply the saturation of images, within 0 .. 1.

    image [..., h, w, 3], saturation_factor: scalar -> the same shape and dtype.
    """
    with name_scope(name, "adjust_saturation", [image]):
        image = convert_to_tensor(image, name="image")
        adjusted = tensor("AdjustSaturation", images=_as_float(image), scale=saturation_factor)
        return convert_image_dtype(adjusted, image.dtype)


def adjust_jpeg_quality(
    image: TensorLike, jpeg_quality: TensorLike, dct_method: str = "", name: str | None = None
) -> Tensor:
    """Encode an image as JPEG and decode it again.

    image [h, w, 1 or 3] with a known number of channels, jpeg_quality: scalar int32 in 0 .. 100 ->
    the same shape and dtype.
    """
    with name_scope(name, "adjust_jpeg_quality", [image]):
        image = convert_to_tensor(image, name="image")
        channels, dtype = image.shape.as_list()[-1], image.dtype
        image = convert_image_dtype(image, dtypes.uint8, saturate=True)
        if not is_symbolic(jpeg_quality):
            jpeg_quality = convert_to_tensor(jpeg_quality, dtype=dtypes.int32)
        encoded = tensor("EncodeJpegVariableQuality", images=image, quality=jpeg_quality)
        decoded = tensor("DecodeJpeg", contents=encoded, channels=channels, dct_method=dct_method)
        return convert_image_dtype(decoded, dtype, saturate=True)


def per_image_standardization(image: TensorLike) -> Tensor:
    """Scale each image to mean 0 and variance 1.

    image [..., h, w, c] -> float32 of the same shape. The deviation is at least 1 / sqrt(number of
    values), for uniform images.
    """
    with name_scope(None, "per_image_standardization", [image]) as scope:
        image = checked_image(convert_to_tensor(image, name="image"))
        image = ops.cast(image, dtypes.float32)
        count = ops.reduce_prod(ops.shape(image)[-3:])
        mean = ops.reduce_mean(image, axis=[-1, -2, -3], keepdims=True)
        deviation = ops.math.reduce_std(image, axis=[-1, -2, -3], keepdims=True)
        least = ops.rsqrt(ops.cast(count, dtypes.float32))
        deviation = ops.maximum(deviation, least)
        return ops.divide(image - mean, deviation, name=scope)
