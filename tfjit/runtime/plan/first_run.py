"""Decide whether a first run waits for compiled code.

The passes and the builders of calls take time that a first result may not have. The decisions
compare their predicted time with that of runs without compiled code, and look for the kernels of
the heaviest nodes in memory and on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import has_builders
from tfjit.runtime.lowering.lowering import compilable, native_call
from tfjit.runtime.schedule.kernel_priority import (
    AlikeNodes,
    graph_reference_ns,
    heaviest_nodes,
    loaded_share,
    reference_ns,
)
from tfjit.runtime.schedule.kernel_selection import add_member_calls, select_some, sources

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend
    from tfjit.kernels.registry import NativeCall
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.runtime.lowering.lowered import Lowered
    from tfjit.runtime.stored_plans.plan_warm_start import PlanRecord

_RUNS: Final = 15.0
_PATIENCE_MS: Final = 1000.0
_FEW_RUNS: Final = 3.0
_ONE_RUN: Final = 0.5
MIN_SHARE: Final = 0.5
"""Share of the references' predicted time that present kernels have to serve."""
_PROBES: Final = 4
_NODE_MS: Final = 0.2  # passes, builders and layout, for each node of the unoptimised graph
_INSTRUCTION_MS: Final = 0.3  # builder and layout
_HEAVY: Final = 64  # kinds of nodes in an unoptimised graph that kernels may serve
_HEAVY_MS: Final = 2.0  # of one node: less is not worth its builder and its layout
_IMPORT_MS: Final = 150.0  # of the builders, once a process


def pays_soon(cost_ms: float, run_ms: float, once: bool = False) -> bool:
    """Return whether a wait of `cost_ms` pays within a few runs.

    run_ms: time of a run without compiled code. A longer wait than a second has to pay within
    three runs. once: there is one run, and compiled code takes a part of that time too.
    """
    if once:
        return cost_ms <= _ONE_RUN * run_ms
    return cost_ms <= (_RUNS if cost_ms <= _PATIENCE_MS else _FEW_RUNS) * run_ms


def record_pays(known: PlanRecord, once: bool = False) -> bool:
    """Return whether waiting for a recorded plan's compiled step pays soon.

    once: the plan runs once.
    """
    return pays_soon(known.compiled_ms, known.slow_ms, once)


def passes_pay(graph: DataflowGraph, backend: Backend, unknown: int, once: bool = False) -> bool:
    """Return whether a big graph's first run should wait for passes.

    graph: unoptimised. unknown: a guess of unknown sizes. once: the graph runs once.
    """
    cost_ms = _NODE_MS * len(graph) + _builders_ms()
    if not pays_soon(cost_ms, graph_reference_ns(graph, unknown) * 1e-6, once):
        return False
    if not store.has_kernels():
        return False
    loaded = whole = 0.0
    for alike in heaviest_nodes(graph, _PROBES):
        call, _ = native_call(backend, alike.spec)
        whole += alike.ns
        if call is not None and store.load_present(call.sources()):
            loaded += alike.ns
    return loaded >= MIN_SHARE * whole > 0.0


def heavy_calls(graph: DataflowGraph, backend: Backend) -> list[tuple[AlikeNodes, NativeCall]]:
    """Return the calls of an unoptimised graph's heavy nodes.

    There are none where they save little.

    A builder's Unsupported leaves the nodes out.
    """
    calls = ((alike, native_call(backend, alike.spec)[0]) for alike in _heavy_nodes(graph))
    return [(alike, call) for alike, call in calls if call is not None]


def nodes_with_kernels(graph: DataflowGraph, backend: Backend) -> frozenset[str]:
    """Return the heavy nodes of an unoptimised graph whose kernels are present."""
    # in this order: the calls import all builders
    if not _heavy_nodes(graph) or not store.has_kernels():
        return frozenset()
    return frozenset(
        name
        for alike, call in heavy_calls(graph, backend)
        if store.load_present(call.sources())
        for name in alike.names
    )


def _heavy_nodes(graph: DataflowGraph) -> list[AlikeNodes]:
    """Return the nodes that are worth builders; none where they save little."""
    heavy = [
        alike
        for alike in heaviest_nodes(graph, _HEAVY)
        if alike.ns * 1e-6 >= _HEAVY_MS * len(alike.names)
    ]
    worth = sum(alike.ns for alike in heavy) * 1e-6 > _builders_ms()
    return heavy if worth else []


def builders_pay(lowered: Lowered, once: bool = False) -> bool:
    """Return whether a first run should wait for its calls.

    once: the plan runs once.
    """
    instructions = compilable(lowered)
    times = {id(i): reference_ns(i) for i in instructions}
    cost_ms = _INSTRUCTION_MS * len(instructions) + _builders_ms()
    if not pays_soon(cost_ms, sum(times.values()) * 1e-6, once):
        return False
    if not store.has_kernels():
        return False
    heaviest = sorted(instructions, key=lambda i: -times[id(i)])[:_PROBES]
    select_some(lowered, heaviest)
    store.load_present(sources(instruction.call for instruction in heaviest))
    store.load_present(sources(add_member_calls(lowered, _lacks, heaviest)))
    return loaded_share(heaviest, _is_loaded) >= MIN_SHARE


def enough_is_loaded(lowered: Lowered) -> bool:
    """Return whether loaded kernels serve most of the partition's predicted time."""
    return loaded_share(compilable(lowered), _is_loaded) >= MIN_SHARE


def _builders_ms() -> float:
    return 0.0 if has_builders() else _IMPORT_MS


def _lacks(call: NativeCall) -> bool:
    return not store.load_present(call.sources())


def _is_loaded(source: KernelSource) -> bool:
    return store.lookup(source) is not None


__all__ = [
    "MIN_SHARE",
    "builders_pay",
    "enough_is_loaded",
    "heavy_calls",
    "nodes_with_kernels",
    "passes_pay",
    "pays_soon",
    "record_pays",
]
