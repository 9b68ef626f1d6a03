"""Tests of the facts of GPUs, by a simulated one."""

from __future__ import annotations

from tests.simulated_gpu import simulated_gpu
from tfjit.kernels.cuda.device.device_facts import SIMULATED_BYTES, description, physical_memory


def test_a_simulated_gpu() -> None:
    with simulated_gpu():
        assert physical_memory() == [SIMULATED_BYTES]
        assert description(0) == "name: simulated GPU, compute capability: 0.0"
