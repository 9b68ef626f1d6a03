"""Draw the results as a picture.

Each workload has its speed-up over TensorFlow's default session.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.harness import Result


def draw(results: list[Result], path: Path) -> None:
    """One bar a workload, logarithmic. Raises ImportError without matplotlib (extra `plot`)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [r for r in results if "tf" in r.ratios]
    figure, axes = pyplot.subplots(figsize=(9, 0.35 * len(rows) + 1.2))
    axes.barh([r.name for r in rows], [1 / r.ratios["tf"] for r in rows])
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("times faster than TensorFlow's Session.run")
    axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path)
