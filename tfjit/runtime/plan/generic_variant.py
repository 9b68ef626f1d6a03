"""Serve feed shapes that a plan has not seen, by code whose sizes are symbols.

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
import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import cooperative_yield, settings
from tfjit.framework.errors import OpError
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.ir.symbolic_size import Size, SizeTrace
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import Launch, NativeCall, Pointer
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.lowering.lowering import NotStatic, compilable, native_call
from tfjit.runtime.plan.size_constants import SizeGraph
from tfjit.runtime.plan.size_formulas import (
    Ambiguous,
    GenericLowered,
    NotGeneric,
    OtherStructure,
    require_one_structure,
)
from tfjit.runtime.schedule.kernel_selection import select_kernels, sources
from tfjit.runtime.step.step import Reroute, Step

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.runtime.lowering.lowering import Lowered
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.step.step import StepEnvironment

log = logging.getLogger("tfjit.plan")

FIRST_SHAPES: Final = 3
"""Number of different tuples of feed shapes after which a plan gets a generic variant."""
MAX_NODES: Final = 3000
"""Largest graph whose passes run for all samples."""
MAX_SYMBOLS: Final = 4
MAX_CLASSES: Final = 48
"""Size classes of a plan; the one longest unused is dropped."""
MAX_BINDINGS: Final = 256
"""Sizes whose words are kept, at most."""
MAX_BOUND_BYTES: Final = 1 << 22
"""Bytes of the words and constants that are kept."""
REPEATS: Final = 100
"""Runs of one size after which it gets a variant of its own."""
_LEAST: Final = (3, 5, 7, 11)
"""Least sample of each symbol.

Sizes of 0 and 1 change what broadcasts, and empty arrays have no launches.
"""

_NARROWER: Final = 2
_GENERATIONS: Final = 4
"""Number of times that a plan's generic variant is built, for wider ranges."""
_USELESS: Final = 12
"""Size classes after which they must have served several sizes each."""

Sizes = tuple[int, ...]
Shapes = tuple[tuple[int, ...], ...]
Submit = Callable[[Callable[[], None]], None]


class NotLoaded(Exception):
    """Signal that kernels of a size class are not compiled yet."""

    def __init__(self, wanted: list[KernelSource]) -> None:
        super().__init__(f"{len(wanted)} kernels")
        self.wanted = wanted


class SymbolicShapes:
    """Name the sizes that vary among feed shapes.

    Dimensions that had one size in each of the tuples share a symbol.
    """

    def __init__(self, seen: Sequence[Shapes]) -> None:
        """Compare tuples of feed shapes. Raises NotGeneric where ranks differ."""
        first = seen[0]
        if any([len(s) for s in shapes] != [len(s) for s in first] for shapes in seen):
            raise NotGeneric("feeds of several ranks")
        self.first = first
        self.symbols: dict[tuple[int, int], int] = {}  # (feed, axis) -> its symbol
        columns: dict[Sizes, int] = {}
        for feed, shape in enumerate(first):
            for axis in range(len(shape)):
                column = tuple(shapes[feed][axis] for shapes in seen)
                if len(set(column)) > 1:
                    symbol = columns.setdefault(column, len(columns))
                    self.symbols[feed, axis] = symbol
        self.count = len(columns)
        self.seen: list[Sizes] = [sizes for shapes in seen if (sizes := self.sizes(shapes))]

    def sizes(self, shapes: Shapes) -> Sizes | None:
        """Return the symbols' sizes in feed shapes, None for shapes of another pattern."""
        found: dict[int, int] = {}
        for feed, (shape, known) in enumerate(zip(shapes, self.first)):
            if len(shape) != len(known):
                return None
            for axis, (size, same) in enumerate(zip(shape, known)):
                symbol = self.symbols.get((feed, axis))
                if symbol is None:
                    if size != same:
                        return None
                elif found.setdefault(symbol, size) != size:
                    return None
        return tuple(found[k] for k in range(self.count))

    def shapes(self, sizes: Sizes) -> Shapes:
        """Return the feed shapes for these sizes."""
        return tuple(
            tuple(
                sizes[self.symbols[feed, axis]] if (feed, axis) in self.symbols else size
                for axis, size in enumerate(shape)
            )
            for feed, shape in enumerate(self.first)
        )

    def corners(self, narrower: int) -> list[Sizes]:
        """Return samples at the ends of the range of the sizes seen.

        narrower: the number of times that the range is halved, on a scale of factors, from below.
        """
        ends = []
        for k in range(self.count):
            seen = [sizes[k] for sizes in self.seen]
            low, high = max(min(seen), _LEAST[k]), max(seen)
            for _ in range(narrower):
                low = math.isqrt(low * high)
            ends.append((low, max(high, low + 8)))
        low, high = (_odd([end[j] for end in ends], j) for j in (0, 1))
        return [low, high, *_mixed(low, high)]

    def between(self, corners: Sequence[Sizes], avoided: set[int], wanted: int) -> list[Sizes]:
        """Return samples between the corners.

        They tell all formulas apart (size_formulas.fit): each symbol has neighbouring sizes, of all
        remainders, and no symbol follows another one. avoided: the graph's own sizes.
        """
        found: list[Sizes] = []
        for j in range(wanted):
            sample: list[int] = []
            for k, column in enumerate(zip(*corners)):
                middle = (min(column) + max(column)) // 2
                n = max(middle + (j * (2 * k + 1) + k) % wanted - wanted // 2, _LEAST[k])
                while n in avoided or n in sample:
                    n += 4
                sample.append(n)
            found.append(tuple(sample))
        return found

    @property
    def formulas(self) -> int:
        """Return the number of coefficients of a formula of sums and products."""
        return 1 + self.count + self.count * (self.count + 1) // 2

    def sizes_in(self, shapes: Sequence[Shapes]) -> list[Sizes]:
        """Return the sizes in those feed shapes that have the pattern."""
        return [sizes for one in shapes if (sizes := self.sizes(one)) is not None]


def _odd(sizes: Sequence[int], up: int) -> Sizes:
    """Return odd sizes near these, all different: sizes of layers are even.

    A sample that equals a size of the graph may show what holds for that size only.
    """
    found: list[int] = []
    for k, n in enumerate(sizes):
        n = max(n | 1 if up else (n - 1) | 1, _LEAST[k])
        while n in found:
            n += 2 if up or n - 2 < _LEAST[k] else -2
        found.append(n)
    return tuple(found)


def _mixed(low: Sizes, high: Sizes) -> list[Sizes]:
    """Return the corners at which one symbol is small or large alone."""
    if len(low) == 1:
        return []
    found = []
    for k in range(len(low)):
        found.append((*low[:k], high[k], *low[k + 1 :]))
        found.append((*high[:k], low[k], *high[k + 1 :]))
    return list(dict.fromkeys(found))


class Binding:
    """Hold the words, arrays and shapes of a size class for one size.

    values: of the words that depend on the size. names: of the host function's globals. kept:
    arrays whose addresses are among the words. runs: a count of its runs.
    """

    __slots__ = ("kept", "names", "runs", "size_class", "values")

    def __init__(
        self,
        size_class: SizeClass,
        values: np.ndarray,
        names: Mapping[str, tuple[int, ...]],
        kept: list[np.ndarray],
    ) -> None:
        self.size_class = size_class
        self.values = values
        self.names = names
        self.kept = kept
        self.runs = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes that the binding keeps."""
        return self.values.nbytes + sum(array.nbytes for array in self.kept) + 1000


class _Instance:
    """An instance of a size class's step, and the binding that its words are for."""

    __slots__ = ("bound", "function", "placement", "scope", "words")

    def __init__(self, step: Step) -> None:
        self.function, self.scope, self.placement = step.make_instance()
        self.words: np.ndarray = self.scope["w"]
        self.bound: Binding | None = None

    def bind(self, binding: Binding, positions: np.ndarray) -> None:
        self.words[positions] = binding.values
        self.scope.update(binding.names)
        self.placement.reshape(binding.names)
        self.bound = binding


class SizeClass:
    """Serve the sizes for which the builders decide as for `sizes`."""

    def __init__(self, generic: GenericVariant, sizes: Sizes) -> None:
        """Run the builders. Raises NotGeneric and NotLoaded."""
        self.sizes = sizes
        partition = generic.partition
        bounds = [
            (max(1 << n.bit_length() - 1, low), min((1 << n.bit_length()) - 1, high))
            for n, (low, high) in zip(sizes, generic.bounds, strict=True)
        ]
        trace = SizeTrace(sizes, bounds)
        self._formulas: list[Size] = []
        calls = self._build_calls(generic, trace)
        shapes = {
            one.value.index: one.shape(trace.symbols)
            for one in partition.values
            if one.shape is not None
        }
        wanted = sources(call for call, _ in calls.values())
        loaded = all(store.lookup(source) is not None for source in wanted)
        if not loaded and not store.load_present(wanted):
            raise NotLoaded(wanted)
        lowered = self._lowered(generic, calls, shapes, tuple(high for _, high in bounds))
        self.step = Step(lowered, generic.environment(), generic.plan.name)
        self.free: list[_Instance] = []
        self._require_native(generic, lowered)
        self._place_words(lowered, calls)
        self._place_names(shapes)
        self._place_constants(generic, lowered)
        self._graph = generic.size_graph if self._constants else None
        self._evaluate = trace.finish(self._formulas)

    def _build_calls(
        self, generic: GenericVariant, trace: SizeTrace
    ) -> dict[int, tuple[NativeCall, NativeCall]]:
        """Return the calls of each instruction: (for the layout, with formulas)."""
        found: dict[int, tuple[NativeCall, NativeCall]] = {}
        for number, one in enumerate(generic.partition.instructions):
            cooperative_yield.yield_interpreter()
            if one.spec is None:
                call = one.instruction.call
                if call is not None:
                    found[number] = call, call
                continue
            symbolic, why = native_call(generic.backend, one.spec(trace.symbols))
            if symbolic is None:
                node = one.instruction.node
                raise NotGeneric(f"{node.name} ({node.op}) has no compiled form: {why}")
            symbolic = replace(symbolic, launches=tuple(map(_settled, symbolic.launches)))
            if trace.pinned:
                node = one.instruction.node
                raise NotGeneric(f"the builder of {node.name} ({node.op}) needs numbers")
            found[number] = _at_trace(symbolic, trace), symbolic
        return found

    def _lowered(
        self,
        generic: GenericVariant,
        calls: Mapping[int, tuple[NativeCall, NativeCall]],
        shapes: Mapping[int, tuple[Any, ...]],
        tops: Sizes,
    ) -> Lowered:
        """Return the partition with room for all sizes of the class."""
        lowered, values = generic.partition.at(tops, {})
        for index, shape in shapes.items():
            values[index].shape = tuple(_greatest(size) for size in shape)
        for number, instruction in enumerate(lowered.instructions):
            instruction.call = calls[number][0] if number in calls else None
        return lowered

    def _require_native(self, generic: GenericVariant, lowered: Lowered) -> None:
        if self.step.needs_context:
            raise NotGeneric("a kernel of the runtime")
        for one, instruction in zip(generic.partition.instructions, lowered.instructions):
            if one.spec is not None and self.step.call(instruction) is None:
                node = instruction.node
                raise NotGeneric(f"{node.name} ({node.op}) runs in Python")

    def _place_words(
        self, lowered: Lowered, calls: Mapping[int, tuple[NativeCall, NativeCall]]
    ) -> None:
        """Find the words with formulas, and the tables of formulas."""
        numbers = {id(i): number for number, i in enumerate(lowered.instructions)}
        self._positions: list[int] = []
        self._tables: list[tuple[int, int, int]] = []  # (first formula or number, length, offset)
        self._table_numbers: list[Size | int] = []
        table_positions: list[int] = []
        chosen: list[tuple[int, Size, list[int]]] = []  # (word, formula of the entry, addresses)
        self._constants: list[tuple[int, int, int]] = []  # (word, value's index, offset)
        varying = {
            id(v) for v in lowered.values if v.root.storage == "const" and v.root.array is not None
        }
        for native_run in self.step.layout.native_runs:
            for owned in (one for owners in native_run.owners for one in owners):
                call, symbolic = calls[numbers[id(owned.instruction)]]
                launch = _same_launch(call, symbolic, owned.launch)
                for k, word in enumerate(launch.words):
                    place = owned.block + 2 + k
                    if isinstance(word, Size):
                        self._positions.append(place)
                        self._formulas.append(word)
                    elif isinstance(word, Pointer) and word.number is not None:
                        assert word.source is not None
                        code = store.lookup(word.source)
                        assert code is not None
                        chosen.append((place, word.number, [code[e] for e in word.entries]))
                    elif isinstance(word, Pointer) and word.kind == "const":
                        table = symbolic.constants[word.index]
                        if table.dtype == object:
                            start = len(self._table_numbers)
                            self._table_numbers += list(table)
                            self._tables.append((start, len(table), word.offset))
                            table_positions.append(place)
                    elif isinstance(word, Pointer) and word.kind == "in":
                        value = owned.instruction.inputs[word.index]
                        if id(value) in varying:
                            self._constants.append((place, value.root.index, word.offset))
        self._chosen = [(len(self._positions) + k, codes) for k, (_, _, codes) in enumerate(chosen)]
        self._positions += [place for place, _, _ in chosen]
        self._formulas += [number for _, number, _ in chosen]
        self._word_count = len(self._positions)
        self._positions += table_positions
        self._formulas += self._table_numbers  # type: ignore[arg-type]

    def _place_names(self, shapes: Mapping[int, tuple[Any, ...]]) -> None:
        """Find the shapes that the host function names."""
        layout = self.step.layout
        names = {f"shape{index}": shape for index, shape in shapes.items()}
        self._names = [(name, shape) for name, shape in names.items() if name in layout.scope]
        self._names += [
            (name, shapes[value.index])
            for name, (_, value) in layout.views.items()
            if value.index in shapes
        ]
        for _, shape in self._names:
            self._formulas += shape

    def _place_constants(self, generic: GenericVariant, lowered: Lowered) -> None:
        """Keep the words that point at constants which depend on sizes."""
        changing = generic.partition.constants
        self._constants = [found for found in self._constants if found[1] in changing]
        self._positions += [place for place, _, _ in self._constants]
        placed = {index for _, index, _ in self._constants}
        scope = self.step.layout.scope
        for value in lowered.values:
            if value.root.index in changing and f"c{value.index}" in scope:
                raise NotGeneric(f"{value.producer} is read by the host function")
        self._producers = {}
        for index in placed:
            name = lowered.values[index].producer
            self._producers[index] = name
            generic.check_constant(name, index)
        self.positions = np.array(self._positions, np.intp)

    def bind(self, sizes: Sizes) -> Binding | None:
        """Return the words for these sizes; None where the builders decide otherwise."""
        try:
            numbers = self._evaluate(*sizes)
        except ZeroDivisionError:  # the guards behind the division say the rest
            return None
        if numbers is None:
            return None
        values = np.empty(len(self.positions), np.int64)
        count = self._word_count
        values[:count] = numbers[:count]
        for place, codes in self._chosen:
            values[place] = codes[numbers[place]]
        kept: list[np.ndarray] = []
        if self._tables:
            entries = np.array(numbers[count : count + len(self._table_numbers)], np.int64)
            kept.append(entries)
            address = entries.ctypes.data
            for start, _, offset in self._tables:
                values[count] = address + 8 * start + offset
                count += 1
        if self._constants:
            assert self._graph is not None
            arrays = {
                index: np.require(self._graph.value(name, sizes), requirements=["C", "A"])
                for index, name in self._producers.items()
            }
            kept += arrays.values()
            for _, index, offset in self._constants:
                values[count] = arrays[index].ctypes.data + offset
                count += 1
        at = self._word_count + len(self._table_numbers)
        names: dict[str, tuple[int, ...]] = {}
        for name, shape in self._names:
            names[name] = tuple(numbers[at : at + len(shape)])
            at += len(shape)
        return Binding(self, values, names, kept)

    def run(self, binding: Binding, arrays: Sequence[np.ndarray]) -> list[Any]:
        """Run one step. Raises Reroute, and the errors of kernels."""
        try:
            instance = self.free.pop()
        except IndexError:
            instance = _Instance(self.step)
        try:
            if instance.bound is not binding:
                instance.bind(binding, self.positions)
            return instance.function(arrays, None)
        finally:
            self.free.append(instance)


def _settled(launch: Launch) -> Launch:
    """Return the launch with numbers where the table executor takes no formula."""
    words = tuple(
        replace(word, offset=int(word.offset))
        if isinstance(word, Pointer) and isinstance(word.offset, Size)
        else word
        for word in launch.words
    )
    return replace(launch, words=words, chunks=int(launch.chunks), cost_ns=_number(launch.cost_ns))


def _at_trace(call: NativeCall, trace: SizeTrace) -> NativeCall:
    """Return the call for the traced size, with scratch buffers for all sizes of the trace."""
    return NativeCall(
        tuple(
            replace(launch, words=tuple(_number(word) for word in launch.words))
            for launch in call.launches
        ),
        call.in_place,
        tuple(_greatest(nbytes) for nbytes in call.temp_bytes),
        tuple(
            np.array([_number(x) for x in array], np.int64) if array.dtype == object else array
            for array in call.constants
        ),
        _number(call.bytes_moved),
        _number(call.flops),
    )


def _number(value: Any) -> Any:
    return value.value if isinstance(value, Size) else value


def _greatest(value: Any) -> int:
    """Return the greatest value of a size in its trace."""
    return value.trace.bounds(value.terms)[1] if isinstance(value, Size) else int(value)


def _same_launch(call: NativeCall, symbolic: NativeCall, launch: Launch) -> Launch:
    number = next(k for k, one in enumerate(call.launches) if one is launch)
    return symbolic.launches[number]


class GenericVariant:
    """Serve a plan for all sizes of a range."""

    def __init__(
        self, plan: Plan, seen: Sequence[Shapes], submit: Submit, generation: int = 0
    ) -> None:
        """Take the feed shapes met so far. Raises NotGeneric where they have no pattern."""
        self.plan = plan
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
        self._served = 0  # number of bindings made for runs
        self._made = 0  # number of size classes made for them
        self._refused: set[Sizes] = set()
        self._lock = threading.Lock()

    def build(self) -> None:
        """Run the passes for the samples. Raises NotGeneric, and errors of the passes."""
        if not 0 < self._shapes.count <= MAX_SYMBOLS:
            raise NotGeneric(f"{self._shapes.count} sizes vary")
        samples: list[Sizes] = []
        lowered: list[Lowered] = []
        for narrower in range(_NARROWER + 1):
            try:
                self._add(samples, lowered, self._shapes.corners(narrower))
            except OtherStructure:
                if narrower == _NARROWER:
                    raise
                samples, lowered = [], []
            else:
                break
        known = {d for value in lowered[0].values for d in value.shape} - set(samples[0])
        count = max(4, self._shapes.formulas + 2 - len(samples))
        self._add(samples, lowered, self._shapes.between(samples, known, count))
        for factor in (4.0, 0.25, 2.0, 0.5):
            self._extend(samples, lowered, factor)
        try:
            self._compare(samples, lowered)
        except Ambiguous:
            self._add(samples, lowered, self._shapes.between(samples, known, 17))
            self._compare(samples, lowered)

    def _compare(self, samples: list[Sizes], lowered: list[Lowered]) -> None:
        """Make the generic partition of those of the samples."""
        self.size_graph = SizeGraph([self._with_shapes(sizes) for sizes in samples], samples)
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

    def _extend(self, samples: list[Sizes], lowered: list[Lowered], factor: float) -> None:
        """Widen the range by a factor, if the passes still give the same structure."""
        low, high = tuple(map(min, zip(*samples))), tuple(map(max, zip(*samples)))
        if factor > 1:
            high = _odd([int(n * factor) for n in high], 1)
        else:
            low = _odd([max(int(n * factor), _LEAST[k]) for k, n in enumerate(low)], 0)
        new = [high if factor > 1 else low, *_mixed(low, high)]
        if new[0] in samples:
            return
        kept = len(samples)
        try:
            self._add(samples, lowered, new)
        except (NotGeneric, OpError) as why:
            settings.say("executor", "plan %s: not for sizes %s: %s", self.plan.name, new, why)
            del samples[kept:], lowered[kept:]

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

    def _with_shapes(self, sizes: Sizes) -> DataflowGraph:
        """Return the run's graph with inferred shapes, and otherwise as the user made it."""
        from tfjit.passes.manager.pass_context import PassContext
        from tfjit.passes.pipeline import run_passes

        plan, shapes = self.plan, self._shapes.shapes(sizes)
        partitions, _ = plan.build(shapes, quick=True)
        context = PassContext(plan.spec(shapes), plan.session.pass_options())
        run_passes(partitions[0].graph, ["infer_shapes"], context)
        return partitions[0].graph

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
        """Make the size classes of the sizes seen. Return the kernels that they wait for.

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
        """Make the size classes around the sizes seen, for a plan of one symbol."""
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
        """Return the binding of a class that serves these sizes, if there is one."""
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
        """Return the binding for these sizes; make a missing class. Raises as SizeClass does."""
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
        """Run one step; return None for shapes that the variant does not serve.

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
        binding = self._known(sizes)
        try:
            if binding is None:
                with self.plan.session.settings():
                    binding = self._class_for(sizes)
                self._made += 1
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
                self._served += 1
            while len(self._bindings) > MAX_BINDINGS or (
                self._bound_bytes > MAX_BOUND_BYTES and len(self._bindings) > 1
            ):
                self._bound_bytes -= self._bindings.popitem(last=False)[1].nbytes
            useless = self._made > _USELESS and self._served < 2 * self._made
        if useless and self.ready:
            self.give_up(NotGeneric("the builders decide otherwise for each size"))
        return binding

    def _miss(self, shapes: Shapes, sizes: Sizes | None) -> None:
        """Count feed shapes outside of the range, and build for a wider one after some."""
        if sizes is not None and any(n < least for n, least in zip(sizes, _LEAST)):
            return
        with self._lock:
            if self._generation >= _GENERATIONS or shapes in self._missed:
                return
            self._missed.append(shapes)
            if len(self._missed) < FIRST_SHAPES:
                return
            generation, self._generation = self._generation + 1, _GENERATIONS
        start(self.plan, [*self._met, *self._missed], self._submit, generation)

    def give_up(self, why: Exception) -> None:
        """Serve no more runs."""
        settings.say("executor", "plan %s: no generic variant: %s", self.plan.name, why)
        self.reason = str(why)
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


def start(plan: Plan, seen: Sequence[Shapes], submit: Submit, generation: int = 0) -> None:
    """Give a plan a generic variant, in the background.

    seen: the feed shapes that the plan has met. submit: queues a job of the background thread. The
    variant serves from the time when its kernels are loaded.
    """

    def build() -> None:
        if plan.session.closed:
            return
        try:
            made = GenericVariant(plan, seen, submit, generation)
        except NotGeneric as why:
            settings.say("executor", "plan %s: no generic variant: %s", plan.name, why)
            return
        with _guarded(made):
            made.build()
            _finish(made)

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
            return
        old, plan.generic = plan.generic, made
        made.ready = True
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


__all__ = ["FIRST_SHAPES", "GenericVariant", "NotLoaded", "SizeClass", "SymbolicShapes", "start"]
