"""List the GPUs of this process, real or simulated, and open them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.kernels.cuda.architecture import is_simulated

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator


def physical_memory() -> list[int]:
    """Return the bytes of memory of each GPU, none without a usable driver."""
    if is_simulated():
        from tfjit.kernels.cuda.simulated_accelerator import MEMORY_BYTES

        return [MEMORY_BYTES]
    from tfjit.kernels.cuda import driver

    return [driver.memory_bytes(number) for number in range(driver.device_count())]


def description(physical: int) -> str:
    """Return name, bus and compute capability of a GPU, in TensorFlow's words."""
    if is_simulated():
        return "name: simulated GPU, pci bus id: <undefined>, compute capability: 0.0"
    from tfjit.kernels.cuda import driver

    return driver.description(physical)


def open_device(physical: int, number: int, memory_limit: int) -> Accelerator:
    """Return the accelerator of a GPU. memory_limit: the bytes that it may allocate."""
    if is_simulated():
        from tfjit.kernels.cuda.simulated_accelerator import SimulatedAccelerator

        return SimulatedAccelerator(number, memory_limit)
    from tfjit.kernels.cuda.accelerator import CudaAccelerator

    return CudaAccelerator(physical, number, memory_limit)
