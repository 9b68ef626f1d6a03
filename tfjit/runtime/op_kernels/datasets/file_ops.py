"""Datasets of lines, records and names of files."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING

import numpy as np

from tfjit.framework import errors
from tfjit.framework.files.records import read_records
from tfjit.runtime.datasets.dataset import (
    Dataset,
    DatasetOp,
    Elements,
    dataset_kernel,
)
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.resources.readers import opened

if TYPE_CHECKING:
    from tfjit.framework.env import FileSystem

Read = Callable[[IO[bytes], str], Iterator[Value]]
"""Return the records of an open file; its name is for messages."""


def _compression(op: DatasetOp) -> str:
    found = op.text("compression_type").decode()
    if found not in ("", "ZLIB", "GZIP"):
        raise errors.InvalidArgumentError(None, None, "Unsupported compression_type.")
    return found


def _files(op: DatasetOp, compression: str, read: Read) -> Dataset:
    names, files = op.strings("filenames"), op.ctx.session.env.files
    return op.strings_made(lambda run: Records(names, files, compression, read))


@dataset_kernel("TextLineDataset")
def text_lines(op: DatasetOp) -> Dataset:
    """Return the lines of files, without their ends."""

    def read(file: IO[bytes], name: str) -> Iterator[bytes]:
        for line in file:
            yield line.removesuffix(b"\n").removesuffix(b"\r")

    return _files(op, _compression(op), read)


@dataset_kernel("TFRecordDataset", "TFRecordDatasetV2")
def tf_records(op: DatasetOp) -> Dataset:
    """Return the records of TFRecord files.

    V2 begins at a byte offset of each file.
    """
    compression = _compression(op)
    names = op.strings("filenames")
    offsets = {}
    if "byte_offsets" in op.names:
        starts = np.asarray(op.value("byte_offsets")).reshape(-1).tolist()
        if starts and len(starts) != len(names):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The number of `byte_offsets` ({len(starts)}) is not that of `filenames`",
            )
        offsets = dict(zip([name.decode() for name in names], starts, strict=False))

    def read(file: IO[bytes], name: str) -> Iterator[bytes]:
        if offsets.get(name):
            file.seek(offsets[name])
        return read_records(file, name)

    return _files(op, compression, read)


@dataset_kernel("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2")
def fixed_length_records(op: DatasetOp) -> Dataset:
    """Return pieces of files: `record_bytes` each, between a header and a footer.

    Raises InvalidArgumentError for sizes below zero, and for a file that has a part of a record.
    """
    header, size, footer = (op.integer(f"{part}_bytes") for part in ("header", "record", "footer"))
    for name, value in (("header_bytes", header), ("footer_bytes", footer)):
        if value < 0:
            raise errors.InvalidArgumentError(None, None, f"{name} must be non-negative.")
    op.positive("record_bytes")
    compression = _compression(op) if op.ctx.op.endswith("V2") else ""

    def read(file: IO[bytes], name: str) -> Iterator[bytes]:
        data = file.read()
        body = len(data) - header - footer
        if body < 0 or body % size:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Excluding the header ({header} bytes) and footer ({footer} bytes), input file "
                f'"{name}" has body length {body} bytes, which is not an exact multiple of the '
                f"record length ({size} bytes).",
            )
        return (data[at : at + size] for at in range(header, len(data) - footer, size))

    return _files(op, compression, read)


class Records(Elements):
    """Records of one file after the other.

    An error in a file ends it. A file that cannot be opened is tried again at each call, as in
    TensorFlow.
    """

    __slots__ = ("_at", "_compression", "_file", "_files", "_names", "_next", "_read")

    def __init__(self, names: list[bytes], files: FileSystem, compression: str, read: Read) -> None:
        super().__init__()
        self._names, self._files, self._at = names, files, 0
        self._compression, self._read = compression, read
        self._file: IO[bytes] | None = None
        self._next: Iterator[bytes] | None = None

    def __next__(self) -> Element:
        while True:
            records = self._next
            if records is None:
                if self._at >= len(self._names):
                    raise StopIteration
                self._open(self._names[self._at].decode(errors="surrogateescape"))
                self._at += 1
                continue
            try:
                record = next(records)
            except StopIteration:
                self.close()
            except (EOFError, zlib.error, OSError) as error:
                self.close()
                raise errors.DataLossError(None, None, str(error)) from error
            except errors.OpError:
                self.close()
                raise
            else:
                return self._element(record)

    def _element(self, record: Value) -> Element:
        return [np.array(record, object)]

    def _open(self, name: str) -> None:
        try:
            self._file = opened(self._files, name.removeprefix("file://"), self._compression)
        except FileNotFoundError:
            raise errors.NotFoundError(None, None, f"{name}; No such file or directory") from None
        except OSError as error:
            raise errors.FailedPreconditionError(
                None, None, f"{name}; {error.strerror or error}"
            ) from error
        except zlib.error as error:
            raise errors.DataLossError(None, None, f"{name}: {error}") from error
        try:
            self._next = self._read(self._file, name)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the present file."""
        self._next = None
        if self._file is not None:
            self._file.close()
            self._file = None


@dataset_kernel("MatchingFilesDataset", "ExperimentalMatchingFilesDataset")
def matching_files(op: DatasetOp) -> Dataset:
    """Return the names of files that match patterns, in order."""
    patterns, files = op.strings("patterns"), op.ctx.session.env.files

    def names() -> Iterator[bytes]:
        found: set[str] = set()
        for pattern in patterns:
            found.update(files.glob(pattern.decode()))
        return iter(sorted(name.encode() for name in found))

    return op.strings_made(lambda run: _Names(names))


class _Names(Elements):
    __slots__ = ("_find", "_next")

    def __init__(self, find: Callable[[], Iterator[bytes]]) -> None:
        super().__init__()
        self._find = find
        self._next: Iterator[bytes] | None = None

    def __next__(self) -> Element:
        if self._next is None:
            self._next = self._find()
        return [np.array(next(self._next), object)]
