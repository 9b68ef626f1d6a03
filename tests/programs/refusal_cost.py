"""Measure a graph's step with each of its kernels refused in turn.

    python -m tests.programs.refusal_cost --models --graphs 8

The processor time of a step on one thread, unharmed and harmed in alternation. A kernel of several
nodes (a fused group) and a kernel of single nodes are told apart.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TFJIT_PRECOMPILED", "0")
os.environ.setdefault("TFJIT_STORED_PLANS", "0")
os.environ.setdefault("TFJIT_BUILD_ARCHIVE", "0")
os.environ["TFJIT_JIT"] = "eager"

import logging

import numpy as np

import tfjit
from tests.programs.big_graphs import BigGraph, tf1
from tests.refused_kernels import refusing
from tfjit.kernels.source import KernelSource

logging.getLogger("tfjit.cache").setLevel(logging.ERROR)
ROUNDS = 15
ROUND_S = 0.04


def models(pattern: str) -> Iterator[tuple[str, Any, list[str], Mapping[str, np.ndarray]]]:
    """Yield (name, graph, fetches, feeds) of the benchmarks' networks."""
    from benchmarks.scripts import control_flow, elementwise, loops, models, recurrent, rows

    scripts = (models, rows, elementwise, recurrent, loops, control_flow)
    for workload in [one for script in scripts for one in script.workloads()]:
        if pattern.lower() not in workload.name.lower() or "224" in workload.name:
            continue
        graph = tf1.Graph()
        with graph.as_default():
            if workload.build is not None:
                workload.build(tf1)
            elif workload.graph_def is not None:
                graph_def = tf1.GraphDef.FromString(workload.graph_def())
                tf1.import_graph_def(graph_def, name="")
        if workload.setup or workload.targets:
            continue
        yield workload.name, graph, list(workload.fetches), workload.feeds(np.random.default_rng(0))


def random_graphs(first: int, count: int) -> Iterator[tuple[str, Any, list[str], Any]]:
    for seed in range(first, first + count):
        drawn = BigGraph(seed, int(np.random.default_rng(seed).integers(50, 501)))
        yield drawn.text, drawn.graph, drawn.fetches, drawn.feeds


def kernels(session: Any) -> dict[KernelSource, set[str]]:
    """Return the kernels of the session's plan, each with the op types that it serves."""
    found: dict[KernelSource, set[str]] = {}
    for plan in session._runtime_session.plan_cache.plans():
        for variant in plan.variants.values():
            for instruction in variant.lowered.instructions if variant.lowered else ():
                for source in instruction.call.sources() if instruction.call else ():
                    found.setdefault(source, set()).add(instruction.node.op)
    return found


def step_us(run: Callable[[], Any], runs: int) -> float:
    began = time.process_time()
    for _ in range(runs):
        run()
    return (time.process_time() - began) / runs * 1e6


def ratio(plain: Callable[[], Any], harmed: Callable[[], Any]) -> tuple[float, float]:
    """Return the microseconds of a plain step, and the harmed step's ratio to it."""
    plain(), harmed()
    runs = max(1, int(ROUND_S * 1e6 / max(step_us(plain, 3), 1.0)))
    pairs = [(step_us(plain, runs), step_us(harmed, runs)) for _ in range(ROUNDS)]
    least = [min(times) for times in zip(*pairs, strict=True)]
    return least[0], least[1] / least[0]


def is_bad(source: KernelSource, attempts: int) -> Callable[[KernelSource], bool]:
    return lambda one: one.attempt < attempts and replace(one, attempt=0) == source


def measured(name: str, graph: Any, fetches: list[str], feeds: Any, attempts: int) -> list[float]:
    """Print a line a kernel; return the ratios of fused groups.

    attempts: the ways of compiling that are refused.
    """
    config = tfjit.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    found = []
    with tfjit.Session(graph=graph, config=config) as plain:
        expected = plain.run(fetches, feeds)
        for source, ops in kernels(plain).items():
            with contextlib.ExitStack() as stack:
                refused = stack.enter_context(refusing(is_bad(source, attempts)))
                session = stack.enter_context(tfjit.Session(graph=graph, config=config))
                for a, b in zip(session.run(fetches, feeds), expected, strict=True):
                    np.testing.assert_allclose(a, b, 1e-3, 1e-3, err_msg=f"{name}, {source.title}")
                if not refused:
                    continue
                us, times = ratio(
                    lambda: plain.run(fetches, feeds),
                    functools.partial(session.run, fetches, feeds),
                )
            fused = "_Fused" in ops
            if fused:
                found.append(times)
            kind = "group" if fused else "/".join(sorted(ops))
            print(
                f"{times:6.2f}  {us:8.1f} us  {kind:<20} {source.title[:60]:<60} {name}", flush=True
            )
    return found


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--pattern", default="", help="models whose name has it")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--attempts", type=int, default=1, help="ways of compiling that fail")
    options = parser.parse_args()
    ratios: list[float] = []
    drawn = [*random_graphs(options.first, options.graphs)]
    for name, graph, fetches, feeds in [
        *(models(options.pattern) if options.models else ()),
        *drawn,
    ]:
        ratios += measured(name, graph, fetches, feeds, options.attempts)
    if ratios:
        above = sum(one > 1.5 for one in ratios)
        print(
            f"{len(ratios)} kernels of fused groups refused in turn: median {np.median(ratios):.2f}, "
            f"largest {max(ratios):.2f}, {above} above 1.5"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
