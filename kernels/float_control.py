"""Run NumPy code as compiled kernels run: denormals flushed, and no warnings.

Flush-to-zero and denormals-are-zero are set while the code runs.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

_P = ParamSpec("_P")
_R = TypeVar("_R")

# architecture -> (offset of the control word in C's fenv_t, its two bits)
_PLACES = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
_FENV_BYTES: Final = 64  # no fenv_t is larger


class _Control(threading.local):
    """Hold a thread's floating-point environment, and its flushing form.

    active: whether denormals are flushed now. get, put: read and set the environment at an address.
    old, new: addresses of the two. word: the control word of `new`.
    """

    def __init__(self, get: Callable[[int], int], put: Callable[[int], int], offset: int) -> None:
        self.active = False
        self.get, self.put = get, put
        self._memory = ctypes.create_string_buffer(2 * _FENV_BYTES)
        self.old = ctypes.addressof(self._memory)
        self.new = self.old + _FENV_BYTES
        self.word = ctypes.c_uint32.from_buffer(self._memory, _FENV_BYTES + offset)


def _control() -> tuple[_Control, int] | None:
    """Return the control of threads and the bits to set, or None.

    None means that the environment of this machine has no known bits.
    """
    place = _PLACES.get(os.uname().machine) if hasattr(os, "uname") else None
    if (
        place is None
        or "CS_GNU_LIBC_VERSION" not in os.confstr_names
        or not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    ):
        return None
    offset, bits = place
    library = ctypes.PyDLL("libm.so.6")  # a call of nanoseconds keeps the interpreter
    get, put = library.fegetenv, library.fesetenv
    for function in (get, put):
        function.argtypes = [ctypes.c_void_p]
        function.restype = ctypes.c_int
    return _Control(get, put, offset), bits


_CONTROL: Final = _control()


def flushed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with denormals flushed on the calling thread.

    They are flushed while it runs; a call within such a function changes nothing. Where that cannot
    be done, `function` itself is returned.
    """
    if _CONTROL is None:
        return function
    control, bits = _CONTROL

    def run(*args: Any) -> Any:
        if control.active:
            return function(*args)
        control.get(control.old)
        control.get(control.new)
        control.word.value |= bits
        try:  # read before the bits are set: an interrupt may follow at once
            control.active = True
            control.put(control.new)
            return function(*args)
        finally:
            control.active = False  # first: an interrupt may follow the call
            control.put(control.old)

    run.__name__ = getattr(function, "__name__", "run")
    run.__doc__ = function.__doc__
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run


class _Quiet(threading.local):
    """Hold whether NumPy's warnings are off on this thread."""

    active = False


_quiet = _Quiet()


def without_warnings(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `function` without NumPy's floating-point warnings.

    Overflow and division by zero are among the warnings. A call within such a function changes
    nothing: `np.errstate` takes longer than a small product, and the members of a group are many.
    """

    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if _quiet.active:
            return function(*args, **kwargs)
        with np.errstate(all="ignore"):
            try:
                _quiet.active = True
                return function(*args, **kwargs)
            finally:
                _quiet.active = False

    run.__name__ = getattr(function, "__name__", "run")
    run.__doc__ = function.__doc__
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run
