"""Compare the predicted and the measured time of every compiled call of real models."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments.experiment import Budget, Experiment, Findings
from benchmarks.experiments.folding import mobilenet
from benchmarks.experiments.models import DIGITS, MOBILENET, deep_network
from tfjit.client.session.model_file import read_model
from tfjit.client.session.session import Session


def run(budget: Budget) -> Findings:
    """Measure the calls of each model in place."""
    points: dict[str, list[tuple[str, float, float]]] = {}
    points["digits CNN"] = _points(
        read_model(DIGITS).graph_def, "probs:0", {"images:0": (32, 8, 8, 1)}
    )
    if not budget.quick:
        fetch, shapes = mobilenet()
        points["MobileNetV2 96x96"] = _points(read_model(MOBILENET).graph_def, fetch, shapes)
        graph, feed, step, init = deep_network(8)
        points["training 8 layers"] = _points(graph, step, {feed: (8, 160)}, init)
    cells, worst = [], []
    for model, found in points.items():
        predicted = np.array([p for _, p, _ in found])
        measured = np.array([m for _, _, m in found])
        ratio = measured / predicted
        low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
        cells.append(
            [
                model,
                str(len(found)),
                f"{predicted.sum():.1f}",
                f"{measured.sum():.1f}",
                f"{middle:.2f} ({low:.2f} to {high:.2f})",
                f"{rank_correlation(predicted, measured):.2f}",
            ]
        )
        for k in np.argsort(-np.abs(np.log(ratio)))[:3]:
            worst.append([model, found[k][0], f"{predicted[k]:.2f}", f"{measured[k]:.2f}"])

    def draw(axes: Any) -> None:
        for model, found in points.items():
            axes.scatter([p for _, p, _ in found], [m for _, _, m in found], s=12, label=model)
        ends = [min(axes.get_xlim()[0], 0.1) or 0.1, max(axes.get_xlim()[1], axes.get_ylim()[1])]
        ends[0] = max(ends[0], 0.02)
        axes.plot(ends, ends, color="grey", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("predicted us")
        axes.set_ylabel("measured us")
        axes.legend()

    heading = ["model", "calls", "predicted us", "measured us", "measured over predicted", "rank"]
    title = "predicted and measured time: sums, median with tenths, rank correlation"
    return Findings(
        [(title, heading, cells), ("furthest off", ["model", "node", "predicted", "us"], worst)],
        {model: [list(point) for point in found] for model, found in points.items()},
        draw,
    )


def _points(
    graph: Any, fetch: str, shapes: dict[str, tuple[int, ...]], init: str = ""
) -> list[tuple[str, float, float]]:
    """Return (node, predicted us, measured us) of each compiled call."""
    rng = np.random.default_rng(0)
    feeds = {name: rng.uniform(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    with Session(graph=graph) as session:
        if init:
            session.run(init)
        session.run(fetch, feeds)
        session.wait_until_compiled()
        explained = session.explain(fetch, measure=True, feed_dict=feeds)
    return [
        (node.name, node.predicted_us, node.measured_us)
        for node in explained.nodes
        if node.kernels and node.predicted_us > 0 and node.measured_us
    ]


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's correlation of two samples."""
    if len(a) < 2:
        return 1.0
    ranks = [np.argsort(np.argsort(values)) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


EXPERIMENT = Experiment(
    "predicted_cost", "How well does the cost model predict the time of fused groups?", run
)
