"""Open the visible GPUs, or the simulated one."""

from __future__ import annotations

import threading
from typing import Final

from tfjit.framework import errors
from tfjit.kernels.cuda.device.architecture import is_simulated
from tfjit.kernels.ir.accelerator import Accelerator

_opened: Final[dict[int, Accelerator]] = {}
_lock: Final = threading.Lock()


def device_count() -> tuple[int, str]:
    """Return the number of devices, and the reason where it is 0."""
    if is_simulated():
        return 1, ""
    from tfjit.kernels.cuda.device import driver

    return driver.device_count()


def open_device(number: int) -> Accelerator:
    """Return a device; it is opened once. Raises NotFoundError, InternalError."""
    with _lock:
        found = _opened.get(number)
        if found is not None:
            return found
        count, reason = device_count()
        if number >= count:
            raise errors.NotFoundError(
                None, None, f"there is no GPU:{number}: {reason or f'{count} are visible'}"
            )
        made: Accelerator
        if is_simulated():
            from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator

            made = SimulatedAccelerator()
        else:
            from tfjit.kernels.cuda.device.accelerator import CudaAccelerator

            made = CudaAccelerator(number)
        _opened[number] = made
        return made


__all__ = ["device_count", "open_device"]
