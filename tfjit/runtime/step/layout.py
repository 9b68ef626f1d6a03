"""Lay out a step: arena, argument blocks, tables and native runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.kernels.executor import table_executor, table_executor_ir
from tfjit.kernels.jit.target import available_cpus
from tfjit.kernels.registry import Launch, NativeCall, Pointer, find_initial_state
from tfjit.kernels.source import KernelSource
from tfjit.runtime.kernel_api.kernel_errors import at_node
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.lowering.lowering import SHARDS
from tfjit.runtime.schedule import branch_lowering, horizontal_batching
from tfjit.runtime.schedule.liveness import Liveness
from tfjit.runtime.schedule.loop_parallelization import calls_of
from tfjit.runtime.step.arena import SHARED_BYTES, Arena, Placement
from tfjit.runtime.step.memory_planner import Interval, align, lay_out
from tfjit.runtime.step.shared_packing import SharedPacking

if TYPE_CHECKING:
    from tfjit.runtime.lowering.row_splits import RowSplit, ShardProgram
    from tfjit.runtime.step.step import StepEnvironment

# A native run predicted shorter keeps the GIL: releasing it lets another thread in for a whole
# switch interval.
KEEP_GIL_NS = 10_000.0
STATUS_WORDS = 2


@dataclass(slots=True)
class Patch:
    """Describe a word of the argument blocks that each call fills.

    The word gets an array's data address plus offset. array: name in the generated code.
    """

    array: str
    word: int
    offset: int


@dataclass(frozen=True, slots=True)
class Owned:
    """Describe a launch in the table.

    block: first word of its argument block. chunks: the number of its chunks.
    """

    instruction: Instruction
    launch: Launch
    block: int
    chunks: int


@dataclass(slots=True)
class PlacedShard:
    """Place one shard of a divided run of instructions.

    plan: the shard. layout: the layout of its instructions, all in one native run. words: position
    of its argument blocks among the step's. result: the word that receives the result of its table
    executor call.
    """

    plan: ShardProgram
    layout: Layout
    words: int = 0
    result: int = 0

    @property
    def native_run(self) -> NativeRun:
        """Return the native run of the shard's instructions."""
        return self.layout.native_runs[0]


@dataclass(slots=True)
class NativeRun:
    """Hold consecutive compiled launches.

    rows: (address of code, first word of the argument block, chunks). owners: the launches of each
    row, several for a bundle. instructions: those served here; one with empty outputs may have no
    launch. locked: the variable that the native run locks. end: the position behind its last
    instruction. loops: true if some row may repeat.
    """

    rows: list[tuple[int, int, int]] = field(default_factory=list)
    owners: list[list[Owned]] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    patches: list[Patch] = field(default_factory=list)
    locked: Value | None = None
    cost_ns: float = 0.0
    index: int = 0
    end: int = 0
    loops: bool = False


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
        self._temps: dict[tuple[int, int], Interval] = {}
        self.buffers: dict[int, Interval] = {}  # root value index -> live interval in the arena
        # root value index -> value in newly allocated output memory
        self.fresh: dict[int, Value] = {}
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
        self._last = self.liveness.last
        self._packing = SharedPacking(lowered, self.liveness)
        self._place_buffers()
        # An in-place chain is listed under several values but is one interval.
        # So is a temporary that several instructions share.
        intervals = {id(life): life for life in (*self.buffers.values(), *self._temps.values())}
        self.arena_bytes = lay_out([*intervals.values()])
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

    def _place_buffers(self) -> None:
        """Assign memory to the outputs and temporaries of compiled instructions.

        Liveness is counted in positions of the schedule: the inputs and outputs of a bundle's
        members are alive at the same time.
        """
        fetched_roots = {self.liveness.root(value).index for value in self.lowered.fetches}
        for position, members in enumerate(self.schedule):
            yield_interpreter()
            # intervals of the outputs here: two outputs never share one
            given: list[Interval] = []
            for instruction in members:
                if id(instruction) in self.calls:
                    self._place_outputs(position, instruction, fetched_roots, given)
                    self._place_temps(position, instruction)
            self._packing.passed(members)

    def _place_outputs(
        self,
        position: int,
        instruction: Instruction,
        fetched_roots: set[int],
        given: list[Interval],
    ) -> None:
        for output, value in enumerate(instruction.outputs):
            if value.storage != "buffer" or value.base is not None:
                continue
            value = self.liveness.root(value)
            if value.index in self.buffers or value.index in self.fresh:
                continue
            if value.index in fetched_roots and (value.shape != () or self.lowered.is_shard):
                self.fresh[value.index] = value
                continue
            life = self._reused(position, instruction, output, fetched_roots)
            if life is None or any(life is other for other in given):
                life = Interval(value.spec.nbytes, position, position)
            given.append(life)
            life.last = self._last[value.index]
            self.buffers[value.index] = life

    def _place_temps(self, position: int, instruction: Instruction) -> None:
        call = self.calls[id(instruction)]
        temps = {
            i: Interval(nbytes, position, position) for i, nbytes in enumerate(call.temp_bytes)
        }
        temps |= self._packing.visit(position, instruction, call, temps)
        for i, life in temps.items():
            self._temps[id(instruction), i] = life

    def _reused(
        self, position: int, instruction: Instruction, output: int, fetched_roots: set[int]
    ) -> Interval | None:
        """Return the input buffer that this output may overwrite, or None.

        The input has its last use here, and no other member of the bundle reads it.
        """
        value = instruction.outputs[output]
        for written, index in self.calls[id(instruction)].in_place:
            source = self.liveness.root(instruction.inputs[index])
            life = self.buffers.get(source.index)
            if (
                written == output
                and life is not None
                and self._last[source.index] == position == life.last
                and source.index not in fetched_roots
                and sum(
                    1
                    for member in self.schedule[position]
                    for v in member.inputs
                    if self.liveness.root(v) is source
                )
                == 1
                and align(life.nbytes) >= align(value.spec.nbytes)
            ):
                return life
        return None

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
            if (id(instruction), number) in self._packing.skipped:
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
            arena = self._temps[id(instruction), k].offset
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
                (word, self._temps[id(instruction), pointer.index].offset + pointer.offset)
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

    def _is_cancellable(self, owned: Owned) -> bool:
        """Return whether a cancelled launch may end between two chunks.

        Such a launch writes nothing that outlives the run.
        """
        instruction = owned.instruction
        if instruction.spec.op == SHARDS or any(
            isinstance(w, Pointer) and w.kind == "state" for w in owned.launch.words
        ):
            return False
        roots = [self.liveness.root(value) for value in (*instruction.inputs, *instruction.outputs)]
        written = roots[len(instruction.inputs) :]
        return all(root.storage != "handle" for root in roots) and all(
            root.storage == "buffer" for root in written
        )

    def _native_failure(self, native_run: int, result: int, words: np.ndarray) -> None:
        """Raise the error that a compiled kernel reported.

        result: 1 + row of the native run.
        """
        if result < 0:
            raise cancelled()
        row = result - 1
        owners = self.native_runs[native_run].owners[row]
        failed: list[tuple[Owned, int, int]] = []
        for shard in self.shards.get(id(owners[0].instruction), ()):
            if words[shard.result] < 0:
                words[self.native_runs[native_run].rows[row][1]] = 0
                raise cancelled()
        for one, block in [
            *((one, one.block) for one in owners),
            *self._failed_in_shards(owners[0].instruction, words),
        ]:
            status, detail = int(words[block]), int(words[block + 1])
            words[block] = words[block + 1] = 0
            if status and one.instruction.spec.op != SHARDS:
                failed.append((one, status, detail))
        words[self.native_runs[native_run].rows[row][1]] = 0  # the status of a bundle
        one, status, detail = failed[0]
        name = one.instruction.node.name
        if status not in one.launch.errors:  # failures of several kinds are bits; one is reported
            status &= -status
        if status not in one.launch.errors:
            raise errors.InternalError(
                None, None, f"kernel of {name} stopped with status {status}, detail {detail}"
            )
        kind, message = one.launch.errors[status]
        raise at_node(getattr(errors, kind)(None, None, message.format(detail=detail)), name)

    def _failed_in_shards(
        self, instruction: Instruction, words: np.ndarray
    ) -> list[tuple[Owned, int]]:
        """Return the failed launches of the parallel shards.

        Each is (launch, first word of its argument block). The first failure stops all shards.
        """
        found = []
        for shard in self.shards.get(id(instruction), ()):
            if words[shard.result] > 0:
                found += [
                    (one, shard.words + one.block)
                    for one in shard.native_run.owners[int(words[shard.result]) - 1]
                ]
        return found

    def instance_scope(self) -> dict[str, Any]:
        """Return the globals of one instance.

        The instance has separate argument blocks, tables and views, and an arena unless the session
        lends one.
        """
        scope = dict(self.scope)
        words = np.array(self.words, np.int64)
        views = {
            name: (offset, value.shape, np.dtype(value.dtype.as_numpy_dtype))
            for name, (offset, value) in self.views.items()
        }
        scope["placement"] = placement = Placement(words, self.arena_words, views, scope)
        if not self.shares_arena:
            scope["arena"] = arena = Arena(self.arena_bytes)
            placement.bind(arena)
        address = words.ctypes.data
        for word, block in self.block_words:
            words[word] = address + 8 * block
        pool = self.env.pool() if self.native_runs else None
        ticks_per_ns = table_executor.ticks_per_second() * 1e-9 if pool is not None else 0.0
        scope["w"], scope["constants"], scope["native_failure"] = (
            words,
            self.constants,
            self._native_failure,
        )
        tables = scope["parts"] = [_shard_table(shard, address) for _, shard in self.table_words]
        for (word, _), shard_table in zip(self.table_words, tables, strict=True):
            words[word] = shard_table.words.ctypes.data
        for k, native_run in enumerate(self.native_runs):
            arrays = self.scope[f"arrays{k}"]
            index = {name: i for i, name in enumerate(arrays)}
            table = table_executor.StepTable(
                len(arrays),
                instructions=[
                    (code, address + 8 * block, chunks) for code, block, chunks in native_run.rows
                ],
                patches=[
                    *(
                        (index[patch.array], address + 8 * patch.word, patch.offset)
                        for patch in native_run.patches
                    ),
                    *(
                        (index["flag"], table.cancel_address, 0)
                        for table in tables
                        if "flag" in index
                    ),
                ],
                costs=[
                    int(sum(one.launch.cost_ns for one in owned) * ticks_per_ns)
                    for owned in native_run.owners
                ],
                cancellable=[
                    bool(owned) and all(self._is_cancellable(one) for one in owned)
                    for owned in native_run.owners
                ],
                release_gil=native_run.loops or native_run.cost_ns > KEEP_GIL_NS,
                cancel_array=index.get("flag", -1),
                pool=pool.state_address if pool is not None else 0,
            )
            scope[f"t{k}"] = table.words
        return scope


def _shard_table(shard: PlacedShard, address: int) -> table_executor.StepTable:
    """Return the table that one thread runs.

    address: of the instance's argument blocks.
    """
    blocks = address + 8 * shard.words
    return table_executor.StepTable(
        0, [(code, blocks + 8 * block, chunks) for code, block, chunks in shard.native_run.rows]
    )


def cancelled() -> errors.OpError:
    """Return the error of a cancelled run.

    The cause is the session's closing, a timeout or an interrupt.
    """
    return errors.CancelledError(
        None, None, "Step was cancelled by an explicit call to `Session::Close()`."
    )


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word
