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
    from tfjit.lab.saved import Changes, changes_since, load_bench, save_bench

# Public name -> the module that has it. No module has the name of a function: importing it would
# replace the function.
_MODULES: Final = {
    "Bench": "tfjit.lab.bench_cases",
    "Changes": "tfjit.lab.saved",
    "Comparison": "tfjit.lab.comparison",
    "ScriptBench": "tfjit.lab.bench_processes",
    "bench": "tfjit.lab.bench_cases",
    "bench_script": "tfjit.lab.bench_processes",
    "changes_since": "tfjit.lab.saved",
    "compare": "tfjit.lab.compare_candidates",
    "load_bench": "tfjit.lab.saved",
    "save_bench": "tfjit.lab.saved",
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
    "Changes",
    "Comparison",
    "ScriptBench",
    "bench",
    "bench_script",
    "changes_since",
    "compare",
    "load_bench",
    "save_bench",
]
