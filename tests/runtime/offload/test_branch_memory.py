"""Tests of buffers of independent branches: none overlap while alive, and few waits are made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjit.runtime.offload import branch_memory
from tfjit.runtime.offload.branch_memory import DeepInterval, lay_out_branches
from tfjit.runtime.step.memory_planner import align

NUMBERS = st.integers(0, 12)
INTERVALS = st.builds(
    lambda nbytes, a, b, c, d: DeepInterval(nbytes, min(a, b), max(a, b), -1, min(c, d), max(c, d)),
    st.integers(1, 300),
    *(NUMBERS,) * 4,
)


def share_bytes(one: DeepInterval, other: DeepInterval) -> bool:
    """Return whether two buffers have a byte in common."""
    return one.offset < other.offset + align(other.nbytes) and other.offset < one.offset + align(
        one.nbytes
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(INTERVALS, max_size=16))
def test_buffers_that_share_bytes_follow_each_other(intervals: list[DeepInterval]) -> None:
    """The later one begins behind the end of the other, and deeper than its last use."""
    size = lay_out_branches(intervals)
    for k, one in enumerate(intervals):
        assert one.offset >= 0 and one.offset + one.nbytes <= size
        for other in intervals[k + 1 :]:
            if share_bytes(one, other):
                first, then = sorted((one, other), key=lambda interval: interval.first)
                assert first.last < then.first and first.last_depth < then.depth


def towers() -> list[DeepInterval]:
    """Return the buffers of two chains of four values, one after the other."""
    return [
        DeepInterval(1000, 5 * tower + k, 5 * tower + k + 1, -1, k, k + 1)
        for tower in range(2)
        for k in range(4)
    ]


def test_towers_do_not_share_memory_but_their_values_do() -> None:
    intervals = towers()
    assert lay_out_branches(intervals) == 4 * 1024
    for one in intervals[:4]:
        assert not any(share_bytes(one, other) for other in intervals[4:])


def test_a_large_arena_is_as_small_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_memory, "SMALL_ARENA", 3 * 1024)
    intervals = towers()
    assert lay_out_branches(intervals) == 2 * 1024
    monkeypatch.setattr(branch_memory, "MOST_GROWTH", 2)
    assert lay_out_branches(intervals) == 4 * 1024


def test_a_chain_takes_no_more_than_before() -> None:
    chain = [DeepInterval(1000, k, k + 1, -1, k, k + 1) for k in range(20)]
    assert lay_out_branches(chain) == 2 * 1024
