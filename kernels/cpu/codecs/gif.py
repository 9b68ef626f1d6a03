"""Read GIF files: blocks, compressed indices, frames over each other.

Source of the format: CompuServe, "Graphics Interchange Format, Version 89a". Of the composition of
frames: TensorFlow 2.21, by running it: a frame is drawn over the one before, whatever its disposal.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.kernels.cpu.codecs.corrupt_image import CorruptImage

_EXTENSION, _FRAME, _END = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL: Final = 0xF9
_MAX_CODES: Final = 4096
# first row, rows apart of each pass of interlacing
_PASSES: Final = ((0, 8), (4, 8), (2, 4), (1, 2))


@dataclass
class Frame:
    """A frame and its place.

    indices [h, w]: entries of the palette [n, 3]; transparent: an entry, or -1.
    """

    left: int
    top: int
    indices: np.ndarray
    palette: np.ndarray | None
    transparent: int


class _Reader:
    """Reads the bytes of a file one after the other."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes; raises CorruptImage at the end of the file."""
        if self.at + count > len(self.content):
            raise CorruptImage("Failed to read from given file")
        taken = self.content[self.at : self.at + count]
        self.at += count
        return taken

    def blocks(self) -> bytes:
        """Return the data of the next sub-blocks, joined."""
        parts = []
        while size := self.take(1)[0]:
            parts.append(self.take(size))
        return b"".join(parts)

    def palette(self, flags: int) -> np.ndarray | None:
        """Return the palette that the flags announce."""
        if not flags & 0x80:
            return None
        count = 2 << (flags & 7)
        return np.frombuffer(self.take(3 * count), np.uint8).reshape(count, 3)


def read_frames(content: bytes) -> list[Frame]:
    """Return the frames of a file.

    Frames behind a broken one are lost. Raises CorruptImage for a file without a whole frame.
    """
    reader = _Reader(content)
    try:
        if reader.take(6)[:3] != b"GIF":
            raise CorruptImage("Data is not in GIF format")
    except CorruptImage as error:
        raise CorruptImage(f"failed to open gif file: {error}") from None
    try:
        palette = reader.palette(reader.take(7)[4])
    except CorruptImage:
        raise CorruptImage("failed to open gif file: No screen descriptor detected") from None
    frames: list[Frame] = []
    try:
        _read_blocks(reader, palette, frames)
    except CorruptImage as error:
        if not frames:
            raise CorruptImage(f"failed to slurp gif file: {error}") from None
    if not frames:
        raise CorruptImage("failed to slurp gif file: No Image Descriptor detected")
    return frames


def _read_blocks(reader: _Reader, palette: np.ndarray | None, frames: list[Frame]) -> None:
    transparent = -1
    while (kind := reader.take(1)[0]) != _END:
        if kind == _EXTENSION:
            label = reader.take(1)[0]
            data = reader.blocks()
            if label == _GRAPHIC_CONTROL and len(data) >= 4:
                transparent = data[3] if data[0] & 1 else -1
        elif kind == _FRAME:
            frames.append(_read_frame(reader, palette, transparent))
            transparent = -1
        else:
            raise CorruptImage("Wrong record type detected")


def _read_frame(reader: _Reader, palette: np.ndarray | None, transparent: int) -> Frame:
    left, top, width, height, flags = struct.unpack("<HHHHB", reader.take(9))
    own = reader.palette(flags)
    bits = reader.take(1)[0]
    if not 0 < bits <= 8:
        raise CorruptImage("Image is defective, decoding aborted")
    if not width or not height:
        raise CorruptImage("frame without pixels")
    rows = decompressed(reader.blocks(), bits, width * height).reshape(height, width)
    if flags & 0x40:
        whole = np.empty_like(rows)
        at = 0
        for first, step in _PASSES:
            count = len(whole[first::step])
            whole[first::step] = rows[at : at + count]
            at += count
        rows = whole
    return Frame(left, top, rows, palette if own is None else own, transparent)


def decompressed(data: bytes, bits: int, count: int) -> np.ndarray:
    """Return `count` indices of LZW codes, uint8.

    bits: of an index. Raises CorruptImage for wrong codes and missing indices.
    """
    clear, end = 1 << bits, (1 << bits) + 1
    strings: list[bytes] = [bytes([k]) for k in range(clear)] + [b"", b""]
    out: list[bytes] = []
    found, before = 0, b""
    size, word, held = bits + 1, 0, 0
    for byte in data:
        word |= byte << held
        held += 8
        while held >= size and found < count:
            code = word & ((1 << size) - 1)
            word >>= size
            held -= size
            if code == clear:
                del strings[end + 1 :]
                size, before = bits + 1, b""
                continue
            if code == end:
                raise CorruptImage("Image EOF detected before image complete")
            if code < len(strings):
                text = strings[code]
                if before and len(strings) < _MAX_CODES:
                    strings.append(before + text[:1])
            elif code == len(strings) and before and code < _MAX_CODES:
                text = before + before[:1]
                strings.append(text)
            else:
                raise CorruptImage("Image is defective, decoding aborted")
            out.append(text)
            found += len(text)
            before = text
            if len(strings) == 1 << size and size < 12:
                size += 1
        if found >= count:
            return np.frombuffer(b"".join(out), np.uint8, count)
    raise CorruptImage("Failed to read from given file")


def composed(frames: list[Frame], count: int | None = None) -> np.ndarray:
    """Return the pictures after each of the first frames.

    The result is uint8 [count, h, w, 3].
    The picture has the size of the largest frame. Raises CorruptImage for an index beyond the
    palette.
    """
    height = max(len(frame.indices) for frame in frames)
    width = max(frame.indices.shape[1] for frame in frames)
    frames = frames[:count]
    pictures = np.zeros((len(frames), height, width, 3), np.uint8)
    for k, frame in enumerate(frames):
        if k:
            pictures[k] = pictures[k - 1]
        if frame.palette is None:
            raise CorruptImage(f"missing color map for frame {k}")
        rows, columns = max(0, height - frame.top), max(0, width - frame.left)
        indices = frame.indices[:rows, :columns]
        drawn = indices != frame.transparent
        beyond = indices[drawn & (indices >= len(frame.palette))]
        if beyond.size:
            raise CorruptImage(
                f"found color index {beyond[0]} outside of color map range {len(frame.palette)}"
            )
        place = pictures[
            k,
            frame.top : frame.top + len(indices),
            frame.left : frame.left + indices.shape[1],
        ]
        place[drawn] = frame.palette[indices[drawn]]
    return pictures
