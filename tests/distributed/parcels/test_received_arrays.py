"""Arrays that are received have the memory of earlier ones."""

from __future__ import annotations

import gc

import pytest

from tfjit.distributed.parcels import received_arrays
from tfjit.distributed.parcels.received_arrays import empty_bytes
from tfjit.runtime.step import memory_planner
from tfjit.runtime.step.memory_planner import OutputRecycler

SIZE = (1 << 20) + 3


def test_memory_is_used_again_behind_the_last_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_arrays, "_RECYCLER", OutputRecycler(SIZE))
    first, short = empty_bytes(SIZE), empty_bytes(10)
    assert first.size == SIZE and first.flags.writeable and short.size == 10
    view, address = first[5:7], first.ctypes.data
    view[:] = 3
    del first
    gc.collect()
    other = empty_bytes(SIZE)
    assert other.ctypes.data != address and list(view) == [3, 3]
    del view
    gc.collect()
    assert empty_bytes(SIZE).ctypes.data == address


def test_an_array_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(nbytes: int) -> None:
        memory_planner.check_fits_in_memory((1 << 62,), "u1")

    monkeypatch.setattr(memory_planner, "aligned_bytes", no_memory)
    with pytest.raises(MemoryError, match="OOM"):
        empty_bytes(SIZE)
