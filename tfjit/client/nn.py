"""`tfjit.nn`: the functions of tfjit.ops.nn, recurrent networks and losses over samples."""

from __future__ import annotations

import importlib
from typing import Any

from tfjit.client import rnn_cell
from tfjit.client.evaluation.sampled_losses import nce_loss, sampled_softmax_loss
from tfjit.client.rnn.raw_rnn import raw_rnn
from tfjit.client.rnn.rnn import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
)

__all__ = [
    "bidirectional_dynamic_rnn",
    "dynamic_rnn",
    "nce_loss",
    "raw_rnn",
    "rnn_cell",
    "sampled_softmax_loss",
    "static_bidirectional_rnn",
    "static_rnn",
]


def __getattr__(name: str) -> Any:
    ops = importlib.import_module("tfjit.ops.nn")
    if name.startswith("_") or name not in ops.__all__:
        raise AttributeError(f"module 'tfjit.nn' has no attribute {name!r}")
    return getattr(ops, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *importlib.import_module("tfjit.ops.nn").__all__})
