"""Measure constant folding: the same models with and without `fold_constants`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.experiments.experiment import (
    Budget,
    Experiment,
    Findings,
    compared,
    not_equal,
    verdict,
)
from benchmarks.experiments.models import DIGITS, DIGITS_TRAINING, LSTM, MOBILENET

CANDIDATES = ("default", "default without fold_constants")


class _Model(NamedTuple):
    """A model with its run."""

    title: str
    path: Path
    fetches: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]
    setup: tuple[str, ...] = ()


def run(budget: Budget) -> Findings:
    """Compare both pipelines on each model."""
    models = [_Model("digits CNN", DIGITS, ("probs:0",), {"images:0": (1, 8, 8, 1)})]
    if not budget.quick:
        fetch, shapes = mobilenet()
        labelled = {"images:0": (32, 8, 8, 1), "labels:0": (32,)}
        models += [
            _Model("its training", DIGITS_TRAINING, ("loss:0", "train"), labelled, ("init",)),
            _Model("MobileNetV2 96x96", MOBILENET, (fetch,), shapes),
            _Model("LSTM, 20 steps", LSTM, ("y:0",), {"x:0": (4, 20, 8)}),
        ]
    cells, figures = [], []
    ratios: list[tuple[str, float, float, float]] = []
    for title, path, fetches, shapes, setup in models:
        found = compared(budget, path, CANDIDATES, fetches=fetches, shapes=shapes, setup=setup)
        if not found.agrees:
            return not_equal(found)
        figures.append(found.as_json() | {"model": title})
        for row in found.rows:
            if row.ratio is not None and row.low is not None and row.high is not None:
                ratios.append((title, row.low, row.ratio, row.high))
            cells.append(
                [
                    title if row.ratio is None else "",
                    row.name,
                    f"{row.us:.1f}",
                    str(row.launches),
                    f"{row.plan_s:.3f}",
                    verdict(row),
                ]
            )

    def draw(axes: Any) -> None:
        for title, low, ratio, high in ratios:
            axes.barh(title, ratio, xerr=[[ratio - low], [high - ratio]], capsize=4)
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_xlabel("time without constant folding over time with it, 99 % interval")
        axes.invert_yaxis()

    heading = ["model", "pipeline", "us", "launches", "plan s", "time over the default's"]
    return Findings([("constant folding", heading, cells)], figures, draw)


def mobilenet() -> tuple[str, dict[str, tuple[int, ...]]]:
    """Return the fetch and the feed's shape of the model in the tree."""
    from tfjit.client.session.model_file import read_model

    nodes = read_model(MOBILENET).graph_def.node
    feed = next(node for node in nodes if node.op == "Placeholder")
    used = {name.split(":")[0].lstrip("^") for node in nodes for name in node.input}
    last = next(node.name for node in nodes if node.name not in used and node.op != "NoOp")
    shape = [max(1, dim.size) for dim in feed.attr["shape"].shape.dim]
    return f"{last}:0", {f"{feed.name}:0": tuple(shape)}


EXPERIMENT = Experiment(
    "folding", "What does constant folding gain, and what does it cost to plan?", run
)
