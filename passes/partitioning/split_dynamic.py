"""Split a run at nodes of unknown output sizes.

The size of a `Unique` or `Where` is known only once the node has run. The nodes behind are compiled
for the sizes that arrive, all others for the shapes of the feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import prod
from typing import Final

from tfjit.framework.op_defs.op_traits import (
    CONTROL_FLOW,
    ENTER,
    EXIT,
    NEVER_EVALUATED,
    READS_STATE,
    SHAPE_QUERY,
    SIZED_BY_VALUES,
    TRANSFER,
    WHILE,
    WRITES_VARIABLE,
)
from tfjit.passes.analysis.frames import Frames, find_frames, loop_name, outermost
from tfjit.passes.analysis.padding import find_padding
from tfjit.passes.ir.dataflow_graph import CONTROL, DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.run_spec import RunSpec, parse_tensor_name
from tfjit.passes.ir.subgraph import needed_nodes
from tfjit.passes.partitioning.split_stages import MIN_BETWEEN, Splitter, Stage

MAX_SPLITS: Final = 6
"""Number of times that a run is split, at most."""
_MAX_FOLDED: Final = 200
"""Values that are visited for one size."""
_NOT_FOLDED: Final = CONTROL_FLOW | NEVER_EVALUATED | READS_STATE | SIZED_BY_VALUES | TRANSFER
_UNKNOWN_SIZE: Final = 32
"""Guess of a size that the graph leaves open."""


def dynamic_nodes(graph: DataflowGraph) -> set[str]:
    """Return the nodes that turn known shapes into unknown ones.

    graph: with inferred shapes. Nodes of control flow are left out.
    """
    return {
        name
        for name in graph.topological_order()
        if name in graph
        and not graph.node(name).has_trait(CONTROL_FLOW)
        and _leaves_open(graph.node(name))
        and all(
            _is_known(graph.node(source), output)
            for source, output in graph.inputs(name)
            if output != CONTROL
        )
    }


def sized_by_values(graph: DataflowGraph, spec: RunSpec) -> set[str]:
    """Return the needed nodes of ops with the trait SIZED_BY_VALUES.

    The passes fold sizes that follow from constants and shapes: such nodes are left out, as are
    nodes that the passes pad.

    graph: the session's.
    """
    needed = needed_nodes(graph, spec)[0]
    found = {
        name
        for name in needed
        if graph.node(name).has_trait(SIZED_BY_VALUES)
        and _leaves_open(graph.node(name))
        and not _follows_from_shapes(graph, spec, _deciding_inputs(graph, name))
    }
    if found:
        kept = {parse_tensor_name(name) for name in (*spec.fetches, *spec.feeds)}
        padding = find_padding(graph, needed, kept)
        found -= padding.roots.keys() | padding.gradients
    return found


def _deciding_inputs(graph: DataflowGraph, name: str) -> list[tuple[str, int]]:
    """Return the inputs that decide the sizes of the outputs."""
    op_def, inputs = graph.node(name).op_def, graph.inputs(name)
    if op_def is not None and len(op_def.inputs) == len(inputs):
        for argument, tensor in zip(op_def.inputs, inputs, strict=True):
            if argument.name == "segment_ids" and not op_def.name.endswith("GradV2"):
                return [tensor]
    return inputs


def _follows_from_shapes(
    graph: DataflowGraph, spec: RunSpec, tensors: Iterable[tuple[str, int]]
) -> bool:
    """Return whether values follow from constants and shapes."""
    fed = {parse_tensor_name(feed) for feed in spec.feeds}
    stack, seen = list(tensors), set(tensors)
    while stack:
        name, output = stack.pop()
        node = graph.node(name)
        if node.op == "Const":
            continue
        if (name, output) in fed or node.is_stateful or node.has_trait(_NOT_FOLDED):
            return False
        if node.has_trait(SHAPE_QUERY):
            continue
        inputs = [tensor for tensor in graph.inputs(name) if tensor not in seen]
        if not graph.inputs(name) or len(seen) > _MAX_FOLDED:
            return False
        seen.update(inputs)
        stack += inputs
    return True


def with_merged(
    graph: DataflowGraph, spec: RunSpec, optimized: DataflowGraph, roots: Collection[str]
) -> set[str]:
    """Return the roots and the nodes that passes have merged into them.

    A v1 loop that passes have made a While is all nodes of its frame.

    graph: the session's. optimized: the run's graph behind the passes; it has the roots.
    """
    ops = {optimized.node(name).op for name in roots}
    loops = {name for name in roots if name not in graph and optimized.node(name).has_trait(WHILE)}
    frames = find_frames(graph) if loops else Frames()
    return {
        name
        for name in needed_nodes(graph, spec)[0]
        if name in roots
        or (loops and loop_name(outermost(frames, name)) in loops)
        or (name not in optimized and graph.node(name).op in ops and _leaves_open(graph.node(name)))
    }


def split_dynamic(
    graph: DataflowGraph, spec: RunSpec, roots: Collection[str]
) -> tuple[list[Stage], str]:
    """Return (stages, ""), or ([], why the run is not split).

    roots: the nodes of unknown output sizes. Roots that depend on other roots are in the last
    stage; a later call splits that stage.

    Keeps: each needed node runs in one stage, after all of its dependencies. Constants and nodes
    that make handles run in every stage that needs one. Nodes that do not depend on a root run
    before it, but for those that the last stage reads by reference, that write one of its variables
    for it alone, or that make the values between the stages larger. A `by_node` stage has
    the roots.
    Needs: the whole graph of a session, in which the names of the spec exist.

    A v1 loop is in one stage, with its whole frame. A run is left whole where a root is in v1
    control flow, where Python functions may meet, and where there are too few nodes beside the
    roots.
    """
    try:
        return _DynamicSplitter(graph, spec, roots).stages(), ""
    except Declined as why:
        return [], str(why)


Splits = Iterable[Callable[[DataflowGraph, RunSpec], Collection[str]]]
"""Functions that return a stage's nodes of unknown output sizes."""


def split_again(graph: DataflowGraph, spec: RunSpec, splits: Splits) -> list[Stage]:
    """Return the stages of a run after several splits.

    Each split but the first is of the last stage.
    """
    stages: list[Stage] = []
    for roots in splits:
        found, _ = split_dynamic(graph, spec, roots(graph, spec))
        if not found:
            break
        for stage in found:
            stage.varies = stage.varies or bool(stages)
        stages[-1:] = found
        if found[-1].by_node:
            break
        spec = found[-1].spec(spec)
    return stages


class _DynamicSplitter(Splitter):
    """Assign nodes to the stages before, at and behind the roots."""

    def __init__(self, graph: DataflowGraph, spec: RunSpec, roots: Collection[str]) -> None:
        super().__init__(graph, spec, lambda node: False, overlaps=True)
        if self.overlapping:
            raise Declined("Python functions may meet")
        self.waiting = self.needed.intersection(roots)
        self.kept = {parse_tensor_name(name)[0] for name in (*spec.fetches, *spec.targets)}
        entered = any(graph.node(name).has_trait(ENTER) for name in self.needed)
        self.frames = find_frames(graph) if entered else Frames()

    def stages(self) -> list[Stage]:
        if not self.waiting:
            raise Declined("no node has outputs of unknown sizes")
        self.plain = self._plain() - self.waiting
        self.guarded = self._guarded()
        # constants and handles have a copy in each stage
        self._find_behind()
        self._sink_references()
        self.plain |= self._shared_reads()
        self.behind -= self.plain
        self.roots = self.waiting - self.behind
        if not self.roots:
            raise Declined("a node of unknown output sizes is inside a loop or conditional")
        self._sink_small_sources()
        before = self.needed - self.plain - self.behind - self.roots
        stages = [
            Stage(False, before),
            Stage(True, set(self.roots)),
            Stage(False, self.behind, varies=True),
        ]
        if len(before) < MIN_BETWEEN:
            stages[1].members |= stages.pop(0).members
        if len(self.behind) < MIN_BETWEEN:
            stages[-2].members |= stages.pop().members
        if len(stages) < 2:
            raise Declined("there are too few nodes beside those of unknown output sizes")
        stage_of = {name: i for i, stage in enumerate(stages) for name in stage.members}
        self._connect(stages, stage_of)
        for stage in stages:
            stage.cut |= self.spec.cut
        return stages

    def _find_behind(self) -> None:
        """Find the nodes that depend on roots.

        A loop is a root as a whole, or none.
        """
        loops: dict[str, set[str]] = {}
        for name in self.waiting:
            frame = outermost(self.frames, name)
            if frame:
                loops.setdefault(frame, set()).add(name)
        wholes = [
            members
            for members in loops.values()
            if any(self.graph.node(name).has_trait(ENTER) for name in members)
        ]
        inside = set().union(*wholes)
        self.behind = self._descendants(self.waiting - inside)
        for members in wholes:
            left = {target for name in members for target, _ in self._targets(name)} - members
            self.behind |= left | self._descendants(left)
        for members in wholes:
            if not members.isdisjoint(self.behind):
                self.behind |= members
            for name in members:
                for source, output in self._sources(name):
                    if source not in members | self.plain and not self._may_pass(source, output):
                        raise Declined(f"a loop of unknown sizes reads {source}, which is no array")

    def _sink(self, names: Iterable[str]) -> None:
        """Move nodes, and their dependents, behind the roots."""
        names = set(names)
        self.behind |= names | self._descendants(names)

    def _sink_references(self) -> None:
        """Move nodes with outputs that cannot leave a stage."""
        while True:
            found = {
                source
                for name in self.behind
                for source, output in self._sources(name)
                if source not in self.behind
                and source not in self.plain
                and not self._may_pass(source, output)
            }
            found |= self._early_writes()
            if not found:
                return
            self._sink(found)

    def _guarded(self) -> set[str]:
        """Return the nodes in frames, and those that may be dead.

        The values that leave a loop outside of conditionals are not among them.
        """
        flow = [name for name in self.needed if self.graph.node(name).has_trait(CONTROL_FLOW)]
        inside: set[str] = set()
        for name in self.needed if self.frames.of else ():
            frame = self.frames.of[name]
            leaves = self.graph.node(name).has_trait(EXIT)
            if frame and not (leaves and not self.frames.outer[frame]):
                inside.add(name)
        conditional = [
            name
            for name in flow
            if name not in inside and not self.graph.node(name).has_trait(EXIT)
        ]
        return inside.union(conditional, self._descendants(conditional))

    def _may_pass(self, source: str, output: int) -> bool:
        if source in self.guarded:
            return False
        if output == CONTROL:
            return True
        dtype = self.graph.node(source).output_dtypes[output]
        return not dtype.is_ref and dtype.is_numpy_compatible

    def _shared_reads(self) -> set[str]:
        """Return reads of reference variables that no stage but the last writes.

        Such a read is the variable's own memory, in TensorFlow as here, so each stage has one. A
        copy between stages would miss the writes that precede its use.
        """
        written = {
            handle
            for name in self.needed - self.behind
            if self.graph.node(name).has_trait(WRITES_VARIABLE)
            for handle in self._handles(name)
        }
        return {
            name
            for name in self.needed - self.waiting
            if self.graph.node(name).op == "Identity"
            and all(
                source in self.plain
                and output != CONTROL
                and self.graph.node(source).output_dtypes[output].is_ref
                for source, output in self._sources(name)
            )
            and written.isdisjoint(self._handles(name))
        }

    def _early_writes(self) -> set[str]:
        """Return writes of a variable that is also used behind the roots.

        No root, and no fetch or target before the roots, depends on these.
        """
        late = {
            handle for name in self.behind for handle in self._handles(name) if handle is not None
        }
        return {
            name
            for name in self.needed - self.behind - self.plain - self.waiting
            if self.graph.node(name).has_trait(WRITES_VARIABLE)
            and late.intersection(self._handles(name))
            and not ((self._descendants([name]) | {name}) - self.behind)
            & (self.kept | self.waiting)
        }

    def _only_behind(self, name: str) -> bool:
        """Return whether all uses of a node are behind the roots."""
        targets = [target for target, _ in self._targets(name)]
        return (
            name not in self.kept
            and bool(targets)
            and all(target in self.behind for target in targets)
        )

    def _sink_small_sources(self) -> None:
        """Move nodes with inputs smaller than their outputs.

        Only nodes with all uses behind the roots move.
        """
        candidates = sorted(self.needed - self.behind - self.plain - self.roots)
        while candidates:
            name = candidates.pop()
            if name in self.behind or name in self.guarded or not self._only_behind(name):
                continue
            if not all(
                source in self.plain or self._may_pass(source, output)
                for source, output in self._sources(name)
            ):
                continue
            node = self.graph.node(name)
            outputs = {output for _, output in self._targets(name) if output != CONTROL}
            inputs = {
                (source, output)
                for source, output in self._sources(name)
                if output != CONTROL
                and source not in self.plain
                and not self._passes(source, output)
            }
            reads = {source for source, _ in inputs if self._reads_for(source, name)}
            moved = sum(
                _bytes(self.graph.node(source), output)
                for source, output in inputs
                if source not in reads
            )
            if moved < sum(_bytes(node, output) for output in outputs):
                self.behind |= {name, *reads}
                candidates.extend(
                    source
                    for source, _ in self._sources(name)
                    if source not in self.plain and source not in self.roots
                )

    def _reads_for(self, source: str, name: str) -> bool:
        """Return whether a read of handles serves one node alone."""
        return (
            source not in self.kept
            and all(used in self.plain for used, _ in self._sources(source))
            and all(target == name or target in self.behind for target, _ in self._targets(source))
        )

    def _passes(self, source: str, output: int) -> bool:
        """Return whether a node behind the roots has this input already."""
        return source in self.behind or any(
            target in self.behind and used == output for target, used in self._targets(source)
        )


def _is_known(node: Node, output: int) -> bool:
    if not node.output_dtypes[output].is_numpy_compatible:
        return True
    shape = node.output_shapes[output]
    return shape is not None and None not in shape


def _leaves_open(node: Node) -> bool:
    return not all(_is_known(node, output) for output in range(len(node.output_dtypes)))


def _bytes(node: Node, output: int) -> int:
    shape = node.output_shapes[output] or ()
    return max(node.output_dtypes[output].base_dtype.size, 1) * prod(
        _UNKNOWN_SIZE if size is None else size for size in shape
    )
