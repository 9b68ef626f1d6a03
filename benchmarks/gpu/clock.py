"""Time queued work on a device, by events; in the simulator by the wall clock."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from tfjit.kernels.cuda.device.architecture import is_simulated
from tfjit.kernels.ir.accelerator import Fill

FLUSHED_BYTES: Final = 256 << 20
"""More than the L2 cache of any card."""
_COLD_RUNS: Final = 15


class DeviceClock:
    """Measure the time that a device takes for what a function queues."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator

    def seconds(
        self, queue: Callable[[], object], before: Callable[[], object] | None = None
    ) -> float:
        """Return the time between the start and the end of the queued work.

        before: queues work that is not counted, during which the host queues the other.
        """
        device = self._accelerator
        device.synchronize()
        if before is not None:
            before()
        if is_simulated():
            start = time.perf_counter()
            queue()
            device.synchronize()
            return time.perf_counter() - start
        from tfjit.kernels.cuda.device import driver

        library = driver.functions()
        library.cuEventElapsedTime.argtypes = (ctypes.c_void_p,) * 3
        first, last = ctypes.c_void_p(), ctypes.c_void_p()
        elapsed_ms = ctypes.c_float()
        with device.context.current():
            for event in (first, last):
                driver.call("cuEventCreate", ctypes.byref(event), 0)
            driver.call("cuEventRecord", first, device.stream)
            queue()
            driver.call("cuEventRecord", last, device.stream)
            driver.call("cuEventSynchronize", last)
            result = library.cuEventElapsedTime(ctypes.byref(elapsed_ms), first, last)
            driver.check("cuEventElapsedTime", result)
            for event in (first, last):
                driver.call("cuEventDestroy_v2", event)
        return elapsed_ms.value / 1e3

    def each(self, queue: Callable[[int], object], budget_s: float = 0.1) -> float:
        """Return seconds of one of many repetitions, the median of five batches.

        queue: takes the number of repetitions.
        """
        once = max(self.seconds(lambda: queue(1)), 1e-6)
        count = max(1, min(1000, int(budget_s / 5 / once)))
        self.seconds(lambda: queue(count))
        return statistics.median(self.seconds(lambda: queue(count)) / count for _ in range(5))

    def cold(self, queue: Callable[[int], object], tiny: bool = False) -> float:
        """Return seconds of one repetition that finds nothing of its own in the L2 cache."""
        device = self._accelerator
        nbytes = 1 << 12 if tiny else FLUSHED_BYTES
        address = device.allocate(nbytes)
        flush = device.program([Fill(address, 0, nbytes)])
        try:
            return statistics.median(
                self.seconds(lambda: queue(1), flush.start) for _ in range(_COLD_RUNS)
            )
        finally:
            flush.close()
            device.free(address)


def wall_us(call: Callable[[], object], budget_s: float = 0.3, most: int = 300) -> float:
    """Return the median wall time of a call in microseconds."""
    times: list[float] = []
    end = time.perf_counter() + budget_s
    while len(times) < 3 or (time.perf_counter() < end and len(times) < most):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
