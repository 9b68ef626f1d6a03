"""Measure a user's algebraic pass: products of matrices with a vector, in the better order.

(a b) v takes n^3 multiplications and a (b v) 2 n^2. The sums are rounded at other places, which is
why tfjit has no such rule of its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.experiments.experiment import (
    Budget,
    Experiment,
    Findings,
    compared,
    not_equal,
    verdict,
)
from benchmarks.experiments.models import product_of_three
from tfjit.passes import patterns as p

if TYPE_CHECKING:
    from tfjit.passes.patterns import Bound

a, b, v = p.tensors("a b v")


def _pays(a: Bound, b: Bound, v: Bound) -> bool:
    """Return whether the other order has fewer multiplications."""
    if a.shape is None or v.shape is None or None in (*a.shape, *v.shape):
        return False
    (n, k), (m, columns) = a.shape, v.shape
    return k * m * columns + n * k * columns < n * k * m + n * m * columns


def _product(x: Any, y: Any) -> Any:
    return p.op.MatMul(x, y, transpose_a=False, transpose_b=False)


vector_first = p.rewrite(
    "vector_first", _product(_product(a, b), v), _product(a, _product(b, v)), when=_pays
)
reassociate = p.as_pass("reassociate", [vector_first])

CANDIDATES = ("default", f"default with {__name__}:reassociate before simplify")


def run(budget: Budget) -> Findings:
    """Compare both orders for larger and larger matrices."""
    sizes = (32,) if budget.quick else (32, 128, 512)
    times: dict[str, list[float]] = {"as written": [], "reassociated": []}
    cells, figures = [], []
    for size in sizes:
        graph, _, fetch = product_of_three(size)
        found = compared(budget, graph, CANDIDATES, fetches=[fetch], explain=False)
        if not found.agrees:
            return not_equal(found)
        figures.append(found.as_json() | {"size": size})
        for name, row in zip(times, found.rows, strict=True):
            times[name].append(row.us)
        us = [f"{row.us:.1f}" for row in found.rows]
        cells.append([f"{size} x {size}", *us, verdict(found.rows[1])])
    heading = ["matrices", *times, "reassociated over as written"]
    return Findings([("us for (a b) v", heading, cells)], figures, partial(_draw, sizes, times))


def _draw(sizes: tuple[int, ...], times: dict[str, list[float]], axes: Any) -> None:
    for name, us in times.items():
        axes.plot(sizes, us, marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("rows and columns of a and b")
    axes.set_ylabel("us a run")
    axes.legend()


EXPERIMENT = Experiment("algebra", "What does one algebraic rule of a user gain?", run)
