"""Load relocatable ELF objects for x86-64 into this process, without LLVM.

Kernels are compiled in LLVM's large code model, so their relocations are absolute addresses. An
object's pages are writable while it is copied and relocated, then executable and no longer
writable; data that it writes has other pages.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Mapping
from typing import Final

_MACHINE: Final = 62  # EM_X86_64
_HEADER: Final = struct.Struct("<QIHHHHHH")  # from e_shoff on
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_ALLOC, _WRITE = 2, 1  # SHF_ALLOC, SHF_WRITE
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # SHT_SYMTAB, SHT_RELA, SHT_NOBITS
_UNWIND: Final = 0x70000001  # SHT_X86_64_UNWIND: kernels raise nothing
_ABSOLUTE: Final = 0xFFF1  # SHN_ABS
_RESERVED: Final = 0xFF00  # section numbers from here on are not indices
_POINTER, _RELATIVE, _CALL = 1, 2, 4  # R_X86_64_64, _PC32, _PLT32
_WORD, _HALF = struct.Struct("<Q"), struct.Struct("<i")
_WORD_MASK: Final = (1 << 64) - 1
_CHUNK_BYTES: Final = 1 << 20
_PAGE: Final = mmap.PAGESIZE


class Unsupported(Exception):
    """The object has a form that only LLVM may know."""


class _Section:
    """A section of an object.

    It has a place in the file, and one from the first page on.
    """

    __slots__ = ("address", "align", "flags", "info", "kind", "link", "offset", "size")

    def __init__(self, fields: tuple[int, ...]) -> None:
        _, self.kind, self.flags, _, self.offset, self.size, self.link, self.info = fields[:8]
        self.align = max(1, fields[8])
        self.address = 0

    @property
    def loaded(self) -> bool:
        """Return whether the section takes memory in the process."""
        return bool(self.flags & _ALLOC) and self.size > 0 and self.kind != _UNWIND


class _Pages:
    """Take pages from mapped chunks; safe under the loader's lock."""

    def __init__(self) -> None:
        self._begin = self._left = 0

    def take(self, size: int) -> int:
        """Return the address of writable zeroed pages for `size` bytes. Raises OSError."""
        size = -(-size // _PAGE) * _PAGE
        if size > self._left:
            chunk = mmap.mmap(-1, max(size, _CHUNK_BYTES), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            # mapped until the process is gone: a daemon thread may run code while modules are freed
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(chunk))
            self._begin = ctypes.addressof(ctypes.c_char.from_buffer(chunk))
            self._left = len(chunk)
        address = self._begin
        self._begin += size
        self._left -= size
        return address


_PAGES: Final = _Pages()


@functools.cache
def _library(name: str | None) -> ctypes.CDLL:
    return ctypes.CDLL(name, use_errno=True)


def address_of(name: str) -> int:
    """Return the address of a function of this process, or 0."""
    for library in (None, "libm.so.6"):
        try:
            return ctypes.cast(getattr(_library(library), name), ctypes.c_void_p).value or 0
        except (AttributeError, OSError):
            continue
    return 0


def is_for_here(code: bytes) -> bool:
    """Return whether this loader knows machine, system and file format."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and code[:6] == b"\x7fELF\x02\x01"
        and int.from_bytes(code[18:20], "little") == _MACHINE
    )


def load(code: bytes, symbols: Mapping[str, str], externals: Mapping[str, int]) -> dict[str, int]:
    """Load an object; return the address of each entry.

    The address is 0 for an entry that the object lacks. symbols: entry -> symbol. externals:
    addresses of the functions that it calls. The code stays for the life of the process. Raises
    Unsupported before anything is executable, OSError when the system gives no memory.
    """
    try:
        return _load(code, symbols, externals)
    except (struct.error, IndexError, ValueError) as error:
        raise Unsupported(f"the object is malformed: {error}") from None


def _load(code: bytes, symbols: Mapping[str, str], externals: Mapping[str, int]) -> dict[str, int]:
    table, _, _, _, _, entry_size, count, _ = _HEADER.unpack_from(code, 0x28)
    sections = [_Section(_SECTION.unpack_from(code, table + i * entry_size)) for i in range(count)]
    fixed = [s for s in sections if s.loaded and not s.flags & _WRITE]
    written = [s for s in sections if s.loaded and s.flags & _WRITE]
    end = _place(fixed, 0)
    end = _place(written, -(-end // _PAGE) * _PAGE if written else end)
    image = bytearray(end)
    for section in (*fixed, *written):
        if section.kind != _NO_BITS:
            if section.offset + section.size > len(code):
                raise Unsupported("a section is cut off")
            content = code[section.offset : section.offset + section.size]
            image[section.address : section.address + section.size] = content
    begin = _PAGES.take(end)
    addresses, names = _addresses(code, sections, externals, begin)
    for section in sections:
        if section.kind == _RELOCATIONS and sections[section.info].loaded:
            _relocate(code, section, sections[section.info], addresses, image, begin)
    ctypes.memmove(begin, bytes(image), end)
    _protect(begin, max((s.address + s.size for s in fixed), default=0))
    return {entry: names.get(symbol, 0) for entry, symbol in symbols.items()}


def _place(sections: list[_Section], at: int) -> int:
    """Give the sections offsets from `at` on; return the end."""
    for section in sections:
        if section.align > _PAGE:
            raise Unsupported(f"a section is aligned to {section.align} bytes")
        section.address = -(-at // section.align) * section.align
        at = section.address + section.size
    return at


def _addresses(
    code: bytes, sections: list[_Section], externals: Mapping[str, int], begin: int
) -> tuple[list[int], dict[str, int]]:
    """Return addresses: of all symbols by number, of own ones by name.

    begin: address of the first page.
    """
    (table,) = (s for s in sections if s.kind == _SYMBOLS)
    strings = sections[table.link]
    addresses, names = [], {}
    for name_at, _, _, section, value, _ in _SYMBOL.iter_unpack(
        code[table.offset : table.offset + table.size]
    ):
        start = strings.offset + name_at
        name = code[start : code.index(b"\0", start)].decode()
        if section == 0:
            addresses.append(externals.get(name, 0))
            continue
        if section == _ABSOLUTE:
            addresses.append(value)
            continue
        if section >= _RESERVED:
            raise Unsupported(f"symbol {name} is in no section")
        addresses.append(begin + sections[section].address + value)
        if sections[section].loaded:
            names[name] = addresses[-1]
    return addresses, names


def _relocate(
    code: bytes,
    table: _Section,
    target: _Section,
    addresses: list[int],
    image: bytearray,
    begin: int,
) -> None:
    """Write the addresses that a section's relocations name into the image."""
    for offset, info, addend in _RELOCATION.iter_unpack(
        code[table.offset : table.offset + table.size]
    ):
        kind = info & 0xFFFFFFFF
        symbol = addresses[info >> 32]
        place = target.address + offset
        if not symbol or offset + (8 if kind == _POINTER else 4) > target.size:
            raise Unsupported(f"relocation {kind} at {offset} has no target")
        if kind == _POINTER:
            _WORD.pack_into(image, place, symbol + addend & _WORD_MASK)
        elif kind in (_RELATIVE, _CALL):
            value = symbol + addend - (begin + place)
            if not -(1 << 31) <= value < 1 << 31:
                raise Unsupported("a relative address is out of reach")
            _HALF.pack_into(image, place, value)
        else:
            raise Unsupported(f"relocation of kind {kind}")


def _protect(begin: int, size: int) -> None:
    """Make pages executable and no longer writable. Raises OSError."""
    if size <= 0:
        return
    size = -(-size // _PAGE) * _PAGE
    protect = _library(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(begin, size, mmap.PROT_READ | mmap.PROT_EXEC):
        error = ctypes.get_errno()
        raise OSError(error, f"memory cannot be made executable (error {error})")
