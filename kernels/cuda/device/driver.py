"""Call the CUDA driver, libcuda, through ctypes.

The library is opened and initialized by the first call of this module that needs it. Signatures are
those of cuda.h; the names carry the versions that `cuda.h` maps them to.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import weakref
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Final

from tfjit.framework import errors, settings

# Device pointers are 64-bit integers, all handles pointers.
_Handle = POINTER(c_void_p)
_Address = POINTER(c_uint64)
_Size = POINTER(c_size_t)
_Integer = POINTER(c_int)
_SIGNATURES: Final[Mapping[str, tuple[type, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_Integer,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (_Integer,),
    "cuDeviceGet": (_Integer, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_Integer, c_int, c_int),
    "cuDeviceTotalMem_v2": (_Size, c_int),
    "cuDevicePrimaryCtxRetain": (_Handle, c_int),
    "cuCtxGetCurrent": (_Handle,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuCtxPopCurrent_v2": (_Handle,),
    "cuMemGetInfo_v2": (_Size, _Size),
    "cuMemAlloc_v2": (_Address, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemPoolCreate": (_Handle, c_void_p),
    "cuMemPoolSetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemPoolTrimTo": (c_void_p, c_size_t),
    "cuMemPoolDestroy": (c_void_p,),
    "cuMemAllocFromPoolAsync": (_Address, c_size_t, c_void_p, c_void_p),
    "cuMemFreeAsync": (c_uint64, c_void_p),
    "cuMemHostAlloc": (_Handle, c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuPointerGetAttribute": (c_void_p, c_int, c_uint64),
    "cuStreamCreate": (_Handle, c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _Handle),
    "cuEventCreate": (_Handle, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventDestroy_v2": (c_void_p,),
    "cuGraphInstantiateWithFlags": (_Handle, c_void_p, c_uint64),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuLibraryLoadData": (_Handle, c_void_p, *(c_void_p, c_void_p, c_uint) * 2),
    "cuLibraryGetKernel": (_Handle, c_void_p, c_char_p),
    "cuKernelGetFunction": (_Handle, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
}
_LATER_SIGNATURES: Final[Mapping[str, tuple[type, ...]]] = {"cuFuncLoad": (c_void_p,)}
"""Functions that drivers for CUDA 12.4 and later have."""
OUT_OF_MEMORY: Final = 2
_DEINITIALIZED: Final = 4
_NO_DEVICE: Final = 100
_IMAGE_ERRORS: Final = frozenset((200, 209, 218, 222, 300))
# The context is lost with these: every later call fails in the same way.
_LOST: Final = frozenset(
    (214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911)
)
_OLDEST: Final = 12000  # cuLibraryLoadData, and cubins of CUDA 12


class Unavailable(Exception):
    """There is no usable driver; the message gives the reason."""


class BadImage(Exception):
    """The driver does not load a cubin; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The facts of a device.

    memory_bytes: in all. shared_bytes: the most that one block may have. has_pools: allocations may
    be ordered like the commands of a stream.
    """

    name: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    multiprocessors: int
    shared_bytes: int
    has_pools: bool


_lock = threading.Lock()
_functions: ctypes.CDLL | None = None  # the library, once it is initialized
_reason = ""  # for none
_forked = False
_lost = ""  # the first error that has cost a context
_locks: weakref.WeakSet[threading.RLock] = weakref.WeakSet()


def _open_library() -> ctypes.CDLL:
    """Return the library with its signatures. Raises Unavailable."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise Unavailable(f"no NVIDIA driver is installed: {error}") from None
    version = c_int()
    library.cuDriverGetVersion(byref(version))
    if version.value < _OLDEST:
        raise Unavailable(
            f"the NVIDIA driver is too old: it is for CUDA {version_text(version.value)}, and "
            f"tfjit needs one for CUDA {version_text(_OLDEST)} or later"
        )
    for function, arguments in _SIGNATURES.items():
        getattr(library, function).argtypes = arguments
    for function, arguments in _LATER_SIGNATURES.items():
        if hasattr(library, function):
            getattr(library, function).argtypes = arguments
    return library


def functions() -> ctypes.CDLL:
    """Return the driver's functions, by the names of libcuda.

    The first call initializes the driver. Raises Unavailable, and FailedPreconditionError in a
    forked child.
    """
    global _functions, _reason
    if _forked:
        raise errors.FailedPreconditionError(
            None,
            None,
            "CUDA cannot be used in a forked child, since its parent has used it: start processes "
            'by spawn (multiprocessing.get_context("spawn"))',
        )
    if _functions is not None:
        return _functions
    with _lock:
        if _functions is None and not _reason:
            try:
                opened = _open_library()
                result = opened.cuInit(0)
                if result:
                    raise Unavailable(_init_failure(opened, result))
                _functions = opened
            except Unavailable as error:
                _reason = str(error)
        if _functions is None:
            raise Unavailable(_reason)
        return _functions


def _init_failure(library: ctypes.CDLL, result: int) -> str:
    reason = f"cuInit: {_describe(library, result)}"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if result == _NO_DEVICE and visible is not None:
        reason += f" (CUDA_VISIBLE_DEVICES={visible!r})"
    return reason


def _describe(library: ctypes.CDLL, result: int) -> str:
    """Return the name and text of an error code."""
    name, text = c_char_p(), c_char_p()
    library.cuGetErrorName(result, byref(name))
    library.cuGetErrorString(result, byref(text))
    if not name.value:
        return f"error {result}"
    return f"{name.value.decode()} ({result}): {(text.value or b'').decode()}"


def check(function: str, result: int) -> None:
    """Raise an error where a function of the driver has failed.

    It is ResourceExhaustedError where the device has no memory left, otherwise InternalError.
    """
    if not result:
        return
    message = f"{function}: {_describe(functions(), result)}"
    if result == OUT_OF_MEMORY:
        raise errors.ResourceExhaustedError(None, None, message)
    if result in _LOST:
        message = _note_lost(message)
    raise errors.InternalError(None, None, message)


def _note_lost(message: str) -> str:
    """Note that a context is lost; return the message of the error."""
    global _lost
    if not _lost:
        _lost = message
    elif _lost != message:
        message += f" (the first such error: {_lost})"
    return f"{message}. This process cannot use the GPU any more: start it again"


def is_lost() -> bool:
    """Return whether a context of this process was lost.

    A kernel that leaves its memory costs it, for example.
    """
    return bool(_lost)


def call(function: str, *arguments: object) -> None:
    """Call a function of the driver. Raises as `check`, and Unavailable."""
    check(function, getattr(functions(), function)(*arguments))


def release(function: str, *arguments: object) -> None:
    """Call a function that frees something.

    Nothing is left to free at the end of the process, in a forked child, and in a lost context: a
    finalizer that told the error once more would hide the first one.
    """
    if _forked:
        return
    result = getattr(functions(), function)(*arguments)
    if result in _LOST:
        if not _lost:
            settings.tell(
                "kernels", "%s", _note_lost(f"{function}: {_describe(functions(), result)}")
            )
    elif result != _DEINITIALIZED:
        check(function, result)


def version_text(version: int) -> str:
    """Return a version as text: "12.8" of 12080."""
    return f"{version // 1000}.{version % 1000 // 10}"


def driver_version() -> int:
    """Return the CUDA version of the driver: 12080 is 12.8."""
    version = c_int()
    call("cuDriverGetVersion", byref(version))
    return version.value


def device_count() -> tuple[int, str]:
    """Return the number of visible devices, and the reason for 0.

    CUDA_VISIBLE_DEVICES hides devices, as in every program.
    """
    count = c_int()
    try:
        call("cuDeviceGetCount", byref(count))
    except Unavailable as error:
        return 0, str(error)
    except errors.FailedPreconditionError as error:  # a forked child has its other devices
        return 0, error.message
    return count.value, "" if count.value else "the driver sees no device"


def ordinal(number: int) -> int:
    device = c_int()
    call("cuDeviceGet", byref(device), number)
    return device.value


@functools.cache
def properties(number: int) -> Properties:
    """Return the facts of a visible device."""
    device = ordinal(number)
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, 256, device)
    total = c_size_t()
    call("cuDeviceTotalMem_v2", byref(total), device)

    def attribute(code: int) -> int:
        value = c_int()
        call("cuDeviceGetAttribute", byref(value), code, device)
        return value.value

    return Properties(
        name.value.decode(),
        (attribute(75), attribute(76)),
        total.value,
        multiprocessors=attribute(16),
        shared_bytes=attribute(97),
        has_pools=bool(attribute(115)),
    )


def is_image_error(result: int) -> bool:
    """Return whether an error code is about a cubin or PTX."""
    return result in _IMAGE_ERRORS


def image_error(result: int) -> str:
    """Return the text of an error about code, with its usual cause."""
    return (
        f"{_describe(functions(), result)}. The driver is for CUDA "
        f"{version_text(driver_version())}: kernels compiled by a later CUDA need a later driver "
        "(with tfjit[gpu12], the compiler is that of CUDA 12)"
    )


def load_function(kernel: int) -> tuple[int, c_void_p]:
    """Return an error code, and a kernel's function in the current context.

    kernel: a CUkernel. The driver loads the code now where it can; otherwise the first launch does, which may be in a
    capture.
    """
    table, function = functions(), c_void_p()
    result = table.cuKernelGetFunction(byref(function), kernel)
    if not result and hasattr(table, "cuFuncLoad"):
        result = table.cuFuncLoad(function)
    return result, function


def load_kernels(cubin: bytes, symbols: Mapping[str, str]) -> dict[str, int]:
    """Load a cubin or PTX; return the handle (CUkernel) of each entry.

    symbols: entry -> name of the kernel. A handle serves every device, and stays for the life of
    the process. Raises BadImage.
    """
    try:
        table = functions()
    except Unavailable as error:
        raise BadImage(str(error)) from None
    library = c_void_p()
    result = table.cuLibraryLoadData(byref(library), cubin, None, None, 0, None, None, 0)
    if is_image_error(result):
        raise BadImage(image_error(result))
    check("cuLibraryLoadData", result)
    handles = {}
    for entry, symbol in symbols.items():
        kernel = c_void_p()
        result = table.cuLibraryGetKernel(byref(kernel), library, symbol.encode())
        if result or kernel.value is None:
            raise BadImage(f"cuLibraryGetKernel({symbol}): {_describe(table, result)}")
        handles[entry] = kernel.value
    return handles


def fork_safe_lock() -> threading.RLock:
    """Return a lock that is free in a forked child.

    The child may have to raise an error, and no thread of its would release the lock.
    """
    made = threading.RLock()
    _locks.add(made)
    return made


def is_forked() -> bool:
    """Return whether this is a forked child that cannot use CUDA."""
    return _forked


def _after_fork_in_child() -> None:
    global _forked, _functions, _lock
    _forked = _forked or _functions is not None
    _functions = None
    _lock = threading.Lock()
    for lock in list(_locks):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

__all__ = [
    "OUT_OF_MEMORY", "BadImage", "Properties", "Unavailable", "call", "check", "device_count",
    "driver_version", "fork_safe_lock", "functions", "image_error", "is_forked", "is_image_error",
    "is_lost", "load_function", "load_kernels", "ordinal", "properties", "release", "version_text",
]  # fmt: skip
