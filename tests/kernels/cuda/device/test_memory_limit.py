"""Counting a device's memory."""

from __future__ import annotations

import pytest

from tfjit.framework import errors
from tfjit.kernels.cuda.device.memory_limit import MemoryLimit


def test_counts_in_multiples_of_256() -> None:
    memory = MemoryLimit("GPU:3", 1024)
    assert [memory.rounded(n) for n in (0, 1, 256, 257)] == [256, 256, 256, 512]
    memory.add(0x100, 257)
    memory.add(0x900, 0)
    assert (memory.used, memory.peak) == (768, 768)
    memory.remove(0x100)
    assert (memory.used, memory.peak) == (256, 768)
    memory.check(768)
    with pytest.raises(errors.ResourceExhaustedError) as caught:
        memory.check(769)
    assert caught.value.message.startswith("OOM when allocating 769 bytes on GPU:3: 0.0 MiB of")
    memory.limit = 2048
    memory.check(769)


def test_unknown_address() -> None:
    with pytest.raises(errors.InternalError, match="GPU:3: 0x100 is freed, and is no allocation"):
        MemoryLimit("GPU:3", 1).remove(0x100)
