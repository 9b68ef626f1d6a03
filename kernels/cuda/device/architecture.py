"""Name the architecture that kernels are compiled for."""

from __future__ import annotations

import functools
import os
import re
from typing import Final

from tfjit.framework import settings
from tfjit.kernels.jit.loader import NoCompiler

SIMULATED: Final = "simulated"
"""The architecture of NUMBA_ENABLE_CUDASIM=1: kernels run as Python over host memory."""
_NAME: Final = re.compile(r"sm_(\d+)(\d)([af]?)")


@functools.cache
def is_simulated() -> bool:
    """Return whether NUMBA_ENABLE_CUDASIM=1 asks for a simulated GPU; read once."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "").strip() not in ("", "0")


@functools.cache
def architecture() -> str:
    """Return the architecture of kernels: "sm_90", or "simulated".

    TFJIT_CUDA_ARCH goes before the first GPU's. Read once by a process. Raises NoCompiler where
    there is neither, ValueError for a malformed variable.
    """
    if is_simulated():
        return SIMULATED
    with settings.using(os.environ):
        chosen = settings.text("TFJIT_CUDA_ARCH")
    if chosen:
        compute_capability(chosen)
        return chosen
    from tfjit.kernels.cuda.device import driver

    count, reason = driver.device_count()
    if not count:
        raise NoCompiler(f"there is no GPU to compile for ({reason}): set TFJIT_CUDA_ARCH")
    major, minor = driver.properties(0).compute_capability
    return f"sm_{major}{minor}"


def compute_capability(name: str) -> tuple[int, int, str]:
    """Return the parts of an architecture: (9, 0, "a") of "sm_90a".

    Raises ValueError for another text.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no architecture of a GPU: expected sm_80, sm_90, ...")
    return int(match[1]), int(match[2]), match[3]


__all__ = ["SIMULATED", "architecture", "compute_capability", "is_simulated"]
