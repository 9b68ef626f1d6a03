"""Run experiments by name: `python -m benchmarks experiments [NAME ...]`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.experiments.experiment import QUICK, Budget, Experiment, Findings
from tfjit.lab.table import text_table

NAMES = ("folding", "algebra", "fusion_limits", "optimizer_updates", "predicted_cost")


def experiments() -> dict[str, Experiment]:
    """Return the experiments by name."""
    return {
        name: importlib.import_module(f"benchmarks.experiments.{name}").EXPERIMENT for name in NAMES
    }


def main(argv: list[str]) -> int:
    """Run the command.

    Returns 1 where outputs differ, 2 for unknown names.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write NAME.json and, with matplotlib, NAME.png"
    )
    parser.add_argument("--rounds", type=int, default=Budget().rounds, help="of random order")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every candidate"
    )
    parser.add_argument("--quick", action="store_true", help="small cases and few rounds")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        print(f"unknown experiment {unknown[0]}: there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    budget = QUICK if args.quick else Budget(rounds=args.rounds)
    budget = replace(budget, threads=args.threads)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
    agree = True
    for name, experiment in experiments().items():
        if args.names and name not in args.names:
            continue
        print(f"{name}: {experiment.question}", flush=True)
        found = experiment.run(budget)
        agree &= found.agrees
        for title, heading, cells in found.tables:
            print(title, text_table(heading, cells), "", sep="\n", flush=True)
        if args.out:
            _write(args.out / name, experiment, found)
    return 0 if agree else 1


def _write(path: Path, experiment: Experiment, found: Findings) -> None:
    """Write figures, and a picture where matplotlib is installed."""
    content: dict[str, Any] = {"question": experiment.question, "figures": found.figures}
    path.with_suffix(".json").write_text(json.dumps(content, indent=1))
    try:
        import matplotlib
    except ImportError:
        print("no picture: install tfjit[plot]", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    found.draw(axes)
    axes.set_title(experiment.question, fontsize=10)
    figure.tight_layout()
    figure.savefig(path.with_suffix(".png"), dpi=120)
    pyplot.close(figure)
