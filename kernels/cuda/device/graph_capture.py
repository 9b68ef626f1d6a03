"""Capture the commands of a program as a CUDA graph.

The graph's edges come from streams that fork and join by events, since a vendor's routine,
which queues its kernels itself, can be captured from a stream alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import c_void_p
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.command_calls import Call, issue
from tfjit.kernels.cuda.device.context import new_event, new_stream
from tfjit.kernels.cuda.device.stream_plan import START, StreamPlan
from tfjit.kernels.ir.accelerator import RoutineFailed

if TYPE_CHECKING:
    from tfjit.kernels.cuda.device.accelerator import CudaAccelerator
    from tfjit.kernels.ir.accelerator import Command

_RELAXED: Final = 2  # this thread's and other threads' allocations stay allowed
_INVALIDATED: Final = 901
_ATTEMPTS: Final = 3
"""Captures of a program.

Another library of the process makes one invalid where it waits for the whole device meanwhile.
"""


class GraphCapture:
    """The streams in which a device's programs are captured.

    The device's lock is held, and its context current, during each call. Streams are made when a
    plan first needs them; events live as long as a capture.
    """

    def __init__(self, device: CudaAccelerator) -> None:
        self._device = device
        self._streams: list[c_void_p] = []

    def capture(self, commands: Sequence[Command], plan: StreamPlan | None = None) -> c_void_p:
        """Return commands as an executable graph.

        plan: the streams of the commands; without it, each follows the one before. A capture that
        another thread has made invalid is made again. Raises RoutineFailed where a library refuses
        a call, InternalError, and ResourceExhaustedError where there is no memory for the graph.
        """
        events: dict[int, c_void_p] = {}
        executable = c_void_p()
        try:
            calls = self._calls(commands, plan, events)
            for left in reversed(range(_ATTEMPTS)):
                with self._device.context.capturing:
                    graph = self._captured(calls, self._stream(0), is_last=not left)
                if graph is not None:
                    break
        finally:
            for event in events.values():
                driver.release("cuEventDestroy_v2", event)
        try:
            driver.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0)
        finally:
            driver.release("cuGraphDestroy", graph)
        return executable

    def _captured(self, calls: Sequence[Call], first: c_void_p, is_last: bool) -> c_void_p | None:
        """Return the graph of calls, None where another thread has spoiled it.

        first: the stream that the others fork from. is_last: raise an error instead of None.
        """
        graph = c_void_p()
        driver.call("cuStreamBeginCapture_v2", first, _RELAXED)
        try:
            issue(calls)
        except BaseException as error:
            # a failed capture gives no graph, and its streams leave capture mode by this call
            result = driver.functions().cuStreamEndCapture(first, ctypes.byref(graph))
            if graph.value is not None:
                driver.release("cuGraphDestroy", graph)
            was_refused = isinstance(error, errors.OpError | RoutineFailed)
            if result == _INVALIDATED and was_refused and not is_last:
                return None
            if isinstance(error, RoutineFailed):
                # of a lost context, a library tells nothing but its own failure
                driver.call("cuStreamSynchronize", self._device.stream)
            raise
        result = driver.functions().cuStreamEndCapture(first, ctypes.byref(graph))
        if result == _INVALIDATED and not is_last:
            return None
        driver.check("cuStreamEndCapture", result)
        return graph

    def _calls(
        self, commands: Sequence[Command], plan: StreamPlan | None, events: dict[int, c_void_p]
    ) -> list[Call]:
        """Return the calls that queue commands in the streams of a plan.

        events: gets those of places that other streams wait for.
        """
        device = self._device
        if plan is None or plan.streams == 1:
            return device.commands.calls(commands, self._stream(0))
        streams = [self._stream(number) for number in range(plan.streams)]
        for earlier in (*(e for place in plan.places for e in place.waits), *plan.joins):
            if earlier not in events:
                events[earlier] = new_event()
        calls = _record(events, START, streams[0])
        for number, (command, place) in enumerate(zip(plan.sequence, plan.places, strict=True)):
            stream = streams[place.stream]
            calls += _wait(events, place.waits, stream)
            calls += device.commands.calls((commands[command],), stream)
            calls += _record(events, number, stream)
        return calls + _wait(events, plan.joins, streams[0])

    def _stream(self, number: int) -> c_void_p:
        while len(self._streams) <= number:
            self._streams.append(new_stream())
        return self._streams[number]


def _record(events: dict[int, c_void_p], place: int, stream: c_void_p) -> list[Call]:
    if place not in events:
        return []
    return [("cuEventRecord", driver.functions().cuEventRecord, (events[place], stream))]


def _wait(events: dict[int, c_void_p], places: Iterable[int], stream: c_void_p) -> list[Call]:
    function = driver.functions().cuStreamWaitEvent
    return [("cuStreamWaitEvent", function, (stream, events[earlier], 0)) for earlier in places]


__all__ = ["GraphCapture"]
