"""MobileNetV2, alpha 0.35, 96x96, frozen by TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.workload import Feeds, Workload

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"


def workloads() -> list[Workload]:
    """Batches of 1 and 4 images."""
    names = np.load(DATA / "mobilenet_v2.npz")
    feed, fetch = str(names["feed"]), str(names["fetch"])

    def workload(n: int) -> Workload:
        def feeds(rng: np.random.Generator) -> Feeds:
            return {feed: rng.random((n, 96, 96, 3), np.float32)}

        return Workload(
            f"MobileNetV2, batch {n}",
            [fetch],
            feeds,
            graph_def=(DATA / "mobilenet_v2.pb").read_bytes,
            atol=1e-6,
        )

    return [workload(1), workload(4)]
