"""Serve feed shapes not seen before by code for symbolic sizes.

A variant is built for one tuple of feed shapes: passes, lowering, builders, layout take a
millisecond a node. A plan that meets a third tuple gets a generic variant in the background. The
passes run for some sample sizes; where they give one structure, every shape in it is a formula of
the *symbols*, the sizes that vary (size_formulas.py). The builders run on formulas
(kernels/ir/symbolic_size.py) and so compute, once, the argument words of a whole *size class*: the
sizes for which they decide alike. A new size then costs the evaluation of the words that depend on
it and of the few constants that do (size_constants.py).

A size class has one step. Its memory is laid out for the largest sizes of the class. An instance is
rebound from one size to the next: its argument blocks get other words.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import cooperative_yield, settings
from tfjit.framework.errors import OpError
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.store import store
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.lowering.lowering import NotStatic, compilable
from tfjit.runtime.plan import upgrades
from tfjit.runtime.plan.plan import FIRST_SHAPES
from tfjit.runtime.plan.size_class import Binding, NotLoaded, SizeClass
from tfjit.runtime.plan.size_constants import SizeGraph
from tfjit.runtime.plan.size_formulas import (
    Ambiguous,
    GenericLowered,
    NotGeneric,
    OtherStructure,
    require_one_structure,
)
from tfjit.runtime.plan.size_samples import LEAST, Shapes, Sizes, SymbolicShapes, mixed
from tfjit.runtime.schedule.kernel_selection import select_kernels
from tfjit.runtime.step.step import Reroute

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.runtime.lowering.lowering import Lowered
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.step.step import StepEnvironment

log = logging.getLogger("tfjit.plan")

MAX_NODES: Final = 3000
"""Largest graph with a generic variant, for the time of its passes."""
MAX_SYMBOLS: Final = 4
MAX_CLASSES: Final = 48
"""Size classes of a plan; the one longest unused is dropped."""
MAX_BINDINGS: Final = 256
"""Bindings that a plan keeps, at most."""
MAX_BOUND_BYTES: Final = 1 << 22
"""Bytes of the words and constants that are kept."""
REPEATS: Final = 100
"""Runs of one size after which it gets an ordinary variant."""
_GENERATIONS: Final = 4
"""Number of builds of a generic variant, each for a wider range."""
_USELESS: Final = 12
"""Size classes after which they must have served several sizes each."""

Submit = Callable[[Callable[[], None]], None]


class GenericVariant:
    """Serve a plan for all sizes of a range."""

    def __init__(
        self, plan: Plan, seen: Sequence[Shapes], submit: Submit, generation: int = 0
    ) -> None:
        """Take the feed shapes met so far.

        Raises NotGeneric where they have no pattern.
        """
        self.plan = plan
        self.pending = upgrades.Job(plan)  # until the variant serves, or gives up
        upgrades.started(self.pending)
        self.reason = ""  # the reason for having no partition
        self.partition: GenericLowered
        self.size_graph: SizeGraph
        self.bounds: list[tuple[int, int]] = []
        self.builds = 0  # number of size classes made
        self._met = list(seen)
        self._missed: list[Shapes] = []
        self._submit = submit
        self._generation = generation
        self._graphs: list[DataflowGraph] = []  # of the samples
        self._shapes = SymbolicShapes(seen)
        self._classes: list[SizeClass] = []
        self._bindings: OrderedDict[Shapes, Binding] = OrderedDict()
        self._bound_bytes = 0
        self._bound_count = 0  # number of bindings made for runs
        self._made = 0  # number of size classes made for them
        self._refused: set[Sizes] = set()
        self._lock = threading.Lock()

    @property
    def classes(self) -> list[SizeClass]:
        """Return the size classes made so far."""
        return list(self._classes)

    def build(self) -> None:
        """Run the passes for the samples.

        Raises NotGeneric, and errors of the passes.
        """
        if not 0 < self._shapes.count <= MAX_SYMBOLS:
            raise NotGeneric(f"{self._shapes.count} sizes vary")
        samples, lowered = self._samples_at_ends()
        known = {d for value in lowered[0].values for d in value.shape} - set(samples[0])
        count = max(1, self._shapes.formulas + 1 - len(samples))
        self._add(samples, lowered, self._shapes.between(samples, known, count))
        try:
            self._compare(samples, lowered)
        except Ambiguous:
            self._add(samples, lowered, self._shapes.between(samples, known, 17))
            self._compare(samples, lowered)

    def _samples_at_ends(self) -> tuple[list[Sizes], list[Lowered]]:
        """Return samples at the ends of the first range with one structure.

        Each comes with its partition. Raises NotGeneric.
        """
        made: dict[Sizes, Lowered] = {}
        ranges = self._shapes.ranges()
        for number, (low, high) in enumerate(ranges):
            samples = list(dict.fromkeys([high, low, *mixed(low, high)]))
            try:
                for sizes in samples:
                    if sizes not in made:
                        made[sizes] = self._lower(sizes)
                    require_one_structure([made[samples[0]], made[sizes]])
            except (OtherStructure, OpError) as why:
                settings.say("executor", "plan %s: not for sizes %s: %s", self.plan.name, low, why)
                if number == len(ranges) - 1:
                    raise
            else:
                break
        return samples, [made[sizes] for sizes in samples]

    def _compare(self, samples: list[Sizes], lowered: list[Lowered]) -> None:
        """Make the generic partition of those of the samples."""
        self.size_graph = self._size_graph(samples)
        select_kernels(lowered[0])  # for the instructions of known sizes
        lowered[0].splits = []
        allowed = {id(i) for i in compilable(lowered[0])}
        compiled = [id(i) in allowed for i in lowered[0].instructions]
        self.partition = GenericLowered(lowered, samples)
        self.bounds = [(min(column), max(column)) for column in zip(*samples)]
        for graph in self._graphs:
            if graph is not lowered[0].graph:
                graph.dissolve()
        self._graphs = [graph for graph in self._graphs if graph is lowered[0].graph]
        for one, is_compiled in zip(self.partition.instructions, compiled, strict=True):
            node = one.instruction.node
            if one.spec is not None and (not is_compiled or node.op == "_Loop"):
                raise NotGeneric(f"{node.name} ({node.op}) is not compiled for all sizes")

    def _add(self, samples: list[Sizes], lowered: list[Lowered], new: list[Sizes]) -> None:
        """Add samples. Raises NotGeneric for one of another structure."""
        for sizes in new:
            if sizes not in samples:
                samples.append(sizes)
                lowered.append(self._lower(sizes))
                require_one_structure([lowered[0], lowered[-1]])

    def _lower(self, sizes: Sizes) -> Lowered:
        """Return the lowered partition of a sample."""
        plan = self.plan
        shapes = self._shapes.shapes(sizes)
        with collection_paused():
            partitions, _ = plan.build(shapes)
        if len(partitions) != 1:
            raise NotGeneric(f"{len(partitions)} partitions")
        self.device = partitions[0].device
        self.backend = plan.session.devices.lookup(self.device).backend
        if not self.backend.lowers:
            raise NotGeneric(f"the {self.backend.name} backend runs node by node")
        self._graphs.append(partitions[0].graph)
        try:
            return plan.lower(partitions[0], shapes)
        except NotStatic as why:
            raise NotGeneric(str(why)) from None

    def _size_graph(self, samples: list[Sizes]) -> SizeGraph:
        """Return the nodes of the run's unoptimised graph that follow from sizes."""
        from tfjit.passes.analysis.shape_inference import shapes_for
        from tfjit.passes.manager.pass_context import PassContext

        plan = self.plan
        spec = plan.spec_of_any_shapes()
        partitions, _ = plan.session.build_partitions(spec, quick=True)
        graph = partitions[0].graph
        context = PassContext(spec, plan.session.pass_options())
        names = {
            node.attrs["index"]: node.name for node in graph.op_nodes() if node.op == "_Arg"
        }
        shapes = []
        for sizes in samples:
            given = {names[k]: s for k, s in enumerate(self._shapes.shapes(sizes)) if k in names}
            shapes.append(shapes_for(graph, context, given))
        return SizeGraph(graph, shapes, samples)

    def environment(self) -> StepEnvironment:
        """Return the environment of its steps."""
        return self.plan.session.step_environment(self.device)

    def check_constant(self, name: str, index: int) -> None:
        """Raise NotGeneric unless a constant can be computed again from sizes."""
        if not self.size_graph.has(name):
            raise NotGeneric(f"constant {name} depends on a size, and on more than sizes")
        for sizes, array in zip(self.partition.samples, self.partition.constants[index]):
            again = self.size_graph.value(name, sizes)
            if again.shape != array.shape or again.tobytes() != array.tobytes():
                raise NotGeneric(f"constant {name} is not the value of its node")

    def prepare(self) -> list[KernelSource]:
        """Make the size classes of the sizes seen; return missing kernels.

        Raises NotGeneric.
        """
        wanted: list[KernelSource] = []
        refused: NotGeneric | None = None
        for sizes in sorted(self._shapes.seen, reverse=True):
            if self._in_range(sizes):
                try:
                    self._class_for(sizes)
                except NotLoaded as why:
                    wanted += why.wanted
                except NotGeneric as why:
                    refused = why
        if refused is not None and not wanted and not self._classes:
            raise refused
        return wanted

    def make_more(self) -> None:
        """Make further size classes around the sizes seen.

        A plan of several symbols has too many of them.
        """
        if self._shapes.count != 1:
            return
        seen = [n for (n,) in self._shapes.seen]
        low, high = self.bounds[0]
        for n in range(max(min(seen) // 2, low), min(2 * max(seen), high) + 1):
            cooperative_yield.yield_interpreter()
            if not self.ready or self.builds >= MAX_CLASSES // 2:
                return
            try:
                self._class_for((n,))
            except NotLoaded as why:
                store.request(why.wanted)
            except NotGeneric as why:
                settings.say("executor", "plan %s: size %s: %s", self.plan.name, n, why)

    def _in_range(self, sizes: Sizes) -> bool:
        return all(low <= n <= high for n, (low, high) in zip(sizes, self.bounds))

    def _known(self, sizes: Sizes) -> Binding | None:
        """Return the binding of a known class for these sizes, or None."""
        with self._lock:
            for number, known in enumerate(self._classes):
                binding = known.bind(sizes)
                if binding is not None:
                    if number > 4:  # the classes in use stay in front
                        del self._classes[number]
                        self._classes.insert(0, known)
                    return binding
        return None

    def _class_for(self, sizes: Sizes) -> Binding:
        """Return the binding for these sizes; make a missing class.

        Raises as SizeClass does.
        """
        self.size_graph.require_alike(sizes)
        binding = self._known(sizes)
        if binding is not None:
            return binding
        with collection_paused():
            made = SizeClass(self, sizes)
        binding = made.bind(sizes)
        if binding is None:
            raise NotGeneric("the guards of a size class refuse its own size")
        settings.say("executor", "plan %s: a size class for %s", self.plan.name, sizes)
        with self._lock:
            self.builds += 1
            self._classes.insert(0, made)
            del self._classes[MAX_CLASSES:]
        return binding

    def run(self, shapes: Shapes, arrays: Sequence[Any]) -> list[Any] | None:
        """Run one step.

        Return None for shapes that the variant does not serve.
        arrays: as `Plan.check` returns them.
        """
        binding = self._bindings.get(shapes)
        if binding is None:
            binding = self._bind(shapes)
            if binding is None:
                return None
        binding.runs += 1
        if binding.runs == REPEATS:
            self.plan.prepare(shapes)
        try:
            return binding.size_class.run(binding, arrays)
        except Reroute:
            return None  # the ordinary variant says so, and runs by the dataflow executor

    def _bind(self, shapes: Shapes) -> Binding | None:
        sizes = self._shapes.sizes(shapes)
        if sizes is None or not self._in_range(sizes):
            self._miss(shapes, sizes)
            return None
        if sizes in self._refused:
            return None
        before = self.builds
        try:
            with self.plan.session.settings():
                binding = self._class_for(sizes)
        except NotLoaded as why:
            store.request(why.wanted)
            return None
        except NotGeneric as why:
            settings.say("executor", "plan %s: sizes %s: %s", self.plan.name, sizes, why)
            if len(self._refused) < MAX_BINDINGS:
                self._refused.add(sizes)
            return None
        with self._lock:
            if shapes not in self._bindings:
                self._bindings[shapes] = binding
                self._bound_bytes += binding.nbytes
                self._bound_count += 1
                self._made += self.builds != before
            while len(self._bindings) > MAX_BINDINGS or (
                self._bound_bytes > MAX_BOUND_BYTES and len(self._bindings) > 1
            ):
                self._bound_bytes -= self._bindings.popitem(last=False)[1].nbytes
            useless = self._made > _USELESS and self._bound_count < 2 * self._made
        if useless and self.ready:
            self.give_up(NotGeneric("the builders decide otherwise for each size"))
        return binding

    def _miss(self, shapes: Shapes, sizes: Sizes | None) -> None:
        """Count feed shapes outside of the range.

        After some, build for a wider range.
        """
        if sizes is not None and any(n < least for n, least in zip(sizes, LEAST)):
            return
        with self._lock:
            if self._generation >= _GENERATIONS or shapes in self._missed:
                return
            self._missed.append(shapes)
            if len(self._missed) < FIRST_SHAPES:
                return
            generation, self._generation = self._generation + 1, _GENERATIONS
        start(self.plan, lambda: [*self._met, *self._missed], self._submit, generation)

    def give_up(self, why: Exception) -> None:
        """Serve no more runs."""
        settings.say("executor", "plan %s: no generic variant: %s", self.plan.name, why)
        self.reason = str(why)
        self.pending.compile_done.set()
        self.release()

    def release(self) -> None:
        """Drop everything that holds memory, and open the reference cycles."""
        self.ready = False
        with self._lock:
            self._classes = []
            self._bindings.clear()
        graphs, self._graphs = self._graphs, []
        for graph in graphs:
            graph.dissolve()

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        release_lock(self._lock)
        for size_class in self._classes:
            size_class.step.after_fork()


def start(
    plan: Plan, seen: Callable[[], Sequence[Shapes]], submit: Submit, generation: int = 0
) -> None:
    """Give a plan a generic variant, in the background.

    seen: returns the feed shapes that the plan has met. submit: queues a job of the background
    thread. The variant serves from the time when its kernels are loaded.
    """

    def build() -> None:
        if plan.session.closed:
            waiting.compile_done.set()
            return
        try:
            made = GenericVariant(plan, seen(), submit, generation)
        except NotGeneric as why:
            waiting.compile_done.set()
            settings.say("executor", "plan %s: no generic variant: %s", plan.name, why)
            return
        waiting.compile_done.set()
        with _guarded(made):
            made.build()
            _finish(made)

    waiting = upgrades.Job(plan)
    upgrades.started(waiting)
    submit(build)


def _finish(made: GenericVariant) -> None:
    """Let a variant serve once its kernels are loaded."""
    missing = made.prepare()
    if missing:
        # Pending code must not keep a session alive.
        found = weakref.ref(made)
        made.plan.pending_generic = made

        def go_on() -> None:
            variant = found()
            if variant is not None:
                variant._submit(lambda: resume(variant))

        def resume(variant: GenericVariant) -> None:
            with _guarded(variant):
                if any(store.refused(source) for source in missing):
                    raise NotGeneric("the compiler refuses a kernel")
                _finish(variant)

        store.when_ready(missing, go_on)
        return
    plan = made.plan
    plan.pending_generic = None
    with made.plan.generic_lock:
        if plan.session.closed:
            made.release()
            made.pending.compile_done.set()
            return
        old, plan.generic = plan.generic, made
        made.ready = True
    made.pending.compile_done.set()
    if old is not None:
        old.release()
    made.make_more()


@contextmanager
def _guarded(made: GenericVariant) -> Iterator[None]:
    """Give up where the block fails: ordinary variants serve all shapes."""
    try:
        yield
    except (NotGeneric, OpError) as why:
        made.give_up(why)
    except Exception as error:  # a bug must not end the thread of all sessions
        if not made.plan.session.closed:
            log.error("plan %s has no generic variant: %s", made.plan.name, error, exc_info=error)
        made.give_up(error)


__all__ = ["FIRST_SHAPES", "MAX_NODES", "GenericVariant", "start"]
