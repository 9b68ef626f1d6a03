"""Describe and open the GPUs of this process, or the simulated one."""

from __future__ import annotations

from tfjit.framework import errors
from tfjit.kernels.cuda.device.architecture import is_simulated
from tfjit.kernels.ir.accelerator import Accelerator


def physical_memory() -> list[int]:
    """Return the bytes of each GPU's memory; none without a driver."""
    if is_simulated():
        from tfjit.kernels.cuda.device.simulated_accelerator import MEMORY_BYTES

        return [MEMORY_BYTES]
    from tfjit.kernels.cuda.device import driver

    count, _ = driver.device_count()
    return [driver.properties(number).memory_bytes for number in range(count)]


def description(physical: int) -> str:
    """Return name and compute capability of a GPU, in TensorFlow's words."""
    if is_simulated():
        return "name: simulated GPU, compute capability: 0.0"
    from tfjit.kernels.cuda.device import driver

    found = driver.properties(physical)
    major, minor = found.compute_capability
    return f"name: {found.name}, compute capability: {major}.{minor}"


def open_device(physical: int) -> Accelerator:
    """Return a new accelerator of a GPU.

    Each virtual device of a GPU has one, with a stream and a memory limit of its own. Raises
    NotFoundError, InternalError.
    """
    if is_simulated():
        from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator

        return SimulatedAccelerator()
    from tfjit.kernels.cuda.device import driver
    from tfjit.kernels.cuda.device.accelerator import CudaAccelerator

    count, reason = driver.device_count()
    if physical >= count:
        raise errors.NotFoundError(
            None, None, f"there is no GPU:{physical}: {reason or f'{count} are visible'}"
        )
    return CudaAccelerator(physical)


__all__ = ["description", "open_device", "physical_memory"]
