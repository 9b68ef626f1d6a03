"""Parcels as streams of messages, between tasks that both are tfjit's.

The first message has the sizes of the arrays, the message and short arrays; chunks of the others
follow. While one chunk is copied, another is on its way, and none needs fresh memory: a large
tensor goes at three times the speed of one message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.parcels.received_arrays import empty_bytes

METADATA: Final = (("tfjit-parcels", "3"),)
"""The initial metadata of a server that has the service."""
METHODS: Final = frozenset({"RunStep", "RunCallable", "RunGraph", "RecvTensor", "RecvBuf"})
CHUNK: Final = 1 << 20
_SHORT: Final = 1 << 16
_HEAD: Final = struct.Struct("<IQ")  # arrays, message bytes
_SIZE: Final = struct.Struct("<Q")
_MOST_ARRAYS: Final = 1 << 16
_MOST_BYTES: Final = 1 << 40


def split(parcel: Parcel) -> tuple[bytes, Iterator[bytes] | None]:
    """Return (the first message, the chunks behind it or None)."""
    message = parcel.message.SerializeToString()
    arrays = [array.data for array in parcel.arrays]
    sizes = [_SIZE.pack(array.nbytes) for array in arrays]
    short = [array for array in arrays if array.nbytes < _SHORT]
    first = b"".join((_HEAD.pack(len(arrays), len(message)), *sizes, message, *short))
    if len(short) == len(arrays):
        return first, None
    return first, _chunks([array for array in arrays if array.nbytes >= _SHORT])


def _chunks(arrays: list[memoryview]) -> Iterator[bytes]:
    for array in arrays:
        for at in range(0, array.nbytes, CHUNK):
            yield bytes(array[at : at + CHUNK])


def knows_parcels(metadata: Any) -> bool:
    """Return whether initial metadata are those of a tfjit server."""
    return METADATA[0] in {(key, value) for key, value in metadata or ()}


class Assembler:
    """Put the messages of a stream together.

    message_class: of the parcel's message.
    """

    def __init__(self, message_class: Any) -> None:
        self._message_class = message_class
        self.parcel: Parcel | None = None
        self._open: list[np.ndarray] = []
        self._at = 0

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is left to come."""
        return self.parcel is not None and not self._open

    def take(self, data: bytes) -> None:
        """Add the next message.

        Raises DecodeError for bytes that are no part of a parcel, MemoryError for a large one.
        """
        if self.parcel is None:
            self.parcel = self._first(data)
            return
        if not self._open or not data:
            raise DecodeError("a chunk behind the last one")
        array = self._open[0]
        end = self._at + len(data)
        if end > array.nbytes:
            raise DecodeError("a chunk goes beyond the end of its array")
        array.data[self._at : end] = data
        self._at = end
        if end == array.nbytes:
            self._open.pop(0)
            self._at = 0

    def _first(self, data: bytes) -> Parcel:
        try:
            count, length = _HEAD.unpack_from(data)
            if count > _MOST_ARRAYS:
                raise DecodeError(f"a parcel of {count} arrays")
            at = _HEAD.size + count * _SIZE.size
            sizes = struct.unpack_from(f"<{count}Q", data, _HEAD.size)
        except struct.error as error:
            raise DecodeError(str(error)) from None
        if sum(sizes) > _MOST_BYTES or length > len(data) - at:
            raise DecodeError("a parcel of impossible size")
        message = self._message_class.FromString(data[at : at + length])
        at += length
        arrays = []
        for size in sizes:
            if size >= _SHORT:
                arrays.append(empty_bytes(size))
                self._open.append(arrays[-1])
                continue
            if size > len(data) - at:
                raise DecodeError("an array goes beyond the end of its parcel")
            arrays.append(np.frombuffer(bytearray(data[at : at + size]), np.uint8))
            at += size
        return Parcel(message, arrays)


__all__ = ["CHUNK", "METADATA", "METHODS", "Assembler", "knows_parcels", "split"]
