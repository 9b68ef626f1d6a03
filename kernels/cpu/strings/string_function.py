"""Call compiled functions of bytes objects from Python.

Such a function is a kernel with one chunk. It runs with the interpreter locked, so that no other
thread changes or frees the objects, and it may make new ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tfjit.framework import settings
from tfjit.kernels.executor.python_abi import array_offsets, bytes_offsets
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource

_MANY: Final = 256
"""Number of strings, over all calls, that make compiling pay."""
_PROTOTYPE: Final = ctypes.PYFUNCTYPE(None, *[ctypes.c_ssize_t] * 3)

STRINGS: Final = """\
from numba import int64, njit, uint64

from tfjit.kernels.codegen.intrinsics import bits_f64, call, call_value, copy_bytes, f64_bits
from tfjit.kernels.codegen.intrinsics import leading_zeros, ld_any, load_word, mulhi_u64
from tfjit.kernels.codegen.intrinsics import ptr_f32, ptr_i32, ptr_i64, ptr_u8, ptr_u32, ptr_u64
from tfjit.kernels.codegen.intrinsics import st_any, store_word, word


@njit(error_model="numpy")
def byte_at(address):
    return int64(ld_any(ptr_u8(address), 0))


@njit(error_model="numpy")
def are_bytes(args):
    items, count, kind, type_offset = word(args, 2), word(args, 3), word(args, 4), word(args, 5)
    for k in range(count):
        item = load_word(items + 8 * k)
        if item == 0 or load_word(item + type_offset) != kind:
            return False
    return True


@njit(error_model="numpy")
def replace_item(slot, made, drop):
    before = load_word(slot)
    store_word(slot, made)
    call(drop, before)


"""
"""The functions that texts share, and their imports.

Words 2 to 7 of every function: the items' address, their number; the address of the type `bytes`;
the offsets of type, size and data in an object.
"""


class StringFunction:
    """A compiled function over an array of strings."""

    def __init__(self, text: str, title: str, module: str) -> None:
        """Make a function of the entry `kernel` of a text."""
        self.source = KernelSource(STRINGS + text, title=title, module=module)
        self._seen = 0
        self._call: Callable[[int, int, int], None] | None = None

    def is_ready(self, count: int) -> bool:
        """Return whether the function is compiled; have it compiled if it pays.

        count: the number of strings that it would be called with.
        """
        if self._call is not None:
            return True
        if settings.text("TFJIT_JIT") == "off" or bytes_offsets() is None:
            return False
        if store.lookup(self.source) is None:
            self._seen += count
            if self._seen < _MANY or store.refused(self.source) is not None:
                return False
            store.load([self.source])
        loaded = store.lookup(self.source)
        if loaded is not None:
            self._call = _PROTOTYPE(loaded["kernel"])
        return loaded is not None

    def __call__(self, items: np.ndarray, *words: int) -> tuple[int, int] | None:
        """Run the function; return its status and detail.

        items: a contiguous array of objects. None where it is not compiled, or where one of the
        items is not of the type bytes.
        """
        if not self.is_ready(items.size):
            return None
        function, offsets = self._call, bytes_offsets()
        if function is None or offsets is None:
            return None
        block = (ctypes.c_int64 * (8 + len(words)))(
            0, 0, address_of(items), items.size, id(bytes), *offsets, *words
        )
        function(ctypes.addressof(block), 0, 1)
        status = int(block[0])
        return None if status == NOT_BYTES else (status, int(block[1]))


NOT_BYTES: Final = 99
"""Status for an object that is not bytes."""

_offsets: Final = array_offsets()


def address_of(array: np.ndarray) -> int:
    """Return the address of an array's first element."""
    if _offsets is None:
        return array.ctypes.data
    return ctypes.c_ssize_t.from_address(id(array) + _offsets[1]).value  # in a third of the time


def _python_function(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


MAKERS: Final[Sequence[int]] = (
    _python_function("PyBytes_FromStringAndSize"),
    _python_function("Py_DecRef"),
)
"""Addresses of functions: make a bytes object, drop a reference."""
