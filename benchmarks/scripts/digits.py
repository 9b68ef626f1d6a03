"""Measure the demo's network.

Two convolutions, two poolings, two dense layers on 8x8 images.
"""

from __future__ import annotations

from pathlib import Path

import tfjit
from benchmarks.workload import Workload, feeds_of, uniform


def _graph() -> bytes:
    return (Path(tfjit.__file__).parent / "demo" / "digits_cnn.pb").read_bytes()


def workloads() -> list[Workload]:
    """Batches of 1, 32 and 256 images."""
    return [
        Workload(
            f"digits CNN, batch {n}",
            ["probs:0", "logits:0"],
            feeds_of(images=uniform([n, 8, 8, 1], 0, 1)),
            graph_def=_graph,
            callables=True,
        )
        for n in (1, 32, 256)
    ]
