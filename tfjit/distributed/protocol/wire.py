"""Read and write the numbers of protobuf's wire format."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Return a non-negative number in protobuf's variable length."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (number, position behind it). Raises IndexError at the end of the data."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7


__all__ = ["read_varint", "varint"]
