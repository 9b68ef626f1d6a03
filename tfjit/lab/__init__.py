"""Experiments on one's own graph, as functions that return objects.

In: a session or a model, feeds, fetches. Out: objects with texts, tables and pages. Not in here:
the command line, which prints these objects. Each name is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tfjit.lab.bench_cases import Bench, bench
    from tfjit.lab.bench_processes import ScriptBench, bench_script
    from tfjit.lab.compare_candidates import compare
    from tfjit.lab.comparison import Comparison
    from tfjit.lab.page.view import View, view
    from tfjit.lab.rewrites.bisect import Bisection, bisect
    from tfjit.lab.rewrites.bisect_script import bisect_script
    from tfjit.lab.rewrites.recorded import history
    from tfjit.lab.saved import Changes, changes_since, load_bench, save_bench
    from tfjit.passes.history.history import History

# Public name -> the module that has it. No module has the name of a function: importing it would
# replace the function.
_MODULES: Final = {
    "Bench": "tfjit.lab.bench_cases",
    "Bisection": "tfjit.lab.rewrites.bisect",
    "Changes": "tfjit.lab.saved",
    "Comparison": "tfjit.lab.comparison",
    "History": "tfjit.passes.history.history",
    "ScriptBench": "tfjit.lab.bench_processes",
    "View": "tfjit.lab.page.view",
    "bench": "tfjit.lab.bench_cases",
    "bench_script": "tfjit.lab.bench_processes",
    "bisect": "tfjit.lab.rewrites.bisect",
    "bisect_script": "tfjit.lab.rewrites.bisect_script",
    "changes_since": "tfjit.lab.saved",
    "compare": "tfjit.lab.compare_candidates",
    "history": "tfjit.lab.rewrites.recorded",
    "load_bench": "tfjit.lab.saved",
    "save_bench": "tfjit.lab.saved",
    "view": "tfjit.lab.page.view",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'tfjit.lab' has no attribute {name!r}")
    found = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


__all__ = [
    "Bench",
    "Bisection",
    "Changes",
    "Comparison",
    "History",
    "ScriptBench",
    "View",
    "bench",
    "bench_script",
    "bisect",
    "bisect_script",
    "changes_since",
    "compare",
    "history",
    "load_bench",
    "save_bench",
    "view",
]
