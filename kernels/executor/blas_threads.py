"""Keep NumPy's BLAS off the cores of background work.

OpenBLAS's threads spin until all of them have done their part of a product. While the compiler
process or the thread that builds plans has a core, one of them is descheduled and the others wait
for milliseconds over a product of 0.1 ms. So the references that call BLAS are limited to the free
cores for as long as such work is under way.

The number of threads is OpenBLAS's own, for the whole process. It may change the last bits of a
product, as any other number of cores does.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from tfjit.framework import cooperative_yield
from tfjit.kernels.jit.store import store
from tfjit.kernels.jit.target import available_cpus

_P = ParamSpec("_P")
_R = TypeVar("_R")

# NumPy's extension module that is linked with BLAS: of NumPy 2, of NumPy 1
_LINKED: Final = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
# OpenBLAS's functions in NumPy's wheels, with integers of 64 and 32 bits, and in distributions
_NAMES: Final = (
    "scipy_openblas_{}_num_threads64_",
    "scipy_openblas_{}_num_threads",
    "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)


class ThreadLimits:
    """Limit the threads of a BLAS by the calls in progress.

    The lowest limit holds for all of them. The last call to end restores the user's number,
    unless another number was set meanwhile. Safe to use from any thread.
    """

    def __init__(self, get: Callable[[], int], put: Callable[[int], Any]) -> None:
        """Limit the library whose number `get` returns and `put` sets."""
        self._get, self._put = get, put
        self._lock = threading.Lock()
        self._active: list[int] = []
        self._users_number = 0  # while calls are in progress
        self._number = 0

    def enter(self, limit: int) -> None:
        """Run on at most `limit` threads until `leave(limit)`."""
        with self._lock:
            if not self._active:
                self._users_number = self._number = self._get()
            self._active.append(limit)
            self._apply()

    def leave(self, limit: int) -> None:
        """End the call that entered with `limit`."""
        with self._lock:
            if limit in self._active:  # not behind a fork within the call
                self._active.remove(limit)
                self._apply()

    # the callers hold the lock
    def _apply(self) -> None:
        number = min([self._users_number, *self._active])
        if number != self._number and self._get() == self._number:
            self._put(number)
        self._number = number

    def before_fork(self) -> None:
        """Wait until no other thread changes the number."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on as before the fork."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Forget the calls of threads that the child lacks."""
        if self._active:
            self._active.clear()
            self._apply()
        self._lock.release()


@functools.cache
def thread_limits() -> ThreadLimits | None:
    """Return the limits of NumPy's OpenBLAS, or None for another BLAS."""
    module = next((sys.modules[name] for name in _LINKED if name in sys.modules), None)
    path = getattr(module, "__file__", None)
    if path is None:
        return None
    try:
        library = ctypes.CDLL(path)  # loaded already: a handle that also finds its dependencies
    except OSError:
        return None
    for name in _NAMES:
        get = getattr(library, name.format("get"), None)
        put = getattr(library, name.format("set"), None)
        if get is not None and put is not None:
            get.argtypes, get.restype = [], ctypes.c_int
            put.argtypes, put.restype = [ctypes.c_int], None
            limits = ThreadLimits(get, put)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=limits.before_fork,
                    after_in_parent=limits.after_fork_in_parent,
                    after_in_child=limits.after_fork_in_child,
                )
            return limits
    return None


def busy_cores() -> int:
    """Return the number of cores that background work uses."""
    return store.busy_workers() + cooperative_yield.is_under_way()


class _Session(threading.local):
    """Hold the intra-op threads of the running session; 0 for all cores."""

    threads = 0


_session = _Session()


def on_session_threads(function: Callable[_P, _R], threads: int) -> Callable[_P, _R]:
    """Return `function` with BLAS limited to a session's intra-op threads.

    Calls of functions made by `on_free_cores` are limited. A session with a thread for each core
    gets `function` itself.
    """
    if threads >= available_cpus():
        return function

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        before, _session.threads = _session.threads, threads
        try:
            return function(*args, **kwargs)
        finally:
            _session.threads = before

    return run


def on_free_cores(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `function` with BLAS limited to the free cores.

    They are those that background work leaves, at least one, and no more than the session's
    threads. Without such work and such a number nothing changes.
    """

    @functools.wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        busy, threads = busy_cores(), _session.threads
        limits = thread_limits() if busy or threads else None
        if limits is None:
            return function(*args, **kwargs)
        limit = max(1, available_cpus() - busy)
        if threads:
            limit = min(limit, threads)
        limits.enter(limit)
        try:
            return function(*args, **kwargs)
        finally:
            limits.leave(limit)

    return run
