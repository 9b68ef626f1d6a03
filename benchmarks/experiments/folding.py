"""Measure constant folding: the same models with and without `fold_constants`."""

from __future__ import annotations

from typing import Any

from benchmarks.experiments.experiment import (
    Budget,
    Experiment,
    Findings,
    compared,
    not_equal,
    verdict,
)
from benchmarks.experiments.models import DIGITS, MOBILENET

CANDIDATES = ("default", "default without fold_constants")


def run(budget: Budget) -> Findings:
    """Compare both pipelines on each model."""
    models = [("digits CNN", DIGITS, "probs:0", {"images:0": (1, 8, 8, 1)})]
    if not budget.quick:
        models.append(("MobileNetV2 96x96", MOBILENET, *mobilenet()))
    cells, figures, bars = [], [], []
    for title, path, fetch, shapes in models:
        found = compared(budget, path, CANDIDATES, fetches=[fetch], shapes=shapes)
        if not found.agrees:
            return not_equal(found)
        figures.append(found.as_json() | {"model": title})
        for row in found.rows:
            bars.append((f"{title}\n{row.name}", row.us))
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
        axes.barh([name for name, _ in bars], [us for _, us in bars])
        axes.set_xscale("log")
        axes.set_xlabel("us a run")
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
