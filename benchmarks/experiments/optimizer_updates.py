"""Measure horizontal batching of optimizer updates: one launch for many mid-sized variables.

An update of some ten microseconds is too short to be shared between threads. Many of them in one
launch keep all threads busy; with one thread there is nothing to gain.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks.experiments.experiment import Budget, Experiment, Findings
from benchmarks.experiments.models import deep_network
from tfjit.client.session.session import Session
from tfjit.framework.env import Env
from tfjit.lab.measure.ratio import ratio_of
from tfjit.lab.measure.rounds import time_rounds
from tfjit.protos import ConfigProto, OptimizerOptions
from tfjit.runtime.factory import SessionOptions

WIDTH = 160
WAYS = {"batched": "", "one by one": "bundle"}


def run(budget: Budget) -> Findings:
    """Compare training steps of networks with more and more variables."""
    depths = (2,) if budget.quick else (2, 8, 32)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    cells, figures = [], []
    for layers in depths:
        measured, launches, losses = _measured(layers, budget)
        if not np.allclose(losses["batched"], losses["one by one"], rtol=1e-4):
            text = f"{layers} layers: losses {losses}"
            return Findings(
                [("outputs differ", ["output"], [[text]])], text, lambda axes: None, agrees=False
            )
        for way, sessions in measured.items():
            times[way].append(float(np.median(sessions)))
        ratio = ratio_of(measured["one by one"], measured["batched"])
        figures.append(
            {
                "variables": 2 * layers,
                "us": {way: found[-1] for way, found in times.items()},
                "launches": launches,
                "ratio": [ratio.low, ratio.ratio, ratio.high],
                "verdict": ratio.verdict,
            }
        )
        cells.append(
            [
                str(2 * layers),
                *(f"{times[way][-1]:.1f} in {launches[way]}" for way in WAYS),
                f"{ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f}), {ratio.verdict}",
            ]
        )

    def draw(axes: Any) -> None:
        for way, found in times.items():
            axes.plot([2 * layers for layers in depths], found, marker="o", label=way)
        axes.set_xlabel("variables trained by Adam")
        axes.set_ylabel("us a step")
        axes.legend()

    heading = ["variables", *(f"{way}: us in launches" for way in WAYS), "one by one over batched"]
    return Findings([("a training step", heading, cells)], figures, draw)


def _measured(
    layers: int, budget: Budget
) -> tuple[dict[str, list[list[float]]], dict[str, int], dict[str, list[float]]]:
    """Return times by session and round, launches, and the first losses, by way."""
    graph, feed, fetch, init = deep_network(layers, WIDTH)
    value = np.random.default_rng(0).uniform(-1, 1, (8, WIDTH)).astype(np.float32)
    sessions = {}
    try:
        launches, losses = {}, {}
        for way, disabled in WAYS.items():
            for k in range(budget.sessions):
                session = sessions[way, k] = _session(graph, disabled, budget.threads)
                session.run(init)
                losses[way] = [float(session.run(fetch, {feed: value})) for _ in range(3)]
                session.wait_until_compiled()
                explained = session.explain(fetch, {feed: value.shape})
                launches[way] = sum(
                    max(1, node.launches) for node in explained.nodes if node.kernels
                ) - sum(len(bundle) - 1 for bundle in explained.bundles)
        calls = {key: _call(session, fetch, feed, value) for key, session in sessions.items()}
        rounds = time_rounds(calls, budget.rounds, np.random.default_rng(0), budget.block_s)
    finally:
        for session in sessions.values():
            session.close()
    times = {way: [rounds[way, k] for k in range(budget.sessions)] for way in WAYS}
    return times, launches, losses


def _call(session: Session, fetch: str, feed: str, value: np.ndarray) -> Any:
    return lambda: session.run(fetch, {feed: value})


def _session(graph: Any, disabled: str, threads: int) -> Session:
    # else the process has one inter-op pool, of the size that its first session asked for
    config = ConfigProto(
        intra_op_parallelism_threads=threads,
        inter_op_parallelism_threads=threads,
        use_per_session_threads=True,
    )
    config.graph_options.optimizer_options.global_jit_level = OptimizerOptions.ON_1
    env = Env(variables={**os.environ, "TFJIT_DISABLE": disabled})
    return Session(graph=graph, options=SessionOptions(config=config, env=env))


EXPERIMENT = Experiment(
    "optimizer_updates", "What does one launch for many updates gain on several threads?", run
)
