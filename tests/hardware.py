"""Choose between the simulated GPU and a real one: `pytest -m gpu` is for a machine with one.

Then the tests of GPU kernels, which otherwise run in the simulator, use GPU:0, and all other tests
are left out. A test marked `simulator` shows what the simulated GPU alone has.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any

_CHOSEN = False
_KERNELS = re.compile(
    r"\btests\.(kernels\.cuda\.(harness|library_calls|libraries\.form_runs|conv\.oracle)|simulated_gpu)\b"
)
_ALONE = re.compile(r"^pytestmark = pytest\.mark\.(gpu|simulator)$", re.MULTILINE)


@functools.cache
def missing() -> str:
    """Return the reason for having no GPU, "" where there is one."""
    from tfjit.kernels.cuda.device import driver
    from tfjit.kernels.cuda.device.architecture import is_simulated

    return "a simulated GPU" if is_simulated() else driver.device_count()[1]


def choose() -> None:
    """Let tests use the GPU of this machine, if it has one.

    Results are compared with those of the host, so float32 stays float32.
    """
    global _CHOSEN
    _CHOSEN = not missing()
    if _CHOSEN:
        os.environ.setdefault("TFJIT_TF32", "0")


def is_chosen() -> bool:
    """Return whether tests run on hardware."""
    return _CHOSEN


def has_tests(path: Path) -> bool:
    """Return whether a test module has tests of a real GPU.

    Without one, modules that are for nothing else stay: their reason to skip is that of all.
    """
    text = path.read_text(encoding="utf-8")
    alone = _ALONE.search(text)
    if alone is not None:
        return alone[1] == "gpu"
    return is_chosen() and _KERNELS.search(text) is not None


@functools.cache
def device() -> Any:
    """Return GPU:0, of which the tests of kernels share one stream."""
    from tfjit.kernels.cuda.device import devices

    return devices.open_device(0)
