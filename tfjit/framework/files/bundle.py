"""Read and write tensor bundles: the V2 checkpoint format, with checksums.

A bundle is `PREFIX.index` and `PREFIX.data-SSSSS-of-NNNNN`. The index is a sorted table: the empty
key holds a BundleHeaderProto, a tensor's name its BundleEntryProto (dtype, shape, and the data file
and place of its bytes). A tensor saved in slices has an entry with the slices' places only; each
slice has a separate entry (`slices.py`: its key). String tensors are stored as their lengths, a
checksum of these, and the bytes.
"""

from __future__ import annotations

import contextlib
import math
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from tfjit.framework.env import LOCAL_FILES, FileSystem
from tfjit.framework.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from tfjit.framework.files.crc32c import crc32c, crc32c_parts, masked
from tfjit.framework.files.positioned_reads import PositionedReads
from tfjit.framework.files.slices import (
    FULL,
    Extents,
    bounds,
    extent_shape,
    fill_slice,
    overlap,
    slice_extents,
    slice_key,
)
from tfjit.framework.files.sorted_table import get_varint, put_varint, read_table, write_table
from tfjit.framework.types import shape as shapes
from tfjit.framework.types.dtypes import DType, as_dtype, string
from tfjit.framework.types.tensors import as_bytes

if TYPE_CHECKING:
    from tfjit.protos import BundleEntryProto

_HEADER_KEY: Final = b""
_FORMAT_VERSION: Final = 1
_WHOLE_BYTES: Final = 64 << 20  # largest data file that is read in one piece


def data_file(prefix: str, shard: int, shards: int) -> str:
    """Return the name of a data file of a bundle."""
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


class BundleWriter:
    """Writer of a bundle with one data file.

    No file stands under the prefix until `finish`; leaving the `with` block without it drops all.
    """

    def __init__(self, prefix: str, files: FileSystem = LOCAL_FILES) -> None:
        self._prefix = prefix
        self._files = files
        files.make_folders(str(Path(prefix).parent))
        self._temporary = f"{prefix}.data.temporary-{uuid.uuid4().hex}"
        self._file = files.open(self._temporary, "wb")
        self._size = 0
        self._entries: dict[bytes, Any] = {}

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._file.closed:
            self._file.close()
        with contextlib.suppress(FileNotFoundError):  # finish has moved it
            self._files.remove(self._temporary)

    def add(self, name: str, value: np.ndarray) -> None:
        """Store a tensor. Raises InvalidArgumentError for a name that is there already."""
        self._add(name.encode(), value, name)

    def add_slice(
        self, name: str, shape: tuple[int, ...], extents: Extents, value: np.ndarray
    ) -> None:
        """Store a slice of the tensor `name` of `shape`."""
        if value.shape != extent_shape(shape, extents):
            raise InvalidArgumentError(
                None,
                None,
                f"{name}: a slice of shape {extent_shape(shape, extents)} was announced, its value "
                f"has shape {value.shape}",
            )
        if all(length in (FULL, size) for size, (_, length) in zip(shape, extents, strict=True)):
            self.add(name, value)
            return
        entry = self._entries.get(name.encode())
        if entry is None:
            entry = self._entries[name.encode()] = self._entry(as_dtype(value.dtype), shape)
        fill_slice(entry.slices.add(), extents)
        self._add(slice_key(name, extents), value, name)

    def _entry(self, dtype: DType, shape: tuple[int, ...]) -> Any:
        from tfjit.protos import BundleEntryProto

        entry = BundleEntryProto()
        # the stubs want their own int
        entry.dtype = dtype.as_datatype_enum  # type: ignore[assignment]
        entry.shape.SetInParent()
        shapes.fill_proto(entry.shape, shape)
        return entry

    def _add(self, key: bytes, value: np.ndarray, name: str) -> None:
        if key in self._entries:
            raise InvalidArgumentError(None, None, f"Adding duplicate key: {name}")
        if key == _HEADER_KEY:
            raise InvalidArgumentError(None, None, "a tensor of a checkpoint needs a name")
        dtype = as_dtype(value.dtype)
        entry = self._entries[key] = self._entry(dtype, value.shape)
        if dtype is string:
            parts, crc = _encode_strings(value)
        else:
            contiguous = np.ascontiguousarray(value)
            parts = [contiguous.reshape(-1).view(np.uint8).data if contiguous.size else b""]
            crc = crc32c(parts[0])
        entry.offset = self._size
        for part in parts:
            self._size += self._file.write(part)
        entry.size = self._size - entry.offset
        entry.crc32c = masked(crc)

    def finish(self) -> None:
        """Close the data file and put both files in their places."""
        self._file.close()
        self._files.replace(self._temporary, data_file(self._prefix, 0, 1))
        _write_index(self._prefix, self._entries, 1, self._files)


def _write_index(prefix: str, entries: dict[bytes, Any], shards: int, files: FileSystem) -> None:
    from tfjit.protos import BundleHeaderProto

    header = BundleHeaderProto(num_shards=shards)
    header.version.producer = _FORMAT_VERSION
    table = write_table(
        [
            (_HEADER_KEY, header.SerializeToString()),
            *((key, entries[key].SerializeToString(deterministic=True)) for key in sorted(entries)),
        ]
    )
    temporary = f"{prefix}.index.temporary-{uuid.uuid4().hex}"
    files.write(temporary, table)
    files.replace(temporary, f"{prefix}.index")


class BundleReader:
    """Reader of a bundle.

    reads: of the data files; inside its `with` block they stay open. Raises NotFoundError when
    there is none under the prefix, DataLossError when the index is damaged.
    """

    def __init__(self, prefix: str, files: FileSystem = LOCAL_FILES) -> None:
        from tfjit.protos import BundleEntryProto, BundleHeaderProto

        self.prefix = prefix
        self.reads = PositionedReads(files)
        path = f"{prefix}.index"
        try:
            file = files.read(path)
        except FileNotFoundError:
            raise NotFoundError(
                None,
                None,
                "Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
                f"for {prefix}",
            ) from None
        self._entries: dict[bytes, Any] = {}
        self._known: dict[str, tuple[DType, tuple[int, ...]]] = {}  # found so far
        header = None
        for key, value in read_table(file, path):
            if key == _HEADER_KEY:
                header = _parse(BundleHeaderProto, value, path)
            else:
                self._entries[key] = _parse(BundleEntryProto, value, path)
        if header is None:
            raise DataLossError(None, None, f"{path}: the table has no header entry")
        if header.endianness != BundleHeaderProto.LITTLE:
            raise UnimplementedError(None, None, f"{path}: a checkpoint in big-endian byte order")
        if header.version.min_consumer > _FORMAT_VERSION:
            raise InvalidArgumentError(
                None,
                None,
                f"{path}: written for readers of version {header.version.min_consumer} and later",
            )
        self.shards: int = header.num_shards

    def names(self) -> list[str]:
        """Return the names of the tensors, sorted; slices are not listed."""
        return [key.decode() for key in self._entries if key[0] != 0]

    @property
    def data_bytes(self) -> int:
        """Return the size of all tensors."""
        return sum(entry.size for entry in self._entries.values())

    def entries(self) -> Iterator[tuple[bytes, Any]]:
        """Yield (key, BundleEntryProto) of all entries, in the keys' order.

        Entries of slices are among them.
        """
        return iter(self._entries.items())

    def entry(self, name: str) -> Any:
        """Return the BundleEntryProto of a tensor. Raises NotFoundError."""
        found = self._entries.get(name.encode())
        if found is None:
            raise NotFoundError(None, None, f"Key {name} not found in checkpoint")
        return found

    def dtype_and_shape(self, name: str) -> tuple[DType, tuple[int, ...]]:
        """Return dtype and shape of a tensor, whole or in slices."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._dtype_and_shape(name)
        return known

    def _dtype_and_shape(self, name: str) -> tuple[DType, tuple[int, ...]]:
        entry = self.entry(name)
        shape = shapes.from_proto(entry.shape)
        if shape is None or not shapes.is_fully_defined(shape):
            raise DataLossError(
                None, None, f"{self.prefix}.index: the entry of {name} has no full shape"
            )
        return as_dtype(entry.dtype), cast("tuple[int, ...]", shape)

    def read(self, name: str) -> np.ndarray:
        """Return a whole tensor, joined from its slices where needed.

        Strings are an object array of bytes.
        """
        dtype, shape = self.dtype_and_shape(name)
        return self._read(name, dtype, shape, tuple((0, size) for size in shape))

    def read_small(self, names: Sequence[str], dtypes: Sequence[DType]) -> list[np.ndarray | None]:
        """Return whole tensors of these dtypes, by one read a file.

        A tensor of a small bundle takes a quarter of the time that `read` needs. None stands for
        each tensor that `read` alone can serve or refuse: one in slices, of strings, of another
        dtype, missing or damaged.
        """
        found: list[np.ndarray | None] = [None] * len(names)
        by_shard: dict[int, list[tuple[int, BundleEntryProto]]] = {}
        for index, (name, dtype) in enumerate(zip(names, dtypes, strict=True)):
            entry = self._entries.get(name.encode())
            if (
                entry is not None
                and entry.dtype == dtype.as_datatype_enum
                and dtype is not string
                and not entry.slices
                and not entry.shape.unknown_rank
            ):
                by_shard.setdefault(entry.shard_id, []).append((index, entry))
        for shard, entries in by_shard.items():
            end = max(entry.offset + entry.size for _, entry in entries)
            if end > _WHOLE_BYTES:
                continue
            data = np.empty(end, np.uint8)
            path = data_file(self.prefix, shard, self.shards)
            try:
                filled = self.reads.read_into(path, 0, data)
            except FileNotFoundError:
                continue
            whole = [(i, e, e.offset, e.size) for i, e in entries if e.offset + e.size <= filled]
            sums = crc32c_parts(data, [(offset, size) for _, _, offset, size in whole])
            for (index, entry, offset, size), crc in zip(whole, sums, strict=True):
                shape = tuple([dim.size for dim in entry.shape.dim])
                kind = dtypes[index]
                fits = min(shape, default=0) >= 0 and kind.size * math.prod(shape) == size
                if fits and masked(crc) == entry.crc32c:
                    part = data[offset : offset + size].copy()
                    found[index] = part.view(kind.as_numpy_dtype).reshape(shape)
        return found

    def read_slice(self, name: str, shape: tuple[int, ...], extents: Extents) -> np.ndarray:
        """Return a part of a tensor.

        `shape`: the whole tensor's shape, as the reader expects it.
        """
        dtype, stored = self.dtype_and_shape(name)
        if stored != shape:
            raise InvalidArgumentError(
                None,
                None,
                f"tensor_name = {name}; shape in shape_and_slice spec {shapes.format_shape(shape)} "
                "does not match the shape stored in "
                f"checkpoint: {shapes.format_shape(stored)}",
            )
        return self._read(name, dtype, shape, bounds(shape, extents))

    def _read(self, name: str, dtype: DType, shape: tuple[int, ...], wanted: Extents) -> np.ndarray:
        entry = self.entry(name)
        if not entry.slices:
            whole = self._load(entry, dtype, shape, name)
            if all(place == (0, size) for place, size in zip(wanted, shape, strict=True)):
                return whole
            return whole[tuple(slice(start, start + length) for start, length in wanted)]
        out = np.empty(
            tuple(length for _, length in wanted),
            dtype.as_numpy_dtype if dtype is not string else object,
        )
        missing = out.size
        for slice_proto in entry.slices:
            extents = slice_extents(slice_proto)
            places = bounds(shape, extents)
            common = overlap(places, wanted)
            if common is None:
                continue
            source, target = common
            found = self._entries.get(slice_key(name, extents))
            if found is None:
                raise DataLossError(
                    None, None, f"{self.prefix}.index: a slice of {name} has no entry"
                )
            part = self._load(found, dtype, tuple(length for _, length in places), name)
            out[target] = part[source]
            missing -= out[target].size
        if missing > 0:
            raise NotFoundError(
                None, None, f"{self.prefix}: the slices of {name} do not cover what is read"
            )
        return out

    def _load(self, entry: Any, dtype: DType, shape: tuple[int, ...], name: str) -> np.ndarray:
        path = data_file(self.prefix, entry.shard_id, self.shards)
        count = math.prod(shape)
        data = np.empty(entry.size, np.uint8)
        try:
            filled = self.reads.read_into(path, entry.offset, data)
        except FileNotFoundError:
            raise NotFoundError(None, None, f"{path}; No such file or directory") from None
        if filled != entry.size:
            raise DataLossError(
                None,
                None,
                f"{path}: {name} needs {entry.size} bytes at {entry.offset}, the file ends before",
            )
        if dtype is string:
            values, crc = _decode_strings(data.tobytes(), count, f"{path}: {name}")
        else:
            if dtype.size * count != entry.size:
                raise DataLossError(
                    None,
                    None,
                    f"{path}: {name} of {count} elements of {dtype.name} has {entry.size} bytes",
                )
            values, crc = data.view(dtype.as_numpy_dtype), crc32c(data.data if len(data) else b"")
        if masked(crc) != entry.crc32c:
            raise DataLossError(
                None,
                None,
                f"TensorBundle at {self.prefix} shard {entry.shard_id} ({entry.size} bytes): "
                "Checksum does not match: stored "
                f"{entry.crc32c} vs. calculated on the restored bytes {masked(crc)} "
                f"(tensor {name})",
            )
        return values.reshape(shape)


def _parse(kind: Any, data: bytes, path: str) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError:
        raise DataLossError(None, None, f"{path}: an entry is no {kind.DESCRIPTOR.name}") from None


def merge_bundles(
    prefixes: Sequence[str],
    destination: str,
    allow_missing: bool = False,
    files: FileSystem = LOCAL_FILES,
    read: Callable[[Callable[[str], Any], Sequence[str]], Iterable[Any]] = map,
) -> None:
    """Merge bundles: rename their data files and join their indices.

    read: `map`, or a function that does the same on several threads; it reads the indices. Raises
    NotFoundError for a missing bundle unless allow_missing (at least one must be there),
    InvalidArgumentError when two hold the same tensor.
    """

    def open_bundle(prefix: str) -> BundleReader | None:
        try:
            return BundleReader(prefix, files)
        except NotFoundError:
            if allow_missing:
                return None
            raise

    readers = [reader for reader in read(open_bundle, prefixes) if reader is not None]
    if not readers:
        raise InvalidArgumentError(
            None,
            None,
            f"MergeV2Checkpoints: none of the {len(prefixes)} checkpoints to merge is there",
        )
    total = sum(reader.shards for reader in readers)
    merged: dict[bytes, Any] = {}
    moves: list[str] = []
    for reader in readers:
        first = len(moves)
        moves += [data_file(reader.prefix, shard, reader.shards) for shard in range(reader.shards)]
        for key, entry in reader.entries():
            entry.shard_id += first
            known = merged.get(key)
            if known is None:
                merged[key] = entry
            elif (
                known.slices
                and entry.slices
                and known.shape == entry.shape
                and known.dtype == entry.dtype
            ):
                known.slices.extend(entry.slices)
            else:
                raise InvalidArgumentError(
                    None, None, f"MergeV2Checkpoints: {key!r} is in two of the checkpoints"
                )
    for entry in merged.values():
        if entry.slices:
            entry.shard_id = 0  # the slices' entries say where the data is
    files.make_folders(str(Path(destination).parent))
    for shard, path in enumerate(moves):
        files.replace(path, data_file(destination, shard, total))
    _write_index(destination, merged, total, files)
    for reader in readers:
        files.remove(f"{reader.prefix}.index")


def _encode_strings(value: np.ndarray) -> tuple[list[Any], int]:
    items = [as_bytes(item) for item in value.reshape(-1)]
    crc = crc32c(
        b"".join(struct.pack("<I" if len(item) < 1 << 32 else "<Q", len(item)) for item in items)
    )
    check = struct.pack("<I", masked(crc))
    payload = b"".join(items)
    return [b"".join(put_varint(len(item)) for item in items), check, payload], crc32c(
        payload, crc32c(check, crc)
    )


def _decode_strings(data: bytes, count: int, where: str) -> tuple[np.ndarray, int]:
    at = 0
    lengths = []
    for _ in range(count):
        length, at = get_varint(data, at)
        lengths.append(length)
    crc = crc32c(b"".join(struct.pack("<I" if n < 1 << 32 else "<Q", n) for n in lengths))
    check = data[at : at + 4]
    at += 4
    if check != struct.pack("<I", masked(crc)) or at + sum(lengths) != len(data):
        raise DataLossError(
            None, None, f"{where}: the checksum of the string lengths does not match"
        )
    values = np.empty(count, object)
    payload = at
    for i, length in enumerate(lengths):
        values[i] = data[at : at + length]
        at += length
    return values, crc32c(data[payload:], crc32c(check, crc))
