"""Read BMP files without compression.

Source of the format: Microsoft, "Bitmap Storage". Of its limits here: TensorFlow 2.21, by running
it: palettes are not applied.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from tfjit.kernels.cpu.codecs.corrupt_image import CorruptImage

_HEADER_BYTES: Final = 32
_MAX_BYTES: Final = 1 << 30


def decode(content: bytes, channels: int) -> np.ndarray:
    """Return an image [h, w, channels], uint8.

    channels: 3 RGB, 4 RGB and alpha, 0 for those of the file, which may be 1. Raises CorruptImage.
    """
    if len(content) < _HEADER_BYTES:
        raise CorruptImage(
            "Incomplete bmp content, requires at least 32 bytes to find the header size, width, "
            f"height, and bpp, got {len(content)} bytes"
        )
    start, width, height, bits = struct.unpack_from("<i4xii2xH", content, 10)
    stored = bits // 8
    if stored not in (1, 3, 4):
        raise CorruptImage(
            f"Number of channels inherent in the image must be 1, 3 or 4, was {stored}"
        )
    if width <= 0:
        raise CorruptImage("Width must be positive")
    if not height:
        raise CorruptImage("Height must be nonzero")
    if start < 0:
        raise CorruptImage("header size must be nonnegative")
    rows = abs(height)
    if width * rows * stored >= _MAX_BYTES:
        raise CorruptImage("Total possible pixel bytes must be less than 2^30")
    row_bytes = (stored * width + 3) // 4 * 4
    difference = len(content) - (start + row_bytes * rows)
    if difference:
        raise CorruptImage(
            "Input size should match (header_size + row_size * abs_height) but they differ by "
            f"{difference}"
        )
    padded = np.frombuffer(content, np.uint8, row_bytes * rows, start).reshape(rows, row_bytes)
    pixels = padded[:, : width * stored].reshape(rows, width, stored)
    if height > 0:  # the last row comes first
        pixels = pixels[::-1]
    return _with_channels(pixels, channels or stored)


def _with_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    """Return stored pixels (gray, or blue, green, red and alpha) as RGB."""
    stored = pixels.shape[-1]
    if channels == stored == 1:
        return np.ascontiguousarray(pixels)
    out = np.full((*pixels.shape[:2], channels), 255, np.uint8)
    out[..., :3] = pixels if stored == 1 else pixels[..., 2::-1]
    if stored == channels == 4:
        out[..., 3] = pixels[..., 3]
    return out
