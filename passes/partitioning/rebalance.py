"""Choose devices for movable nodes by measured costs.

The functions are pure: they decide, and move nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import networkx as nx

from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph
from tfjit.passes.partitioning.place import is_constrained

TRANSFER_US: Final = 50.0  # hand a value from one local device's executor to another's
BYTES_PER_US: Final = 10_000.0
GAIN: Final = 0.9  # a placement is accepted if it promises at most this part of the time


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured cost of one kernel.

    origin: the user's nodes that the kernel computes. nbytes: of its outputs.
    """

    origin: tuple[str, ...]
    cost_us: float
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """A set of moves and the predicted times.

    moves: node -> its new device. before_us, after_us: the predicted time of a step before and
    after the moves.
    """

    moves: Mapping[str, str]
    before_us: float
    after_us: float


@dataclass(slots=True)
class _Unit:
    """Nodes that move together."""

    names: list[str]
    device: str
    fixed: bool
    cost_us: float = 0.0
    nbytes: int = 0


def rebalance(
    graph: DataflowGraph,
    needed: Iterable[str],
    measured: Sequence[Measured],
    devices: Sequence[str],
) -> Decision:
    """Return new devices for the nodes of a run.

    graph: the session's, placed, which stays unchanged. needed: the nodes of the run. devices: of
    one type, the client's first.

    Fixed are: nodes that have state, request a device, share one with others (`loc:@`, references,
    resources), and control flow. The nodes of one kernel move together. A node without a
    measurement, such as a folded one or a constant, goes with a consumer.

    Method: list scheduling by the longest path to the end. Each unit goes to the device that
    finishes it first; values are handed over at TRANSFER_US and BYTES_PER_US. Source: Topcuoglu,
    Hariri, Wu 2002, "Performance-effective and low-complexity task scheduling" (HEFT).
    """
    units, flow = _units(graph, list(needed), measured)
    order = _by_rank(units, flow)
    stay = {index: unit.device for index, unit in units.items()}
    before_us, _ = _schedule(units, flow, order, devices, stay)
    after_us, chosen = _schedule(
        units,
        flow,
        order,
        devices,
        {index: unit.device for index, unit in units.items() if unit.fixed},
    )
    if after_us > GAIN * before_us:
        return Decision({}, before_us, before_us)
    moves = {
        name: chosen[index]
        for index, unit in units.items()
        if chosen[index] != unit.device
        for name in unit.names
    }
    return Decision(moves, before_us, after_us)


def _is_fixed(graph: DataflowGraph, name: str) -> bool:
    node = graph.node(name)
    return node.is_stateful or node.has_trait(CONTROL_FLOW) or is_constrained(node)


def _units(
    graph: DataflowGraph, needed: Sequence[str], measured: Sequence[Measured]
) -> tuple[dict[int, _Unit], nx.DiGraph]:
    """Return the units, and the graph of their numbers.

    An edge leads from a unit to a unit that uses its values.
    """
    here = set(needed)
    parent = {name: name for name in needed}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    known = set()
    for kernel in measured:
        members = [name for name in kernel.origin if name in here]
        known.update(members)
        for name in members[1:]:
            parent[root(name)] = root(members[0])
    for name in sorted(here - known):
        takers = [dst for dst in graph._succ[name] if dst in here and dst != SINK]
        if (
            takers
            and not _is_fixed(graph, name)
            and not any(_is_fixed(graph, taker) for taker in takers)
        ):
            parent[root(name)] = root(min(takers, key=lambda taker: graph.node(taker).id))
    flow = nx.DiGraph()
    flow.add_nodes_from({root(name) for name in needed})
    for name in needed:
        for src in graph._pred[name]:
            if src in here and src != SOURCE and root(src) != root(name):
                flow.add_edge(root(src), root(name))
    # units that wait for each other in a cycle, once joined, become one unit
    condensed = nx.condensation(flow)
    number = {name: index for index, data in condensed.nodes(data=True) for name in data["members"]}
    units: dict[int, _Unit] = {}
    for name in sorted(needed, key=lambda name: graph.node(name).id):
        index = number[root(name)]
        unit = units.setdefault(index, _Unit([], graph.node(name).assigned_device, False))
        unit.names.append(name)
        if _is_fixed(graph, name):
            unit.fixed, unit.device = True, graph.node(name).assigned_device
    for unit in units.values():  # members on several devices cannot move together
        unit.fixed = (
            unit.fixed or len({graph.node(name).assigned_device for name in unit.names}) > 1
        )
    for kernel in measured:
        owner = next((number[root(name)] for name in kernel.origin if name in here), None)
        if owner is not None:
            units[owner].cost_us += kernel.cost_us
            units[owner].nbytes += kernel.nbytes
    return units, nx.DiGraph(condensed.edges()) if condensed.edges() else nx.DiGraph()


def _handover_us(unit: _Unit) -> float:
    return TRANSFER_US + unit.nbytes / BYTES_PER_US


def _by_rank(units: Mapping[int, _Unit], flow: nx.DiGraph) -> list[int]:
    """Return the units, those with the longest path to the end first.

    A unit always comes before its consumers.
    """
    rank: dict[int, float] = {}
    for index in reversed(list(nx.topological_sort(flow))):
        after = max(
            (rank[taker] + _handover_us(units[index]) for taker in flow.successors(index)),
            default=0.0,
        )
        rank[index] = units[index].cost_us + after
    alone = {index: unit.cost_us for index, unit in units.items() if index not in rank}
    return sorted(units, key=lambda index: (-rank.get(index, alone.get(index, 0.0)), index))


def _schedule(
    units: Mapping[int, _Unit],
    flow: nx.DiGraph,
    order: Sequence[int],
    devices: Sequence[str],
    where: Mapping[int, str],
) -> tuple[float, dict[int, str]]:
    """Return (time of the step in us, device of each unit).

    where: the units with a given device.
    """
    free = dict.fromkeys(devices, 0.0)
    end: dict[int, float] = {}
    chosen: dict[int, str] = {}
    for index in order:
        unit = units[index]
        sources = list(flow.predecessors(index)) if index in flow else []

        def finish(device: str, unit: _Unit = unit, sources: Sequence[int] = sources) -> float:
            ready = max(
                (
                    end[s] + (0.0 if chosen[s] == device else _handover_us(units[s]))
                    for s in sources
                ),
                default=0.0,
            )
            return max(ready, free.get(device, 0.0)) + unit.cost_us

        given = where.get(index)
        device = (
            given
            if given is not None
            else min(devices, key=lambda d: (finish(d), d != unit.device, devices.index(d)))
        )
        end[index] = free[device] = finish(device)
        chosen[index] = device
    return max(end.values(), default=0.0), chosen
