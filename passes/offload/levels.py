"""Group the nodes of accelerators by level, for one `_Offload` each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.op_traits import BLOCKING
from tfjit.passes.ir.dataflow_graph import SOURCE, DataflowGraph

_JOINTS: Final = frozenset({"Const", "NoOp"})
"""Ops without an effect, of which both sides may have copies."""


class Group(NamedTuple):
    """Name nodes of one `_Offload` by device, level and awaited blocking nodes."""

    device: str
    level: int
    awaited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Levels:
    """Hold the nodes of each device by group, in order.

    joints: constants and NoOps of these groups, which order nodes of the group among themselves; a
    group takes copies of those that it needs.
    """

    groups: dict[Group, list[str]] = field(default_factory=dict)
    joints: dict[Group, set[str]] = field(default_factory=dict)


def levels_of(graph: DataflowGraph, order: Sequence[str], movable: Mapping[str, str]) -> Levels:
    """Return the nodes of each device by level and awaited nodes.

    order: nodes behind their inputs. movable: devices by node. A node's level is the largest number
    of changes from a device to another place, on the paths that lead to the node. So no path
    between two nodes of a level leaves their device. A joint is in the place that gives it the
    lowest level: optimizers put a NoOp between the updates and those of their own variables. Nodes
    of a group wait for the same blocking nodes, or a part of a partial run would wait for feeds of
    another part, and a task for a tensor that another task sends only behind one of this group.
    """
    level: dict[str, int] = {}
    place: dict[str, str] = {}
    group: dict[str, Group] = {}
    joints: set[str] = set()
    awaited: dict[str, frozenset[str]] = {}
    blocks = graph.has_trait(BLOCKING)
    for name in yielding(order):
        inputs = [edge.src for edge in graph.edges_into(name) if edge.src != SOURCE]
        here = movable.get(name, "")
        is_joint = not here and graph.node(name).op in _JOINTS
        if is_joint and inputs:
            here = _place_of_joint(inputs, level, place)
        level[name] = _level(inputs, here, level, place)
        place[name] = here
        if blocks:
            own = [name] if graph.node(name).has_trait(BLOCKING) else []
            awaited[name] = frozenset(own).union(*(awaited[src] for src in inputs))
        if here:
            group[name] = Group(here, level[name], tuple(sorted(awaited.get(name, ()))))
            if is_joint:
                joints.add(name)
    if blocks:
        _postpone(graph, order, group, joints)
    found = Levels()
    for name, key in group.items():
        if name in joints:
            found.joints.setdefault(key, set()).add(name)
        else:
            found.groups.setdefault(key, []).append(name)
    return found


def _postpone(
    graph: DataflowGraph, order: Sequence[str], group: dict[str, Group], joints: Collection[str]
) -> None:
    """Put nodes into the group of their first consumer.

    They are those that only nodes of later groups read. So a network with weights that are received
    one by one is one program, not one a layer. No consumer waits longer than before. A node with
    state stays where its inputs put it, unless it reads a variable: control edges hold the order of
    reads.
    """
    for name in yielding(reversed(order)):
        own = group.get(name)
        if own is None or name in joints:
            continue
        node = graph.node(name)
        if node.is_stateful and node.op != "ReadVariableOp":
            continue
        consumers = {edge.dst for edge in graph.edges_out_of(name)}
        later = [group.get(consumer) for consumer in consumers]
        if not later or any(key is None or key[:2] != own[:2] for key in later):
            continue
        first = min((key for key in later if key is not None), key=lambda key: len(key.awaited))
        wanted = set(first.awaited)
        if all(key is not None and wanted.issubset(key.awaited) for key in later):
            group[name] = first


def _level(
    inputs: Sequence[str], here: str, level: Mapping[str, int], place: Mapping[str, str]
) -> int:
    """Return the level of a node in a place."""
    return max((level[src] + (place[src] not in ("", here)) for src in inputs), default=0)


def _place_of_joint(
    inputs: Sequence[str], level: Mapping[str, int], place: Mapping[str, str]
) -> str:
    """Return the place that gives a joint the lowest level.

    It is the host's ("") where no device's level is lower.
    """
    places = dict.fromkeys(["", *(place[src] for src in inputs)])
    return min(places, key=lambda here: _level(inputs, here, level, place))


__all__ = ["Group", "Levels", "levels_of"]
