"""Measure a chain of elementwise ops by the size of fused groups and of the arrays.

An unfused chain reads and writes each array once for each op. While the arrays are in a cache, that
costs little; beyond the last cache, memory's speed decides.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.experiments.experiment import (
    Budget,
    Experiment,
    Findings,
    compared,
    not_equal,
)
from benchmarks.experiments.models import elementwise_chain
from tfjit.passes.fusion.fuse import fuse

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.manager.pass_context import PassContext

LENGTH = 30
LIMITS = (2, 4, 8)


def fuse_2(graph: DataflowGraph, ctx: PassContext) -> None:
    """Fuse at most two nodes."""
    fuse(graph, ctx, max_members=2)


def fuse_4(graph: DataflowGraph, ctx: PassContext) -> None:
    """Fuse at most four nodes."""
    fuse(graph, ctx, max_members=4)


def fuse_8(graph: DataflowGraph, ctx: PassContext) -> None:
    """Fuse at most eight nodes."""
    fuse(graph, ctx, max_members=8)


def run(budget: Budget) -> Findings:
    """Compare the limits for arrays from within the first cache to beyond the last."""
    graph, feed, fetch = elementwise_chain(LENGTH)
    labels = ["unlimited", *(f"{limit} nodes" for limit in reversed(LIMITS)), "unfused"]
    candidates = [
        "default",
        *(f"default with {__name__}:fuse_{limit} instead of fuse" for limit in reversed(LIMITS)),
        "default without fuse",
    ]
    sizes = (1_000,) if budget.quick else (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    found: dict[str, list[float]] = {label: [] for label in labels}
    cells, figures = [], []
    for size in sizes:
        comparison = compared(
            budget, graph, candidates, fetches=[fetch], shapes={feed: (size,)}, explain=False
        )
        if not comparison.agrees:
            return not_equal(comparison)
        figures.append(comparison.as_json() | {"size": size})
        for label, row in zip(labels, comparison.rows, strict=True):
            found[label].append(row.us * 1000 / (size * LENGTH))
        cells.append([f"{size * 4 / 1024:.0f} kiB", *(f"{found[n][-1]:.4f}" for n in labels)])
    caches = cache_sizes()
    title = f"ns for each op and element of a chain of {LENGTH}; caches: {_text(caches)}"

    return Findings(
        [(title, ["array", *labels], cells)],
        {"caches": caches, "comparisons": figures},
        partial(_draw, sizes, found, caches),
    )


def _draw(
    sizes: tuple[int, ...], found: dict[str, list[float]], caches: dict[str, int], axes: Any
) -> None:
    for label, ns in found.items():
        axes.plot([4 * size for size in sizes], ns, marker="o", label=label)
    for name, size in caches.items():
        axes.axvline(size, color="grey", linewidth=0.8, linestyle=":")
        axes.text(size, axes.get_ylim()[1], name, rotation=90, va="top", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("bytes of an array")
    axes.set_ylabel("ns for each op and element")
    axes.legend()


def cache_sizes() -> dict[str, int]:
    """Return the bytes of the data caches of the first core, as Linux tells them."""
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (index / name).read_text().strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction" and size.endswith("K"):
            found[f"L{level}"] = int(size[:-1]) * 1024
    return found


def _text(caches: dict[str, int]) -> str:
    return ", ".join(f"{name} {size // 1024} kiB" for name, size in caches.items()) or "unknown"


EXPERIMENT = Experiment(
    "fusion_limits", "How large must fused groups be, by the size of arrays and caches?", run
)
__all__ = ["EXPERIMENT", "cache_sizes", "fuse_2", "fuse_4", "fuse_8", "run"]
