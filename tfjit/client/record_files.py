"""`tfjit.python_io`: TFRecord files written and read by a program itself."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import IO, Any, Final

from tfjit.framework import errors
from tfjit.framework.records import pack_record, read_records


class TFRecordCompressionType:
    """How TFRecord files are compressed."""

    NONE: Final = 0
    ZLIB: Final = 1
    GZIP: Final = 2


_NAMES: Final = {TFRecordCompressionType.NONE: "", TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """compression_type: of TFRecordCompressionType, or its name. compression_level: of zlib, -1 to 9."""

    compression_type_map: Final = _NAMES

    def __init__(self, compression_type: Any = None, compression_level: int | None = None) -> None:
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.compression_level = compression_level

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """ "", "ZLIB" or "GZIP". Raises ValueError for anything else."""
        return compression_of(options)


def compression_of(options: Any) -> str:
    """The name of the compression that options, a type or its name say. Raises ValueError for anything else."""
    if options is None:
        return ""
    if isinstance(options, TFRecordOptions):
        return compression_of(options.compression_type)
    if isinstance(options, str) and options in _NAMES.values():
        return options
    if options in _NAMES:
        return _NAMES[options]
    raise ValueError(f'Not a valid compression_type: "{options}"')


class TFRecordWriter:
    """Writes records to a file, in place of what stood there. options: TFRecordOptions, or a compression type.

    Raises NotFoundError when the folder is missing.
    """

    def __init__(self, path: str | os.PathLike[str], options: Any = None) -> None:
        self._compression = compression_of(options)
        level = options.compression_level if isinstance(options, TFRecordOptions) else None
        self._level = -1 if level is None else level
        try:
            self._file: IO[bytes] | None = open(path, "wb")  # noqa: SIM115  closed by close
        except FileNotFoundError:
            raise errors.NotFoundError(None, None, f"{os.fspath(path)}; No such file or directory") from None
        except OSError as error:
            raise errors.FailedPreconditionError(None, None, f"{os.fspath(path)}; {error.strerror}") from None
        wanted = {"ZLIB": zlib.MAX_WBITS, "GZIP": 16 + zlib.MAX_WBITS}
        bits = wanted.get(self._compression)
        self._packer = zlib.compressobj(self._level, wbits=bits) if bits is not None else None

    def write(self, record: bytes) -> None:
        """Add a record. Raises FailedPreconditionError after `close`, TypeError for what is no bytes."""
        if not isinstance(record, bytes):
            raise TypeError(f"a record is bytes, got {type(record).__name__}")
        data = pack_record(record)
        self._open().write(data if self._packer is None else self._packer.compress(data))

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        return self._file

    def flush(self) -> None:
        """Hand all to the operating system."""
        file = self._open()
        if self._packer is not None:
            file.write(self._packer.flush(zlib.Z_SYNC_FLUSH))
        file.flush()

    def close(self) -> None:
        """End the file; a second call does nothing."""
        if self._file is None:
            return
        if self._packer is not None:
            self._file.write(self._packer.flush())
        self._file.close()
        self._file = None

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def tf_record_iterator(path: str | os.PathLike[str], options: Any = None) -> Iterator[bytes]:
    """The records of a file. Raises NotFoundError without it, DataLossError where it is damaged."""
    name, compression = os.fspath(path), compression_of(options)
    try:
        if compression == "GZIP":
            opened: Any = gzip.open(name, "rb")  # noqa: SIM115  closed below
        elif compression == "ZLIB":
            import io

            with open(name, "rb") as packed:
                opened = io.BytesIO(zlib.decompress(packed.read()))
        else:
            opened = open(name, "rb")  # noqa: SIM115  closed below
    except FileNotFoundError:
        raise errors.NotFoundError(None, None, f"{name}; No such file or directory") from None
    except zlib.error as error:
        raise errors.DataLossError(None, None, f"{name}: {error}") from None
    with opened:
        yield from read_records(opened, name)
