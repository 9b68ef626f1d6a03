"""Lay out a step: arena, argument blocks, tables and native runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.kernels.executor import table_executor_ir
from tfjit.kernels.jit.target import available_cpus
from tfjit.kernels.registry import Launch, NativeCall, Pointer, find_initial_state
from tfjit.kernels.source import KernelSource
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.lowering.lowering import SHARDS
from tfjit.runtime.schedule import branch_lowering, horizontal_batching
from tfjit.runtime.schedule.liveness import Liveness
from tfjit.runtime.schedule.loop_parallelization import calls_of
from tfjit.runtime.step.arena import SHARED_BYTES
from tfjit.runtime.step.buffer_placement import BufferPlacement
from tfjit.runtime.step.native_run import NativeRun, Owned, Patch, PlacedShard

if TYPE_CHECKING:
    from tfjit.runtime.lowering.row_splits import RowSplit
    from tfjit.runtime.step.step import StepEnvironment

STATUS_WORDS = 2


class Layout:
    """Hold the addresses and tables that a step's instances share."""

    def __init__(self, lowered: Lowered, env: StepEnvironment) -> None:
        self.lowered = lowered
        self.env = env
        # id(instruction) -> its compiled code, if any
        self.calls: dict[int, NativeCall] = {}
        # id(instruction) -> the call that its Python kernel runs beside the reference
        self.compared: dict[int, NativeCall] = {}
        self.native_runs: list[NativeRun] = []
        # native runs, and all other instructions with their positions, markers too
        self.segments: list[NativeRun | tuple[int, Instruction]] = []
        self.constants: list[np.ndarray] = []  # kept alive: argument blocks hold their addresses
        self.scope: dict[str, Any] = {}  # names of the generated code that all instances share
        self.words: list[int] = []
        self.arena_words: list[tuple[int, int]] = []  # (word, offset in the arena)
        # (word, first word of the argument block whose address the word holds)
        self.block_words: list[tuple[int, int]] = []
        # name -> (arena offset, value): ndarray views of arena memory
        self.views: dict[str, tuple[int, Value]] = {}
        self._addresses: dict[KernelSource, Mapping[str, int]] = {}
        self._choose()
        self._variables: dict[int, int] = {}  # id(variable) -> its number in generated code
        # id(instruction) -> the shards that the instruction replaces
        self.shards: dict[int, list[PlacedShard]] = {}
        # (word, the shard whose table's address the word holds)
        self.table_words: list[tuple[int, PlacedShard]] = []
        self._jumping = branch_lowering.compiled_constructs(lowered.instructions, self.calls)
        for split in lowered.splits if not env.compares else ():
            self._divide(split)
        lowered = self.lowered
        # The pool itself is not used: a step without compiled code never creates one.
        self._bundle_threads = 1
        if env.bundles and self.calls:
            threads = env.threads if env.threads > 1 else env.inter_op_threads
            self._bundle_threads = min(threads, available_cpus())
        self.schedule = horizontal_batching.plan(
            lowered, self.calls, self._bundle_threads, min(env.threads, self._bundle_threads)
        )
        self.liveness = Liveness(lowered, self.schedule, self.calls)
        self.placement = BufferPlacement(lowered, self.schedule, self.calls, self.liveness)
        self.buffers, self.fresh = self.placement.buffers, self.placement.fresh
        self.arena_bytes = self.placement.arena_bytes
        self._build_segments()

    def _choose(self) -> None:
        """Choose a compiled call for each instruction with loaded code.

        A small group runs member by member until its kernel is loaded.
        """
        for instruction in self.lowered.instructions:
            yield_interpreter()
            for call in (instruction.call, instruction.unfused):
                if call is not None and all(self._is_loaded(source) for source in call.sources()):
                    (self.compared if self.env.compares else self.calls)[id(instruction)] = call
                    break
        # All writers of a value are compiled, or all are Python kernels.
        mixed = {
            i.outputs[0].index
            for i in self.lowered.instructions
            if i.moves and id(i) not in self.calls
        }
        for instruction in self.lowered.instructions if mixed else ():
            if instruction.moves and instruction.outputs[0].index in mixed:
                self.calls.pop(id(instruction), None)

    def _divide(self, split: RowSplit) -> None:
        """Replace a divided run by one instruction, if code is loaded."""
        env = replace(self.env, threads=1, bundles=False)
        if self.env.threads < len(split.shards) or not all(
            self._is_loaded(s) for c in calls_of([split]) if c is not None for s in c.sources()
        ):
            return
        shards = [PlacedShard(plan, Layout(plan.lowered, env)) for plan in split.shards]
        if any(
            len(shard.layout.segments) != 1 or len(shard.layout.native_runs) != 1
            for shard in shards
        ):
            return
        self.lowered = replace(self.lowered, instructions=split.applied(self.lowered.instructions))
        self.shards[id(split.instruction)] = shards
        self.calls[id(split.instruction)] = NativeCall(
            (), temp_bytes=tuple(shard.layout.arena_bytes for shard in shards)
        )

    def _is_loaded(self, source: KernelSource) -> bool:
        if source not in self._addresses:
            found = self.env.addresses(source)
            if found is None:
                return False
            self._addresses[source] = found
        return True

    def is_native(self, instruction: Instruction) -> bool:
        """Return whether the instruction is part of a native run."""
        return id(instruction) in self.calls or id(instruction.construct) in self._jumping

    def _build_segments(self) -> None:
        native_run: NativeRun | None = None
        labels = branch_lowering.Labels()
        for position, members in enumerate(self.schedule):
            instruction = members[0]
            if self._is_coalesced(instruction):
                if native_run is not None:
                    native_run.end = position + 1
            elif self.is_native(instruction):
                locked = instruction.inputs[0] if instruction.locks_variable else None
                if native_run is None or native_run.locked is not None or locked is not None:
                    native_run = NativeRun(index=len(self.native_runs), locked=locked)
                    self.native_runs.append(native_run)
                    self.segments.append(native_run)
                native_run.instructions.extend(members)
                native_run.end = position + 1
                if instruction.role is not None:
                    self._add_jump(native_run, instruction, labels)
                    continue
                if instruction.spec.op == SHARDS:
                    self._add_shards(native_run, instruction)
                    continue
                owned = [self._add_blocks(native_run, member) for member in members]
                if len(members) > 1:
                    self._add_bundle(native_run, owned)
                else:
                    for one in owned[0]:
                        native_run.rows.append((self._code(one.launch), one.block, one.chunks))
                        native_run.owners.append([one])
            else:
                native_run = None
                self.segments.append((position, instruction))

    def _is_coalesced(self, instruction: Instruction) -> bool:
        """Return whether the instruction is a copy from a buffer to itself."""
        if not instruction.moves or id(instruction) not in self.calls:
            return False
        source, target = (
            self.liveness.root(instruction.inputs[0]),
            self.liveness.root(instruction.outputs[0]),
        )
        return source is target

    def _add_jump(
        self, native_run: NativeRun, marker: Instruction, labels: branch_lowering.Labels
    ) -> None:
        """Append the rows of a marker, and direct earlier jumps to it."""
        native_run.loops |= marker.role == "loop"
        for row, target in labels.arrive(marker, len(native_run.rows)):
            native_run.rows[row] = (target, *native_run.rows[row][1:])
        for jump in labels.leave(marker, len(native_run.rows)):
            block = len(self.words)
            self.words.extend((0,) * STATUS_WORDS)
            if jump.test is not None:
                word = len(self.words)
                self.words += (0, *jump.test)
                self._point_at(native_run, word, marker.inputs[0], 0)
            native_run.rows.append((jump.target, block, jump.kind))
            native_run.owners.append([])

    def _code(self, launch: Launch) -> int:
        return self._addresses[launch.source][launch.entry]

    def _add_blocks(self, native_run: NativeRun, instruction: Instruction) -> list[Owned]:
        """Append the argument blocks of an instruction's launches."""
        call = self.calls[id(instruction)]
        self.constants.extend(call.constants)
        owned = []
        for number, launch in enumerate(call.launches):
            yield_interpreter()
            if (id(instruction), number) in self.placement.skipped:
                continue
            block = len(self.words)
            self.words.extend((0,) * STATUS_WORDS)
            for word in launch.words:
                if isinstance(word, Pointer):
                    self._point(native_run, instruction, call, word)
                else:
                    self.words.append(_signed(word))
            chunks = horizontal_batching.chunks_of(launch.chunks, self.env.threads)
            owned.append(Owned(instruction, launch, block, chunks))
            native_run.cost_ns += launch.cost_ns
        return owned

    def _add_bundle(self, native_run: NativeRun, owned: Sequence[Sequence[Owned]]) -> None:
        """Append one row for a bundle of launches.

        `tfjit_bundle` in thread_pool_ir.py describes the layout of its argument block.
        """
        chunks = horizontal_batching.cut(
            [[(one.launch.cost_ns, one.chunks) for one in member] for member in owned],
            self._bundle_threads,
        )
        block = len(self.words)
        place = STATUS_WORDS + len(chunks) + 1
        self.words.extend((0,) * STATUS_WORDS)
        for items in chunks:
            self.words.append(place)
            place += 4 * len(items)
        self.words.append(place)
        for member, launch, chunk, size in (item for items in chunks for item in items):
            one = owned[member][launch]
            self.block_words.append((len(self.words) + 1, one.block))
            self.words += (self._code(one.launch), 0, chunk, size)
        native_run.rows.append((table_executor_ir.load()["tfjit_bundle"], block, len(chunks)))
        native_run.owners.append([one for member in owned for one in member])

    def _add_shards(self, native_run: NativeRun, instruction: Instruction) -> None:
        """Append one row with a chunk for the table of each shard.

        `tfjit_parts` in table_executor_ir.py describes its argument block.
        """
        shards = self.shards[id(instruction)]
        block = len(self.words)
        self.words.extend((0,) * (STATUS_WORDS + 2 * len(shards)))
        for k, shard in enumerate(shards):
            shard.words, shard.result = len(self.words), block + STATUS_WORDS + len(shards) + k
            self.table_words.append((block + STATUS_WORDS + k, shard))
            inner = shard.layout
            arena = self.placement.temps[id(instruction), k].offset
            self.words += inner.words
            self.constants += inner.constants
            self.arena_words += [
                (shard.words + word, arena + offset) for word, offset in inner.arena_words
            ]
            for patch in shard.native_run.patches:
                value, start = shard.plan.place_of(patch.array)
                self._point_at(native_run, shard.words + patch.word, value, start + patch.offset)
        native_run.loops = True
        cost = sum(
            launch.cost_ns
            for shard in shards
            for one in shard.native_run.owners
            for launch in (o.launch for o in one)
        )
        native_run.cost_ns += cost
        launch = Launch(
            KernelSource("", title="parts", module=__name__), (), chunks=len(shards), cost_ns=cost
        )
        native_run.rows.append((table_executor_ir.load()["tfjit_parts"], block, len(shards)))
        native_run.owners.append([Owned(instruction, launch, block, len(shards))])

    def _point(
        self, native_run: NativeRun, instruction: Instruction, call: NativeCall, pointer: Pointer
    ) -> None:
        word = len(self.words)
        self.words.append(0)
        if pointer.kind == "code":
            assert pointer.source is not None
            self.words[word] = self._addresses[pointer.source][pointer.entry]
        elif pointer.kind == "const":
            self.words[word] = call.constants[pointer.index].ctypes.data + pointer.offset
        elif pointer.kind == "temp":
            self.arena_words.append(
                (
                    word,
                    self.placement.temps[id(instruction), pointer.index].offset + pointer.offset,
                )
            )
        elif pointer.kind == "cancel":
            native_run.patches.append(Patch("flag", word, pointer.offset))
            native_run.loops = True
        elif pointer.kind == "state":
            make = find_initial_state(instruction.node.op)
            assert make is not None, f"{instruction.node.op} has no initial state"
            state = self.env.session.node_state(
                instruction.node.name, lambda: make(instruction.spec)
            )
            self.constants.append(state)
            self.words[word] = state.ctypes.data + pointer.offset
        else:
            value = (instruction.inputs if pointer.kind == "in" else instruction.outputs)[
                pointer.index
            ]
            self._point_at(native_run, word, value, pointer.offset)

    def _point_at(self, native_run: NativeRun, word: int, value: Value, offset: int) -> None:
        root = self.liveness.root(value)
        if root.storage == "const":
            assert root.array is not None
            array = np.require(root.array, requirements=["C", "A"])
            self.constants.append(array)
            self.words[word] = array.ctypes.data + offset
        elif root.index in self.buffers:
            self.arena_words.append((word, self.buffers[root.index].offset + offset))
        else:
            native_run.patches.append(Patch(self.name_of(root), word, offset))

    def name_of(self, root: Value) -> str:
        """Return the generated code's name for an array without a planned address."""
        if root.storage == "feed":
            return f"f{root.feed}"
        if root.storage in ("variable", "handle"):
            return self.variable_name(root)
        return f"x{root.index}"

    def variable_name(self, root: Value) -> str:
        """Return the generated code's name for a variable.

        Variables are numbered in the order of first use.
        """
        number = self._variables.setdefault(id(root.variable), len(self._variables))
        self.scope.setdefault(f"var_v{number}", root.variable)
        return f"v{number}"

    @property
    def shares_arena(self) -> bool:
        """Return whether a run borrows its arena from the session."""
        return self.arena_bytes >= SHARED_BYTES


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word
