"""Run a list of commands on a GPU again and again."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.command_calls import Call, issue
from tfjit.kernels.cuda.device.context import new_event
from tfjit.kernels.ir.accelerator import (
    Command,
    CommandProgram,
    KernelLaunch,
    LibraryCall,
    RoutineFailed,
)

if TYPE_CHECKING:
    from tfjit.kernels.cuda.device.accelerator import CudaAccelerator
    from tfjit.kernels.cuda.device.stream_plan import StreamPlan

MOST_DIRECT: Final = 2
"""Commands that are queued one by one.

Measured through ctypes: a graph's launch takes 2.9 us, a kernel's 4.8 us. A library's call takes
more, and always makes a graph.
"""


class CudaProgram(CommandProgram):
    """A list of commands, as a CUDA graph where it is long.

    The first start makes the graph.
    """

    def __init__(
        self,
        device: CudaAccelerator,
        commands: Sequence[Command],
        plan: StreamPlan | None = None,
    ) -> None:
        """Note the commands and their streams; nothing is queued."""
        self._device, self._plan = device, plan
        self._commands: tuple[Command, ...] | None = tuple(commands)
        self._graph: c_void_p | None = None
        self._calls: list[Call] = []
        self._event = c_void_p()
        self.launches = sum(isinstance(c, KernelLaunch | LibraryCall) for c in commands)
        # a library's call takes more of the host's time than a graph, so it is made once, by the
        # capture
        self._is_direct = len(commands) <= MOST_DIRECT and not any(
            isinstance(command, LibraryCall) for command in commands
        )

    def prepare(self) -> None:
        device = self._device
        with device.lock, device.context.current():
            if not self._calls:
                self._prepare()

    def start(self) -> None:
        device = self._device
        with device.lock, device.context.current():
            issue(self._calls or self._prepare())

    def _prepare(self) -> list[Call]:
        if self._commands is None:
            raise errors.InternalError(None, None, "a closed program is started")
        device, functions = self._device, driver.functions()
        calls: list[Call]
        if self._is_direct:
            calls = device.commands.calls(self._commands, device.stream)
        else:
            try:
                self._graph = device.captures.capture(self._commands, self._plan)
            except RoutineFailed as failure:
                device.reject(failure.routine)
                raise
            calls = [("cuGraphLaunch", functions.cuGraphLaunch, (self._graph, device.stream))]
        if self._event.value is None:
            self._event = new_event()
        calls.append(("cuEventRecord", functions.cuEventRecord, (self._event, device.stream)))
        self._calls = calls
        return calls

    def wait(self) -> None:
        if self._event.value is not None:
            with self._device.context.current():
                driver.call("cuEventSynchronize", self._event)

    def close(self) -> None:
        self._commands, self._calls = None, []
        self._device.release(self._release)

    def _release(self) -> None:
        if self._event.value is not None:
            driver.release("cuEventSynchronize", self._event)
            driver.release("cuEventDestroy_v2", self._event)
            self._event = c_void_p()
        if self._graph is not None:
            driver.release("cuGraphExecDestroy", self._graph)
            self._graph = None


__all__ = ["MOST_DIRECT", "CudaProgram"]
