"""Read and write archives of precompiled kernels.

An archive holds the object code of many kernels for one level of x86-64. Its keys
(`cache_key.precompiled_key`) are the same on every machine. The file holds, in little-endian order:

    magic; SHA-256 of the count and the index; number of kernels; the index, an entry a kernel in
    the order of keys (key, offset in the file, size); the objects, each an encoded ObjectFile
    that zlib has compressed.

The digest covers the index, and each ObjectFile has another digest: a process reads the index
once, and of the objects those that it loads.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile, write_atomically

SUFFIX: Final = ".tfk"
_MAGIC: Final = b"tfjit archive 1\n"
_COUNT: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<24sQI")
_START: Final = len(_MAGIC) + 32


class DamagedArchive(Exception):
    """The file is not an archive that tfjit wrote whole."""


class Archive:
    """Read kernels from one archive file by key.

    The index is read at once, an object when it is asked for. Safe to use from any thread.
    """

    def __init__(self, path: Path) -> None:
        """Read the index of the archive at `path`.

        Raises OSError when the file cannot be read, DamagedArchive when it is no archive.
        """
        self.path = path
        with path.open("rb") as file:
            head = file.read(_START + _COUNT.size)
            if len(head) < _START + _COUNT.size or not head.startswith(_MAGIC):
                raise DamagedArchive(f"{path} is no archive of this version")
            (count,) = _COUNT.unpack_from(head, _START)
            index = file.read(count * _ENTRY.size)
        if hashlib.sha256(head[_START:] + index).digest() != head[len(_MAGIC) : _START]:
            raise DamagedArchive(f"the index of {path} does not match its digest")
        self._places = {key.hex(): (at, size) for key, at, size in _ENTRY.iter_unpack(index)}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def read(self, key: str) -> ObjectFile | None:
        """Return the kernel of that key, or None.

        Raises OSError when the file cannot be read, DamagedObject when its bytes have changed.
        """
        place = self._places.get(key)
        if place is None:
            return None
        at, size = place
        with self.path.open("rb") as file:
            file.seek(at)
            data = file.read(size)
        try:
            return ObjectFile.decode(zlib.decompress(data))
        except zlib.error as error:
            raise DamagedObject(str(error)) from None


def write_archive(path: Path, kernels: Mapping[str, ObjectFile]) -> int:
    """Write kernels by key to an archive in one atomic step.

    Returns its size in bytes. Raises OSError.
    """
    keys = sorted(kernels)
    at = _START + _COUNT.size + len(keys) * _ENTRY.size
    index, objects = [_COUNT.pack(len(keys))], []
    for key in keys:
        data = zlib.compress(kernels[key].encode(), 9)
        index.append(_ENTRY.pack(bytes.fromhex(key), at, len(data)))
        objects.append(data)
        at += len(data)
    head = b"".join(index)
    write_atomically(path, b"".join((_MAGIC, hashlib.sha256(head).digest(), head, *objects)))
    return at
