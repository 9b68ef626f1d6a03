"""Declare the protocol of devices with memory and queues of their own.

A backend with `accelerates` gives one Accelerator a device. The runtime makes programs of commands
with fixed addresses, and runs them again and again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from tfjit.kernels.ir.library_opening import LibraryOpening
    from tfjit.kernels.registry import LibraryProblem

HostArray = np.ndarray[Any, np.dtype[Any]]
HostBytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A launch with known argument words.

    function: the kernel's address as `KernelStore.lookup` gives it.
    """

    function: int
    words: tuple[int, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of bytes.

    direction: from host memory in, to host memory out, or within the device. Host memory is
    page-locked memory of `Accelerator.pinned`.
    """

    direction: Literal["in", "out", "within"]
    target: int
    source: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Set bytes of the device to one value."""

    target: int
    value: int
    nbytes: int


class LibraryRoutine(ABC):
    """A vendor's function, prepared for a problem on one device.

    workspace_bytes: of device memory that it needs while it runs. reach_bytes: the most that it
    uses from one address on.
    """

    workspace_bytes: int
    reach_bytes: int = 0

    @abstractmethod
    def queue(self, stream: int, words: Sequence[int]) -> None:
        """Queue the function in a stream, which may be capturing.

        words: addresses in the order of the problem. The device's context is current, and its lock
        is held. Raises InternalError where the library refuses.
        """


class RoutineFailed(Exception):
    """A library refused a call, so that a program has no commands.

    Nothing was queued. The accelerator offers the routine no more.
    """

    def __init__(self, routine: LibraryRoutine, message: str) -> None:
        super().__init__(message)
        self.routine, self.message = routine, message


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of a routine with known addresses."""

    routine: LibraryRoutine
    words: tuple[int, ...]


Command = KernelLaunch | LibraryCall | Copy | Fill


@dataclass(frozen=True, slots=True)
class CommandOrder:
    """The order and the predicted work of a program's commands.

    follows: for each command, the numbers of earlier ones that it waits for; the others may run at
    the same time. moved_bytes, flops: of each command.
    """

    follows: tuple[tuple[int, ...], ...]
    moved_bytes: tuple[int, ...]
    flops: tuple[int, ...]


class CommandProgram(ABC):
    """A list of commands that is run again and again, in order.

    launches: the number of its kernels and routines.
    """

    launches: int

    @abstractmethod
    def prepare(self) -> None:
        """Do the first start's preparations now.

        Raises RoutineFailed where a library refuses a call.
        """

    @abstractmethod
    def start(self) -> None:
        """Queue the commands behind all that was queued before; return at once.

        Raises RoutineFailed as `prepare`, where that was not called.
        """

    @abstractmethod
    def wait(self) -> None:
        """Wait until the last `start` is done.

        Raises InternalError where a kernel failed.
        """

    @abstractmethod
    def close(self) -> None:
        """Free the program; it is not run again."""


class Accelerator(ABC):
    """One device: its memory, its queue of commands.

    All commands of a device run in the order in which they are queued. Thread-safe.

    number: among the visible devices. name: the model. memory_bytes: of the whole device.
    memory_limit: the bytes that this process may allocate. memory_kind: kind and number of its
    memory, by DLPack's codes.
    """

    number: int
    name: str
    memory_bytes: int
    memory_limit: int
    memory_kind: tuple[int, int]

    def check_usable(self) -> None:
        """Raise FailedPreconditionError in a process that cannot use the device.

        A forked child is one: page-locked memory of its parent is not its own, either.
        """
        return

    @property
    @abstractmethod
    def stream_handle(self) -> int:
        """Return the address of the queue's stream, 0 for none."""

    @abstractmethod
    def allocate(self, nbytes: int) -> int:
        """Return the address of memory, a multiple of 256.

        Raises ResourceExhaustedError.
        """

    @abstractmethod
    def available_bytes(self) -> int:
        """Return the bytes that `allocate` may still give."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Give memory back once the queued commands are done."""

    @abstractmethod
    def free_shared(self, address: int) -> None:
        """Give memory back that other libraries have seen, once they are done.

        A finalizer may call this at any time.
        """

    @abstractmethod
    def holds(self, address: int) -> bool:
        """Return whether an address is in this device's memory.

        Memory of other libraries counts.
        """

    @abstractmethod
    def pinned(self, nbytes: int) -> HostBytes:
        """Return page-locked bytes, which are freed with the array."""

    @abstractmethod
    def write(self, address: int, array: HostArray) -> None:
        """Copy a contiguous host array to the device, and wait for it."""

    @abstractmethod
    def read(self, array: HostArray, address: int) -> None:
        """Copy from the device to a contiguous host array; wait for it."""

    @abstractmethod
    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy within the device."""

    @abstractmethod
    def copy_in(self, target: int, source: int, nbytes: int) -> None:
        """Queue a copy of page-locked host memory to the device."""

    @abstractmethod
    def program(
        self, commands: Sequence[Command], order: CommandOrder | None = None
    ) -> CommandProgram:
        """Return a program of commands. Its addresses stay valid while it lives.

        order: of the commands; each one follows the one before without it. Starts of programs
        never overlap.
        """

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        """Return a vendor's routine for a problem, or None.

        Waits until the vendor's library is open. A first answer may take a second.
        """
        return None

    def is_planned(self, problem: LibraryProblem) -> bool:
        """Return whether `routine` and `accepts` answer at once.

        The library is open.
        """
        return True

    def opening(self, library: str) -> LibraryOpening | None:
        """Return the opening of a vendor's library, None once it is done.

        The first call starts it; none waits for it.
        """
        return None

    def accepts(self, routine: LibraryRoutine, words: int) -> bool:
        """Return whether a routine can be part of a program.

        words: the number of its addresses.
        """
        return True

    @abstractmethod
    def wait_for(self, stream: int) -> None:
        """Queue a wait for the queued work of another stream."""

    @abstractmethod
    def hold_back(self, stream: int) -> None:
        """Let another stream wait for the queued commands."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all queued commands. Raises InternalError where a kernel failed."""


__all__ = [
    "Accelerator",
    "Command",
    "CommandOrder",
    "CommandProgram",
    "Copy",
    "Fill",
    "HostArray",
    "HostBytes",
    "KernelLaunch",
    "LibraryCall",
    "LibraryRoutine",
    "RoutineFailed",
]
