"""Divide the partition of a task into stages by receives.

Tensors of other tasks come at any time. A stage is the nodes that depend on the same
receives and blocking nodes, transitively. So each stage is a run with fed tensors, which compiled
steps serve, and no send waits for a receive that it does not depend on: the other task may wait for
that very tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tfjit.framework import errors
from tfjit.framework.op_defs.op_traits import (
    CANNOT_FAIL,
    CHECKS_NUMBERS,
    CONTROL_FLOW,
    ENTER,
    EXIT,
    MERGE,
    NEXT_ITERATION,
    READS_STATE,
    RECV,
    SEND,
    SWITCH,
    VARIABLE,
    WRITES_VARIABLE,
)
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.run_spec import parse_tensor_name
from tfjit.passes.partitioning.early_errors import early_groups
from tfjit.passes.partitioning.split_stages import Stage

SMALL: Final = 8
"""Nodes of a stage that its users' stage takes over, at most.

To start a stage costs more than so few nodes, unless they are heavy.
"""
_MAX_STAGES: Final = 256

_Key = tuple[int, str]
"""(Receives and blocking nodes as bits, the stage's blocking node or "")."""


@dataclass(slots=True)
class ReceiveStage:
    """A stage of a partition.

    stage: its nodes, or None where values are only passed on. feeds: tensors that it needs.
    sends: (node, its tensor) behind the stage. after: indices of earlier stages that it waits for.
    checks: nodes of the stage that may fail and need less than all feeds, to run beside it.
    """

    stage: Stage | None
    feeds: tuple[str, ...] = ()
    sends: list[tuple[str, str]] = field(default_factory=list)
    after: frozenset[int] = frozenset()
    checks: list[ReceiveStage] = field(default_factory=list)


def split_by_receives(
    graph: DataflowGraph, waits: Callable[[Node], bool]
) -> tuple[list[ReceiveStage], str]:
    """Return (stages, ""), or ([], the reason against stages).

    Stages come behind those that they depend on. waits: returns whether a node may wait for the
    effect of another step or task.

    Keeps: each node but sends and receives is in one stage, and runs after all that it depends on.
    Constants and nodes that make handles run in every stage that uses them. A blocking node is a
    separate stage. Receives of the client count as arrived.
    Needs: a partition, of which every node is wanted. Raises InvalidArgumentError for a cycle.

    A v1 loop or branch is in one stage. A partition stays whole where that makes a send wait for
    more receives, where a receive or send is inside a loop or branch, where a Merge may get a dead
    tensor of another task beside a live one, and where a value between stages is no array.
    """
    splitter = _Splitter(graph, waits)
    try:
        return splitter.stages(), ""
    except Declined as why:
        return [], str(why)


class _Splitter:
    def __init__(self, graph: DataflowGraph, waits: Callable[[Node], bool]) -> None:
        self.graph = graph
        self.order = _topological(graph)
        nodes = {name: graph.node(name) for name in self.order}
        self.nodes = nodes
        self.receives = [name for name in self.order if nodes[name].has_trait(RECV)]
        self.sends = {name for name in self.order if nodes[name].has_trait(SEND)}
        transfers = self.sends | set(self.receives)
        self.blocking = [
            name for name in self.order if name not in transfers and waits(nodes[name])
        ]
        self.plain = {name for name in self.order if self._is_plain(nodes[name])}
        remote = [name for name in self.receives if not nodes[name].attrs["client_terminated"]]
        self.bits = {name: 1 << i for i, name in enumerate([*remote, *self.blocking])}
        self.all_receives = (1 << len(remote)) - 1
        self.remote = set(remote)

    def sources(self, name: str) -> Iterator[tuple[str, int]]:
        """Yield (node, output) of each input; CONTROL of control edges."""
        for edge in self.graph.edges_into(name):
            if edge.src != SOURCE:
                yield edge.src, edge.src_output

    def users(self, name: str) -> Iterator[str]:
        for edge in self.graph.edges_out_of(name):
            if edge.dst != SINK:
                yield edge.dst

    def _is_plain(self, node: Node) -> bool:
        """Return whether each stage that uses a node may run it."""
        makes_handle = bool(node.output_dtypes) and all(
            d.name.startswith("resource") or d.is_ref for d in node.output_dtypes
        )
        return (node.op in ("Const", "NoOp") or makes_handle) and not any(
            True for _ in self.sources(node.name)
        )

    def stages(self) -> list[ReceiveStage]:
        for name in self.receives:
            if any(True for _ in self.sources(name)):
                raise Declined(f"the receive {name} waits for another node")
        own = self._dependencies({})
        fixed: set[str] = set()
        if any(self.nodes[name].has_trait(CONTROL_FLOW) for name in self.order):
            regions = self._regions()
            merged = self._dependencies(regions)
            for name in (*self.sends, *self.blocking):
                if merged[name] != own[name]:
                    raise Declined(f"{name} would wait for all receives of a loop or branch")
            fixed = self._check_dead(own, merged) | set(regions)
            own = merged
        labels = self._labels(own, fixed)
        keys = {
            name: (labels[name], name if name in self.blocking else "")
            for name in self.order
            if name not in self.plain and name not in self.sends and name not in self.receives
        }
        return self._connected(keys, own, fixed)

    def _dependencies(self, region_of: Mapping[str, int]) -> dict[str, int]:
        """Return the receives and blocking nodes before each node, as bits.

        region_of: the nodes of a region depend on all that one of them depends on.
        """
        own = dict.fromkeys(self.order, 0)
        regions: dict[int, int] = {}
        loops = any(self.nodes[name].has_trait(NEXT_ITERATION) for name in self.order)
        changed = True
        while changed:
            changed = False
            for name in self.order:
                found = 0
                for source, _ in self.sources(name):
                    found |= own[source] | self.bits.get(source, 0)
                region = region_of.get(name)
                if region is not None:
                    found |= regions.get(region, 0)
                    regions[region] = found
                if found != own[name]:
                    own[name] = found
                    changed = loops or bool(region_of)
        return own

    def _regions(self) -> dict[str, int]:
        """Return the numbers of nodes in, and between, loops and branches.

        Raises Declined where a loop or branch meets other tasks or blocks.
        """
        flow = {name for name in self.order if self.nodes[name].has_trait(CONTROL_FLOW)}
        inside = flow | (self._reached(flow, True) & self._reached(flow, False))
        region_of: dict[str, int] = {}
        number = 0
        for start in self.order:
            if start not in inside or start in region_of:
                continue
            number += 1
            stack = [start]
            while stack:
                name = stack.pop()
                if name in region_of:
                    continue
                if name in self.sends or name in self.blocking:
                    raise Declined(f"{name} is inside a loop or branch")
                region_of[name] = number
                stack += [user for user in self.users(name) if user in inside]
                stack += [source for source, _ in self.sources(name) if source in inside]
        return region_of

    def _check_dead(self, own: dict[str, int], merged: dict[str, int]) -> set[str]:
        """Return the nodes that may be dead without a dead receive.

        own: dependencies. merged: with those of whole regions. Raises Declined where one of them
        is not in the stage of its branch or loop, and where a Merge may get a dead tensor of
        another task beside a live one.
        """
        depth: dict[str, int] = {}
        for name in self.order:
            node = self.nodes[name]
            inner = max((depth.get(source, 0) for source, _ in self.sources(name)), default=0)
            if node.has_trait(SWITCH | ENTER):
                inner += 1
            elif node.has_trait(EXIT):
                inner -= 2
            elif node.has_trait(MERGE):
                sources = [source for source, output in self.sources(name) if output != CONTROL]
                if not any(self.nodes[source].has_trait(NEXT_ITERATION) for source in sources):
                    inner -= 1
                    if len({own[s] | self.bits.get(s, 0) for s in sources}) > 1:
                        raise Declined(f"{name} may get a dead tensor of another task")
            depth[name] = inner
            if inner and (name in self.sends or name in self.blocking):
                raise Declined(f"{name} may get a dead tensor")
            for source, _ in self.sources(name):
                if depth.get(source) and merged[source] != merged[name]:
                    raise Declined(f"{name} may get a dead tensor of another stage")
        return {name for name, inner in depth.items() if inner}

    def _reached(self, starts: set[str], forward: bool) -> set[str]:
        seen: set[str] = set()
        stack = list(starts)
        while stack:
            name = stack.pop()
            steps = self.users(name) if forward else (source for source, _ in self.sources(name))
            for other in steps:
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        return seen

    def _labels(self, own: dict[str, int], fixed: set[str]) -> dict[str, int]:
        """Return the bits that each node waits for.

        They are its dependencies, or more. A small group is left to the stages of its users,
        unless an effect or an error may be awaited elsewhere.
        The label of a node is a subset of its users' labels.
        """
        sizes: dict[int, int] = {}
        movable = {}
        for name in self.order:
            node = self.nodes[name]
            if name in self.plain or node.has_trait(SEND | RECV):
                continue
            sizes[own[name]] = sizes.get(own[name], 0) + 1
            movable[name] = (
                name not in fixed
                and name not in self.bits
                and not self._fails_on_values(node)
                and (
                    node.op_def is None
                    or not node.op_def.is_stateful
                    or node.has_trait(VARIABLE | READS_STATE | WRITES_VARIABLE)
                )
            )
        labels: dict[str, int] = {}
        for name in reversed(self.order):
            mine = own[name]
            if name in self.sends:
                client = self.nodes[name].attrs["client_terminated"]
                labels[name] = mine | self.all_receives if client else mine
            elif not movable.get(name) or sizes[mine] > SMALL:
                labels[name] = mine
            else:
                label = mine | self.all_receives | sum(self.bits[b] for b in self.blocking)
                sink = True
                for user in self.users(name):
                    if user in labels:
                        label &= labels[user]
                        sink = False
                labels[name] = mine | self.all_receives if sink else label
        return labels

    def _fails_on_values(self, node: Node) -> bool:
        """Return whether the values of a node's inputs may be an error.

        The error is to be seen although another task never sends the tensors that the node's users
        wait for. Floats are no error, but for ops made to check them; nor are constants.
        """
        traits = 0 if node.op_def is None else node.op_def.traits
        if traits & CHECKS_NUMBERS:
            return True
        if traits & (VARIABLE | READS_STATE | WRITES_VARIABLE | CANNOT_FAIL):
            return False
        return any(
            output != CONTROL
            and source not in self.plain
            and not self.nodes[source].output_dtypes[output].is_floating
            for source, output in self.sources(node.name)
        )

    def _connected(
        self, keys: dict[str, _Key], own: dict[str, int], fixed: set[str]
    ) -> list[ReceiveStage]:
        """Return the stages with their feeds, fetches, targets, sends and checks."""
        order = {name: i for i, name in enumerate(self.order)}
        members: dict[_Key, set[str]] = {}
        for name, key in keys.items():
            members.setdefault(key, set()).add(name)
        sends: dict[_Key, list[str]] = {}
        for name in sorted(self.sends, key=order.__getitem__):
            data = self.graph.inputs(name)[0][0]
            behind = {keys[source] for source, _ in self.sources(name) if source in keys}
            # a receive that is passed on, and a send that waits for several stages
            key = keys[data] if data in keys and len(behind) == 1 else (own[name], "")
            sends.setdefault(key, []).append(name)
            members.setdefault(key, set())
        if len(members) > _MAX_STAGES:
            raise Declined(f"there would be {len(members)} stages")
        # a subset has fewer bits; blocking nodes come behind the others of their label
        ordered = sorted(members, key=lambda key: (key[0].bit_count(), bool(key[1]), key))
        number = {key: i for i, key in enumerate(ordered)}
        fetches: list[dict[str, None]] = [{} for _ in ordered]
        made = []
        for i, key in enumerate(ordered):
            passed = sends.get(key, [])
            stage = self._stage(i, key, members[key], passed, keys, number, fetches)
            whole = 0
            for name in (*members[key], *passed):
                whole |= own[name]
            early = [n for n in members[key] if own[n] != whole and n not in fixed]
            early.sort(key=order.__getitem__)
            for group in early_groups(self.graph, members[key], early, own):
                check = self._stage(i, key, group, [], keys, number, fetches)
                if check.stage is not None and self._waits(check) < self._waits(stage):
                    check.stage.by_node = True  # it is not worth the time to compile it
                    stage.checks.append(check)
            made.append(stage)
        for i, stage in enumerate(made):
            if stage.stage is not None:
                stage.stage.fetches = tuple(fetches[i])
        return made

    def _stage(
        self,
        i: int,
        key: _Key,
        members: set[str],
        sends: list[str],
        keys: dict[str, _Key],
        number: dict[_Key, int],
        fetches: list[dict[str, None]],
    ) -> ReceiveStage:
        feeds: dict[str, None] = {}
        after: set[int] = set()
        cut: set[str] = set()
        for name in sorted(members) + sends:
            for source, output in self.sources(name):
                if source in self.plain or keys.get(source) == key:
                    continue
                if name not in sends:
                    cut.add(source)
                tensor = f"{source}:{output}"
                if source in keys:
                    after.add(number[keys[source]])
                    if output != CONTROL:
                        fetches[number[keys[source]]][tensor] = None
                elif output == CONTROL:  # a control edge from a receive waits for its tensor
                    tensor = f"{source}:0"
                if output == CONTROL and source in keys:
                    continue
                self._check_array(source, max(output, 0), name)
                feeds[tensor] = None
        passed = []
        for name in sends:
            source, output = self.graph.inputs(name)[0]
            tensor = f"{source}:{output}"
            passed.append((name, tensor))
            if source in self.plain or keys.get(source) == key:
                fetches[i][tensor] = None
        users = {name for name in members if any(user in members for user in self.users(name))}
        inputs = {
            f"{source}:{output}" for member in members for source, output in self.sources(member)
        }
        used = tuple(feed for feed in feeds if feed in inputs)
        stage = None
        if members or fetches[i]:
            stage = Stage(
                bool(key[1]),
                members,
                used,
                (),
                tuple(sorted(members - users)),
                frozenset(cut),
            )
        return ReceiveStage(stage, tuple(feeds), passed, frozenset(after))

    def _waits(self, stage: ReceiveStage) -> set[str | int]:
        """Return the receives and stages that a stage waits for."""
        receives = {feed for feed in stage.feeds if parse_tensor_name(feed)[0] in self.remote}
        return receives | stage.after

    def _check_array(self, source: str, output: int, user: str) -> None:
        dtype = self.nodes[source].output_dtypes[output]
        if dtype.is_ref or not dtype.is_numpy_compatible:
            raise Declined(f"the value from {source} to {user} is not an array")


def _topological(graph: DataflowGraph) -> list[str]:
    """Return the nodes in an order of their edges.

    Back edges of loops do not count.     Raises InvalidArgumentError for a cycle.
    """
    pending: dict[str, int] = {}
    ready = []
    for node in graph.op_nodes():
        count = 0
        for edge in graph.edges_into(node.name):
            back = node.has_trait(MERGE) and (
                edge.src != SOURCE and graph.node(edge.src).has_trait(NEXT_ITERATION)
            )
            count += edge.src != SOURCE and not back
        pending[node.name] = count
        if not count:
            ready.append(node.name)
    order = []
    ready.reverse()
    while ready:
        name = ready.pop()
        order.append(name)
        loops = graph.node(name).has_trait(NEXT_ITERATION)
        for edge in graph.edges_out_of(name):
            if edge.dst == SINK or (loops and graph.node(edge.dst).has_trait(MERGE)):
                continue
            pending[edge.dst] -= 1
            if not pending[edge.dst]:
                ready.append(edge.dst)
    if len(order) < len(pending):
        raise errors.InvalidArgumentError(
            None, None, f"{len(pending) - len(order)} nodes in a cycle"
        )
    return order


__all__ = ["SMALL", "ReceiveStage", "split_by_receives"]
