"""What `tfjit.train` holds: the global step and the messages of a cluster."""

from __future__ import annotations

import importlib
from typing import Any, Final

from tfjit.client.global_step import (
    assert_global_step as assert_global_step,
)
from tfjit.client.global_step import (
    create_global_step as create_global_step,
)
from tfjit.client.global_step import (
    get_global_step as get_global_step,
)
from tfjit.client.global_step import (
    get_or_create_global_step as get_or_create_global_step,
)
from tfjit.client.global_step import (
    global_step as global_step,
)

_OPTIMIZERS: Final = (
    *("AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "AdamOptimizer", "FtrlOptimizer", "GradientDescentOptimizer"),
    *("MomentumOptimizer", "ProximalAdagradOptimizer", "ProximalGradientDescentOptimizer", "RMSPropOptimizer"),
)
_MESSAGES: Final = ("ClusterDef", "JobDef", "SaverDef", "ServerDef")
# How a name of TensorFlow's tf.train ends or begins, and what it would take.
_MISSING: Final = (
    ("Optimizer", "optimizers of several workers"),
    ("Saver", "checkpoints"),
    ("Checkpoint", "checkpoints"),
    ("checkpoint", "checkpoints"),
    ("meta_graph", "checkpoints"),
    ("Hook", "monitored sessions"),
    ("Session", "monitored sessions"),
    ("Scaffold", "monitored sessions"),
    ("Server", "distributed sessions"),
    ("ClusterSpec", "distributed sessions"),
    ("queue_runner", "queue runners"),
    ("QueueRunner", "queue runners"),
    ("Coordinator", "queue runners"),
    ("batch", "input queues"),
    ("producer", "input queues"),
    ("decay", "learning rate schedules"),
    ("ExponentialMovingAverage", "moving averages"),
)


def __getattr__(name: str) -> Any:
    if name in _MESSAGES:
        value = globals()[name] = getattr(importlib.import_module("tfjit.protos"), name)
        return value
    if name in _OPTIMIZERS or name == "Optimizer":
        home = "optimizers" if name in _OPTIMIZERS else "optimizer"
        value = globals()[name] = getattr(importlib.import_module(f"tfjit.client.{home}"), name)
        return value
    reason = next((f": {feature} are not supported yet" for part, feature in _MISSING if part in name), "")
    raise AttributeError(f"module 'tfjit.train' has no attribute {name!r}{reason}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MESSAGES, *_OPTIMIZERS, "Optimizer"})
