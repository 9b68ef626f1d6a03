"""Read and write the file of one compiled kernel.

It holds our own header with a digest, then relocatable object code.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"tfjit object 1\n"
_LENGTH = struct.Struct("<I")


class Refused(Exception):
    """A text cannot become a kernel; the message gives the reason."""


class DamagedObject(Exception):
    """The bytes are not an object file that tfjit wrote whole."""


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """The object code of one kernel.

    symbols: entry -> symbol in `code`. needs: symbols that the process must offer (memcpy, ...).
    code: ELF or Mach-O.
    """

    symbols: Mapping[str, str]
    needs: tuple[str, ...]
    code: bytes

    def encode(self) -> bytes:
        """Return the bytes to keep on disk."""
        meta = json.dumps(
            {"symbols": dict(self.symbols), "needs": list(self.needs)}, sort_keys=True
        ).encode()
        payload = _LENGTH.pack(len(meta)) + meta + self.code
        return _MAGIC + hashlib.sha256(payload).digest() + payload

    @staticmethod
    def decode(data: bytes) -> ObjectFile:
        """Return the object in `data`.

        Raises DamagedObject unless every byte is as `encode` wrote it.
        """
        start = len(_MAGIC)
        payload = data[start + 32 :]
        if data[:start] != _MAGIC or hashlib.sha256(payload).digest() != data[start : start + 32]:
            raise DamagedObject("digest does not match")
        (length,) = _LENGTH.unpack_from(payload)
        meta = json.loads(payload[_LENGTH.size : _LENGTH.size + length])
        return ObjectFile(meta["symbols"], tuple(meta["needs"]), payload[_LENGTH.size + length :])


def write_atomically(path: Path, data: bytes) -> None:
    """Make `path` hold `data` in one atomic step.

    Other processes see the old file or the whole new one. Raises OSError.
    """
    import tempfile  # it imports four more modules, and first results write nothing

    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def undefined_symbols(code: bytes) -> tuple[str, ...] | None:
    """Return the undefined symbols of a 64-bit little-endian ELF object.

    They are sorted; None means another format.
    """
    if code[:6] != b"\x7fELF\x02\x01":
        return None
    (table_offset,) = struct.unpack_from("<Q", code, 0x28)
    entry_size, count = struct.unpack_from("<HH", code, 0x3A)
    # section header: name u32, type u32, flags u64, address u64, offset u64, size u64, link u32
    sections = [
        struct.unpack_from("<IIQQQQI", code, table_offset + i * entry_size) for i in range(count)
    ]
    names: set[str] = set()
    for _, kind, _, _, offset, size, link in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(offset + 24, offset + size, 24):  # entry 0 is the null symbol
            name, _, _, section = struct.unpack_from("<IBBH", code, at)
            if section == 0 and name:
                end = code.index(b"\0", strings + name)
                names.add(code[strings + name : end].decode())
    return tuple(sorted(names))
