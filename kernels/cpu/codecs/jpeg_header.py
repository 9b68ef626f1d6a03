"""Read the size of JPEG files from their headers.

Source: ITU-T T.81, Annex B.
"""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cpu.codecs.corrupt_image import CorruptImage

# start of frame, of any coding; DHT, JPG and DAC have codes between them
_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_DATA: Final = frozenset({0x01, *range(0xD0, 0xD8)})
_SCAN: Final = 0xDA


def read_header(content: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    """Return (height, width, horizontal and vertical sampling of each component).

    Raises CorruptImage for a file that has no frame before its first scan.
    """
    if content[:2] != b"\xff\xd8":
        raise CorruptImage("no start of JPEG")
    at = 2
    while at + 4 <= len(content):
        if content[at] != 0xFF:
            at += 1
            continue
        code = content[at + 1]
        if code == 0xFF:  # padding
            at += 1
            continue
        if code == 0 or code in _WITHOUT_DATA:
            at += 2
            continue
        size = int.from_bytes(content[at + 2 : at + 4], "big")
        data = content[at + 4 : at + 2 + size]
        if code in _FRAMES:
            return _frame(data)
        if code == _SCAN or size < 2:
            break
        at += 2 + size
    raise CorruptImage("no frame of JPEG")


def _frame(data: bytes) -> tuple[int, int, list[tuple[int, int]]]:
    if len(data) < 6 or len(data) < 6 + 3 * data[5] or not data[5]:
        raise CorruptImage("broken frame of JPEG")
    height, width = int.from_bytes(data[1:3], "big"), int.from_bytes(data[3:5], "big")
    if not height or not width:
        raise CorruptImage("JPEG without pixels")
    sampling = [(data[7 + 3 * k] >> 4, data[7 + 3 * k] & 15) for k in range(data[5])]
    return height, width, sampling
