"""Run commands on a GPU: stream, memory pool and CUDA graphs."""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors, settings
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.command_calls import CommandCalls, issue
from tfjit.kernels.cuda.device.context import Context, new_event, new_stream
from tfjit.kernels.cuda.device.graph_capture import GraphCapture
from tfjit.kernels.cuda.device.memory_limit import ALIGNMENT, MemoryLimit
from tfjit.kernels.cuda.device.program import MOST_DIRECT, CudaProgram
from tfjit.kernels.cuda.device.stream_plan import plan_streams, predict
from tfjit.kernels.cuda.libraries.device_libraries import DeviceLibraries
from tfjit.kernels.ir.accelerator import (
    Accelerator,
    Command,
    CommandOrder,
    CommandProgram,
    Copy,
    HostArray,
    HostBytes,
    LibraryCall,
    LibraryRoutine,
    RoutineFailed,
)

if TYPE_CHECKING:
    from tfjit.kernels.ir.library_opening import LibraryOpening
    from tfjit.kernels.registry import LibraryProblem

_PORTABLE: Final = 1
_ORDINAL_OF_POINTER: Final = 9  # an error for memory that is not CUDA's
_RELEASE_THRESHOLD: Final = 4


class CudaAccelerator(Accelerator):
    """One GPU with one stream; programs fork within their graphs.

    memory: counts allocations. The pool of the driver orders them like commands, and keeps freed
    memory for later ones.
    """

    def __init__(self, number: int) -> None:
        """Open a visible device."""
        facts = driver.properties(number)
        self.number, self.name, self.memory_bytes = number, facts.name, facts.memory_bytes
        self.memory_kind = (2, number)
        self.memory = MemoryLimit(f"GPU:{number} ({facts.name})", facts.memory_bytes)
        self.context = Context(number)
        self.lock = driver.fork_safe_lock()  # of the stream, tables and programs
        self.commands = CommandCalls()
        self._pinned: dict[int, int] = {}
        self._unpinned: deque[int] = deque()
        self._deferred: deque[Callable[[], None]] = deque()
        self._shared: deque[int] = deque()  # freed, perhaps still in use by other libraries
        self._pool: c_void_p | None = None
        self._accepted: weakref.WeakSet[LibraryRoutine] = weakref.WeakSet()
        capability = ".".join(map(str, facts.compute_capability))
        self._libraries = DeviceLibraries(
            self,
            driver.driver_version(),
            capability,
            self.context.current,
            self.context.capturing,
        )
        self._multiprocessors = facts.multiprocessors
        self.captures = GraphCapture(self)
        with self.context.current():
            self.stream = new_stream()
            if facts.has_pools:
                self._pool = self._make_pool()
        # Streams stay, since handles of libraries may know them; they are small.
        pools = [] if self._pool is None else [self._pool]
        self.context.free_with(
            self, [("cuMemFreeHost", self._unpinned), ("cuMemPoolDestroy", pools)]
        )

    def _make_pool(self) -> c_void_p:
        # CUmemPoolProps: pinned allocations (1) on a device (1), no handles to share, no size
        properties = ctypes.create_string_buffer(
            struct.pack("<iiii", 1, 0, 1, self.number).ljust(88, b"\0"), 88
        )
        pool = c_void_p()
        driver.call("cuMemPoolCreate", ctypes.byref(pool), properties)
        keep_all = c_uint64(2**64 - 1)
        driver.call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.byref(keep_all))
        return pool

    def check_usable(self) -> None:
        driver.functions()

    @property
    def stream_handle(self) -> int:
        return self.stream.value or 0

    @property
    def memory_limit(self) -> int:
        """The bytes that this process may allocate."""
        return self.memory.limit

    @memory_limit.setter
    def memory_limit(self, limit: int) -> None:
        self.memory.limit = limit

    # memory

    def allocate(self, nbytes: int) -> int:
        with self.lock, self.context.current():
            self._free_deferred()
            self._free_shared()
            self.memory.check(nbytes)
            address = c_uint64()
            result = self._allocate(address, self.memory.rounded(nbytes))
            if result == driver.OUT_OF_MEMORY:
                # Freed memory of other sizes may be in the way.
                driver.call("cuStreamSynchronize", self.stream)
                if self._pool is not None:
                    driver.call("cuMemPoolTrimTo", self._pool, 0)
                result = self._allocate(address, self.memory.rounded(nbytes))
            if result == driver.OUT_OF_MEMORY:
                free = self.context.free_bytes() / (1 << 30)
                raise self.memory.exhausted(nbytes, f"{free:.2f} GiB of the device are free")
            driver.check("cuMemAlloc", result)
            self.memory.add(address.value, nbytes)
            return address.value

    def available_bytes(self) -> int:
        return min(self.memory.available, self.context.free_bytes())

    def _allocate(self, address: c_uint64, nbytes: int) -> int:
        functions = driver.functions()
        if self._pool is None:
            return int(functions.cuMemAlloc_v2(ctypes.byref(address), nbytes))
        return int(
            functions.cuMemAllocFromPoolAsync(
                ctypes.byref(address), nbytes, self._pool, self.stream
            )
        )

    def free(self, address: int) -> None:
        self.release(lambda: self._free(address))

    def _free(self, address: int) -> None:
        self.memory.remove(address)
        if self._pool is None:
            driver.release("cuMemFree_v2", address)  # it waits for the device
        else:
            driver.release("cuMemFreeAsync", address, self.stream)

    def release(self, work: Callable[[], None]) -> None:
        """Free something now, or later where another thread has the device's lock.

        A finalizer must not wait for the lock: it runs anywhere, also on a thread that holds a lock
        which the owner waits for. work: with the lock held and the context current.
        """
        if driver.is_forked():
            return
        self._deferred.append(work)
        if self.lock.acquire(blocking=False):
            try:
                with self.context.current():
                    self._free_deferred()
            finally:
                self.lock.release()

    def _free_deferred(self) -> None:
        while self._deferred:
            self._deferred.popleft()()

    def free_shared(self, address: int) -> None:
        self._shared.append(address)

    def _free_shared(self) -> None:
        """Free the memory that other libraries have seen; the context is current.

        Any stream of theirs may still use it.
        """
        count = len(self._shared)  # finalizers may add more behind the wait
        if count:
            with self.context.capturing:
                driver.call("cuCtxSynchronize")
            for _ in range(count):
                self.free(self._shared.popleft())

    def holds(self, address: int) -> bool:
        ordinal = c_int(-1)
        with self.context.current():  # an error in a thread without one
            result = driver.functions().cuPointerGetAttribute(
                ctypes.byref(ordinal), _ORDINAL_OF_POINTER, address
            )
        return not result and ordinal.value == self.number

    def pinned(self, nbytes: int) -> HostBytes:
        with self.lock, self.context.current():
            self._free_deferred()  # programs first: their copies use page-locked memory
            self._free_unpinned()
            address = c_void_p()
            size = max(nbytes, 1)
            result = driver.functions().cuMemHostAlloc(ctypes.byref(address), size, _PORTABLE)
            if result == driver.OUT_OF_MEMORY:
                raise errors.ResourceExhaustedError(
                    None, None, f"OOM when allocating {nbytes} bytes of page-locked host memory"
                )
            driver.check("cuMemHostAlloc", result)
        assert address.value is not None
        owner = (ctypes.c_uint8 * size).from_address(address.value)
        # A finalizer may run anywhere, in the midst of a capture, too: the next call frees.
        weakref.finalize(owner, self._unpinned.append, address.value).atexit = False
        return np.ctypeslib.as_array(owner)[:nbytes]

    def _free_unpinned(self) -> None:
        while self._unpinned:
            driver.call("cuMemFreeHost", self._unpinned.popleft())

    def write(self, address: int, array: HostArray) -> None:
        self._copy_and_wait("cuMemcpyHtoDAsync_v2", address, _data(array), array.nbytes)

    def read(self, array: HostArray, address: int) -> None:
        self._copy_and_wait("cuMemcpyDtoHAsync_v2", _data(array), address, array.nbytes)

    def _copy_and_wait(self, function: str, target: int, source: int, nbytes: int) -> None:
        with self.context.current():
            if nbytes:
                with self.lock:
                    driver.call(function, target, source, nbytes, self.stream)
            driver.call("cuStreamSynchronize", self.stream)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self._queue(Copy("within", target, source, nbytes))

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        self._queue(Copy("in", target, source, nbytes))

    def _queue(self, command: Command) -> None:
        with self.lock, self.context.current():
            issue(self.commands.calls((command,), self.stream))

    def wait_for(self, stream: int) -> None:
        self._order(c_void_p(stream), self.stream)

    def hold_back(self, stream: int) -> None:
        self._order(self.stream, c_void_p(stream))

    def _order(self, first: c_void_p, then: c_void_p) -> None:
        """Let one stream wait for what is queued in another."""
        with self.lock, self.context.current():
            event = new_event()
            try:
                driver.call("cuEventRecord", event, first)
                driver.call("cuStreamWaitEvent", then, event, 0)
            finally:
                driver.release("cuEventDestroy_v2", event)  # once it has happened

    def synchronize(self) -> None:
        with self.context.current():
            driver.call("cuStreamSynchronize", self.stream)
            with self.lock:
                self._free_deferred()
                self._free_unpinned()
                self._free_shared()

    # commands

    def opening(self, library: str) -> LibraryOpening | None:
        return None if driver.is_forked() else self._libraries.opening(library)

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        opening = self.opening(problem.library)
        if opening is not None:
            opening.wait()
        with self.context.current():  # without the lock: runs go on
            return self._libraries.routine(problem)

    def is_planned(self, problem: LibraryProblem) -> bool:
        is_known, routine = self._libraries.known(problem)
        return is_known and (routine is None or routine in self._accepted)

    def reject(self, routine: LibraryRoutine) -> None:
        """Offer a routine no more."""
        self._accepted.discard(routine)
        self._libraries.reject(routine)

    def accepts(self, routine: LibraryRoutine, words: int) -> bool:
        """Capture a call of the routine, which nothing runs.

        All its addresses are that of one array, as large as the largest: the driver may check the
        ranges of fills.
        """
        with self.lock, self.context.current():
            if routine not in self._accepted:
                size = max(ALIGNMENT, routine.reach_bytes, routine.workspace_bytes)
                try:
                    address = self.allocate(size)
                except errors.ResourceExhaustedError:
                    return False
                try:
                    graph = self.captures.capture([LibraryCall(routine, (address,) * words)])
                except (RoutineFailed, errors.InternalError) as failure:
                    if driver.is_lost():
                        raise
                    settings.tell("kernels", "kernels of tfjit serve instead: %s", failure.message)
                    self.reject(routine)
                    return False
                finally:
                    self.free(address)
                driver.release("cuGraphExecDestroy", graph)
                self._accepted.add(routine)
            return True

    def program(
        self, commands: Sequence[Command], order: CommandOrder | None = None
    ) -> CommandProgram:
        plan = None
        if order is not None and len(commands) > MOST_DIRECT:
            works = predict(commands, order, self._multiprocessors)
            plan = plan_streams(works, order.follows)
        return CudaProgram(self, commands, plan)


def _data(array: HostArray) -> int:
    if not array.flags.c_contiguous:
        raise errors.InternalError(None, None, "an array that is copied has to be contiguous")
    return int(array.ctypes.data)


__all__ = ["CudaAccelerator"]
