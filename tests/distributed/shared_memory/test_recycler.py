"""Results of sizes that are sent are in blocks, others in plain memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.distributed.shared_memory.conftest import Ends
from tfjit.distributed.shared_memory import block_pool
from tfjit.distributed.shared_memory.recycler import SharedRecycler

F32 = np.dtype(np.float32)


def test_results_of_sizes_that_are_sent_are_in_blocks(ends: Ends) -> None:
    ends.exporter.lend(np.zeros(600_000, np.uint8))
    recycler = SharedRecycler(ends.pool)
    array = recycler.empty((300, 500), F32)
    assert array.shape == (300, 500) and array.dtype == F32 and array.flags.c_contiguous
    assert ends.pool.find(array) is not None
    assert array.ctypes.data % 64 == 0
    copy = recycler.copy(array)
    assert np.array_equal(copy.view(np.int32), array.view(np.int32))
    assert ends.pool.find(copy) not in (None, ends.pool.find(array))
    recycler.clear()
    assert ends.pool.find(copy) is not None


@pytest.mark.parametrize("why", ["small", "not sent", "too many blocks", "very large"])
def test_other_results_are_not(ends: Ends, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 100 if why == "small" else 1 << 20
    if why != "not sent":
        ends.exporter.lend(np.zeros(4 * size, np.uint8))
    if why == "too many blocks":
        monkeypatch.setattr(block_pool, "_most_blocks", lambda: 0)
    elif why == "very large":
        monkeypatch.setattr("tfjit.distributed.shared_memory.recycler._MAX_BYTES", 1 << 18)
    array = SharedRecycler(ends.pool).empty((size,), F32)
    array[:] = 1
    assert ends.pool.find(array) is None and array.sum() == size
