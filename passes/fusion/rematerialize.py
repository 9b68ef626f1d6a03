"""Recompute cheap values in each group that uses them.

Otherwise one group would write the value and the others would read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final

from tfjit.kernels.registry import Unsupported

if TYPE_CHECKING:
    from tfjit.passes.fusion.clusters import Clusters
    from tfjit.passes.fusion.fused_group_builder import GroupMaker
    from tfjit.passes.fusion.roles import RoleFinder
    from tfjit.passes.manager.pass_context import PassContext

MAX_COPIED: Final = 4
"""Nodes that are computed again for one value."""
_MAX_CONSUMERS: Final = 8
_SMALL_BYTES: Final = 4096
"""Operands up to this size are free where a launch is saved.

L1 holds one.
"""


@dataclass(slots=True)
class Chosen:
    """A group that will be made.

    members: its nodes, in order. copies: nodes of other groups that the group computes again.
    given: members that no longer are results, because each user computes them again.
    """

    kind: str
    anchor: str
    members: list[str]
    copies: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)


def rematerialize(
    chosen: list[Chosen],
    clusters: Clusters,
    roles: RoleFinder,
    maker: GroupMaker,
    ctx: PassContext,
    max_members: int,
) -> list[str]:
    """Recompute cheap results of other groups instead of reading them.

    A result qualifies where no other node needs it and no group reads more than before. A value of
    another group saves a store alone: sums along a residual network stay where they are computed,
    or each layer would add up all layers before it, in a kernel of its own. A group has at most
    `max_members` nodes. Changes the groups in place, and drops those that are left with one node.
    Returns the nodes that are no longer needed, consumers first.
    """
    loop = roles.rules.template_of("loop")
    accepts_plain = loop is not None and loop.accepts_plain
    group_of = {name: group for group in chosen for name in group.members}
    # groups that read a value for the nodes that they compute again
    readers: dict[str, list[Chosen]] = {}
    unneeded: list[str] = []
    # late values first: the inputs of a copied node may then be copied along
    for name in sorted(clusters.position, key=clusters.position.__getitem__, reverse=True):
        home = group_of.get(name)
        takers = _takers(name, home, group_of, clusters)
        if not takers or roles.is_free(name) or (home is not None and name == home.members[-1]):
            continue
        takers += [
            taker for taker in readers.get(name, ()) if taker is not home and taker not in takers
        ]
        copied = _chain(name, home, clusters, roles)
        free_below = _SMALL_BYTES + 1
        if home is not None:
            free_below = min(free_below, _bytes(name, 0, clusters, roles))
        if not copied or not all(
            _may_take(taker, name, copied, clusters, roles, maker, max_members, free_below)
            for taker in takers
        ):
            continue
        if not all(
            (accepts_plain and _is_plain(taker, copied, clusters, roles))
            or _fits(taker, copied, maker)
            for taker in takers
        ):
            continue
        for taker in takers:
            taker.copies += [node for node in copied if node not in taker.copies]
            inside = {*taker.members, *taker.copies}
            for node in copied:
                for src, _ in clusters.sources[node]:
                    if src not in inside:
                        readers.setdefault(src, []).append(taker)
            ctx.log(
                name,
                f"computed again in the group of {taker.members[-1]}, which reads no more for it",
            )
        if home is None:
            unneeded.append(name)
        else:
            home.given.add(name)
    for group in [g for g in chosen if g.given]:
        unneeded += _drop_dead(group, clusters)
        if len(group.members) < 2 and not group.copies:
            chosen.remove(group)
    return sorted(unneeded, key=clusters.position.__getitem__, reverse=True)


def _takers(
    name: str, home: Chosen | None, group_of: Mapping[str, Chosen], clusters: Clusters
) -> list[Chosen]:
    """Return the other groups that use a node's value.

    Empty when any other node needs the value or has a control edge from the node.
    """
    consumers = clusters.consumers_of(name)
    if len(consumers) > _MAX_CONSUMERS:
        return []
    found: list[Chosen] = []
    for consumer in consumers:
        taker = group_of.get(consumer)
        if taker is None or all(src != name for src, _ in clusters.sources[consumer]):
            return []
        if taker is not home and taker not in found:
            found.append(taker)
    return found


def _drop_dead(group: Chosen, clusters: Clusters) -> list[str]:
    """Remove the members that no result of the group needs any more."""
    inside = set(group.members)
    live: set[str] = set()
    for name in reversed(group.members):
        consumers = clusters.consumers_of(name)
        if (
            consumers & live
            or not consumers
            or (name not in group.given and not consumers <= inside)
        ):
            live.add(name)
    dead = [name for name in group.members if name not in live]
    group.members = [name for name in group.members if name in live]
    return dead


def _chain(name: str, home: Chosen | None, clusters: Clusters, roles: RoleFinder) -> list[str]:
    """Return the node and its inputs from inside its group, in order.

    Empty when these are too many or not cheap, or have control inputs.
    """
    found: list[str] = []
    stack = [name]
    while stack:
        node = stack.pop()
        if node in found:
            continue
        role = roles.find(clusters.graph.node(node))
        if (
            role is None
            or role.kind != "loop"
            or not roles.is_cheap(node)
            or clusters.waits[node]
            or len(found) == MAX_COPIED
        ):
            return []
        found.append(node)
        if home is not None:
            stack += [src for src, _ in clusters.sources[node] if src in home.members]
    return sorted(found, key=clusters.position.__getitem__)


def _may_take(
    taker: Chosen,
    name: str,
    copied: Sequence[str],
    clusters: Clusters,
    roles: RoleFinder,
    maker: GroupMaker,
    max_members: int,
    free_below: int,
) -> bool:
    """Return whether a group can compute the value without reading more.

    The group may read at most as many bytes of operands as now. Operands of less than `free_below`
    bytes do not count.
    """
    if len(taker.members) + len(taker.copies) + len(copied) > max_members:
        return False
    members = [*taker.members, *taker.copies]
    if not all(clusters.same_context(node, taker.members[-1]) for node in copied):
        return False
    # only the outside inputs of the copied nodes could add to the reads of the group
    if _large_inputs(copied, clusters, roles, free_below):
        now = _large_inputs(members, clusters, roles, free_below)
        then = _large_inputs([*members, *copied], clusters, roles, free_below)
        if then > now:
            return False
    # a matmul or convolution reads its operands from memory
    return not (
        taker.anchor
        and any(src == name for src, _ in clusters.sources[taker.anchor])
        and taker.kind in maker.anchor_kinds
    )


def _is_plain(taker: Chosen, copied: Sequence[str], clusters: Clusters, roles: RoleFinder) -> bool:
    """Return whether a loop only gets elementwise work of its space.

    The loop's template accepts such work without a check.
    """
    into = clusters.of[taker.members[-1]]
    if taker.kind != "loop" or into.moves or any(clusters.of[node].moves for node in taker.copies):
        return False
    return all(
        (role := roles.find(clusters.graph.node(node))) is not None and role.space == into.space
        for node in copied
    )


def _fits(taker: Chosen, copied: Sequence[str], maker: GroupMaker) -> bool:
    """Return whether a group's template accepts those nodes too."""
    try:
        group, _ = maker.make(
            taker.members,
            taker.kind,
            taker.anchor,
            trial=True,
            copies=[*taker.copies, *copied],
            given=taker.given,
        )
        maker.check(group)
    except Unsupported:
        return False
    return True


def _large_inputs(
    members: Sequence[str], clusters: Clusters, roles: RoleFinder, free_below: int
) -> int:
    """Return the bytes of large outside operands.

    Large ones have at least `free_below` bytes.
    """
    inside = set(members)
    operands = {
        source
        for member in members
        for source in clusters.sources[member]
        if source[0] not in inside
    }
    sizes = [_bytes(src, output, clusters, roles) for src, output in operands]
    return sum(size for size in sizes if size >= free_below)


def _bytes(name: str, output: int, clusters: Clusters, roles: RoleFinder) -> int:
    """Return the bytes of a value; many for an unknown shape."""
    shape = roles.shape(name, output)
    if shape is None:
        return 1 << 40
    return prod(shape) * clusters.graph.node(name).output_dtypes[output].size
