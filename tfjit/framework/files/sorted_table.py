"""The sorted string table of a checkpoint's index: LevelDB's file format.

Tables are read whole and written in one go. A file is blocks of entries with ascending keys, a
metaindex block, an index block (last key of a block -> its place) and a footer. An entry is varint
shared key bytes, varint other key bytes, varint value bytes, key tail, value; a block ends with its
restart offsets and their count, a type byte (0: not compressed) and a masked CRC-32C of block and
type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from tfjit.framework.errors import DataLossError, UnimplementedError
from tfjit.framework.files.crc32c import masked_crc32c

_MAGIC: Final = 0xDB4775248B80FB57
_FOOTER_BYTES: Final = 48
_BLOCK_BYTES: Final = 256 << 10
_RESTART_INTERVAL: Final = 16
_NO_COMPRESSION: Final = 0


def put_varint(value: int) -> bytes:
    """Return an unsigned integer, seven bits a byte, low bits first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def get_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer at `at` and where it ends.

    Raises DataLossError when the data ends first.
    """
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise DataLossError(None, None, "corrupted table: a number runs past its block")


class _BlockBuilder:
    def __init__(self, restart_interval: int = _RESTART_INTERVAL) -> None:
        self._interval = restart_interval
        self._data = bytearray()
        self._restarts = [0]
        self._count = 0
        self._last = b""

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._count % self._interval:
            limit = min(len(key), len(self._last))
            while shared < limit and key[shared] == self._last[shared]:
                shared += 1
        elif self._count:
            self._restarts.append(len(self._data))
        self._data += (
            put_varint(shared)
            + put_varint(len(key) - shared)
            + put_varint(len(value))
            + key[shared:]
            + value
        )
        self._last = key
        self._count += 1

    def __len__(self) -> int:
        """Return the bytes of the finished block."""
        return len(self._data) + 4 * len(self._restarts) + 4

    def __bool__(self) -> bool:
        return self._count > 0

    def finish(self) -> bytes:
        return (
            bytes(self._data)
            + struct.pack(f"<{len(self._restarts)}I", *self._restarts)
            + struct.pack("<I", len(self._restarts))
        )


def write_table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a whole table file of (key, value) pairs, keys strictly ascending."""
    file = bytearray()

    def put(block: bytes) -> bytes:
        """Append a block; returns its handle."""
        handle = put_varint(len(file)) + put_varint(len(block))
        block += bytes([_NO_COMPRESSION])
        file.extend(block)
        file.extend(struct.pack("<I", masked_crc32c(block)))
        return handle

    index = _BlockBuilder(restart_interval=1)  # the index is searched, not read through
    block = _BlockBuilder()
    last = b""
    for key, value in entries:
        if len(block) >= _BLOCK_BYTES:
            index.add(_separator(last, key), put(block.finish()))
            block = _BlockBuilder()
        block.add(key, value)
        last = key
    if block:
        index.add(_successor(last), put(block.finish()))
    metaindex_handle = put(_BlockBuilder().finish())
    index_handle = put(index.finish())
    handles = metaindex_handle + index_handle
    file += handles.ljust(_FOOTER_BYTES - 8, b"\0") + struct.pack("<Q", _MAGIC)
    return bytes(file)


def _separator(low: bytes, high: bytes) -> bytes:
    """Return a short key k with low <= k < high.

    The index needs no whole keys.
    """
    for i, (a, b) in enumerate(zip(low, high, strict=False)):
        if a != b:
            return low[:i] + bytes([a + 1]) if a + 1 < b else low
    return low


def _successor(key: bytes) -> bytes:
    """Return a short key that is not below `key`."""
    for i, byte in enumerate(key):
        if byte != 0xFF:
            return key[:i] + bytes([byte + 1])
    return key


def read_table(file: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the (key, value) pairs of a table file in order.

    `name` is for messages. Raises DataLossError for a damaged file.
    """
    if len(file) < _FOOTER_BYTES or struct.unpack("<Q", file[-8:])[0] != _MAGIC:
        raise DataLossError(None, None, f"{name}: not an sstable (bad magic number)")
    footer = len(file) - _FOOTER_BYTES
    (offset, size), at = _handle(file, footer)
    # the metaindex: nothing of use in it, but its checksum tells of damage
    _block(file, offset, size, name)
    (offset, size), _ = _handle(file, at)
    for _, handle in _entries(_block(file, offset, size, name), name):
        (offset, size), _ = _handle(handle, 0)
        yield from _entries(_block(file, offset, size, name), name)


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = get_varint(data, at)
    size, at = get_varint(data, at)
    return (offset, size), at


def _block(file: bytes, offset: int, size: int, name: str) -> bytes:
    end = offset + size + 1
    if end + 4 > len(file):
        raise DataLossError(None, None, f"{name}: truncated block read")
    if struct.unpack_from("<I", file, end)[0] != masked_crc32c(file[offset:end]):
        raise DataLossError(None, None, f"{name}: block checksum mismatch")
    if file[end - 1] != _NO_COMPRESSION:
        raise UnimplementedError(
            None,
            None,
            f"{name}: a compressed table block (type {file[end - 1]}); checkpoints hold none",
        )
    return file[offset : end - 1]


def _entries(block: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise DataLossError(None, None, f"{name}: a table block of {len(block)} bytes")
    end = len(block) - 4 - 4 * struct.unpack("<I", block[-4:])[0]
    if end < 0:
        raise DataLossError(None, None, f"{name}: a table block with more restarts than bytes")
    key = b""
    at = 0
    while at < end:
        shared, rest, length = block[at : at + 3].ljust(3, b"\x80")
        if shared < 0x80 and rest < 0x80 and length < 0x80:  # one byte each, as in most entries
            at += 3
        else:
            shared, at = get_varint(block, at)
            rest, at = get_varint(block, at)
            length, at = get_varint(block, at)
        if shared > len(key) or at + rest + length > end:
            raise DataLossError(None, None, f"{name}: bad entry in table block")
        key = key[:shared] + block[at : at + rest]
        at += rest
        yield key, block[at : at + length]
        at += length
