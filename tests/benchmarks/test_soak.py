"""The soak benchmark in small: calls race with the closing of their session, and sessions leave
nothing behind.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import soak

ROOT = Path(__file__).parent.parent.parent


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
    """Threads and file handles exactly; memory by the median of three hundreds of sessions, since an
    allocator grows by a megabyte now and then.

    8 kB a session was one small graph lost. In a process of its own: among what a thousand tests
    have left, memory says nothing.
    """
    script = """if True:
        from benchmarks import soak
        soak.sessions(200)
        found = soak.sessions(300, every=100)
        print(found[-1].threads - found[0].threads, found[-1].handles - found[0].handles)
        print(*(footprint.memory_kb for footprint in found))
    """
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr
    counts, memory = (list(map(int, line.split())) for line in run.stdout.splitlines())
    assert max(counts) <= 0
    assert statistics.median(after - before for before, after in pairwise(memory[:4])) < 400
