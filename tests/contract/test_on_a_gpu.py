"""A sample of the conformance suite with nodes on a simulated GPU.

`NUMBA_ENABLE_CUDASIM=1 pytest -m gpu` runs the whole suite so (tests/hardware.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.simulator
pytest.importorskip("tensorflow")

SAMPLE = (
    # they name devices: nothing that the GPU runs is left to the host unseen
    "contract/test_placement.py",
    # they have values that a GPU alone gives
    "contract/test_edge_values.py",
    "contract/test_step_errors.py",
    "client/session/test_session_against_tensorflow.py::test_partial_run",
    "client/session/test_session_release.py::test_all_is_freed_at_once[nothing-tfjit-closed]",
)


def test_a_sample_of_the_suite(root: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider"),
            *("-k", "not tfjit or freed"),
            *(str(root / "tests" / name) for name in SAMPLE),
        ],
        cwd=root,
        env=environment | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
