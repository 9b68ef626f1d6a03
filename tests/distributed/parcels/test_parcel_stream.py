"""Parcels as streams: parts are put together, other bytes are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from google.protobuf.message import DecodeError

from tfjit import protos
from tfjit.distributed.parcels.parcel_stream import Assembler, knows_parcels, split
from tfjit.distributed.parcels.parcels import Parcel

VALUES = [
    np.arange(600_000, dtype=np.float64).reshape(600, 1000),
    np.arange(100, dtype=np.int32),
    np.float32(2.5),
    np.zeros((0, 3), np.float32),
    np.arange(70_000) % 3 == 0,
]


def parcel_of(values: list[np.ndarray]) -> Parcel:
    parcel = Parcel(protos.RunStepResponse(status_error_message="text"))
    for number, value in enumerate(values):
        parcel.fill(parcel.message.tensor.add(name=f"y{number}").tensor, np.asarray(value))
    return parcel


@pytest.mark.parametrize("count", range(len(VALUES) + 1))
def test_parts_are_put_together(count: int) -> None:
    first, chunks = split(parcel_of(VALUES[:count]))
    assert (chunks is None) == (count == 0)
    found = Assembler(protos.RunStepResponse)
    found.take(first)
    for chunk in chunks or ():
        assert not found.is_whole and len(chunk) <= 1 << 20
        found.take(chunk)
    assert found.is_whole and found.parcel is not None
    message = found.parcel.message
    assert message.status_error_message == "text"
    for item, value in zip(message.tensor, VALUES[:count], strict=True):
        got = found.parcel.value(item.tensor)
        assert got.dtype == value.dtype
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff" * 12,
        struct.pack("<IQ", 3, 0),
        struct.pack("<IQ", 0, 100),
        struct.pack("<IQQ", 1, 0, 1 << 60),
        struct.pack("<IQQ", 1, 0, 100),
        struct.pack("<IQ", 0, 2) + b"\x0a\x7f",
    ],
)
def test_other_bytes_are_refused(first: bytes) -> None:
    with pytest.raises(DecodeError):
        Assembler(protos.RunStepResponse).take(first)


def test_faulty_chunks_are_refused() -> None:
    first, chunks = split(parcel_of([np.zeros(100_000, np.uint8)]))
    assert chunks is not None
    (chunk,) = chunks
    for faulty in (b"", chunk + b"1"):
        found = Assembler(protos.RunStepResponse)
        found.take(first)
        with pytest.raises(DecodeError):
            found.take(faulty)
    found.take(chunk)
    with pytest.raises(DecodeError):
        found.take(b"1")


def test_metadata_of_other_servers() -> None:
    assert not knows_parcels(None) and not knows_parcels([("tfjit-parcels", "2")])
    assert knows_parcels([("other", b"1"), ("tfjit-parcels", "3")])
