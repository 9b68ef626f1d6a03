"""Serve feed shapes not seen before by code for symbolic sizes.

A variant is built for one tuple of feed shapes: passes, lowering, builders, layout take a
millisecond a node. A plan that meets a third tuple gets a generic variant in the background. The
passes run for some sample sizes (sampled_build.py); where they give one structure, every shape in
it is a formula of the *symbols*, the sizes that vary (size_formulas.py). The builders run on
formulas (kernels/ir/symbolic_size.py) and so compute, once, the argument words of a whole *size
class*: the sizes for which they decide alike. A new size then costs the evaluation of the words
that depend on it and of the few constants that do (size_constants.py).

A size class has one step. Its memory is laid out for the largest sizes of the class. An instance is
rebound from one size to the next: its argument blocks get other words.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from tfjit.framework import cooperative_yield, settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.store import store
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.plan import upgrades
from tfjit.runtime.plan.background import SHARE
from tfjit.runtime.plan.met_shapes import FIRST_SHAPES
from tfjit.runtime.plan.sampled_build import SampledBuild
from tfjit.runtime.plan.size_bindings import MAX_BINDINGS, SizeBindings
from tfjit.runtime.plan.size_class import Binding, NotLoaded, SizeClass
from tfjit.runtime.schedule.compile_cost import Meanwhile, MissingKernel, choose
from tfjit.runtime.sizes.size_constants import SizeGraph
from tfjit.runtime.sizes.size_formulas import GenericLowered, NotGeneric
from tfjit.runtime.sizes.size_samples import LEAST, Shapes, Sizes, SymbolicShapes
from tfjit.runtime.step.step import Reroute
from tfjit.runtime.stored_plans.stored_generic import Storage, StoredGeneric

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.sizes.traced_calls import TracedCalls
    from tfjit.runtime.step.step import StepEnvironment

log = logging.getLogger("tfjit.plan")

MAX_CLASSES: Final = 48
"""Size classes of a plan; the one longest unused is dropped."""
REPEATS: Final = 100
"""Runs of one size after which it gets an ordinary variant."""
_GENERATIONS: Final = 4
"""Number of builds of a generic variant, each for a wider range."""
_USELESS: Final = 12
"""Size classes a symbol, after which each must have served several sizes."""


Covers = Callable[..., list[int] | None]
"""Return None for sizes for which the builders decide otherwise."""


class Submit(Protocol):
    """Queue a job of the background thread."""

    def __call__(self, job: Callable[[], None], share: float = ...) -> None:
        """Queue a job.

        share: of the interpreter's time that the job may take from other threads.
        """


class Restart(Protocol):
    """Give a plan a newer generic variant."""

    def __call__(
        self,
        seen: Callable[[], Sequence[Shapes]],
        submit: Submit,
        generation: int = 0,
        at_once: bool = False,
        restores: bool = True,
    ) -> None:
        """Start it; the arguments are those of `generic_start.start`."""


class GenericVariant:
    """Serve a plan for all sizes of a range."""

    def __init__(
        self,
        plan: Plan,
        seen: Sequence[Shapes],
        submit: Submit,
        restart: Restart,
        generation: int = 0,
    ) -> None:
        """Take the feed shapes met so far.

        restart: gives the plan a generic variant in place of this one. Raises NotGeneric where the
        shapes have no pattern.
        """
        self.plan = plan
        self.pending = upgrades.Job(plan)  # until the variant serves, or gives up
        upgrades.started(self.pending)
        self.ready = False
        self.reason = ""  # the reason for having no partition
        self.partition: GenericLowered
        self.size_graph: SizeGraph
        self.bounds: list[tuple[int, int]] = []
        self.builds = 0  # number of size classes made
        self.met = list(seen)
        self._missed: list[Shapes] = []
        self._submit = submit
        self._restart = restart
        self._generation = generation
        self.is_divided = False  # its groups of refused kernels are divided
        self._graphs: list[DataflowGraph] = []  # of the samples
        self._shapes = SymbolicShapes(seen, plan.has_shifted_sizes)
        self._classes: list[SizeClass] = []
        self._bindings = SizeBindings()
        self._made = 0  # number of size classes made for bindings of runs
        self._refused: set[Sizes] = set()
        self._stored: list[tuple[Covers, TracedCalls]] = []  # classes that a process has stored
        self.storage = Storage(self)
        self._awaited: list[KernelSource] = []  # of the newest size class that could not be made
        self._is_restored = False  # an earlier process has stored it
        self._runs = 0
        self._deferred: list[SizeClass] = []  # their kernels of groups are not requested yet
        self._due_runs = math.inf  # runs that pay for deferred kernels
        self._lock = threading.Lock()

    @property
    def classes(self) -> list[SizeClass]:
        """Return the size classes made so far."""
        return list(self._classes)

    def build(self) -> None:
        """Run the passes for the samples.

        Raises NotGeneric, and errors of the passes.
        """
        before, build = self._graphs, SampledBuild(self.plan, self._shapes)
        try:
            build.run()
        finally:
            self._graphs = [*before, *build.graphs]
            self.is_divided = self.is_divided or build.is_divided
        self.device, self.backend, self.bounds = build.device, build.backend, build.bounds
        self.partition, self.size_graph = build.partition, build.size_graph
        self._graphs = build.graphs
        for graph in before:
            graph.dissolve()

    def restore(self, stored: StoredGeneric, seen: Sequence[Shapes]) -> None:
        """Take the partition and the classes that an earlier process stored.

        seen: feed shapes of this process. Raises NotGeneric and NotLoaded where the newest has no
        class.
        """
        self.device, self.bounds = stored.device, list(stored.bounds)
        self.backend = self.plan.session.devices.lookup(self.device).backend
        self.partition, self.size_graph = stored.partition, stored.size_graph
        self._is_restored = True
        self._stored = [(traced.trace.finish([]), traced) for traced in stored.classes]
        sizes = self._shapes.sizes(seen[-1])
        if sizes is None or not self._in_range(sizes):
            raise NotGeneric("other sizes vary")
        self._class_for(sizes)
        self.met += [shapes for shapes in seen if shapes not in self.met]

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job of the background thread."""
        self._submit(job)

    def found(self) -> StoredGeneric:
        """Return all that a later process needs."""
        made = [one.traced for one in self.classes if not one.wanted]
        classes = [one for one in made if not _is_compiled_otherwise(one)]
        classes += [traced for _, traced in self._stored if traced not in made]
        partition = self.partition.without_samples()
        return StoredGeneric(
            self.met, self.bounds, self.device, partition, self.size_graph, classes
        )

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
        """Make the size class of the newest sizes seen; return missing kernels.

        Raises NotGeneric.
        """
        for sizes in [sizes for sizes in reversed(self._shapes.seen) if self._in_range(sizes)]:
            try:
                self._class_for(sizes)
            except NotLoaded as why:
                return why.wanted
            break
        return []

    def make_more_later(self) -> None:
        """Queue `make_more` once the kernels of groups have arrived.

        Classes made earlier would be made twice, beside runs that need the interpreter.
        """
        # Pending code must not keep a session alive.
        found = weakref.ref(self)

        def go_on() -> None:
            variant = found()
            if variant is not None:
                variant._submit(variant.make_more, SHARE)

        awaited = [one for one in self.classes if one not in self._deferred]
        store.when_ready([source for known in awaited for source in known.wanted], go_on)

    def make_more(self, start: int = 0) -> None:
        """Make one more size class; queue this job again.

        The class is around the sizes seen. One class a job: other upgrades and forks wait for a
        job's end. A plan of several symbols has too many classes. start: the least size to look at.
        """
        if self._shapes.count != 1:
            return
        seen = [n for (n,) in self._shapes.seen]
        low, high = self.bounds[0]
        for n in range(max(min(seen) // 2, low, start), min(2 * max(seen), high) + 1):
            cooperative_yield.yield_interpreter()
            if not self.ready or self.builds >= MAX_CLASSES // 2:
                return
            if any(known.covers((n,)) for known in self.classes):
                continue
            if any(covers(n) is not None for covers, _ in self._stored):
                continue
            try:
                self._class_for((n,))
            except NotLoaded as why:
                store.request(why.wanted)
            except NotGeneric as why:
                settings.say("executor", "plan %s: size %s: %s", self.plan.name, n, why)
            self._submit(functools.partial(self.make_more, n + 1), SHARE)
            return

    def serves(self, shapes: Shapes) -> bool:
        """Return whether runs with these shapes need no ordinary variant yet."""
        binding = self._bindings.get(shapes)
        return self.ready and binding is not None and binding.runs < REPEATS

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
        stored = self._stored_for(sizes)
        with collection_paused():
            made = SizeClass(self, sizes, stored)
        binding = made.bind(sizes)
        if binding is None:
            raise NotGeneric("the guards of a size class refuse its own size")
        if stored is None:
            settings.say("executor", "plan %s: a size class for %s", self.plan.name, sizes)
        with self._lock:
            self.builds += stored is None
            self._classes.insert(0, made)
            del self._classes[MAX_CLASSES:]
        if made.wanted and not self._defers(made):
            self._tier_up(made)
        elif not made.wanted and stored is None and self.ready:
            self.storage.store_later()
        return binding

    def _defers(self, made: SizeClass) -> bool:
        """Defer a size class's kernels of groups if few runs may follow."""
        if self._is_restored:
            return False  # a program that runs again may run often
        share_ns = made.saved_ns / len(made.wanted)
        missing = [MissingKernel(one, share_ns, Meanwhile.MEMBERS) for one in made.wanted]
        choice = choose(missing, self._runs, store.has_compiler())
        if not choice.deferred:
            return False
        with self._lock:
            self._deferred.append(made)
            self._due_runs = min(self._due_runs, choice.runs)
        upgrades.deferred(self)
        return True

    def upgrade(self) -> None:
        """Request deferred kernels; return at once."""
        with self._lock:
            deferred, self._deferred, self._due_runs = self._deferred, [], math.inf
        for made in deferred:
            if made in self.classes:
                self._tier_up(made)

    def _stored_for(self, sizes: Sizes) -> TracedCalls | None:
        """Return the stored calls for these sizes.

        None where a kernel of theirs is refused.
        """
        for covers, traced in self._stored:
            if covers(*sizes) is not None:
                refused = any(store.refused(source) for source in traced.sources())
                return None if refused else traced
        return None

    def _tier_up(self, made: SizeClass) -> None:
        """Replace a size class once the kernels of its groups arrive."""
        # Pending code must not keep a session alive.
        found, before, sizes = weakref.ref(self), weakref.ref(made), made.sizes
        made_wanted = made.wanted
        job = upgrades.Job(self.plan)
        upgrades.started(job)

        def go_on() -> None:
            variant = found()
            if variant is not None:
                variant._submit(again)

        def again() -> None:
            variant, old = found(), before()
            try:
                if variant is not None and old is not None and old in variant.classes:
                    if any(store.refused(source) for source in made_wanted):
                        variant._build_again()
                    else:
                        variant._replace_class(old, sizes)
            finally:
                job.compile_done.set()

        store.when_ready(made.wanted, go_on)

    def _build_again(self) -> None:
        """Build the variant with the groups of refused kernels divided.

        This one serves so far.
        """
        if self.plan.generic is self and not self.plan.session.closed:
            self._restart(lambda: self.met, self._submit, self._generation, True, False)

    def _replace_class(self, old: SizeClass, sizes: Sizes) -> None:
        """Make a size class again of present kernels."""
        try:
            with collection_paused():
                made = SizeClass(self, sizes)
        except (NotGeneric, NotLoaded) as why:
            settings.say("executor", "plan %s: size class %s stays: %s", self.plan.name, sizes, why)
            return
        with self._lock:
            if old in self._classes:
                self._classes[self._classes.index(old)] = made
            self._bindings.drop_class(old)
        self.storage.store_later()

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
        self._runs += 1
        if self._runs >= self._due_runs:
            self.upgrade()
        binding.runs += 1
        if binding.runs == REPEATS and self.plan.specializes:
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
        if not _are_final(self._awaited) and not any(one.covers(sizes) for one in self.classes):
            return None
        before = self.builds
        try:
            with self.plan.session.settings():
                binding = self._class_for(sizes)
        except NotLoaded as why:
            self._awaited = why.wanted
            if not any(store.refused(source) for source in why.wanted):
                store.request(why.wanted)
            elif len(self._refused) < MAX_BINDINGS:
                self._refused.add(sizes)
            return None
        except NotGeneric as why:
            settings.say("executor", "plan %s: sizes %s: %s", self.plan.name, sizes, why)
            if len(self._refused) < MAX_BINDINGS:
                self._refused.add(sizes)
            return None
        with self._lock:
            if self._bindings.add(shapes, binding):
                self._made += self.builds != before
            useless = (
                self._made > _USELESS * self._shapes.count and self._bindings.count < 2 * self._made
            )
        if useless and self.ready:
            self.give_up(NotGeneric("the builders decide otherwise for each size"))
        return binding

    def _miss(self, shapes: Shapes, sizes: Sizes | None) -> None:
        """Count feed shapes outside of the range.

        After some, build for a wider range.
        """
        if sizes is not None and min(sizes) < LEAST:
            return
        with self._lock:
            if self._generation >= _GENERATIONS or shapes in self._missed:
                return
            self._missed.append(shapes)
            if len(self._missed) < FIRST_SHAPES:
                return
            generation, self._generation = self._generation + 1, _GENERATIONS
        self._restart(lambda: [*self.met, *self._missed], self._submit, generation)

    def give_up(self, why: Exception) -> None:
        """Serve no more runs."""
        settings.say("executor", "plan %s: no generic variant: %s", self.plan.name, why)
        self.reason = str(why)
        self.plan.generic_refused = True
        self.pending.compile_done.set()
        self.release()

    def release(self) -> None:
        """Drop everything that holds memory, and open the reference cycles."""
        self.ready = False
        with self._lock:
            self._classes = []
            self._bindings.clear()
            self._stored = []
        graphs, self._graphs = self._graphs, []
        for graph in graphs:
            graph.dissolve()

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        release_lock(self._lock)
        for size_class in self._classes:
            size_class.step.after_fork()


def _are_final(sources: Sequence[KernelSource]) -> bool:
    """Return whether each kernel is loaded or refused."""
    return all(
        store.lookup(source) is not None or store.refused(source) is not None for source in sources
    )


def _is_compiled_otherwise(traced: TracedCalls) -> bool:
    """Return whether kernels have been refused once.

    The next process may compile them.
    """
    return any(source.attempt for source in traced.sources())


__all__ = ["REPEATS", "GenericVariant", "Restart", "Submit"]
