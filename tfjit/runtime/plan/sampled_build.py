"""Build the partition of a generic variant from those of sample sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.errors import OpError
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.store import store
from tfjit.runtime.lowering.lowering import NotStatic, compilable
from tfjit.runtime.schedule.group_division import divide_refused
from tfjit.runtime.schedule.kernel_selection import CallMemo, select_some
from tfjit.runtime.sizes.size_constants import SizeGraph
from tfjit.runtime.sizes.size_formulas import (
    Ambiguous,
    GenericLowered,
    NoFormula,
    NotGeneric,
    OtherStructure,
    require_one_structure,
)
from tfjit.runtime.sizes.size_samples import Sizes, SymbolicShapes, corners

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.runtime.lowering.lowered import Lowered
    from tfjit.runtime.plan.plan import Plan

MAX_SYMBOLS: Final = 4
MAX_SAMPLES: Final = 12
"""Sample sizes after which no narrower range is tried."""


class SampledBuild:
    """Run the passes for samples; find formulas that fit all of them.

    partition, size_graph: over the symbols. bounds: the (least, greatest) size of each symbol.
    device: of the partition. graphs: of the samples; those of the partition once it is built.
    is_divided: groups of refused kernels are divided.
    """

    partition: GenericLowered
    size_graph: SizeGraph
    device: str
    backend: Backend

    def __init__(self, plan: Plan, shapes: SymbolicShapes) -> None:
        self.plan = plan
        self.bounds: list[tuple[int, int]] = []
        self.graphs: list[DataflowGraph] = []
        self.is_divided = False
        self._shapes = shapes

    def run(self) -> None:
        """Run the passes for the samples.

        Raises NotGeneric, and errors of the passes.
        """
        if not 0 < self._shapes.count <= MAX_SYMBOLS:
            raise NotGeneric(f"{self._shapes.count} sizes vary")
        made: dict[Sizes, Lowered] = {}
        ranges = self._shapes.ranges()
        for number, (low, high) in enumerate(ranges):
            try:
                self._build_range(low, high, made)
            except (OtherStructure, NoFormula, OpError) as why:
                settings.say("executor", "plan %s: not for sizes %s: %s", self.plan.name, low, why)
                if number == len(ranges) - 1 or len(made) >= MAX_SAMPLES:
                    raise
            else:
                return

    def _build_range(self, low: Sizes, high: Sizes, made: dict[Sizes, Lowered]) -> None:
        """Run the passes for samples of a range with one structure.

        made: the partitions of samples so far. Raises NotGeneric, and errors of the passes.
        """
        samples = corners(low, high)
        for sizes in samples:
            self._require_alike(samples[0], sizes, made)
        known = {d for value in made[samples[0]].values for d in value.shape} - set(samples[0])
        for wanted in self._shapes.between_counts(len(samples)):
            for sizes in self._shapes.between(samples, known, wanted):
                if sizes not in samples:
                    self._require_alike(samples[0], sizes, made)
                    samples.append(sizes)
            try:
                self._compare(samples, [made[sizes] for sizes in samples])
            except Ambiguous:
                continue
            return
        raise NotGeneric("several formulas fit all samples")

    def _require_alike(self, first: Sizes, sizes: Sizes, made: dict[Sizes, Lowered]) -> None:
        """Lower a sample. Raises OtherStructure where the first one has another."""
        if sizes not in made:
            made[sizes] = self._lower(sizes)
        require_one_structure([made[first], made[sizes]])

    def _compare(self, samples: list[Sizes], lowered: list[Lowered]) -> None:
        """Make the generic partition of those of the samples."""
        allowed = {id(i) for i in compilable(lowered[0])}
        compiled = [id(i) in allowed for i in lowered[0].instructions]
        self.partition = GenericLowered(lowered, samples)
        fixed = [one.instruction for one in self.partition.instructions if one.spec is None]
        select_some(lowered[0], [i for i in fixed if id(i) in allowed])
        self.size_graph = self._size_graph(samples)
        self.bounds = [(min(column), max(column)) for column in zip(*samples)]
        for one, is_compiled in zip(self.partition.instructions, compiled, strict=True):
            node = one.instruction.node
            if one.spec is not None and (not is_compiled or node.op == "_Loop"):
                raise NotGeneric(f"{node.name} ({node.op}) is not compiled for all sizes")
        kept = lowered[0].graph
        for graph in self.graphs:
            if graph is not kept:
                graph.dissolve()
        self.graphs = [graph for graph in self.graphs if graph is kept]

    def _lower(self, sizes: Sizes) -> Lowered:
        """Return the lowered partition of a sample."""
        plan = self.plan
        shapes = self._shapes.shapes(sizes)
        with collection_paused():
            partitions, _ = plan.build(shapes, sampled=True)
        if len(partitions) != 1:
            raise NotGeneric(f"{len(partitions)} partitions")
        self.device = partitions[0].device
        self.backend = plan.session.devices.lookup(self.device).backend
        if not self.backend.lowers:
            raise NotGeneric(f"the {self.backend.name} backend runs node by node")
        self.graphs.append(partitions[0].graph)
        try:
            return self._divided(plan.lower(partitions[0], shapes))
        except NotStatic as why:
            raise NotGeneric(str(why)) from None

    def _divided(self, lowered: Lowered) -> Lowered:
        """Return a sample's partition with the groups of refused kernels divided.

        The texts do not depend on sizes, so the groups of all samples have the same parts.
        """
        if not store.has_refusals():
            return lowered
        select_some(lowered, [i for i in lowered.instructions if i.spec.op == "_Fused"])
        made, _ = divide_refused(lowered, CallMemo(self.backend), store, waits=False)
        self.is_divided = self.is_divided or bool(made.divided)
        return made

    def _size_graph(self, samples: list[Sizes]) -> SizeGraph:
        """Return the nodes of the run's unoptimised graph that follow from sizes."""
        graph, shapes = self.plan.shapes_of_nodes([self._shapes.shapes(s) for s in samples])
        return SizeGraph(graph, shapes, samples)


__all__ = ["SampledBuild"]
