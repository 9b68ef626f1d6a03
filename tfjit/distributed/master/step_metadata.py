"""Reports of steps: options of workers, and their answers merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tfjit.distributed.protocol.interfaces import GraphResult


def executor_options(options: Any, records_costs: bool = False) -> Any:
    """Return the ExecutorOpts of RunOptions, None where they ask for nothing.

    records_costs: the step is one of those that a session measures for its cost model.
    """
    trace = options is not None and options.trace_level > 0
    graphs = options is not None and options.output_partition_graphs
    report = options is not None and options.report_tensor_allocations_upon_oom
    if not (trace or graphs or report or records_costs):
        return None
    from tfjit.protos import ExecutorOpts

    return ExecutorOpts(
        record_costs=records_costs,
        record_timeline=trace,
        record_partition_graphs=graphs,
        report_tensor_allocations_upon_oom=report,
    )


def merged(results: Iterable[GraphResult]) -> Any:
    """Return the RunMetadata of a step whose workers gave these answers."""
    from tfjit.protos import RunMetadata

    metadata = RunMetadata()
    for result in results:
        if result.step_stats is not None:
            metadata.step_stats.MergeFrom(result.step_stats)
        if result.cost_graph is not None:
            _add_costs(metadata.cost_graph, result.cost_graph)
        metadata.partition_graphs.extend(result.partition_graphs)
    return metadata


def _add_costs(whole: Any, part: Any) -> None:
    """Add a worker's CostGraphDef to the step's, with ids of its own."""
    offset = 1 + max((node.id for node in whole.node), default=-1)
    for node in part.node:
        added = whole.node.add()
        added.CopyFrom(node)
        added.id += offset
        for given in added.input_info:
            given.preceding_node += offset
        added.control_input[:] = [source + offset for source in node.control_input]
    whole.cost.extend(part.cost)


__all__ = ["executor_options", "merged"]
