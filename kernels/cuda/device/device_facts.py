"""Tell the memory and the description of the GPUs of this process."""

from __future__ import annotations

from typing import Final

from tfjit.kernels.cuda.device.architecture import is_simulated

SIMULATED_BYTES: Final = 1 << 30


def physical_memory() -> list[int]:
    """Return the bytes of memory of each GPU, none without a usable driver."""
    if is_simulated():
        return [SIMULATED_BYTES]
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
