"""Groups under construction: which node is in which, and when two may become one without closing a
cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.op_defs.op_traits import BLOCKING, CALLS_PYTHON, CONTROL_FLOW, RECV
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

MAX_MEMBERS: Final = 100
"""Compiling takes about a millisecond an op on top of 90: larger groups cost more than they save.
"""
_MAX_SCAN: Final = 64
"""A node with more consumers than that is taken to have one outside any group, so that a huge
fan-out stays linear.
"""
_MAX_ROOTS: Final = 16
"""A node that depends on more roots than that fuses with nothing."""
# Results are dead or late on their own: nodes are fused only when they hang on the same roots.
_ROOT: Final = CONTROL_FLOW | RECV | BLOCKING | CALLS_PYTHON


class Cluster:
    """A group while the pass decides. A node alone is a draft of one member with kind "".

    kind: template that will serve it; level: above the levels of all groups it takes anything from;
    space: the shape its loop runs over (a name where it is unknown); anchor: the convolution,
    matmul or first reduction in it; axes: reduced dims of `space`; waits: whether a member has
    control inputs; moves: whether one only renames positions. live_out: member -> number of its
    consumers outside; inputs: tensors taken from outside.
    """

    __slots__ = (
        "anchor",
        "axes",
        "inputs",
        "kind",
        "level",
        "live_out",
        "members",
        "moves",
        "space",
        "waits",
    )

    def __init__(self, member: str, level: int) -> None:
        self.members: list[str] = [member]
        self.level = level
        self.kind = ""
        self.space: Any = None
        self.anchor = ""
        self.axes: tuple[int, ...] = ()
        self.waits = False
        self.moves = False
        self.live_out: dict[str, int] = {}
        self.inputs: set[tuple[str, int]] = set()


class Clusters:
    """The partition of a graph's nodes into drafts.

    Nodes are added in topological order. Level of a draft > level of every draft it depends on, so
    that equal or lower levels prove that there is no path; a merge that cannot keep this with what
    was added so far is refused. That is sufficient, not necessary, and needs no search.
    """

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.of: dict[str, Cluster] = {}
        self.position: dict[str, int] = {}
        self.sources: dict[str, list[tuple[str, int]]] = {}
        self.waits: dict[str, list[str]] = {}
        self.successors: dict[str, set[str]] = {}
        self.roots: dict[str, frozenset[tuple[str, int]]] = {}
        self._root_ops = {node.name for node in graph.op_nodes() if node.has_trait(_ROOT)}

    def add(self, node: Node) -> Cluster:
        """Take the next node of the topological order as a draft of its own."""
        name = node.name
        graph = self.graph
        sources = graph.inputs(name)
        waits = graph.control_inputs(name)
        self.position[name] = len(self.position)
        self.sources[name] = sources
        self.waits[name] = waits
        level = 0
        of = self.of
        for src, _ in sources:
            found = of.get(src)  # a NextIteration comes after its Merge
            if found is not None and found.level >= level:
                level = found.level + 1
        for src in waits:
            found = of.get(src)
            if found is not None and found.level >= level:
                level = found.level + 1
        cluster = Cluster(name, level)
        cluster.waits = bool(waits)
        cluster.live_out[name] = len(self.consumers_of(name))
        cluster.inputs.update(sources)
        of[name] = cluster
        if self._root_ops:
            self.roots[name] = self._roots_of(name)
        return cluster

    def _roots_of(self, name: str) -> frozenset[tuple[str, int]]:
        found: frozenset[tuple[str, int]] = frozenset()
        for src, slot in [*self.sources[name], *((src, CONTROL) for src in self.waits[name])]:
            below = (
                frozenset({(src, slot)})
                if src in self._root_ops
                else self.roots.get(src, frozenset())
            )
            if not below <= found:
                found = found | below
        return found if len(found) <= _MAX_ROOTS else frozenset({(name, CONTROL)})

    def same_context(self, a: str, b: str) -> bool:
        """Whether two nodes are alive or dead in the same runs and iterations, and wait for the
        same senders and queues.
        """
        return not self._root_ops or self.roots[a] == self.roots[b]

    def consumers_of(self, name: str) -> set[str]:
        """Nodes that take a tensor from a node or wait for it."""
        found = self.successors.get(name)
        if found is None:
            found = self.successors[name] = set(self.graph._succ[name])
            found.discard(SINK)
        return found

    def producers(self, cluster: Cluster) -> Iterable[Cluster]:
        """Drafts that a draft takes something from, itself left out; some may come twice."""
        of = self.of
        for member in cluster.members:
            for src, _ in self.sources[member]:
                found = of.get(src)
                if found is not None and found is not cluster:
                    yield found
            for src in self.waits[member]:
                found = of.get(src)
                if found is not None and found is not cluster:
                    yield found

    def covered_uses(self, producer: Cluster, consumer: Cluster) -> dict[str, int]:
        """Members of a draft that the other one uses -> how many of its members do."""
        found: dict[str, int] = {}
        live_out = producer.live_out
        for member in consumer.members:
            before = {src for src, _ in self.sources[member]}
            if self.waits[member]:
                before.update(self.waits[member])
            for src in before:
                if src in live_out:
                    found[src] = found.get(src, 0) + 1
        return found

    def escapes(self, producer: Cluster, consumer: Cluster) -> bool:
        """Whether anything but `consumer` uses or waits for members of a draft."""
        covered_uses = self.covered_uses(producer, consumer)
        return any(
            count > covered_uses.get(member, 0)
            for member, count in producer.live_out.items()
            if count
        )

    def new_inputs(self, producer: Cluster, consumer: Cluster) -> set[tuple[str, int]]:
        """Tensors that a draft takes from outside both, as far as the other does not take them."""
        of = self.of
        return {
            tensor
            for tensor in consumer.inputs - producer.inputs
            if of.get(tensor[0]) is not producer
        }

    def live_out_after(
        self, producer: Cluster, consumer: Cluster, covered_uses: dict[str, int]
    ) -> int:
        """How many members of the union would have consumers outside it. covered_uses: of the two."""
        done = sum(
            1 for member, count in covered_uses.items() if producer.live_out[member] == count
        )
        return len(producer.live_out) + len(consumer.live_out) - done

    def _used_by_others(self, cluster: Cluster, inside: Cluster) -> bool:
        """Whether a node added so far, outside both drafts, depends on the first."""
        for member in cluster.members:
            consumers = self.consumers_of(member)
            if len(consumers) > _MAX_SCAN:
                return True
            for consumer in consumers:
                found = self.of.get(consumer)
                if found is not None and found is not cluster and found is not inside:
                    return True
        return False

    def level_if_merged(self, a: Cluster, b: Cluster) -> int | None:
        """Level of the union of two drafts, or None when it is not proven to leave the graph of
        groups without a cycle.
        """
        low, high = (a, b) if a.level <= b.level else (b, a)
        # neither depends on the other: whatever either needs lies below both
        if low.level == high.level:
            return low.level
        if self._needs_only_below(high, low):
            return low.level
        if not self._used_by_others(low, high):
            return high.level
        return None

    def _needs_only_below(self, cluster: Cluster, low: Cluster) -> bool:
        """Whether all that a draft takes anything from, `low` and itself left out, is
        below `low`.
        """
        level, of, sources, waits = low.level, self.of, self.sources, self.waits
        for member in cluster.members:
            for src, _ in sources[member]:
                found = of.get(src)
                if (
                    found is not None
                    and found.level >= level
                    and found is not cluster
                    and found is not low
                ):
                    return False
            for src in waits[member]:
                found = of.get(src)
                if (
                    found is not None
                    and found.level >= level
                    and found is not cluster
                    and found is not low
                ):
                    return False
        return True

    def adds_no_wait(self, producer: Cluster, consumer: Cluster) -> bool:
        """Whether the union of a draft and one that uses its values waits for no control input that
        a result needed elsewhere does not wait for today, directly or through the values it takes.
        """
        before, after = (
            frozenset(self._outer_waits(x, y))
            for x, y in ((producer, consumer), (consumer, producer))
        )
        if after - before and self.escapes(producer, consumer):
            return False
        # a lone consumer takes a value of the producer and so waits for all that the value waits
        # for
        return len(consumer.members) == 1 or not (
            before - after and self.escapes(consumer, producer)
        )

    def _outer_waits(self, cluster: Cluster, other: Cluster) -> Iterable[str]:
        for member in cluster.members:
            for src in self.waits[member]:
                found = self.of.get(src)
                if found is not cluster and found is not other:
                    yield src

    def merge(self, a: Cluster, b: Cluster, level: int, covered_uses: dict[str, int]) -> Cluster:
        """Make one draft of a draft and one that uses its values; the larger one's object stays and
        takes the members of the other.

        covered_uses: of the two.
        """
        for src, count in covered_uses.items():
            a.live_out[src] -= count
            if not a.live_out[src]:
                del a.live_out[src]
        inputs = a.inputs
        inputs |= self.new_inputs(a, b)
        big, small = (a, b) if len(a.members) >= len(b.members) else (b, a)
        big.live_out.update(small.live_out)
        big.inputs = inputs
        for member in small.members:
            self.of[member] = big
        big.members += small.members
        big.level = level
        big.waits = a.waits or b.waits
        big.moves = a.moves or b.moves
        return big
