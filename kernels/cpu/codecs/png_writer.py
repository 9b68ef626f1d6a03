"""Write PNG files.

Source: the PNG specification, ISO/IEC 15948:2004; the choice of filters by the smallest sum of
absolute values is its recommendation.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np

from tfjit.kernels.cpu.codecs.png_reader import GRAY, GRAY_ALPHA, RGB, RGB_ALPHA, SIGNATURE

_COLOR_TYPES: Final = {1: GRAY, 2: GRAY_ALPHA, 3: RGB, 4: RGB_ALPHA}


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def encode(image: np.ndarray, compression: int) -> bytes:
    """Return the file of an image.

    image [h, w, 1 to 4], uint8 or uint16; compression: -1 or 0 .. 9, as of zlib.
    """
    height, width, channels = image.shape
    wide = image.dtype == np.uint16
    samples = image.astype(">u2") if wide else np.ascontiguousarray(image)
    step = channels * (2 if wide else 1)
    rows = samples.view(np.uint8).reshape(height, width, step)
    header = struct.pack(
        ">IIBBBBB", width, height, 16 if wide else 8, _COLOR_TYPES[channels], 0, 0, 0
    )
    packed = zlib.compress(_filtered(rows), compression)
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", packed) + _chunk(b"IEND", b"")


def _filtered(rows: np.ndarray) -> bytes:
    """Return the rows less their filters' predictions.

    The number of its filter stands before each row.
    """
    height = len(rows)
    wide = np.zeros((height + 1, rows.shape[1] + 1, rows.shape[2]), np.int16)
    wide[1:, 1:] = rows
    left, up, corner = wide[1:, :-1], wide[:-1, 1:], wide[:-1, :-1]
    to_left, to_up = np.abs(up - corner), np.abs(left - corner)
    to_corner = np.abs(left + up - 2 * corner)
    nearest = np.where(
        (to_left <= to_up) & (to_left <= to_corner), left, np.where(to_up <= to_corner, up, corner)
    )
    best = np.empty((height, 1 + rows[0].size), np.uint8)
    least = np.full(height, np.iinfo(np.int64).max)
    for number, prediction in enumerate((0, left, up, (left + up) >> 1, nearest)):
        residues = (wide[1:, 1:] - prediction).astype(np.uint8).reshape(height, -1)
        cost = np.abs(residues.view(np.int8).astype(np.int16)).sum(1, dtype=np.int64)
        chosen = cost < least
        best[chosen, 0] = number
        best[chosen, 1:] = residues[chosen]
        least = np.minimum(cost, least)
    return best.tobytes()
