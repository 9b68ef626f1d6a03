"""Read and write TFRecord files; event files have the same form.

A record is a length, its masked CRC-32C, the data, and its masked CRC-32C.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import IO

from tfjit.framework.errors import DataLossError
from tfjit.framework.files.crc32c import masked_crc32c


def pack_record(data: bytes) -> bytes:
    """Return one record as the file holds it."""
    length = struct.pack("<Q", len(data))
    return (
        length
        + struct.pack("<I", masked_crc32c(length))
        + data
        + struct.pack("<I", masked_crc32c(data))
    )


def read_records(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the records of an open file.

    `name` is for messages. Raises DataLossError where the file is damaged or ends inside a record.
    """
    at = 0
    while True:
        head = file.read(12)
        if not head:
            return
        if len(head) < 12 or struct.unpack("<I", head[8:])[0] != masked_crc32c(head[:8]):
            hint = " (Is this even a TFRecord file?)" if at == 0 else ""
            raise DataLossError(
                None,
                None,
                f"corrupted record at {at}{hint}: the length's checksum does not match, in {name}",
            )
        (length,) = struct.unpack("<Q", head[:8])
        data = file.read(length)
        tail = file.read(4)
        if len(data) < length or len(tail) < 4:
            raise DataLossError(None, None, f"truncated record at {at}, in {name}")
        if struct.unpack("<I", tail)[0] != masked_crc32c(data):
            raise DataLossError(
                None, None, f"corrupted record at {at + 12}: the checksum does not match, in {name}"
            )
        yield data
        at += 16 + length
