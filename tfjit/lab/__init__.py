"""Experiments on one's own graph, as functions that return objects.

In: a session or a model, feeds, fetches. Out: objects with texts, tables and pages. Not in here:
the command line, which prints these objects. Each name is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tfjit.lab.rewrites.bisect import Bisection, bisect
    from tfjit.lab.rewrites.bisect_script import bisect_script
    from tfjit.lab.rewrites.recorded import history
    from tfjit.passes.history.history import History

# Public name -> the module that has it.
_MODULES: Final = {
    "History": "tfjit.passes.history.history",
    "Bisection": "tfjit.lab.rewrites.bisect",
    "bisect": "tfjit.lab.rewrites.bisect",
    "bisect_script": "tfjit.lab.rewrites.bisect_script",
    "history": "tfjit.lab.rewrites.recorded",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'tfjit.lab' has no attribute {name!r}")
    found = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


__all__ = ["Bisection", "History", "bisect", "bisect_script", "history"]
