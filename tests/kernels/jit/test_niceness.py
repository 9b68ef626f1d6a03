"""A process that leads a session makes its group nice; no other process changes a group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from pathlib import Path
from tfjit.kernels.jit.niceness import be_nice
be_nice(10)
group = Path("/proc/self/autogroup")
words = group.read_text().split() if group.exists() else []
print(os.nice(0), words[-1] if words else "none")
"""


def _group_niceness() -> str:
    """Return the niceness of this process's group, "none" where it has no group.

    The file is empty, or absent, on a system that forms no groups.
    """
    group = Path("/proc/self/autogroup")
    words = group.read_text().split() if group.exists() else []
    return words[-1] if words else "none"


@pytest.mark.parametrize("leads", [True, False])
def test_the_group_of_a_session_is_nice(leads: bool) -> None:
    before = _group_niceness()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=leads,
    )
    own, group = done.stdout.split()
    assert int(own) == min(os.nice(0) + 10, 19)
    if leads:
        assert group in ("10", "none")
    else:
        assert group == before
