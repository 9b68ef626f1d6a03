"""Optimise graphs: pipelines as values, and the runner of passes.

In: a session's graph and a RunSpec. Out: partitions, and a report of every pass. Not in here: a
pass itself: each stands in a room below.
"""

import importlib

_NAMES = {
    "Pipeline": "pipeline_spec",
    "register_pass": "user_passes",
    "register_pipeline": "pipeline_spec",
}
"""Public name -> its module in `manager`."""


def __getattr__(name: str) -> object:
    if name in _NAMES:
        return getattr(importlib.import_module(f"tfjit.passes.manager.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'tfjit.passes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
