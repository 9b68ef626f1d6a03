"""Draw the times on a GPU as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """One group of bars a workload, logarithmic.

    The device's time of each candidate over that of tfjit. Raises ImportError without matplotlib
    (extra `plot`).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    times = {(r["workload"], r["candidate"]): r["device_us"] for r in results if "device_us" in r}
    names = list(dict.fromkeys(w for w, c in times if (w, "tfjit") in times))
    candidates = [c for c in dict.fromkeys(c for _, c in times) if c != "tfjit"]
    figure, axes = pyplot.subplots(figsize=(10, 0.6 * len(names) + 1.5))
    height = 0.8 / max(len(candidates), 1)
    for k, candidate in enumerate(candidates):
        rows = [i for i, name in enumerate(names) if (name, candidate) in times]
        ratios = [times[names[i], candidate] / times[names[i], "tfjit"] for i in rows]
        axes.barh([i + (k + 0.5) * height - 0.4 for i in rows], ratios, height, label=candidate)
    axes.set_yticks(range(len(names)), names)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("device time over that of tfjit, fused")
    axes.invert_yaxis()
    if candidates:
        axes.legend()
    figure.tight_layout()
    figure.savefig(path)
