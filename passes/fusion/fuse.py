"""Fuse nodes that one kernel computes into one `_Fused` node."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from tfjit.framework.cooperative_yield import yielding
from tfjit.kernels.registry import Unsupported
from tfjit.passes.fusion.clusters import MAX_MEMBERS, Cluster, Clusters
from tfjit.passes.fusion.fold_padding import absorb_padding
from tfjit.passes.fusion.fused_group_builder import GroupMaker
from tfjit.passes.fusion.match_attention import find_attention, may_hold_attention
from tfjit.passes.fusion.match_pool_gradient import find_pool_gradients, may_hold_pool_gradient
from tfjit.passes.fusion.rematerialize import Chosen, rematerialize
from tfjit.passes.fusion.roles import RoleFinder
from tfjit.passes.ir.dataflow_graph import SINK
from tfjit.passes.ir.declined import Declined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfjit.kernels.ir.backend import FusionRules
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassContext

    Finder = Callable[
        [DataflowGraph, Clusters, GroupMaker, PassContext], list[tuple[str, list[str]]]
    ]
    """A search for groups of a fixed form: (anchor, ordered members)."""

MAX_OUTPUTS: Final = 12
MAX_INPUTS: Final = 24
"""Pointers that a loop holds in registers or near.

More would be reloaded in every iteration.
"""
SHARED_ELEMENTS: Final = 1 << 14
"""From this size on, one read saved is worth a kernel."""
PIECEWISE: Final = frozenset({"BiasAdd", "Add", "AddV2"})
"""Sums that move into the loop of consumers that read slices."""
_MAX_SIBLINGS: Final = 8
_REPEAT_LIMIT: Final = 16
"""The most often that a loop may recompute a smaller value's element."""


def fuse(graph: DataflowGraph, ctx: PassContext) -> None:
    """Replace groups of nodes by `_Fused` nodes.

    The attr `group` of a `_Fused` node is a `kernels.group.FusedGroup`.

    Before: x -> Conv2D -> BiasAdd -> Relu -> y (fetched)
    After: x -> _Fused(conv2d) -> y

    These fuse:
    - zero padding into the convolution that uses it;
    - the two products of an attention with the softmax between them;
    - the gradient of maximum pooling with those of the ReLU and the bias before it;
    - elementwise nodes with the matmul or convolution before them, with the reduction behind them,
      with reductions along the same rows (softmax, layer norm), and with each other;
    - reductions of one tensor over the same axes, including a variance with its mean.

    Keeps: every value that a node outside a group uses (the value becomes an output of the group),
    control edges (the group waits for everything that its members waited for), deadness, and the
    order of side effects: only stateless nodes fuse. A group gets the name and place of its last
    member, and the origin of all.
    Needs: one device a graph, and `infer_shapes` for all but chains of one unknown shape.
    """
    rules = ctx.backend.fusion
    if rules is None:
        ctx.log("", f"the {ctx.backend.name} backend fuses nothing")
        return
    absorb_padding(graph, ctx)
    if rules.template_of("attention") is not None and may_hold_attention(graph):
        _Fuser(graph, ctx, rules).rewrite_found("attention", find_attention)
    if rules.template_of("pool_gradient") is not None and may_hold_pool_gradient(graph):
        _Fuser(graph, ctx, rules).rewrite_found("pool_gradient", find_pool_gradients)
    fuser = _Fuser(graph, ctx, rules)
    for name in yielding(graph.topological_order()):
        fuser.add(graph.node(name))
    fuser.rewrite()


class _Fuser:
    def __init__(self, graph: DataflowGraph, ctx: PassContext, rules: FusionRules) -> None:
        self.graph = graph
        self.ctx = ctx
        self.rules = rules
        self.clusters = Clusters(graph)
        self.roles = RoleFinder(graph, ctx, rules)
        self.maker = GroupMaker(graph, self.clusters, self.roles)

    # ---- deciding

    def add(self, node: Node) -> None:
        """Add the next node of the topological order and merge its cluster."""
        cluster = self.clusters.add(node)
        role = self.roles.find(node)
        if role is None:
            return
        cluster.kind = role.kind
        cluster.space = role.space
        cluster.axes = role.axes
        cluster.moves = self.roles.is_view(node.name)
        cluster.anchor = node.name if role.kind != "loop" else ""
        tried: list[Cluster] = []
        for src, _ in self.clusters.sources[node.name]:
            found = self.clusters.of.get(src)
            if found is not None and found.kind and found is not cluster and found not in tried:
                tried.append(found)
        if self._is_read_in_pieces(node):
            tried = [found for found in tried if found.kind not in self.roles.anchor_kinds]
        tried.sort(key=lambda d: (d.kind in self.roles.anchor_kinds, d.level), reverse=True)
        for producer in tried:
            self._attempt(self.clusters.of[producer.members[0]], node)
        if role.kind == "reduce":  # the mean that the squared distances use
            current = self.clusters.of[node.name]
            for name in sorted(
                {
                    p.members[0]
                    for p in self.clusters.producers(current)
                    if p.kind == "reduce" and p.axes == current.axes
                }
            ):
                self._attempt(self.clusters.of[name], node)
        self._join_siblings(node)

    def _is_read_in_pieces(self, node: Node) -> bool:
        """Return whether all users of a value are slices for elementwise nodes.

        The gates of a recurrent cell are such slices. A loop over the slices has the value in
        registers, where a product's epilogue would write and read the whole value once more.
        """
        if node.op not in PIECEWISE:
            return False
        slices = [self.graph.node(name) for name in self.clusters.consumers_of(node.name)]
        if not slices or any(slice_.op not in ("Split", "SplitV") for slice_ in slices):
            return False
        takers = [
            self.roles.find(self.graph.node(name))
            for slice_ in slices
            for name in self.clusters.consumers_of(slice_.name)
        ]
        names = [name for slice_ in slices for name in self.clusters.consumers_of(slice_.name)]
        return all(role is not None and role.kind == "loop" for role in takers) and not any(
            map(self.roles.is_view, names)
        )

    def _attempt(self, other: Cluster, node: Node, siblings: bool = False) -> None:
        """Merge the node's cluster with another, or log the reason against it."""
        current = self.clusters.of[node.name]
        if other is current:
            return
        try:
            self._join(other, current, node, siblings)
        except (Declined, Unsupported) as refused:
            if not siblings:
                self.ctx.log(
                    node.name, f"stays apart from {other.anchor or other.members[-1]}: {refused}"
                )

    def _join_siblings(self, node: Node) -> None:
        """Merge loops, rows and reductions that read the same large tensor.

        Reductions must be over the same axes.
        """
        clusters = self.clusters
        cluster = clusters.of[node.name]
        if cluster.kind not in ("loop", "rows", "reduce") or self.roles.is_view(node.name):
            return
        for src, output in (
            sorted(cluster.inputs) if cluster.kind == "reduce" else clusters.sources[node.name]
        ):
            shape = self.roles.shape(src, output)
            if (
                shape is None
                or (prod(shape) < SHARED_ELEMENTS and not self.ctx.spec.sampled)
                or len(clusters.consumers_of(src)) > _MAX_SIBLINGS
            ):
                continue
            for consumer in sorted(
                clusters.consumers_of(src), key=lambda name: clusters.position.get(name, -1)
            ):
                other = clusters.of.get(consumer)
                current = clusters.of[node.name]
                if (
                    other is None
                    or other is current
                    or other.space != current.space
                    or (src, output) not in other.inputs
                ):
                    continue
                if "reduce" in (other.kind, current.kind) and (
                    other.kind != current.kind or other.axes != current.axes
                ):
                    continue
                if other.kind in ("loop", "rows", "reduce") and not (other.waits or current.waits):
                    self._attempt(other, node, siblings=True)

    def _join(self, producer: Cluster, consumer: Cluster, node: Node, siblings: bool) -> None:
        """Merge two clusters, or raise Declined or Unsupported with the reason."""
        clusters = self.clusters
        size = len(producer.members) + len(consumer.members)
        if size > MAX_MEMBERS:
            raise Declined(f"a group has at most {MAX_MEMBERS} nodes")
        kind = _joined_kind(producer.kind, consumer.kind)
        if kind is None:
            raise Declined(
                f"a {consumer.kind} group cannot follow a {producer.kind} group in one kernel"
            )
        first = self.graph.node(producer.members[0])
        if first.assigned_device != node.assigned_device:
            raise Declined("it is on another device")
        if not clusters.same_context(producer.members[0], node.name):
            raise Declined("one of them may be dead, or wait for a sender, without the other")
        if (producer.waits or consumer.waits) and not clusters.adds_no_wait(producer, consumer):
            raise Declined("a result that is needed elsewhere would wait for a control input")
        level = clusters.level_if_merged(producer, consumer)
        if level is None:
            raise Declined("a path may lead out of the group and back")
        space = self._space(producer, consumer, kind)
        head = producer if kind == producer.kind and kind != "loop" else consumer
        anchor, axes = head.anchor, head.axes
        plain = (
            kind == "loop"
            and producer.space == consumer.space
            and not producer.moves
            and not consumer.moves
        )
        covered_uses = clusters.covered_uses(producer, consumer)
        if clusters.live_out_after(producer, consumer, covered_uses) > MAX_OUTPUTS:
            raise Declined(f"more than {MAX_OUTPUTS} results are needed outside")
        if len(producer.inputs) + len(clusters.new_inputs(producer, consumer)) > MAX_INPUTS:
            raise Declined(f"more than {MAX_INPUTS} inputs")
        if (
            kind in self.roles.anchor_kinds
            and kind == producer.kind
            and len(consumer.members) == 1
            and not consumer.moves
        ):
            plain = self.maker.suits_epilogue(node.name, producer.members, producer.space)
        moves = kind != "loop" and (producer.moves or consumer.moves)
        if moves and any(
            self.roles.is_loops_own(m) for m in (*producer.members, *consumer.members)
        ):
            raise Declined(
                f"a {kind} group does not read through slices or a transpose of the inner dim"
            )
        template = self.rules.template_of(kind)
        if not plain or template is None or not template.accepts_plain:
            self.maker.require_accepted([*producer.members, *consumer.members], kind, anchor)
        merged = clusters.merge(producer, consumer, level, covered_uses)
        merged.kind, merged.space, merged.anchor, merged.axes = kind, space, anchor, axes
        why = " that reads the same" if siblings else ""
        self.ctx.log(node.name, f"joins {anchor or merged.members[0]}: {kind} group of {size}{why}")

    def _space(self, producer: Cluster, consumer: Cluster, kind: str) -> object:
        if kind != "loop":
            return producer.space if kind == producer.kind else consumer.space
        if producer.space == consumer.space:
            return consumer.space
        small, large = self.roles.elements(producer.space), self.roles.elements(consumer.space)
        if small is None or large is None:
            raise Declined("shapes are not known to agree")
        # a reshape lies between them, or nothing is computed
        if small == large or all(self.roles.is_view(m) for m in producer.members):
            return consumer.space
        if self.clusters.escapes(producer, consumer):
            raise Declined(
                f"shape {producer.space} differs from {consumer.space} and its values are needed "
                "elsewhere"
            )
        if 1 < small < large and (
            large > _REPEAT_LIMIT * small
            or not all(self.roles.is_cheap(m) for m in producer.members)
        ):
            raise Declined(
                f"its values of shape {producer.space} would be computed again for {consumer.space}"
            )
        return consumer.space

    # ---- doing

    def rewrite(self) -> None:
        """Replace the clusters that are worth a kernel by `_Fused` nodes."""
        # before results are computed again: each user of such a result has to become a group
        chosen = [
            group for number, group in enumerate(self._chosen()) if self.ctx.may_rewrite(number)
        ]
        unneeded = rematerialize(chosen, self.clusters, self.roles, self.maker, self.ctx)
        self._put(chosen, unneeded)

    def rewrite_found(self, kind: str, find: Finder) -> None:
        """Replace the groups of a fixed form that a search finds."""
        for name in yielding(self.graph.topological_order()):
            self.clusters.add(self.graph.node(name))
        found = find(self.graph, self.clusters, self.maker, self.ctx)
        chosen = [
            Chosen(kind, anchor, members)
            for number, (anchor, members) in enumerate(found)
            if self.ctx.may_rewrite(number)
        ]
        self._put(chosen, [])

    def _put(self, chosen: list[Chosen], unneeded: Sequence[str]) -> None:
        made = []
        # make all groups before the first replacement: making a group reads the original graph
        for group in chosen:
            made.append(
                (
                    group,
                    *self.maker.make(
                        group.members,
                        group.kind,
                        group.anchor,
                        copies=group.copies,
                        given=group.given,
                    ),
                )
            )
        for group, fused_group, outputs in made:
            self._replace(group, fused_group, outputs)
        for name in unneeded:
            self.graph.remove_op(name)
        if chosen:
            self.graph.tie_ends()

    def _chosen(self) -> list[Chosen]:
        """Return the clusters that become groups, with their members in order."""
        seen: set[int] = set()
        found: list[Chosen] = []
        for name in sorted(self.clusters.position, key=self.clusters.position.__getitem__):
            cluster = self.clusters.of[name]
            drops = self._drops_results(cluster)
            if id(cluster) in seen or (len(cluster.members) < 2 and not drops):
                continue
            seen.add(id(cluster))
            members = self._trimmed(cluster)
            if all(map(self.roles.is_view, members)) or (
                len([m for m in members if not self.roles.is_free(m)]) < 2 and not drops
            ):
                self.ctx.log(
                    cluster.members[-1],
                    "stays alone: the other nodes of its group only permute elements",
                )
                continue
            try:
                # the dropped reshapes may have changed the group that the template accepts
                template = self.rules.template_of(cluster.kind)
                plain = cluster.kind == "loop" and not cluster.moves
                if not plain or template is None or not template.accepts_plain:
                    self.maker.require_accepted(members, cluster.kind, cluster.anchor)
            except Unsupported as refused:
                self.ctx.log(members[-1], f"group given up: {refused}")
                continue
            found.append(Chosen(cluster.kind, cluster.anchor, members))
        return found

    def _drops_results(self, cluster: Cluster) -> bool:
        """Return whether a cluster is one node with a large unused result.

        A group need not write the unused result: a loss without its gradient.
        """
        if cluster.kind != "rows" or len(cluster.members) > 1:
            return False
        outputs = range(len(self.graph.node(cluster.members[0]).output_dtypes))
        return (
            0
            < sum(1 for k in outputs if self.graph.consumers(cluster.members[0], k))
            < len(outputs)
        )

    def _trimmed(self, cluster: Cluster) -> list[str]:
        """Return the members without the reshapes and identities at either end.

        These cost nothing outside the group.
        """
        members = sorted(cluster.members, key=self.clusters.position.__getitem__)
        inside = set(members)
        for name in reversed(members):
            if self.roles.is_free(name) and not (self.clusters.consumers_of(name) & inside):
                inside.discard(name)
        for name in members:
            before = {src for src, _ in self.clusters.sources[name]}.union(
                self.clusters.waits[name]
            )
            if name in inside and self.roles.is_free(name) and not before & inside:
                inside.discard(name)
        if cluster.anchor and cluster.anchor not in inside:
            return []
        return [m for m in members if m in inside]

    def _replace(self, chosen: Chosen, group: FusedGroup, outputs: list[tuple[str, int]]) -> None:
        graph = self.graph
        members = chosen.members
        inside = set(members)
        inputs = self.maker.external_inputs({*members, *chosen.copies}, chosen.anchor)
        waits = [src for m in members for src in graph.control_inputs(m) if src not in inside]
        uses = [
            (k, dst, dst_input)
            for k, (m, out) in enumerate(outputs)
            for dst, dst_input in graph.consumers(m, out)
            if dst not in inside
        ]
        # values used inside only have no followers
        leaving = [m for m in members if not graph._succ[m].keys() <= inside]
        followers = [
            dst for m in leaving for dst in graph.control_consumers(m) if dst not in inside
        ]
        to_sink = any(SINK in graph._succ[m] for m in leaving)
        last = graph.node(members[-1])
        origin = tuple(dict.fromkeys(user for m in members for user in graph.node(m).origin))
        shapes = tuple(graph.node(m).output_shapes[out] for m, out in outputs)
        device, assigned = last.device, last.assigned_device
        for m in members:
            graph.remove_op(m)
        made = graph.add_node_op(
            last.name,
            "_Fused",
            inputs,
            {"group": group},
            control_inputs=dict.fromkeys(waits),
            device=device,
            assigned_device=assigned,
            origin=origin,
            output_shapes=shapes,
        )
        for k, dst, dst_input in uses:
            graph.add_data_edge(made.name, k, dst, dst_input)
        for dst in dict.fromkeys(followers):
            graph.add_control_edge(made.name, dst)
        if to_sink:
            graph.add_control_edge(made.name, SINK)
        self.maker.renamed({(m, out): (made.name, k) for k, (m, out) in enumerate(outputs)})
        self.ctx.rewrote(made.name, group.reason, group.kind)


def _joined_kind(producer: str, consumer: str) -> str | None:
    """Return the kind of a group united with its consumer's group.

    None where no template computes both.
    """
    if producer == "loop":
        return consumer  # into an epilogue too, when the loop's result is an operand there
    if consumer == "loop":
        return producer
    return producer if producer == consumer and producer in ("rows", "reduce") else None
