"""The soak benchmark in small: calls race with the closing of their session, and sessions leave nothing behind."""

from __future__ import annotations

import sys

import pytest

from benchmarks import soak


@pytest.mark.parametrize("close_after", [None, 0.0, 0.3, 0.8])
def test_calls_race_with_the_closing(close_after: float | None) -> None:
    result = soak.race(8, 300, close_after)
    assert result.wrong == []
    assert result.stuck == 0
    assert result.outcomes.total() == 8 * 300
    if close_after is None:
        assert result.outcomes["right"] == 8 * 300


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts by /proc")
def test_sessions_leave_nothing_behind() -> None:
    """Threads and file handles exactly; memory roughly, since an allocator grows by a megabyte now and then.

    8 kB a session was one small graph lost.
    """
    soak.sessions(200)
    first, *_, last = soak.sessions(300)
    assert last.threads <= first.threads
    assert last.handles <= first.handles
    assert last.memory_kb - first.memory_kb < 4 * 300
