"""Arena layout and recycled output memory."""

from __future__ import annotations

import gc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfjit.runtime.step.memory_planner import ALIGNMENT, Interval, OutputRecycler, align, lay_out


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 8)), max_size=60)
)
def test_buffers_alive_together_never_overlap(rows: list[tuple[int, int, int]]) -> None:
    intervals = [Interval(nbytes, first, first + length) for nbytes, first, length in rows]
    size = lay_out(intervals)
    assert size % ALIGNMENT == 0
    for i, a in enumerate(intervals):
        assert a.offset % ALIGNMENT == 0
        assert a.offset + a.nbytes <= size
        for b in intervals[:i]:
            alive_together = a.first <= b.last and b.first <= a.last
            if alive_together and a.nbytes and b.nbytes:
                assert (
                    a.offset + align(a.nbytes) <= b.offset or b.offset + align(b.nbytes) <= a.offset
                )


def test_a_chain_needs_two_buffers() -> None:
    chain = [Interval(1000, i, i + 1) for i in range(50)]
    assert lay_out(chain) == 2 * align(1000)


def test_memory_returns_only_when_every_view_has_died() -> None:
    recycler = OutputRecycler()
    first = recycler.empty((100, 100), np.dtype("f4"))
    address = first.ctypes.data
    part = first[50:]
    del first
    gc.collect()
    second = recycler.empty((100, 100), np.dtype("f4"))
    assert second.ctypes.data != address
    del part
    gc.collect()
    third = recycler.empty((100, 100), np.dtype("f4"))
    assert third.ctypes.data == address
    assert third.flags.writeable and third.flags.c_contiguous


def test_the_recycler_holds_no_more_than_its_limit() -> None:
    recycler = OutputRecycler(limit_bytes=1000)
    array = recycler.empty((200,), np.dtype("f8"))
    address = array.ctypes.data
    array[:] = 1
    del array
    gc.collect()
    assert recycler._held_bytes == 0
    assert recycler.empty((200,), np.dtype("f8")) is not None
    assert address
