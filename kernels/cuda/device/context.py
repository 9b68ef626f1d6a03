"""Make a GPU's context current; make streams and events in it."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterable, Sequence
from ctypes import CDLL, byref, c_size_t, c_void_p
from types import TracebackType
from typing import Final, TypeAlias

from tfjit.kernels.cuda.device import driver

Handle: TypeAlias = "c_void_p | int"
_NON_BLOCKING: Final = 1
_NO_TIMING: Final = 2


@functools.cache
def _capturing(number: int) -> threading.RLock:
    """Return the lock of captures in a device's context."""
    return driver.fork_safe_lock()


class Context:
    """The primary context of a device.

    Other libraries of the process share it. capturing: a lock, the same for all objects of one
    device. It is held while a stream of the context is captured, and around calls that wait for the
    whole context or may do so: the driver refuses these during a capture, which then fails, too.
    """

    def __init__(self, number: int) -> None:
        """Retain the context of a visible device until the process ends."""
        self.number = number
        self.capturing = _capturing(number)
        self._handle = c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", byref(self._handle), driver.ordinal(number))

    def current(self) -> _Current:
        """Return a block in which the context is this thread's current one."""
        return _Current(self._handle, self.number)

    def free_bytes(self) -> int:
        """Return the device memory that no process uses."""
        free, total = c_size_t(), c_size_t()
        with self.current():
            driver.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def free_with(self, owner: object, handles: Sequence[tuple[str, Iterable[Handle]]]) -> None:
        """Free handles of the context when their owner is gone.

        handles: functions of the driver, each with the handles by then that it frees. The end of
        the process, a forked child and a lost context have nothing to free.
        """
        end = weakref.finalize(owner, _free, driver.functions(), self._handle, handles)
        end.atexit = False


def _free(
    functions: CDLL, context: c_void_p, handles: Sequence[tuple[str, Iterable[Handle]]]
) -> None:
    # a finalizer may run anywhere: it takes no lock and tells of no failure
    if driver.is_forked() or driver.is_lost() or functions.cuCtxPushCurrent_v2(context):
        return
    for function, some in handles:
        for handle in list(some):
            getattr(functions, function)(handle)
    functions.cuCtxPopCurrent_v2(byref(c_void_p()))


class _Current:
    """Make a context current, and restore another one that was.

    The first device's stays current in a thread that had none: programs that use CUDA beside tfjit
    would take that device, too.
    """

    __slots__ = ("_handle", "_number", "_pushed")

    def __init__(self, handle: c_void_p, number: int) -> None:
        self._handle, self._number = handle, number
        self._pushed = False

    def __enter__(self) -> None:
        # a part of every start of a program, so it takes no detour
        found = c_void_p()
        result = driver.functions().cuCtxGetCurrent(byref(found))
        if result:
            driver.check("cuCtxGetCurrent", result)
        if found.value == self._handle.value:
            return
        if found.value is None and self._number == 0:
            driver.call("cuCtxSetCurrent", self._handle)
            return
        driver.call("cuCtxPushCurrent_v2", self._handle)
        self._pushed = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pushed:
            driver.call("cuCtxPopCurrent_v2", byref(c_void_p()))


def new_stream() -> c_void_p:
    """Return a stream that does not wait for the default stream.

    It is one of the current context, as is an event.
    """
    stream = c_void_p()
    driver.call("cuStreamCreate", byref(stream), _NON_BLOCKING)
    return stream


def new_event() -> c_void_p:
    """Return an event that takes no times."""
    event = c_void_p()
    driver.call("cuEventCreate", byref(event), _NO_TIMING)
    return event


__all__ = ["Context", "Handle", "new_event", "new_stream"]
