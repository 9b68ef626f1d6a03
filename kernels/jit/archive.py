"""Read and write archives of precompiled kernels.

An archive holds the object code of many kernels for one level of x86-64. Its keys
(`cache_key.precompiled_key`) are the same on every machine. The file holds, in little-endian order:

    magic; SHA-256 of the numbers, the index and the dictionary; number of kernels, size of the
    dictionary; the index, an entry a kernel in the order of keys (key, offset in the file, size);
    the dictionary; the objects, each an encoded ObjectFile that zlib has compressed with the
    dictionary: a few kernels that stand for all.

The digest covers all but the objects, and each ObjectFile has another digest: a process reads the
index once, and of the objects those that it loads.
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
_NUMBERS: Final = struct.Struct("<II")
_ENTRY: Final = struct.Struct("<24sQI")
_START: Final = len(_MAGIC) + 32
_DICTIONARY_BYTES: Final = 1 << 15  # zlib looks back no further
_SAMPLED: Final = 40


class DamagedArchive(Exception):
    """The file is not an archive that tfjit wrote whole."""


class Archive:
    """Read kernels from one archive by key.

    The index is read at once, an object when it is asked for. Safe to use from any thread.
    """

    def __init__(self, path: Path, begin: int = 0) -> None:
        """Read the index of the archive at `path`.

        begin: place of the archive in the file. Raises OSError when the file cannot be read,
        DamagedArchive when it is no archive.
        """
        self.path = path
        self._begin = begin
        with path.open("rb") as file:
            file.seek(begin)
            head = file.read(_START + _NUMBERS.size)
            if len(head) < _START + _NUMBERS.size or not head.startswith(_MAGIC):
                raise DamagedArchive(f"{path} is no archive of this version")
            count, size = _NUMBERS.unpack_from(head, _START)
            index = file.read(count * _ENTRY.size)
            self._dictionary = file.read(size)
        digest = hashlib.sha256(head[_START:] + index + self._dictionary).digest()
        if digest != head[len(_MAGIC) : _START] or len(index) != count * _ENTRY.size:
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
            file.seek(self._begin + at)
            data = file.read(size)
        try:
            unpack = zlib.decompressobj(zdict=self._dictionary)
            return ObjectFile.decode(unpack.decompress(data))
        except zlib.error as error:
            raise DamagedObject(str(error)) from None


def write_archive(path: Path, kernels: Mapping[str, ObjectFile], compression: int = 9) -> int:
    """Write kernels by key to an archive in one atomic step.

    compression: zlib's level. Returns its size in bytes. Raises OSError.
    """
    keys = sorted(kernels)
    encoded = [kernels[key].encode() for key in keys]
    # short kernels, which gain most from a dictionary
    samples = sorted(encoded, key=len)[: -(-len(encoded) * 3 // 4)]
    dictionary = b"".join(samples[::_SAMPLED])[-_DICTIONARY_BYTES:]
    index, objects = [_NUMBERS.pack(len(keys), len(dictionary))], []
    at = _START + _NUMBERS.size + len(keys) * _ENTRY.size + len(dictionary)
    for key, plain in zip(keys, encoded, strict=True):
        pack = zlib.compressobj(compression, zdict=dictionary)
        data = pack.compress(plain) + pack.flush()
        index.append(_ENTRY.pack(bytes.fromhex(key), at, len(data)))
        objects.append(data)
        at += len(data)
    head = b"".join([*index, dictionary])
    write_atomically(path, b"".join((_MAGIC, hashlib.sha256(head).digest(), head, *objects)))
    return at
