"""Change images by random amounts.

The amounts are TensorFlow's for the same graph seed and op seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.images.adjustments import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_jpeg_quality,
    adjust_saturation,
)
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _check_factors(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


def random_brightness(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Change the brightness by a number of -max_delta .. max_delta.

    See `adjust_brightness`. Raises ValueError for a negative max_delta.
    """
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, ops.random_uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """Change the contrast by a factor of lower .. upper.

    See `adjust_contrast`. Raises ValueError for a negative lower, or an upper that is not above.
    """
    _check_factors(lower, upper)
    return adjust_contrast(image, ops.random_uniform([], lower, upper, seed=seed))


def random_hue(image: TensorLike, max_delta: float, seed: int | None = None) -> Tensor:
    """Turn the hue by -max_delta .. max_delta turns.

    See `adjust_hue`. Raises ValueError for a max_delta outside of 0 .. 0.5.
    """
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, ops.random_uniform([], -max_delta, max_delta, seed=seed))


def random_saturation(
    image: TensorLike, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """Change the saturation by a factor of lower .. upper.

    See `adjust_saturation`. Raises ValueError for a negative lower, or an upper that is not above.
    """
    _check_factors(lower, upper)
    return adjust_saturation(image, ops.random_uniform([], lower, upper, seed=seed))


def random_jpeg_quality(
    image: TensorLike, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """Encode an image as JPEG of a random quality and decode that.

    The quality is min_jpeg_quality .. max_jpeg_quality - 1. See `adjust_jpeg_quality`. Raises
    ValueError for an empty range, and for one outside of 0 .. 100.
    """
    ends = (min_jpeg_quality, max_jpeg_quality)
    if min(ends) < 0 or max(ends) > 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = ops.random_uniform([], *ends, dtype=dtypes.int32, seed=seed)
    return adjust_jpeg_quality(image, quality)
