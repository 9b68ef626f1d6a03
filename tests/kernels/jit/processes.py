"""Run code in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path


def run_python(code: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run indented code with a cache directory; return what it printed."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "TFJIT_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
