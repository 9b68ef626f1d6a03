"""Make small files of images in all kinds that their formats have."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

RNG = np.random.default_rng(11)
_PASSES = (
    *((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4)),
    *((2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)),
)
PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk of PNG."""
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def png(
    size: tuple[int, int],
    depth: int,
    color_type: int,
    interlaced: bool = False,
    extra: bytes = b"",
    entries: int = 0,
) -> bytes:
    """Return a PNG of random pixels, with a random filter in each row.

    extra: chunks before the rows; entries: of a palette, whose rows have no filter.
    """
    height, width = size
    bits = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color_type] * depth
    rows = b""
    for row, column, down, right in _PASSES if interlaced else ((0, 0, 1, 1),):
        count, length = -(-(height - row) // down), -(-(width - column) // right)
        if count <= 0 or length <= 0:
            continue
        for _ in range(count):
            if color_type == 3:
                values = RNG.integers(0, entries, length)
                text = "".join(format(v, f"0{depth}b") for v in values)
                text = text.ljust(-(-length * bits // 8) * 8, "0")
                rows += b"\0" + int(text, 2).to_bytes(len(text) // 8, "big")
            else:
                rows += bytes([RNG.integers(0, 5)]) + RNG.bytes(-(-length * bits // 8))
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, interlaced)
    packed = zlib.compress(rows)
    parts = [packed[: len(packed) // 2], packed[len(packed) // 2 :]]
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + extra
        + b"".join(chunk(b"IDAT", part) for part in parts)
        + chunk(b"IEND", b"")
    )


def bmp(width: int, height: int, bits: int, start: int = 54, size: int | None = None) -> bytes:
    """Return a BMP of random pixels; size: the bytes of them, if not the right number."""
    row = (abs(width) * bits // 8 + 3) // 4 * 4
    head = struct.pack("<IHHi", 0, 0, 0, start)
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 0, 0, 0, 0, 0, 0)
    return b"BM" + head + info + RNG.bytes(row * abs(height) if size is None else size)


class GifFrame(NamedTuple):
    """A frame of a GIF: left, top, width, height; the entries that its pixels use."""

    box: tuple[int, int, int, int]
    transparent: int | None = None
    disposal: int = 0
    own_bits: int = 0
    used: int = 16
    interlaced: bool = False


def _lzw(indices: Sequence[int], bits: int) -> bytes:
    clear, end = 1 << bits, (1 << bits) + 1
    words = ""

    def emitted(code: int, size: int) -> str:
        return format(code, f"0{size}b")[::-1]

    table = {bytes([k]): k for k in range(clear)}
    size, following, word = bits + 1, end + 1, b""
    words += emitted(clear, size)
    for index in indices:
        longer = word + bytes([index])
        if longer in table:
            word = longer
            continue
        words += emitted(table[word], size)
        if following < 4096:
            table[longer] = following
            following += 1
            if following - 1 == 1 << size and size < 12:
                size += 1
        else:
            words += emitted(clear, size)
            table = {bytes([k]): k for k in range(clear)}
            size, following = bits + 1, end + 1
        word = bytes([index])
    words += emitted(table[word], size) if word else ""
    words += emitted(end, size)
    words = words.ljust(-(-len(words) // 8) * 8, "0")
    return bytes(int(words[k : k + 8][::-1], 2) for k in range(0, len(words), 8))


def _blocks(data: bytes) -> bytes:
    parts = (data[k : k + 255] for k in range(0, len(data), 255))
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def gif(frames: Sequence[GifFrame], bits: int = 4, palette: bool = True) -> bytes:
    """Return a GIF of 7 x 5 with random frames."""
    out = b"GIF89a" + struct.pack("<HHBBB", 7, 5, (0x80 | bits - 1) * palette, 0, 0)
    out += RNG.bytes(3 << bits) if palette else b""
    for frame in frames:
        if frame.transparent is not None:
            control = struct.pack("<BHB", frame.disposal << 2 | 1, 5, frame.transparent)
            out += b"\x21\xf9\x04" + control + b"\0"
            out += b"\x21\xfe" + _blocks(b"a comment")
        flags = 0x40 * frame.interlaced
        own = b""
        if frame.own_bits:
            flags |= 0x80 | frame.own_bits - 1
            own = RNG.bytes(3 << frame.own_bits)
        count = frame.box[2] * frame.box[3]
        indices = RNG.integers(0, min(frame.used, 1 << bits), count).tolist()
        out += b"\x2c" + struct.pack("<HHHHB", *frame.box, flags) + own
        out += bytes([max(bits, 2)]) + _blocks(_lzw(indices, max(bits, 2)))
    return out + b"\x3b"


def photo(height: int, width: int, channels: int) -> np.ndarray:
    """Return an image of waves and noise, uint8."""
    y, x = np.mgrid[:height, :width]
    waves = [128 + 100 * np.sin(x / 7 + k) * np.cos(y / 5 - k) for k in range(channels)]
    noise = RNG.normal(0, 10, (height, width, channels))
    return np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)


def saved(image: np.ndarray, format: str, **options: Any) -> bytes:
    """Return the file that Pillow writes."""
    from PIL import Image

    file = io.BytesIO()
    mode = "CMYK" if format == "JPEG" and image.shape[-1] == 4 else None
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image, mode)
    picture.save(file, format, **options)
    return file.getvalue()
