"""Translate commands to calls of the driver."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_void_p
from typing import Final

from tfjit.framework import errors
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.architecture import architecture
from tfjit.kernels.ir.accelerator import (
    Command,
    Fill,
    KernelLaunch,
    LibraryCall,
    LibraryRoutine,
    RoutineFailed,
)

Call = tuple[str, Callable[..., int], tuple[object, ...]]
"""A function of the driver with its arguments."""

_MOST_DYNAMIC_SHARED: Final = 8
_PLAIN_SHARED_BYTES: Final = 48 << 10  # without an attribute of the function


class CommandCalls:
    """Translates commands for one context, whose functions of kernels are kept.

    The device's lock is held, and its context current, during each call.
    """

    def __init__(self) -> None:
        self._functions: dict[int, c_void_p] = {}
        self._shared: dict[int, int] = {}  # the most dynamic shared memory that was asked for

    def calls(self, commands: Sequence[Command], stream: c_void_p) -> list[Call]:
        """Return the calls that queue commands."""
        return [call for command in commands for call in self._calls_of(command, stream)]

    def _calls_of(self, command: Command, stream: c_void_p) -> list[Call]:
        functions = driver.functions()
        if isinstance(command, KernelLaunch):
            return [self._launch(command, stream)]
        if isinstance(command, LibraryCall):
            library = command.routine
            return [("routine", _queue, (library, stream.value or 0, command.words))]
        if not command.nbytes:
            return []
        if isinstance(command, Fill):
            name = "cuMemsetD8Async"
            arguments = (command.target, command.value & 0xFF, command.nbytes, stream)
        else:
            direction = {"in": "HtoD", "out": "DtoH", "within": "DtoD"}[command.direction]
            name = f"cuMemcpy{direction}Async_v2"
            arguments = (command.target, command.source, command.nbytes, stream)
        return [(name, getattr(functions, name), arguments)]

    def _launch(self, launch: KernelLaunch, stream: c_void_p) -> Call:
        function = self._function(launch.function, launch.shared_bytes)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END; the
        # driver copies the words when it queues the launch
        words = struct.pack(f"<{len(launch.words)}q", *(_signed(word) for word in launch.words))
        buffer = ctypes.create_string_buffer(words, max(len(words), 1))
        size = c_size_t(len(words))
        extra = (c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
        extra.kept = (buffer, size)  # type: ignore[attr-defined]
        arguments = (
            *(function, *launch.grid, *launch.block, launch.shared_bytes, stream),
            *(None, extra if words else None),
        )
        return ("cuLaunchKernel", driver.functions().cuLaunchKernel, arguments)

    def _function(self, kernel: int, shared_bytes: int) -> c_void_p:
        """Return a kernel's function in this device's context, which loads it."""
        found = self._functions.get(kernel)
        if found is None:
            result, found = driver.load_function(kernel)
            if driver.is_image_error(result):  # the driver may put loading off until now
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    f"this GPU does not run a kernel for {architecture()}: "
                    f"{driver.image_error(result)}. GPUs of one process need one compute "
                    "capability: choose them by CUDA_VISIBLE_DEVICES",
                )
            driver.check("cuKernelGetFunction", result)
            self._functions[kernel] = found
        # never less than another launch of this kernel has, which may be captured by now
        if shared_bytes > self._shared.get(kernel, _PLAIN_SHARED_BYTES):
            driver.call("cuFuncSetAttribute", found, _MOST_DYNAMIC_SHARED, shared_bytes)
            self._shared[kernel] = shared_bytes
        return found


def issue(calls: Sequence[Call]) -> None:
    """Make calls in order. The context is current."""
    for name, function, arguments in calls:
        result = function(*arguments)
        if result:
            driver.check(name, result)


def _queue(routine: LibraryRoutine, stream: int, words: Sequence[int]) -> int:
    """Queue a routine. Raises RoutineFailed."""
    try:
        routine.queue(stream, words)
    except errors.OpError as error:
        raise RoutineFailed(routine, error.message) from None
    return 0


def _signed(word: int) -> int:
    """Return a word of 64 bits as a signed number.

    Addresses may use the highest bit.
    """
    return (word + 2**63) % 2**64 - 2**63


__all__ = ["Call", "CommandCalls", "issue"]
