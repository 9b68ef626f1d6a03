"""Grow clusters of nodes that fusion may turn into groups.

Levels decide when two clusters may merge without closing a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.op_defs.op_traits import BLOCKING, CALLS_PYTHON, CONTROL_FLOW, RECV
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

MAX_MEMBERS: Final = 100
"""Compiling takes about a millisecond an op on top of 90.

Larger groups cost more than they save.
"""
_MAX_SCAN: Final = 64
"""Consumers of a node that are looked at.

A node with more is taken to have one outside any group, so that a huge fan-out stays linear.
"""
_MAX_ROOTS: Final = 16
"""A node that depends on more roots than that fuses with nothing."""
# The results of these ops are dead or late independently of other nodes. Nodes fuse only when they
# depend on the same roots.
_ROOT: Final = CONTROL_FLOW | RECV | BLOCKING | CALLS_PYTHON


class Cluster:
    """A group under construction; a lone node is one too.

    kind: the template that will serve the group, "" for a lone node. level: above the levels of all
    groups that the cluster has inputs from. space: the iteration shape of the loop, or a name where
    the shape is unknown. anchor: the convolution, matmul or first reduction among the members.
    axes: reduced dims of `space`. waits: whether a member has control inputs. moves: whether a
    member only renames positions. live_out: member -> number of its consumers outside. inputs:
    tensors from outside.
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
    """The partition of a graph's nodes into clusters.

    Nodes are added in topological order. The level of a cluster is above the level of every cluster
    that it depends on, so that equal or lower levels prove that there is no path. A merge that
    cannot keep this for the nodes added so far is refused. The test is sufficient, not necessary,
    and needs no search.
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
        """Add the next node of the topological order as a new cluster."""
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
        for src, output in [*self.sources[name], *((src, CONTROL) for src in self.waits[name])]:
            below = (
                frozenset({(src, output)})
                if src in self._root_ops
                else self.roots.get(src, frozenset())
            )
            if not below <= found:
                found = found | below
        return found if len(found) <= _MAX_ROOTS else frozenset({(name, CONTROL)})

    def same_context(self, a: str, b: str) -> bool:
        """Return whether two nodes depend on the same roots.

        Both are then alive or dead in the same runs and iterations, and wait for the same senders
        and queues.
        """
        return not self._root_ops or self.roots[a] == self.roots[b]

    def consumers_of(self, name: str) -> set[str]:
        """Return the nodes with a data or control input from this node."""
        found = self.successors.get(name)
        if found is None:
            found = self.successors[name] = set(self.graph._succ[name])
            found.discard(SINK)
        return found

    def producers(self, cluster: Cluster) -> Iterable[Cluster]:
        """Yield the clusters that a cluster depends on; some come twice."""
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
        """Return the members that the consumer uses, with their use counts."""
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
        """Return whether a node outside `consumer` uses or waits for a member."""
        covered_uses = self.covered_uses(producer, consumer)
        return any(
            count > covered_uses.get(member, 0)
            for member, count in producer.live_out.items()
            if count
        )

    def new_inputs(self, producer: Cluster, consumer: Cluster) -> set[tuple[str, int]]:
        """Return the inputs that a consumer adds to the producer's inputs.

        Tensors of the producer itself are left out.
        """
        of = self.of
        return {
            tensor
            for tensor in consumer.inputs - producer.inputs
            if of.get(tensor[0]) is not producer
        }

    def live_out_after(
        self, producer: Cluster, consumer: Cluster, covered_uses: dict[str, int]
    ) -> int:
        """Return the number of live-out members of the union.

        covered_uses: of the two clusters.
        """
        done = sum(
            1 for member, count in covered_uses.items() if producer.live_out[member] == count
        )
        return len(producer.live_out) + len(consumer.live_out) - done

    def _used_by_others(self, cluster: Cluster, inside: Cluster) -> bool:
        """Return whether an added node outside both clusters depends on the first."""
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
        """Return the level of the union of two clusters.

        None when the merge is not proven to keep the graph of groups acyclic.
        """
        low, high = (a, b) if a.level <= b.level else (b, a)
        # neither depends on the other: all dependencies of either lie below both
        if low.level == high.level:
            return low.level
        if self._needs_only_below(high, low):
            return low.level
        if not self._used_by_others(low, high):
            return high.level
        return None

    def _needs_only_below(self, cluster: Cluster, low: Cluster) -> bool:
        """Return whether all dependencies of a cluster lie below `low`.

        `low` and the cluster itself are left out.
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
        """Return whether the union adds no control dependency to a live-out result.

        consumer: a cluster that uses values of the producer. A result that is needed elsewhere may
        only wait, directly or through its operands, for the control inputs that it waits for today.
        """
        before, after = (
            frozenset(self._outer_waits(x, y))
            for x, y in ((producer, consumer), (consumer, producer))
        )
        if after - before and self.escapes(producer, consumer):
            return False
        # A lone consumer uses a value of the producer, so it waits for the same control inputs
        # already.
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
        """Merge a cluster with one that uses its values.

        The object of the larger one stays and gets the members of the other. covered_uses: of the
        two.
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
