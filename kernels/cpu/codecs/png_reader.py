"""Read PNG files: chunks, compressed rows, filters, interlacing.

Source: the PNG specification, ISO/IEC 15948:2004.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.kernels.cpu.codecs.corrupt_image import CorruptImage

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6
CHANNELS: Final = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGB_ALPHA: 4}
_DEPTHS: Final = {
    GRAY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    PALETTE: (1, 2, 4, 8),
    GRAY_ALPHA: (8, 16),
    RGB_ALPHA: (8, 16),
}
# first row, first column, rows apart, columns apart of each pass of interlacing (Adam7)
_PASSES: Final = (
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
)
_GAMMA_OF_SRGB: Final = 45455
_ROWS_AT_ONCE: Final = 512
_MAX_SIDE: Final = 1_000_000  # libpng's limit


@dataclass
class PngFile:
    """The content of a PNG file.

    samples [h, w, channels of the color type], uint8 or uint16, not scaled: 0 .. 2**depth - 1, or
    indices of the palette. transparent: of a palette an alpha an entry, else the color that is
    transparent. gamma: the exponent of the samples, in 1 / 100000, 0 for none.
    """

    width: int
    height: int
    depth: int
    color_type: int
    interlaced: bool
    palette: np.ndarray | None = None
    transparent: np.ndarray | None = None
    gamma: int = 0
    data: bytes = b""

    @property
    def channels(self) -> int:
        """The channels of the color type, one for indices of a palette."""
        return CHANNELS[self.color_type]


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (type, data) of each chunk up to the end.

    A broken checksum drops a chunk that decoders may ignore. Raises CorruptImage for that of
    another, and for a file that ends before its last chunk.
    """
    at = len(SIGNATURE)
    while at + 8 <= len(content):
        (size,) = struct.unpack_from(">I", content, at)
        kind = content[at + 4 : at + 8]
        if size > 0x7FFFFFFF or not kind.isalpha():
            raise CorruptImage("no chunk of PNG", in_header=True)
        data = content[at + 8 : at + 8 + size]
        stored = content[at + 8 + size : at + 12 + size]
        at += 12 + size
        if zlib.crc32(kind + data) == int.from_bytes(stored, "big") and len(stored) == 4:
            yield kind, data
            if kind == b"IEND":
                return
        elif not kind[0] & 0x20 or len(stored) < 4:
            raise CorruptImage(f"broken {kind.decode()}", in_header=kind != b"IDAT")
    raise CorruptImage("no end", in_header=True)


def _header(data: bytes) -> PngFile:
    if len(data) != 13:
        raise CorruptImage("wrong size of the header", in_header=True)
    width, height, depth, color_type, method, filters, interlace = struct.unpack(">IIBBBBB", data)
    if not 0 < width <= _MAX_SIDE or not 0 < height <= _MAX_SIDE:
        raise CorruptImage("wrong size of the image", in_header=True)
    if depth not in _DEPTHS.get(color_type, ()) or method or filters or interlace > 1:
        raise CorruptImage("unknown kind of PNG", in_header=True)
    return PngFile(width, height, depth, color_type, bool(interlace))


def read_chunks(content: bytes) -> PngFile:
    """Return the content of a file, its rows still compressed.

    Raises CorruptImage for a file without header, palette or rows.
    """
    if not content.startswith(SIGNATURE):
        raise CorruptImage("no signature of PNG", in_header=True)
    file: PngFile | None = None
    parts: list[bytes] = []
    try:
        for kind, data in _chunks(content):
            if file is None:
                if kind != b"IHDR":
                    raise CorruptImage("no header", in_header=True)
                file = _header(data)
            elif kind == b"IDAT":
                parts.append(data)
            elif kind == b"IHDR" or (kind not in (b"PLTE", b"IEND") and not kind[0] & 0x20):
                raise CorruptImage(f"unexpected {kind.decode()}", in_header=True)
            elif not parts:
                _keep(file, kind, data)
    except CorruptImage as error:
        # libpng reads all that stands before the rows as one
        raise CorruptImage(str(error), in_header=error.in_header and not parts) from None
    if file is None or not parts:
        raise CorruptImage("no image data", in_header=True)
    if file.color_type == PALETTE and file.palette is None:
        raise CorruptImage("no palette", in_header=True)
    file.data = b"".join(parts)
    return file


def _keep(file: PngFile, kind: bytes, data: bytes) -> None:
    """Note a chunk that stands before the rows."""
    if kind == b"PLTE":
        if file.color_type in (GRAY, GRAY_ALPHA):
            return
        if file.palette is not None or not data or len(data) % 3 or len(data) > 768:
            if file.color_type == PALETTE:
                raise CorruptImage("wrong palette", in_header=True)
            return
        entries = np.frombuffer(data, np.uint8).reshape(-1, 3)
        file.palette = entries[: 1 << file.depth] if file.color_type == PALETTE else entries
    elif kind == b"tRNS" and file.transparent is None:
        if file.color_type == PALETTE:
            if file.palette is not None and 0 < len(data) <= len(file.palette):
                file.transparent = np.frombuffer(data, np.uint8)
        elif file.color_type in (GRAY, RGB) and len(data) == 2 * file.channels:
            file.transparent = np.frombuffer(data, ">u2").astype(np.uint16)
    elif kind == b"sRGB" and len(data) == 1:
        file.gamma = _GAMMA_OF_SRGB
    elif kind == b"gAMA" and len(data) == 4 and not file.gamma:
        file.gamma = int.from_bytes(data, "big")


def read_samples(file: PngFile) -> np.ndarray:
    """Decompress the rows -> samples [h, w, channels], uint8 or uint16.

    Raises CorruptImage for rows that are missing or broken.
    """
    bits = file.channels * file.depth
    shapes = [(file.height, file.width)]
    if file.interlaced:
        shapes = [
            (-(-(file.height - row) // rows), -(-(file.width - column) // columns))
            for row, column, rows, columns in _PASSES
        ]
    sizes = [h * (1 + -(-w * bits // 8)) if h > 0 and w > 0 else 0 for h, w in shapes]
    rows = _inflated(file.data, sum(sizes))
    if not file.interlaced:
        return _unpacked(rows, *shapes[0], file)
    out = np.empty(
        (file.height, file.width, file.channels), np.uint16 if file.depth == 16 else np.uint8
    )
    at = 0
    for (row, column, down, right), (h, w), size in zip(_PASSES, shapes, sizes):
        if size:
            out[row::down, column::right] = _unpacked(rows[at : at + size], h, w, file)
        at += size
    return out


def _inflated(data: bytes, size: int) -> bytes:
    try:
        rows = zlib.decompressobj().decompress(data, size)
    except zlib.error as error:
        raise CorruptImage(str(error)) from None
    if len(rows) < size:
        raise CorruptImage("not enough image data")
    return rows


def _unpacked(data: bytes, height: int, width: int, file: PngFile) -> np.ndarray:
    """Return the samples of the rows of one image or pass."""
    step = max(1, file.channels * file.depth // 8)
    rows = np.frombuffer(data, np.uint8).reshape(height, -1)
    filters = rows[:, 0]
    if filters.max() > 4:
        raise CorruptImage("unknown filter of a row")
    plain = unfiltered(rows[:, 1:].reshape(height, -1, step), filters).reshape(height, -1)
    if file.depth == 16:
        wide = plain.view(">u2").astype(np.uint16)
        return wide.reshape(height, width, file.channels)
    if file.depth < 8:
        values = np.unpackbits(plain, axis=1).reshape(height, -1, file.depth)
        weights = (1 << np.arange(file.depth)[::-1]).astype(np.uint8)
        plain = (values[:, : width * file.channels] * weights).sum(-1, dtype=np.uint8)
    return plain.reshape(height, width, file.channels)


def unfiltered(rows: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Add the predictions of the filters to rows.

    rows uint8 [h, places, bytes a pixel]. A pixel depends on those to the left, above, and above to
    the left. So all pixels of a diagonal are computed at once: the diagonals of some hundred rows
    are a table [diagonal, row].
    """
    out = np.empty_like(rows)
    places, step = rows.shape[1:]
    above = np.zeros((places, step), np.uint8)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[first : first + _ROWS_AT_ONCE]
        count = len(part)
        kinds = filters[first : first + count, None]
        # row 0 of the table is the row above; diagonal d of row r has pixel d - r
        table = np.zeros((places + count + 1, count + 1, step), np.uint8)
        table[1 : places + 1, 0] = above
        for r in range(count):
            table[r + 2 : r + 2 + places, r + 1] = part[r]
        for d in range(2, places + count + 1):
            low, high = max(0, d - 1 - places), min(count, d - 1)
            now = table[d, low + 1 : high + 1]
            left = table[d - 1, low + 1 : high + 1].astype(np.int16)
            up = table[d - 1, low:high].astype(np.int16)
            corner = table[d - 2, low:high].astype(np.int16)
            now += _prediction(kinds[low:high], left, up, corner)
        for r in range(count):
            out[first + r] = table[r + 2 : r + 2 + places, r + 1]
        above = out[first + count - 1]
    return out


def _prediction(
    kinds: np.ndarray, left: np.ndarray, up: np.ndarray, corner: np.ndarray
) -> np.ndarray:
    """Return the prediction of pixels by the filter of each row, uint8."""
    to_left, to_up = np.abs(up - corner), np.abs(left - corner)
    to_corner = np.abs(left + up - 2 * corner)
    nearest = np.where(
        (to_left <= to_up) & (to_left <= to_corner), left, np.where(to_up <= to_corner, up, corner)
    )
    return np.choose(kinds, [np.zeros_like(left), left, up, (left + up) >> 1, nearest]).astype(
        np.uint8
    )
