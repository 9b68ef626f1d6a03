"""Count the kernels that the compiler refuses over random graphs of 50 to 500 nodes.

    python -m tests.programs.count_refusals --first 0 --count 2000

Outputs are compared with TensorFlow's. A line a graph that differs or has a refused kernel, a
summary at the end; the exit status tells whether all graphs passed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TFJIT_PRECOMPILED", "0")
os.environ.setdefault("TFJIT_STORED_PLANS", "0")
os.environ.setdefault("TFJIT_BUILD_ARCHIVE", "0")
os.environ["TFJIT_JIT"] = "eager"

import numpy as np

import tfjit
from tests.programs.big_graphs import BigGraph, theirs
from tfjit.kernels.jit.store import store

TOLERANCE = 1e-3


def size_of(seed: int) -> int:
    """Return the number of nodes of a graph."""
    return int(np.random.default_rng(seed).integers(50, 501))


def differences(seed: int) -> list[str]:
    """Return a line for each fetch that differs from TensorFlow's."""
    drawn = BigGraph(seed, size_of(seed))
    expected = theirs(drawn.graph, drawn.fetches, drawn.feeds)
    with tfjit.Session(graph=drawn.graph) as session:
        got = session.run(drawn.fetches, drawn.feeds)
    found = []
    for name, a, b in zip(drawn.fetches, got, expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            found.append(f"{name}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        elif not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            found.append(f"{name}: by {np.nanmax(np.abs(a - b)):.3g}")
    return found


def main() -> int:
    """Draw, compile and compare the graphs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    nodes = wrong = refused = done = 0
    began = time.monotonic()
    for seed in range(options.first, options.first + options.count):
        before = len(store.refusals())
        found = differences(seed)
        done, nodes, wrong = done + 1, nodes + size_of(seed), wrong + bool(found)
        new = list(store.refusals().values())[before:]
        refused += len(new)
        for line in (*found, *new):
            print(f"seed {seed}: {line}", flush=True)
        if done % 25 == 0 or done == options.count:
            print(
                f"{done} graphs of {nodes} nodes: {refused} kernels refused, {wrong} graphs "
                f"differ; {store.snapshot().compiled} kernels compiled, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
    return int(bool(wrong or refused))


if __name__ == "__main__":
    sys.exit(main())
