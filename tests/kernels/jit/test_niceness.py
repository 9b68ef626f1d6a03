"""A process that leads a session makes its group nice; no other process changes a group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GROUP = Path("/proc/self/autogroup")
SCRIPT = """
import os
from pathlib import Path
from tfjit.kernels.jit.niceness import be_nice
be_nice(10)
group = Path("/proc/self/autogroup")
print(os.nice(0), group.read_text().split()[-1] if group.exists() else "none")
"""


@pytest.mark.parametrize("leads", [True, False])
def test_the_group_of_a_session_is_nice(leads: bool) -> None:
    before = GROUP.read_text().split()[-1] if GROUP.exists() else "none"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=leads,
    )
    own, group = done.stdout.split()
    assert int(own) == min(os.nice(0) + 10, 19)
    assert group == (before if before == "none" or not leads else "10")
