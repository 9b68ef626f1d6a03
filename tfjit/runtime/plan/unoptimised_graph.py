"""Serve a big graph's first runs before its passes have run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfjit.framework.gc_pause import collection_paused
from tfjit.runtime.plan import first_run
from tfjit.runtime.schedule.kernel_selection import sources

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.pipeline import Partition
    from tfjit.runtime.executor.dataflow_executor import DataflowPlan
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.stored_plans.plan_warm_start import PlanRecord

log = logging.getLogger("tfjit.plan")


class Unoptimised(NamedTuple):
    """Hold a graph that is runnable without its optional passes."""

    partitions: list[Partition]
    dataflow: DataflowPlan


def unoptimised(
    plan: Plan, feed_shapes: Sequence[Shape], known: PlanRecord | None, once: bool
) -> Unoptimised | None:
    """Return the graph that serves the first run, for the dataflow executor.

    None where waiting for the passes pays. known: the record of an earlier process. once: the
    plan runs once.
    """
    if known is not None and first_run.record_pays(known, once):
        return None
    session = plan.session
    with collection_paused():
        partitions, _ = plan.build(feed_shapes, quick=True)
        present: frozenset[str] = frozenset()
        if len(partitions) == 1:
            graph = partitions[0].graph
            backend = session.devices.lookup(partitions[0].device).backend
            try:
                if backend.lowers:
                    if known is None and first_run.passes_pay(
                        graph, backend, _batch(feed_shapes), once
                    ):
                        graph.dissolve()
                        return None
                    present = first_run.nodes_with_kernels(graph, backend)
            # a builder's bug must not fail a run that does not need the builder
            except Exception as error:
                log.debug("plan %s: %s", plan.name, error)
        return Unoptimised(partitions, session.dataflow_plan(partitions, present))


def request_heavy(plan: Plan, partitions: Sequence[Partition]) -> None:
    """Request the kernels of an unoptimised graph's heavy nodes, for other processes."""
    session = plan.session
    if session.closed or len(partitions) != 1:
        return
    backend = session.devices.lookup(partitions[0].device).backend
    if not backend.lowers:
        return
    try:
        calls = first_run.heavy_calls(partitions[0].graph, backend)
        session.node_kernels.request(sources(call for _, call in calls), for_others=True)
    # a builder's bug: the run was served without it
    except Exception as error:
        log.debug("plan %s: %s", plan.name, error)


def _batch(feed_shapes: Sequence[Shape]) -> int:
    """Return the first size of a feed, a guess of unknown sizes."""
    return next((shape[0] or 1 for shape in feed_shapes if shape), 1)


__all__ = ["Unoptimised", "request_heavy", "unoptimised"]
