"""`tfjit.python_io`: TFRecord files written and read by a program itself."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.framework.files import crc32c
from tfjit.framework.files.records import pack_record, read_records
from tfjit.kernels.executor.crc32c import crc32c_function

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message

crc32c.use(crc32c_function)


class TFRecordCompressionType:
    """The compression of TFRecord files."""

    NONE: Final = 0
    ZLIB: Final = 1
    GZIP: Final = 2


_NAMES: Final = {
    TFRecordCompressionType.NONE: "",
    TFRecordCompressionType.ZLIB: "ZLIB",
    TFRecordCompressionType.GZIP: "GZIP",
}


class TFRecordOptions:
    """The options of a compressed TFRecord file.

    compression_type: of TFRecordCompressionType, or its name. The rest is zlib's, with zlib's
    defaults. flush_mode: how `flush` ends a block (zlib.Z_NO_FLUSH keeps it open).
    input_buffer_size, output_buffer_size: bytes that gather before zlib or the file gets them.
    window_bits: log2 of the history (8 to 15; + 16 for a gzip header, negative for no header).
    compression_level: -1 to 9. compression_method: zlib.DEFLATED. mem_level: 1 to 9.
    compression_strategy: zlib's Z_...
    """

    compression_type_map: Final = _NAMES

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Message) -> str:
        """Return "", "ZLIB" or "GZIP". Raises ValueError for anything else."""
        return compression_of(options)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _compressor(compression: str, options: TFRecordOptions) -> Any:
    """Return zlib's compressor for the options, or None without compression.

    Raises ValueError for options that zlib refuses.
    """
    if not compression:
        return None
    gzipped = compression == "GZIP"
    bits = _or(options.window_bits, zlib.MAX_WBITS + 16 if gzipped else zlib.MAX_WBITS)
    return zlib.compressobj(
        level=_or(options.compression_level, zlib.Z_DEFAULT_COMPRESSION),
        method=_or(options.compression_method, zlib.DEFLATED),
        wbits=bits,
        memLevel=_or(options.mem_level, 9),
        strategy=_or(options.compression_strategy, zlib.Z_DEFAULT_STRATEGY),
    )


def compression_of(options: Message) -> str:
    """Return the compression's name, from options, a type or a name.

    Raises ValueError for anything else.
    """
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
    """Writer of records to a file, replacing an older file.

    options: TFRecordOptions, or a compression type. Raises NotFoundError when the folder is
    missing.
    """

    def __init__(self, path: str | os.PathLike[str], options: object = None) -> None:
        self._compression = compression_of(options)
        chosen = (
            options if isinstance(options, TFRecordOptions) else TFRecordOptions(self._compression)
        )
        self._packer = _compressor(self._compression, chosen)
        self._flush_mode = _or(chosen.flush_mode, zlib.Z_NO_FLUSH)
        buffer_bytes = _or(chosen.output_buffer_size, -1) if self._packer is not None else -1
        try:
            # closed by `close`
            self._file: IO[bytes] | None = open(path, "wb", buffering=buffer_bytes)  # noqa: SIM115
        except FileNotFoundError:
            raise errors.NotFoundError(
                None, None, f"{os.fspath(path)}; No such file or directory"
            ) from None
        except OSError as error:
            raise errors.FailedPreconditionError(
                None, None, f"{os.fspath(path)}; {error.strerror}"
            ) from None

    def write(self, record: bytes) -> None:
        """Add a record.

        Raises FailedPreconditionError after `close`, TypeError for a record that is no bytes.
        """
        if not isinstance(record, bytes):
            raise TypeError(f"a record is bytes, got {type(record).__name__}")
        data = pack_record(record)
        self._open().write(data if self._packer is None else self._packer.compress(data))

    def _open(self) -> IO[bytes]:
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        return self._file

    def flush(self) -> None:
        """Hand all data to the operating system."""
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


def tf_record_iterator(
    path: str | os.PathLike[str], options: Message | None = None
) -> Iterator[bytes]:
    """Yield the records of a file.

    Raises NotFoundError without it, DataLossError where it is damaged.
    """
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
