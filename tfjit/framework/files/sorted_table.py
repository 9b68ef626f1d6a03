"""The sorted string table of checkpoints: LevelDB's file format.

Tables are written in one go, and read whole or block by block (`Table`). A file is blocks of
entries with ascending keys, a metaindex block, an index block (last key of a block -> its place)
and a footer. An entry is varint shared key bytes, varint other key bytes, varint value bytes, key
tail, value; a block ends with its restart offsets and their count, a type byte (0: not compressed)
and a masked CRC-32C of block and type.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tfjit.framework.errors import DataLossError, UnimplementedError
from tfjit.framework.files.crc32c import masked_crc32c

_MAGIC: Final = 0xDB4775248B80FB57
_FOOTER_BYTES: Final = 48
_BLOCK_BYTES: Final = 256 << 10
_RESTART_INTERVAL: Final = 16
_NO_COMPRESSION: Final = 0
_KEPT_BYTES: Final = 1 << 20  # a block of small values is kept: the next one wanted is often there


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
    table = Table(lambda offset, size: file[offset : offset + size], len(file), name)
    table.check_metaindex()
    for _, handle in table.index:
        yield from table.block(handle)


class Table:
    """A table file of which single blocks are read.

    read: returns the bytes at (offset, size), fewer where the file ends before. name: for messages.
    index: (a key that is not below the block's, handle) of each block. Raises DataLossError for a
    damaged file.
    """

    def __init__(self, read: Callable[[int, int], bytes], size_bytes: int, name: str) -> None:
        self._read, self._name = read, name
        if size_bytes < _FOOTER_BYTES:
            raise DataLossError(None, None, f"{name}: file is too short to be an sstable")
        footer = read(size_bytes - _FOOTER_BYTES, _FOOTER_BYTES)
        if struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
            raise DataLossError(None, None, f"{name}: not an sstable (bad magic number)")
        self._metaindex, at = _handle(footer, 0)
        index, _ = _handle(footer, at)
        self.index = list(_entries(self._bytes(*index), name))
        self._kept: tuple[bytes, dict[bytes, bytes]] = b"", {}  # the block that was read last

    def check_metaindex(self) -> None:
        """Compare the checksum of the metaindex, which has nothing else of use."""
        self._bytes(*self._metaindex)

    def block(self, handle: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the (key, value) pairs of a block."""
        place, _ = _handle(handle, 0)
        return _entries(self._bytes(*place), self._name)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, None where it is not there."""
        for last, handle in self.index:
            if last >= key:
                kept, entries = self._kept
                if kept != handle:
                    entries = dict(self.block(handle))
                    if sum(map(len, entries.values())) <= _KEPT_BYTES:
                        self._kept = handle, entries
                return entries.get(key)
        return None

    def _bytes(self, offset: int, size: int) -> bytes:
        block = self._read(offset, size + 5)
        if len(block) < size + 5:
            raise DataLossError(None, None, f"{self._name}: truncated block read")
        if struct.unpack_from("<I", block, size + 1)[0] != masked_crc32c(block[: size + 1]):
            raise DataLossError(None, None, f"{self._name}: block checksum mismatch")
        if block[size] != _NO_COMPRESSION:
            raise UnimplementedError(
                None,
                None,
                f"{self._name}: a compressed table block (type {block[size]}); checkpoints hold "
                "none",
            )
        return block[:size]


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = get_varint(data, at)
    size, at = get_varint(data, at)
    return (offset, size), at


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
