"""Convert and adjust the colours of images in NumPy.

Conversions between RGB and HSV; changes of contrast, hue and saturation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray


def _computed(images: Array) -> Array:
    return images.astype(np.float32) if images.dtype.itemsize == 2 else images


def _channels(images: Array) -> tuple[Array, Array, Array]:
    """Return (red, green, blue) or (hue, saturation, value)."""
    return images[..., 0], images[..., 1], images[..., 2]


def _hue_of(red: Array, green: Array, blue: Array) -> tuple[Array, Array, Array]:
    """Return (hue in 0..1, range of the channels, largest channel).

    A grey has hue 0.
    """
    one = red.dtype.type
    value = np.fmax(np.fmax(red, green), blue)
    spread = value - np.fmin(np.fmin(red, green), blue)
    norm = 1 / (6 * spread)
    by_green = np.where(
        green == value, norm * (blue - red) + one(2 / 6), norm * (red - green) + one(4 / 6)
    )
    hue = np.where(spread > 0, np.where(red == value, norm * (green - blue), by_green), 0)
    return np.where(hue < 0, hue + 1, hue).astype(red.dtype, copy=False), spread, value


def _ramps(hue: Array) -> tuple[Array, Array, Array]:
    """Return the share of each primary in a hue in 0..1, 0..1."""
    sixth = hue * 6
    return (
        np.clip(np.abs(sixth - 3) - 1, 0, 1),
        np.clip(2 - np.abs(sixth - 2), 0, 1),
        np.clip(2 - np.abs(sixth - 4), 0, 1),
    )


def _to_rgb(hue: Array, saturation: Array, value: Array) -> Array:
    return np.stack([((1 - saturation) + saturation * ramp) * value for ramp in _ramps(hue)], -1)


def _check_last(images: Array) -> None:
    if images.ndim < 1:
        invalid(f"input must be at least 1D{shape_text(images)}")
    if images.shape[-1] != 3:
        invalid(f"input must have 3 channels but input only has {images.shape[-1]} channels.")


@reference("RGBToHSV")
def _rgb_to_hsv(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Convert RGB to HSV.

    images [..., 3] red, green, blue -> [..., 3] hue, saturation, value.
    """
    images = inputs[0]
    _check_last(images)
    wide = _computed(images)
    with np.errstate(all="ignore"):
        hue, spread, value = _hue_of(*_channels(wide))
        saturation = np.where(value > 0, spread / value, 0)
    return (np.stack([hue, saturation, value], -1).astype(images.dtype, copy=False),)


@reference("HSVToRGB")
def _hsv_to_rgb(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Convert HSV to RGB.

    images [..., 3] hue, saturation, value -> [..., 3] red, green, blue.
    """
    images = inputs[0]
    _check_last(images)
    with np.errstate(all="ignore"):
        return (_to_rgb(*_channels(_computed(images))).astype(images.dtype, copy=False),)


def _checked(images: Array, amount: Array, name: str, channels: bool) -> Any:
    """Return the scalar `amount`.

    Raises InvalidArgumentError for arrays that are not images.
    """
    if images.ndim < 3:
        invalid(f"input must be at least 3-D, got shape{shape_text(images)}")
    if amount.ndim:
        invalid(f"{name} must be scalar: {shape_text(amount)}")
    if channels and images.shape[-1] != 3:
        invalid(f"input must have 3 channels but instead has {images.shape[-1]} channels.")
    return amount[()]


@reference("AdjustContrastv2")
def _adjust_contrast(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Move each channel away from its mean by a factor.

    images [..., h, w, c], contrast_factor [] -> adjusted images; the mean is taken over each image.
    """
    images, amount = inputs
    factor = _checked(images, amount, "contrast_factor", False)
    if not images.size:
        return (images.copy(),)
    wide = _computed(images)
    with np.errstate(all="ignore"):
        mean = wide.mean((-3, -2), keepdims=True, dtype=np.float64).astype(np.float32)
        return (((wide - mean) * factor + mean).astype(images.dtype, copy=False),)


@reference("AdjustHue")
def _adjust_hue(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Turn the hue of each pixel; lightness and chroma stay.

    images [..., h, w, 3], delta [] in whole turns -> adjusted images.
    """
    images, amount = inputs
    delta = _checked(images, amount, "delta", True)
    wide = _computed(images)
    with np.errstate(all="ignore"):
        hue, spread, value = _hue_of(*_channels(wide))
        rotated = np.mod(hue + np.mod(delta, np.float32(1)), np.float32(1))
        low = value - spread
        return (
            np.stack([low + ramp * spread for ramp in _ramps(rotated)], -1).astype(
                images.dtype, copy=False
            ),
        )


@reference("AdjustSaturation")
def _adjust_saturation(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Multiply the saturation of each pixel, within 0..1.

    images [..., h, w, 3], scale [] -> adjusted images.
    """
    images, amount = inputs
    scale = _checked(images, amount, "scale", True)
    wide = _computed(images)
    with np.errstate(all="ignore"):
        hue, spread, value = _hue_of(*_channels(wide))
        saturation = np.clip(np.where(value > 0, spread / value, 0) * scale, 0, 1)
        return (_to_rgb(hue, saturation, value).astype(images.dtype, copy=False),)
