"""Draw comparisons and benches into picture files (extra `plot`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.figure import Figure

    from tfjit.lab.bench_cases import Bench
    from tfjit.lab.comparison import Comparison

_SHOWN = 12


def plot_comparison(comparison: Comparison, path: str | Path) -> None:
    """Draw the candidates' times and the parts that differ most.

    Raises ImportError without matplotlib.
    """
    pyplot = _pyplot()
    parts = comparison.differences[:_SHOWN]
    figure, axes = pyplot.subplots(
        1, 2 if parts else 1, figsize=(12 if parts else 7, 5), squeeze=False
    )
    left = axes[0][0]
    labels = list(comparison.round_us)
    times = [[us for session in comparison.round_us[n] for us in session] for n in labels]
    left.boxplot(times, showfliers=False)
    left.set_xticks(range(1, len(labels) + 1), labels)
    left.set_ylim(bottom=0)
    left.set_ylabel("us a run")
    left.set_title(comparison.model)
    if parts:
        right = axes[0][1]
        names = [", ".join(part.nodes)[:40] for part in parts]
        right.barh(names, [part.difference_us for part in parts])
        right.axvline(0.0, color="black", linewidth=0.8)
        right.invert_yaxis()
        right.set_xlabel(f"us more in {parts[0].candidate} than in {parts[0].base}")
    _save(figure, path)


def plot_bench(bench: Bench, path: str | Path) -> None:
    """Draw the time of each candidate by case. Raises ImportError without matplotlib."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(9, 5))
    cases = list(dict.fromkeys(row.case for row in bench.rows))
    for name in dict.fromkeys(row.name for row in bench.rows):
        us = {row.case: row.us for row in bench.rows if row.name == name}
        axes.plot(cases, [us.get(case, float("nan")) for case in cases], marker="o", label=name)
    axes.set_yscale("log")
    axes.set_ylabel("us a run")
    axes.set_title(bench.model)
    axes.legend()
    _save(figure, path)


def _pyplot() -> ModuleType:
    try:
        import matplotlib
    except ImportError:
        raise ImportError("a picture needs matplotlib: pip install tfjit[plot]") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Figure, path: str | Path) -> None:
    figure.tight_layout()
    figure.savefig(path)
    _pyplot().close(figure)


__all__ = ["plot_bench", "plot_comparison"]
