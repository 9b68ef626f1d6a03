"""Time each node of a plan that the dataflow executor runs.

Times are medians over whole runs with a record of each node.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfjit.framework.op_defs.op_traits import READS_STATE, TRANSFER, VARIABLE, WRITES_VARIABLE
from tfjit.kernels.registry import NodeSpec, find_initial_state
from tfjit.runtime.executor.node_runner import has_own_runner
from tfjit.runtime.profiling.kernel_timing import (
    WARM_UP_RUNS,
    NodeTime,
    StepTimes,
    restored,
    run_count,
)
from tfjit.runtime.profiling.step_stats import StepStatsCollector

if TYPE_CHECKING:
    import numpy as np

    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.runtime.plan.plan import Plan, Variant


def dataflow_unmeasurable(variant: Variant) -> str:
    """Return the reason against timing a dataflow plan, else ""."""
    for node in _nodes(variant):
        if (
            node.is_stateful
            and not node.has_trait(VARIABLE | READS_STATE | WRITES_VARIABLE | TRANSFER)
            and not has_own_runner(node.op)
            and find_initial_state(node.op) is None
        ):
            return f"{node.name} ({node.op}) has effects that a measurement could not undo"
    return ""


def measure_dataflow(
    plan: Plan, variant: Variant, feeds: Sequence[np.ndarray], timeout_s: float
) -> StepTimes:
    """Time the nodes of a plan that the dataflow executor runs.

    A node of a loop counts with all its runs. Variables and random streams are as before
    afterwards. feeds: in the plan's order. timeout_s: how long to wait for the nodes' kernels.
    Needs: `dataflow_unmeasurable` returns "". Raises the errors of a run.
    """
    session = plan.session
    arrays = plan.check(feeds)
    nodes = list(_nodes(variant))
    for node in nodes:  # streams begin with a first run: those that have not begun yet, too
        make = find_initial_state(node.op)
        if make is not None:
            session.state.node_state(
                node.name, functools.partial(make, NodeSpec(node.name, node.op, node.attrs, (), ()))
            )
    variables = [session.find_variable(node) for node in nodes if node.has_trait(VARIABLE)]

    def run(collector: StepStatsCollector | None = None) -> float:
        with session.step_context() as context:
            context.collector = collector
            start = time.perf_counter()
            variant.run(arrays, context)
            return time.perf_counter() - start

    with restored(variables, {node.name for node in nodes}, session.state):
        for _ in range(WARM_UP_RUNS):  # a node asks for compiled code when its shapes come again
            run()
        session.node_kernels.wait(timeout_s)
        run()
        count = run_count(run())
        whole = [run() for _ in range(count)]
        by_run: dict[str, list[float]] = defaultdict(list)
        for index in range(count):
            collector = StepStatsCollector(session.env.clock)
            run(collector)
            for record in collector.records:
                times = by_run[record.node.name]
                times += [0.0] * (index + 1 - len(times))
                times[index] += record.elapsed_ns / 1e3
    threads = session.step_environment(variant.partitions[0].device).threads
    found = {
        name: NodeTime(statistics.median(times + [0.0] * (count - len(times))))
        for name, times in by_run.items()
    }
    return StepTimes(found, statistics.median(whole) * 1e6, count, threads)


def _nodes(variant: Variant) -> Iterator[Node]:
    for partition in variant.partitions:
        yield from partition.graph.op_nodes()
