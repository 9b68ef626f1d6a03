"""Flush denormals in NumPy code, as compiled kernels do.

Flush-to-zero and denormals-are-zero are set while the code runs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

# architecture -> (offset of the control word in C's fenv_t, its two bits)
_PLACES = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}


def _flushing() -> (
    tuple[Callable[[], Any], Callable[[Any], None], Callable[[Any], None], Callable[[Any], Any]]
    | None
):
    """Return functions over C's floating-point environment, or None.

    They allocate an environment, read it, set it, and copy it with the bits set. None means that
    the environment of this machine has no known bits.
    """
    place = _PLACES.get(os.uname().machine) if hasattr(os, "uname") else None
    if (
        place is None
        or "CS_GNU_LIBC_VERSION" not in os.confstr_names
        or not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    ):
        return None
    offset, bits = place
    library = ctypes.CDLL("libm.so.6")
    get, put = library.fegetenv, library.fesetenv
    for function in (get, put):
        function.argtypes = [ctypes.c_void_p]
        function.restype = ctypes.c_int
    environment = ctypes.c_char * 64

    def flushing(old: Any) -> Any:
        new = environment.from_buffer_copy(old)
        word = ctypes.c_uint32.from_buffer(new, offset)
        word.value |= bits
        return new

    return environment, get, put, flushing


_FUNCTIONS = _flushing()


def flushed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with denormals flushed on the calling thread.

    They are flushed while it runs. Where that cannot be done, `function` itself is returned.
    """
    if _FUNCTIONS is None:
        return function
    environment, get, put, flushing = _FUNCTIONS

    def run(*args: Any) -> Any:
        old = environment()
        get(old)
        new = flushing(old)
        try:  # read before the bits are set: an interrupt may follow at once
            put(new)
            return function(*args)
        finally:
            put(old)

    run.__name__ = getattr(function, "__name__", "run")
    run.__doc__ = function.__doc__
    run.__wrapped__ = function  # type: ignore[attr-defined]
    return run
