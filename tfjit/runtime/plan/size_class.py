"""Serve the sizes for which the builders decide alike, by one step.

The builders run once, on formulas (sizes/traced_calls.py). A size class keeps the words of its
step that are formulas, and binds instances of the step to sizes: their argument blocks get the
values of the formulas. The memory of the step is laid out for the largest sizes of the class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.kernels.executor import table_executor
from tfjit.kernels.ir.symbolic_size import Size, SizeTrace, at_most, predicted
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import Launch, NativeCall, Pointer
from tfjit.runtime.schedule.kernel_selection import gain_ns, group_of
from tfjit.runtime.sizes.size_formulas import NotGeneric
from tfjit.runtime.sizes.traced_calls import TracedCalls, is_present, trace_calls
from tfjit.runtime.step.step import Step

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowered import Instruction, Lowered
    from tfjit.runtime.plan.generic_variant import GenericVariant
    from tfjit.runtime.sizes.size_formulas import GenericLowered
    from tfjit.runtime.sizes.size_samples import Sizes
    from tfjit.runtime.step.layout import Layout


class NotLoaded(Exception):
    """Signal that kernels of a size class are not compiled yet."""

    def __init__(self, wanted: list[KernelSource]) -> None:
        super().__init__(f"{len(wanted)} kernels")
        self.wanted = wanted


class Binding:
    """Hold the words, arrays and shapes for one size of each symbol.

    values: of the words that depend on the size. names: of the host function's globals. kept:
    arrays that the words point at. starts: offsets of pointers that depend on the size, into the
    arena and into arrays. runs: a count of its runs.
    """

    __slots__ = ("kept", "names", "runs", "size_class", "sizes", "starts", "values")

    def __init__(
        self,
        size_class: SizeClass,
        sizes: Sizes,
        values: np.ndarray,
        names: Mapping[str, tuple[int, ...]],
        kept: list[np.ndarray],
        starts: np.ndarray,
    ) -> None:
        self.size_class = size_class
        self.starts = starts
        self.sizes = sizes
        self.values = values
        self.names = names
        self.kept = kept
        self.runs = 0

    @property
    def nbytes(self) -> int:
        """Return the bytes that the binding keeps."""
        return self.values.nbytes + sum(array.nbytes for array in self.kept) + 1000


class _Instance:
    """An instance of a step, and the present binding of its words."""

    __slots__ = ("bound", "function", "placement", "scope", "words")

    def __init__(self, step: Step) -> None:
        self.function, self.scope, self.placement = step.make_instance()
        self.words: np.ndarray = self.scope["w"]
        self.bound: Binding | None = None

    def bind(self, binding: Binding, positions: np.ndarray, starts: _Starts) -> None:
        self.words[positions] = binding.values
        self.scope.update(binding.names)
        count = len(starts.arena)
        if count:
            self.placement.move(starts.arena, binding.starts[:count])
        for (number, place), start in zip(starts.patches, binding.starts[count:].tolist()):
            self.scope[f"t{number}"][place] = start
        self.placement.reshape(binding.names)
        self.bound = binding


class _Starts:
    """Find the pointers of a step with offsets that depend on sizes.

    arena: numbers of entries of `layout.arena_words`. patches: (native run, word of its table that
    holds the offset) of each pointer into an array of the run.
    """

    def __init__(self, layout: Layout) -> None:
        self._arena = {word: k for k, (word, _) in enumerate(layout.arena_words)}
        self._patches = {
            patch.word: (number, table_executor.patch_offset_word(k), patch.offset)
            for number, native_run in enumerate(layout.native_runs)
            for k, patch in enumerate(native_run.patches)
        }
        self._layout = layout
        self.arena = np.zeros(0, np.intp)
        self.patches: list[tuple[int, int]] = []
        self._moved: dict[int, Size] = {}

    def add(self, place: int, offset: Size) -> bool:
        """Add the pointer in a word; return False for a fixed address."""
        found = place in self._arena or place in self._patches
        if found:
            self._moved[place] = offset
        return found

    def finish(self) -> list[Size | int]:
        """Return the formulas of `Binding.starts`."""
        in_arena = [place for place in self._moved if place in self._arena]
        in_arrays = [place for place in self._moved if place not in self._arena]
        self.arena = np.array([self._arena[place] for place in in_arena], np.intp)
        self.patches = [self._patches[place][:2] for place in in_arrays]
        laid_out = [self._layout.arena_words[self._arena[place]][1] for place in in_arena]
        laid_out += [self._patches[place][2] for place in in_arrays]
        offsets = [self._moved[place] for place in (*in_arena, *in_arrays)]
        return [
            offset + (start - offset.value) for start, offset in zip(laid_out, offsets, strict=True)
        ]


class SizeClass:
    """Serve the sizes for which the builders decide as for `sizes`."""

    def __init__(
        self, generic: GenericVariant, sizes: Sizes, traced: TracedCalls | None = None
    ) -> None:
        """Make the step of the builders' calls.

        traced: their answers, if they have run before. saved_ns: the time that the wanted kernels
        save in a run, at most. Raises NotGeneric and NotLoaded.
        """
        self.traced = traced = traced or trace_calls(
            generic.partition, generic.backend, generic.bounds, sizes
        )
        self.sizes = sizes
        trace, partition = traced.trace, generic.partition
        self._formulas: list[Size | int] = []
        self.wanted = list(traced.wanted)  # of groups that run member by member meanwhile
        calls = self._pairs(partition)
        shapes = {
            one.value.index: one.shape(trace.symbols)
            for one in partition.values
            if one.shape is not None
        }
        missing = [one for one in traced.sources() if not is_present(one)]
        if missing:
            raise NotLoaded([*missing, *self.wanted])
        tops = tuple(trace.bounds(symbol.terms)[1] for symbol in trace.symbols)
        lowered = self._lowered(generic, calls, shapes, tops)
        groups = [group_of(one.spec) for one in lowered.instructions] if self.wanted else []
        self.saved_ns = sum(gain_ns(lowered.backend, one) for one in groups if one is not None)
        self.step = Step(lowered, generic.environment(), generic.plan.name)
        self.free: list[_Instance] = []
        self._require_native(generic, lowered)
        self._place_words(generic, lowered, calls)
        self._place_names(shapes)
        self._place_constants(generic, lowered)
        self._formulas += self._starts.finish()
        self._graph = generic.size_graph if self._constants else None
        self._evaluate = trace.finish(self._formulas)
        self._sizes_now = trace.present

    def _pairs(self, partition: GenericLowered) -> dict[int, tuple[NativeCall, NativeCall]]:
        """Return the calls of each instruction: (for the layout, with formulas).

        Equal layers share theirs.
        """
        found: dict[int, tuple[NativeCall, NativeCall]] = {}
        shared: dict[int, tuple[NativeCall, NativeCall]] = {}
        for number, call in self.traced.calls.items():
            if partition.instructions[number].spec is None:
                found[number] = call, call
                continue
            if id(call) not in shared:
                shared[id(call)] = _at_trace(call, self.traced.trace), call
            found[number] = shared[id(call)]
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
            values[index].shape = tuple(at_most(size) for size in shape)
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
        self,
        generic: GenericVariant,
        lowered: Lowered,
        calls: Mapping[int, tuple[NativeCall, NativeCall]],
    ) -> None:
        """Find the words with formulas, and the tables of formulas."""
        numbers = {id(i): number for number, i in enumerate(lowered.instructions)}
        self._positions: list[int] = []
        self._tables: list[tuple[int, int, int]] = []  # (first formula or number, length, offset)
        self._table_numbers: list[Size | int] = []
        table_positions: list[int] = []
        chosen: list[tuple[int, Size, list[int]]] = []  # (word, formula of the entry, addresses)
        # (word, value's index, offset)
        self._constants: list[tuple[int, int, Size | int]] = []
        self._starts = _Starts(self.step.layout)
        varying = {
            id(v) for v in lowered.values if v.root.storage == "const" and v.root.array is not None
        }
        for native_run in self.step.layout.native_runs:
            for owned in (one for owners in native_run.owners for one in owners):
                call, symbolic = calls[numbers[id(owned.instruction)]]
                launch = _same_launch(call, symbolic, owned.launch)
                for k, word in enumerate(launch.words):
                    place = owned.block + 2 + k
                    if isinstance(word, Pointer) and isinstance(word.offset, Size):
                        if self._starts.add(place, word.offset):
                            continue
                        index = _constant_read(owned.instruction, word)
                        if index in generic.partition.constants:
                            self._constants.append((place, index, word.offset))
                        else:  # the same array for all sizes
                            moved = self.step.layout.words[place] - word.offset.value
                            self._positions.append(place)
                            self._formulas.append(word.offset + moved)
                    elif isinstance(word, Size):
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
        self._formulas += self._table_numbers

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
        self._formulas += [offset for _, _, offset in self._constants]
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

    def covers(self, sizes: Sizes) -> bool:
        """Return whether the builders decide alike for these sizes."""
        return self._numbers(sizes) is not None

    def _numbers(self, sizes: Sizes) -> list[int] | None:
        try:
            return self._evaluate(*sizes)
        except ZeroDivisionError:  # the guards behind the division say the rest
            return None

    def bind(self, sizes: Sizes) -> Binding | None:
        """Return the words for these sizes; None where the builders decide otherwise."""
        numbers = self._numbers(sizes)
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
        at = self._word_count + len(self._table_numbers)
        names: dict[str, tuple[int, ...]] = {}
        for name, shape in self._names:
            names[name] = tuple(numbers[at : at + len(shape)])
            at += len(shape)
        if self._constants:
            assert self._graph is not None
            arrays = {
                index: np.require(self._graph.value(name, sizes), requirements=["C", "A"])
                for index, name in self._producers.items()
            }
            kept += arrays.values()
            for (_, index, _), offset in zip(self._constants, numbers[at:]):
                values[count] = arrays[index].ctypes.data + offset
                count += 1
            at += len(self._constants)
        starts = np.array(numbers[at:], np.int64)
        return Binding(self, sizes, values, names, kept, starts)

    def run(self, binding: Binding, arrays: Sequence[np.ndarray]) -> list[Any]:
        """Run one step. Raises Reroute, and the errors of kernels."""
        try:
            instance = self.free.pop()
        except IndexError:
            instance = _Instance(self.step)
        try:
            self._sizes_now.sizes = binding.sizes
            if instance.bound is not binding:
                instance.bind(binding, self.positions, self._starts)
            return instance.function(arrays, None)
        finally:
            self.free.append(instance)


def _constant_read(instruction: Instruction, word: Pointer) -> int:
    """Return the index of the constant that a word points into.

    Raises NotGeneric where it points at something else without a planned place.
    """
    if word.kind == "in" and instruction.inputs[word.index].root.storage == "const":
        return instruction.inputs[word.index].root.index
    node = instruction.node
    raise NotGeneric(f"{node.name} ({node.op}) reads a part of its {word.kind}")


def _at_trace(call: NativeCall, trace: SizeTrace) -> NativeCall:
    """Return the call for the traced size.

    Its scratch buffers suffice for all sizes of the trace.
    """
    return NativeCall(
        tuple(
            replace(launch, words=tuple(map(_at_present, launch.words))) for launch in call.launches
        ),
        call.in_place,
        tuple(at_most(nbytes) for nbytes in call.temp_bytes),
        tuple(
            np.array([predicted(x) for x in array], np.int64) if array.dtype == object else array
            for array in call.constants
        ),
        predicted(call.bytes_moved),
        predicted(call.flops),
    )


def _at_present(word: Pointer | Size | int) -> Pointer | int:
    """Return a word of the traced size."""
    if isinstance(word, Pointer):
        return replace(word, offset=predicted(word.offset))
    number: int = predicted(word)
    return number


def _same_launch(call: NativeCall, symbolic: NativeCall, launch: Launch) -> Launch:
    number = next(k for k, one in enumerate(call.launches) if one is launch)
    return symbolic.launches[number]


__all__ = ["Binding", "NotLoaded", "SizeClass"]
