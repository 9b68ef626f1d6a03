"""Simulate a GPU in host memory, for NUMBA_ENABLE_CUDASIM=1.

Memory is surrounded by guard bytes, and copies are checked against the allocations: a kernel that
writes beyond an array, or a copy from memory that is not page-locked, is an error here. Commands
run in the order of the program, or in another one that its `CommandOrder` allows: a test that
changes the order finds a wait that is missing.
"""

from __future__ import annotations

import bisect
import ctypes
import heapq
import random
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from tfjit.framework import errors
from tfjit.kernels.cuda.device import simulator
from tfjit.kernels.cuda.device.memory_limit import ALIGNMENT, MemoryLimit
from tfjit.kernels.ir.accelerator import (
    Accelerator,
    Command,
    CommandOrder,
    CommandProgram,
    Copy,
    Fill,
    HostArray,
    HostBytes,
    KernelLaunch,
    LibraryCall,
)

MEMORY_BYTES: Final = 1 << 30
_GUARD: Final = 0xA5


class _Allocation:
    """Bytes between two guards."""

    def __init__(self, nbytes: int) -> None:
        whole = np.full(nbytes + 3 * ALIGNMENT, _GUARD, np.uint8)
        start = -whole.ctypes.data % ALIGNMENT + ALIGNMENT
        self.address = whole.ctypes.data + start
        self.data = whole[start : start + nbytes]
        self._guards = (whole[:start], whole[start + nbytes :])

    def is_intact(self) -> bool:
        """Return whether the guards are as they were."""
        return all(bool((guard == _GUARD).all()) for guard in self._guards)


class SimulatedAccelerator(Accelerator):
    """One GPU. Commands run at once, on the thread that queues them.

    disorder: "late" lets the last command that may run do so first, a number is the seed of drawn
    orders, None keeps the order of the program.
    """

    number = 0
    name = "simulated GPU"
    memory_kind = (1, 0)  # of the host
    stream_handle = 0
    disorder: int | Literal["late"] | None = None

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        """Make a device that has `memory_bytes`."""
        self.memory_bytes = memory_bytes
        self.memory = MemoryLimit("the simulated GPU", memory_bytes)
        self._allocations: dict[int, _Allocation] = {}
        self._pinned: dict[int, int] = {}  # address -> end
        self._unpinned: deque[int] = deque()
        self._starts: list[int] = []  # sorted addresses of both
        self._failure: Exception | None = None
        self._lock = threading.RLock()

    @property
    def memory_limit(self) -> int:
        """The bytes that this process may allocate."""
        return self.memory.limit

    @memory_limit.setter
    def memory_limit(self, limit: int) -> None:
        self.memory.limit = limit

    def allocate(self, nbytes: int) -> int:
        with self._lock:
            self.memory.check(nbytes)
            made = _Allocation(nbytes)
            self._forget_unpinned()  # these bytes may have been page-locked before
            self.memory.add(made.address, nbytes)
            self._allocations[made.address] = made
            bisect.insort(self._starts, made.address)
            return made.address

    def available_bytes(self) -> int:
        return self.memory.available

    def free(self, address: int) -> None:
        with self._lock:
            self.memory.remove(address)
            self._starts.remove(address)
            self._check_guards(self._allocations.pop(address))

    def free_shared(self, address: int) -> None:
        self.free(address)

    def holds(self, address: int) -> bool:
        with self._lock:
            at = bisect.bisect_right(self._starts, address) - 1
            found = self._allocations.get(self._starts[at]) if at >= 0 else None
            return found is not None and address < found.address + max(found.data.nbytes, 1)

    def pinned(self, nbytes: int) -> HostBytes:
        array = np.full(nbytes, _GUARD, np.uint8)
        address = array.ctypes.data
        with self._lock:
            self._forget_unpinned()
            self._pinned[address] = address + nbytes
            bisect.insort(self._starts, address)
        # a finalizer may run anywhere, also where this thread is in the midst of these tables
        weakref.finalize(array, self._unpinned.append, address)
        return array

    def _forget_unpinned(self) -> None:
        while self._unpinned:
            gone = self._unpinned.popleft()
            del self._pinned[gone]
            self._starts.remove(gone)

    def write(self, address: int, array: HostArray) -> None:
        with self._lock:
            self._device_bytes(address, array.nbytes)[:] = _flat(array)

    def read(self, array: HostArray, address: int) -> None:
        with self._lock:
            self.synchronize()
            _flat(array)[:] = self._device_bytes(address, array.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        with self._lock:
            self._run(Copy("within", target, source, nbytes))

    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        with self._lock:
            self._run(Copy("in", target, source, nbytes))

    def program(
        self, commands: Sequence[Command], order: CommandOrder | None = None
    ) -> CommandProgram:
        if order is None or self.disorder is None:
            return _Program(self, tuple(commands))
        priorities: list[float] = [-float(number) for number in range(len(commands))]
        if self.disorder != "late":
            random.Random(self.disorder).shuffle(priorities)
        return _Program(
            self, tuple([commands[number] for number in _allowed(order.follows, priorities)])
        )

    def wait_for(self, stream: int) -> None:
        """Do nothing: all that was queued is done."""

    def hold_back(self, stream: int) -> None:
        """Do nothing: all that was queued is done."""

    def synchronize(self) -> None:
        with self._lock:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure

    def run(self, commands: Sequence[Command]) -> None:
        """Run commands, unless one before has failed; `synchronize` raises its error."""
        with self._lock:
            if self._failure is not None:
                return
            try:
                for command in commands:
                    self._run(command)
            except errors.OpError as error:
                self._failure = error

    def _run(self, command: Command) -> None:
        if isinstance(command, KernelLaunch):
            simulator.launch(command.function, command.words, command.grid, command.block)
            self._check_all_guards()
        elif isinstance(command, LibraryCall):
            command.routine.queue(self.stream_handle, command.words)
            self._check_all_guards()
        elif isinstance(command, Fill):
            self._device_bytes(command.target, command.nbytes)[:] = command.value
        else:
            target, source = (
                self._host_bytes if command.direction == host else self._device_bytes
                for host in ("out", "in")
            )
            target(command.target, command.nbytes)[:] = source(command.source, command.nbytes)

    def _check_all_guards(self) -> None:
        for allocation in list(self._allocations.values()):  # a finalizer may free some meanwhile
            self._check_guards(allocation)

    def _check_guards(self, allocation: _Allocation) -> None:
        if not allocation.is_intact():
            raise errors.InternalError(
                None,
                None,
                f"a kernel wrote outside the {allocation.data.nbytes} bytes at "
                f"{allocation.address:#x}",
            )

    def _device_bytes(self, address: int, nbytes: int) -> HostBytes:
        at = bisect.bisect_right(self._starts, address) - 1
        found = self._allocations.get(self._starts[at]) if at >= 0 else None
        if found is None or address + nbytes > found.address + found.data.nbytes:
            raise errors.InternalError(
                None, None, f"{nbytes} bytes at {address:#x} are not allocated on the device"
            )
        offset = address - found.address
        return found.data[offset : offset + nbytes]

    def _host_bytes(self, address: int, nbytes: int) -> HostBytes:
        at = bisect.bisect_right(self._starts, address) - 1
        end = self._pinned.get(self._starts[at]) if at >= 0 else None
        if end is None or address + nbytes > end:
            raise errors.InternalError(
                None, None, f"{nbytes} bytes at {address:#x} are not page-locked host memory"
            )
        return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def _allowed(follows: Sequence[Sequence[int]], priorities: Sequence[float]) -> list[int]:
    """Return the commands in an order that they allow.

    Of those that are ready, the one of lowest priority comes first.
    """
    waiting = [len(before) for before in follows]
    behind: list[list[int]] = [[] for _ in follows]
    for command, before in enumerate(follows):
        for earlier in before:
            behind[earlier].append(command)
    ready = [(priorities[command], command) for command, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    found: list[int] = []
    while ready:
        _, command = heapq.heappop(ready)
        found.append(command)
        for later in behind[command]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (priorities[later], later))
    return found


def _flat(array: HostArray) -> HostBytes:
    if not array.flags.c_contiguous:
        raise errors.InternalError(None, None, "arrays are copied where they are contiguous")
    return array.reshape(-1).view(np.uint8)


class _Program(CommandProgram):
    def __init__(self, device: SimulatedAccelerator, commands: tuple[Command, ...]) -> None:
        self._device, self._commands = device, commands
        self.launches = sum(isinstance(c, KernelLaunch | LibraryCall) for c in commands)

    def prepare(self) -> None:
        """Do nothing: commands are run as they stand."""

    def start(self) -> None:
        self._device.run(self._commands)

    def wait(self) -> None:
        self._device.synchronize()

    def close(self) -> None:
        self._commands = ()


__all__ = ["MEMORY_BYTES", "SimulatedAccelerator"]
