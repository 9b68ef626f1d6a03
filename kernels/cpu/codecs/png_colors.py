"""Convert the samples of PNG files to channels and depths.

The order of the steps is libpng's, since each rounds: palette and low depths to 8 bits, alpha,
gray, 16 to 8 bits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.cpu.codecs import png_reader
from tfjit.kernels.cpu.codecs.png_reader import PALETTE, RGB, PngFile

# weights of red, green and blue in gray, of 32768
_RED: Final = 29900 * 32768 // 100000
_GREEN: Final = 58700 * 32768 // 100000
_BLUE: Final = 32768 - _RED - _GREEN
_ONE: Final = 100_000  # a gamma of 1
_WITHOUT_EFFECT: Final = 5_000  # a gamma this close to 1 is none
_BITS_OF_SCALED: Final = 11  # of 16, where a gamma table's result is scaled to 8


def decode(file: PngFile, channels: int, wide: bool) -> np.ndarray:
    """Return an image [h, w, channels], uint8, or uint16 if `wide`.

    channels: 1 gray, 3 RGB, 4 RGB and alpha, 0 for those of the file. Raises CorruptImage.
    """
    count = channels or _own_channels(file)
    samples = _expanded(file, png_reader.read_samples(file), count, wide)
    if wide and samples.dtype == np.uint8:
        return samples * np.uint16(257)
    if not wide and samples.dtype == np.uint16:
        return (samples >> 8).astype(np.uint8)
    return samples


def shape_of(file: PngFile, channels: int) -> tuple[int, int, int]:
    """Return the shape that `decode` gives."""
    return file.height, file.width, channels or _own_channels(file)


def _own_channels(file: PngFile) -> int:
    if file.color_type == PALETTE:
        return 3 if file.transparent is None else 4
    return file.channels


def _has_alpha(file: PngFile) -> bool:
    return file.color_type in (png_reader.GRAY_ALPHA, png_reader.RGB_ALPHA)


def _expanded(file: PngFile, samples: np.ndarray, count: int, wide: bool) -> np.ndarray:
    """Return samples with `count` channels, of 8 or 16 bits."""
    alpha: np.ndarray | None = None
    wants_alpha = count % 2 == 0
    if file.color_type == PALETTE:
        assert file.palette is not None
        # an index beyond the palette is black
        table = np.zeros((256, 3), np.uint8)
        table[: len(file.palette)] = file.palette
        colors = table[samples[..., 0]]
        if file.transparent is not None:
            opacity = np.full(256, 255, np.uint8)
            opacity[: len(file.transparent)] = file.transparent
            alpha = opacity[samples]
    else:
        colors = samples[..., :-1] if _has_alpha(file) else samples
        if _has_alpha(file):
            alpha = samples[..., -1:]
        elif file.transparent is not None and wants_alpha:
            # the color is compared before low depths are scaled
            matches = (samples == _low_bits(file)).all(-1, keepdims=True)
            full = 65535 if file.depth == 16 else 255
            alpha = np.where(matches, 0, full).astype(samples.dtype)
        if file.depth < 8:
            colors = colors * np.uint8(255 // ((1 << file.depth) - 1))
    if wants_alpha and alpha is None:
        # the largest sample of the file's depth, also where samples are scaled to 8 bits
        filler = (1 << file.depth) - 1
        alpha = np.full((*colors.shape[:2], 1), filler, colors.dtype)
    if count < 3 and file.color_type & RGB:
        colors = _gray(colors, file.gamma, wide)
    elif count >= 3 and not file.color_type & RGB:
        colors = np.repeat(colors, 3, axis=2)
    return np.concatenate([colors, alpha], 2) if wants_alpha and alpha is not None else colors


def _low_bits(file: PngFile) -> np.ndarray:
    assert file.transparent is not None
    return file.transparent & ((1 << file.depth) - 1)


def _gray(colors: np.ndarray, gamma: int, wide: bool) -> np.ndarray:
    """Return the weighted sum of the channels, [h, w, 1].

    gamma: channels are linear before the sum, and the sum is not, as in the file. wide: the result
    is not scaled to 8 bits afterwards.
    """
    curved = gamma > 0 and abs(gamma - _ONE) > _WITHOUT_EFFECT
    drop = 0
    if colors.dtype == np.uint16 and not wide:
        drop = 16 - _BITS_OF_SCALED
    channels = [colors[..., i : i + 1].astype(np.int64) for i in range(3)]
    red, green, blue = channels
    is_gray = (red == green) & (red == blue)
    if curved:
        inverse = int(1e10 / gamma + 0.5)
        channels = [_power(channel, inverse, colors.dtype, drop) for channel in channels]
    total = _RED * channels[0] + _GREEN * channels[1] + _BLUE * channels[2]
    if curved or colors.dtype == np.uint16:
        total += 16384
    gray = total >> 15
    if curved:
        gray = _power(gray, gamma, colors.dtype, drop)
    return np.where(is_gray, red, gray).astype(colors.dtype)


def _power(values: np.ndarray, gamma: int, dtype: np.dtype[np.generic], drop: int) -> np.ndarray:
    """Return values to the power of gamma, rounded.

    The lowest `drop` bits of the values do not count.
    """
    bits = dtype.itemsize * 8
    largest = (1 << bits) - 1
    shares = (values >> drop) / ((1 << bits - drop) - 1)
    return np.floor(largest * shares ** (gamma * 1e-5) + 0.5).astype(np.int64)
