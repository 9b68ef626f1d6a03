"""Group the nodes of accelerators by level, for one `_Offload` each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    another part.
    """
    found = Levels()
    level: dict[str, int] = {}
    place: dict[str, str] = {}
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
            group = Group(here, level[name], tuple(sorted(awaited.get(name, ()))))
            if is_joint:
                found.joints.setdefault(group, set()).add(name)
            else:
                found.groups.setdefault(group, []).append(name)
    return found


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
