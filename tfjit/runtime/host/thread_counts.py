"""Numbers of threads that a config and the environment ask for."""

from __future__ import annotations

import os
from typing import Any, Final

from tfjit.framework import settings

SINGLE_THREADED: Final = "SINGLE_THREADED_EXECUTOR"


def cores() -> int:
    """Return the number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def inter_op_threads(config: Any) -> int:
    """Return the number of threads of an inter-op pool."""
    forced = settings.integer("TFJIT_THREADS")
    if forced:
        return forced
    asked = config.inter_op_parallelism_threads if config is not None else 0
    return asked if asked > 0 else cores()
