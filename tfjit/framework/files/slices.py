"""Describe slices of tensors in checkpoints: texts, messages, keys.

A slice has an extent for each dimension. Its key in a table is in the order-preserving code of
Google's OrderedCode: a number, the name, then start and length of each dimension.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.errors import InternalError, InvalidArgumentError
from tfjit.framework.types.shape import format_shape

if TYPE_CHECKING:
    from tfjit.protos import TensorSliceProto

FULL: Final = -1  # the length of a dimension that a slice takes whole
_INTEGER: Final = re.compile(r"[-+]?\d+")

Extents = tuple[tuple[int, int], ...]  # (start, length) of each dimension; (0, FULL) takes all


def parse_slice_spec(spec: str) -> tuple[tuple[int, ...], Extents]:
    """Parse a `shape_and_slice` of a checkpoint's operation.

    "4 6 0,2:-" -> ((4, 6), ((0, 2), (0, FULL))). Raises InvalidArgumentError for any other form,
    InternalError for a slice that does not fit the shape.
    """
    *sizes, last = spec.split(" ")
    if not sizes:
        raise InvalidArgumentError(
            None, None, f"Need least two elements in shape_and_slice specification: {spec}"
        )
    extents = tuple(_extent(part, last) for part in last.split(":") if part)
    if not all(_INTEGER.fullmatch(size) for size in sizes) or any(int(s) < 0 for s in sizes):
        raise InvalidArgumentError(
            None, None, f"Non numerical dimension in shape_and_slice: {spec}"
        )
    shape = tuple(int(size) for size in sizes)
    where = f"shape = {format_shape(shape)}, slice = {slice_text(extents)}"
    if len(shape) != len(extents):
        raise InternalError(None, None, f"Mismatching ranks: {where}")
    for axis, (size, (start, length)) in enumerate(zip(shape, extents, strict=True)):
        if length != FULL and start + length > size:
            raise InternalError(None, None, f"Extent in dimension {axis} out of bounds: {where}")
    return shape, extents


def _extent(part: str, text: str) -> tuple[int, int]:
    if part == "-":
        return 0, FULL
    numbers = [number for number in part.split(",") if number]
    if len(numbers) != 2 or not all(_INTEGER.fullmatch(number) for number in numbers):
        raise InvalidArgumentError(
            None, None, f"Expected a pair of numbers or '-' but got '{part}': string = {text}"
        )
    start, length = int(numbers[0]), int(numbers[1])
    if start < 0 or length <= 0:
        raise InvalidArgumentError(
            None,
            None,
            "Expected non-negative start and positive length but got start = "
            f"{start}, length = {length}: string = {text}",
        )
    return start, length


def slice_text(extents: Extents) -> str:
    """Return a slice as messages and specifications write it, "0,2:-"."""
    return ":".join("-" if length == FULL else f"{start},{length}" for start, length in extents)


def extent_shape(shape: Sequence[int], extents: Extents) -> tuple[int, ...]:
    """Return the shape of a slice."""
    return tuple(
        size if length == FULL else length for size, (_, length) in zip(shape, extents, strict=True)
    )


def bounds(shape: Sequence[int], extents: Extents) -> Extents:
    """Return the extents with the sizes of whole dimensions in them."""
    return tuple(
        (0, size) if length == FULL else (start, length)
        for size, (start, length) in zip(shape, extents, strict=True)
    )


def overlap(places: Extents, wanted: Extents) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """Return the common elements of two slices, as seen from each.

    places, wanted: starts and lengths in one tensor. None where nothing is common.
    """
    common = [(max(a, c), min(a + b, c + d)) for (a, b), (c, d) in zip(places, wanted, strict=True)]
    if any(low >= high for low, high in common):
        return None
    return (
        tuple(slice(low - a, high - a) for (low, high), (a, _) in zip(common, places, strict=True)),
        tuple(slice(low - c, high - c) for (low, high), (c, _) in zip(common, wanted, strict=True)),
    )


def fill_slice(proto: TensorSliceProto, extents: Extents) -> None:
    """Write extents into an empty TensorSliceProto."""
    for start, length in extents:
        extent = proto.extent.add()
        if length != FULL:
            extent.start, extent.length = start, length


def slice_extents(proto: TensorSliceProto) -> Extents:
    """Return the extents of a TensorSliceProto."""
    return tuple((e.start, e.length) if e.HasField("length") else (0, FULL) for e in proto.extent)


def slice_key(name: str, extents: Extents) -> bytes:
    """Return the key of a slice's entry."""
    escaped = name.encode().replace(b"\xff", b"\xff\0").replace(b"\0", b"\0\xff")
    numbers = b"".join(_signed(start) + _signed(length) for start, length in extents)
    return _unsigned(0) + escaped + b"\0\1" + _unsigned(len(extents)) + numbers


def _unsigned(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """Encode a signed number so that bytes sort as the numbers do.

    The code is two's complement of 7·n bits behind n ones and a zero, with the sign bit flipped.
    """
    magnitude = ~value if value < 0 else value
    size = magnitude.bit_length() // 7 + 1
    if size == 1:
        return bytes([(value & 0xFF) ^ 0x80])
    bits = 8 * size
    header = ((1 << size) - 1) << (bits - size)
    return ((value & ((1 << bits) - 1)) ^ header).to_bytes(size, "big")
