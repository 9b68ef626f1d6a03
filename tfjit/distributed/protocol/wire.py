"""Read and write the numbers of protobuf's wire format."""

from __future__ import annotations

from collections.abc import Iterator


def varint(number: int) -> bytes:
    """Return a non-negative number in protobuf's variable length."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (number, position behind it).

    Raises IndexError at the end of the data, and for a number of more than 64 bits.
    """
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:  # a flood of such bytes would take the square of their count
            raise IndexError("a number of more than 64 bits")


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of a message.

    Each is (number and wire type, start, start and end of the value).

    A value of a fixed size or variable length is its bytes. Raises IndexError for bytes that are no
    message.
    """
    while at < end:
        start = at
        tag, at = read_varint(data, at)
        kind = tag & 0x7
        value = at
        if kind == 0:
            _, at = read_varint(data, at)
        elif kind == 2:
            length, value = read_varint(data, at)
            at = value + length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise IndexError(f"wire type {kind}")
        if at > end:
            raise IndexError("a field goes beyond the end of its message")
        yield tag, start, value, at


__all__ = ["fields", "read_varint", "varint"]
