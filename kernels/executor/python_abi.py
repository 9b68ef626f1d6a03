"""Find the layout of CPython and NumPy objects, and make builtins.

Compiled code needs the layout. It is found by looking into objects of this process.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

_METH_FASTCALL = 0x0080
_SEARCHED_BYTES = 64  # size of the smallest ndarray object


def array_offsets() -> tuple[int, int] | None:
    """Return the offsets of type and data pointer in an ndarray object.

    They are in bytes; None means that no place holds for all trials. The usual build has 16 bytes
    of header and then the data pointer; a free-threaded or debug build has a longer header.
    """
    trials: list[np.ndarray] = [
        np.zeros(3, np.int64),
        np.zeros((2, 5), np.float32)[1:],
        np.zeros(0),
        np.array(1.0),
        np.zeros((1 << 16,), np.int8),
    ]
    words = [(ctypes.c_size_t * (_SEARCHED_BYTES // 8)).from_address(id(trial)) for trial in trials]
    found = []
    for expected in (
        [id(type(trial)) for trial in trials],
        [trial.ctypes.data for trial in trials],
    ):
        places = [
            n
            for n in range(_SEARCHED_BYTES // 8)
            if all(w[n] == e for w, e in zip(words, expected, strict=True))
        ]
        if not places:
            return None
        found.append(8 * places[0])
    return found[0], found[1]


@functools.cache
def bytes_offsets() -> tuple[int, int, int] | None:
    """Return the offsets of type, size and data in a bytes object.

    They are in bytes; None means that no place holds for all trials.
    """
    trials = [bytes(range(7, 7 + size)) for size in (19, 24, 31, 40)]
    whole = bytes.__basicsize__ - 1  # the data are behind the other members
    words = [(ctypes.c_size_t * (whole // 8)).from_address(id(trial)) for trial in trials]
    found = []
    for expected in ([id(bytes)] * len(trials), [len(trial) for trial in trials]):
        places = [
            n
            for n in range(whole // 8)
            if all(w[n] == e for w, e in zip(words, expected, strict=True))
        ]
        if len(places) != 1:
            return None
        found.append(8 * places[0])
    if any(ctypes.string_at(id(trial) + whole, len(trial)) != trial for trial in trials):
        return None
    return found[0], found[1], whole


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_kept: list[_MethodDef] = []  # A builtin points at its definition for ever.


def builtin(address: int, name: str, doc: str) -> Callable[..., Any]:
    """Return the C function at an address as a Python builtin.

    Its type is PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t nargs).
    """
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, doc.encode())
    _kept.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p]
    function: Callable[..., Any] = make(ctypes.byref(definition), None, None)
    return function
