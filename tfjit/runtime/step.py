"""A static partition made runnable: one arena, argument blocks, instruction tables, and a generated straight-line function.

Compiled instructions that follow each other are one *stretch*: one call of the walker (`kernels/walker.py`) over a table of
code addresses and argument blocks. Python kernels stand between stretches. The generated function only fetches what a stretch
needs (fed arrays, variables' buffers, fresh output memory), hands it over and returns the fetched values.

A loop or branch all of whose instructions are compiled is jumps inside a stretch; any other is a `while` or `if` of the generated function,
with stretches and Python kernels inside.

Everything that an address goes into (arena, argument blocks, tables) belongs to an *instance*; concurrent runs of one step each
take an instance from a free list.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.pace import breathe
from tfjit.framework.shape import Shape, format_shape
from tfjit.kernels import walker, walker_ir
from tfjit.kernels.cpu_features import available_cpus
from tfjit.kernels.intraop import IntraOpPool
from tfjit.kernels.registry import Launch, NativeCall, Pointer, find_initial_state
from tfjit.kernels.source import KernelSource, Source
from tfjit.runtime import bundles, jumps
from tfjit.runtime.arena import SHARED_BYTES, Arena, ArenaPool, Placement
from tfjit.runtime.device import Device
from tfjit.runtime.forking import release_lock
from tfjit.runtime.interrupts import unwatched, watched
from tfjit.runtime.kernel_errors import at_node, kernel_error
from tfjit.runtime.lifetimes import Lifetimes
from tfjit.runtime.lowering import ASSIGNMENTS, ATOMIC, Instruction, Lowered, Value
from tfjit.runtime.memory import RECYCLE_BYTES, Interval, OutputRecycler, align, lay_out
from tfjit.runtime.op_kernel import OpContext, StepContext
from tfjit.runtime.resources import BUFFERS, SessionState

KEEP_GIL_NS = 10_000.0  # a stretch predicted shorter keeps the GIL: releasing it lets another thread in for a whole switch interval
STATUS_WORDS = 2


class Reroute(Exception):
    """The step's assumptions do not hold for this run (a variable changed its shape); the dataflow executor must run it."""


@dataclass(frozen=True, slots=True)
class StepEnvironment:
    """What a step needs from its session. addresses: compiled entries of a source, or None.

    threads: intra-op threads. pool: makes them, machine code included, so a step without compiled code does not ask for it.
    bundles: whether launches that do not depend on each other may run at the same time. compiles: whether new code may be compiled.
    """

    device: Device
    session: SessionState
    pool: Callable[[], IntraOpPool | None]
    threads: int
    recycler: OutputRecycler
    arenas: ArenaPool
    addresses: Callable[[KernelSource], Mapping[str, int] | None]
    bundles: bool = True
    compiles: bool = True


@dataclass(slots=True)
class _Patch:
    """A word of the argument blocks that gets an array's data address plus offset at each call. array: name in the generated code."""

    array: str
    word: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Owned:
    """A launch in the table. block: first word of its argument block; chunks: into how many it is cut."""

    instruction: Instruction
    launch: Launch
    block: int
    chunks: int


@dataclass(slots=True)
class _Stretch:
    """Consecutive compiled launches. rows: (address of code, first word of the argument block, chunks).

    owners: for each row the launches it runs, several of a bundle. instructions: those served here; one with empty outputs may have no
    launch. locked: the variable whose lock the stretch holds. end: the position behind its last slot. loops: whether something repeats.
    """

    rows: list[tuple[int, int, int]] = field(default_factory=list)
    owners: list[list[_Owned]] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    patches: list[_Patch] = field(default_factory=list)
    locked: Value | None = None
    cost_ns: float = 0.0
    index: int = 0
    end: int = 0
    loops: bool = False


class Step:
    """A runnable static partition.

    native: whether any instruction is served by compiled code.
    needs_context: whether `run` must be given one. `run` is safe to call from several threads.
    """

    def __init__(self, lowered: Lowered, env: StepEnvironment, name: str) -> None:
        self._lowered = lowered
        self._env = env
        self._name = name
        self.free: list[Callable[[Sequence[np.ndarray], StepContext | None], list[Any]]] = []
        self._lock = threading.Lock()
        self._layout = _Layout(lowered, env)
        self.native = bool(self._layout.stretches)
        # a loop looks at the run's cancellation
        self.needs_context = lowered.has_loops or any(i.serving == "runtime" and self.call(i) is None for i in lowered.instructions)
        self._walk = walker.get() if self.native else None
        self.arena_bytes = self._layout.arena_bytes
        self._text = self._layout.generate()
        filename = f"<tfjit step {name}>"
        linecache.cache[filename] = (len(self._text), None, self._text.splitlines(keepends=True), filename)
        self._code = compile(self._text, filename, "exec")

    @property
    def text(self) -> str:
        """The generated function, for dumps and explanations."""
        return self._text

    def serving(self, instruction: Instruction) -> str:
        """How this step serves an instruction: "native" or what its lowering says."""
        if instruction.role is not None:
            return "native" if self._layout.is_native(instruction) else "Python"
        return "native" if self.call(instruction) is not None else instruction.serving

    @property
    def bundles(self) -> list[tuple[Instruction, ...]]:
        """Instructions that run at the same time."""
        return [members for members in self._layout.slots if len(members) > 1]

    @property
    def layout(self) -> _Layout:
        """Where everything lies, for measurements."""
        return self._layout

    @property
    def output_bytes(self) -> int:
        """Memory of fetched arrays that compiled code writes."""
        return sum(value.spec.nbytes for value in self._layout.fresh.values())

    @property
    def own_bytes(self) -> int:
        """Memory that goes with the step: argument blocks, and arenas that it does not share."""
        arena = 0 if self._layout.shares_arena else self.arena_bytes
        return (arena + 16 * len(self._layout.words)) * max(len(self.free), 1)

    @property
    def constant_bytes(self) -> int:
        """Constants at hand for compiled code, packed weights among them; each once."""
        return sum(array.nbytes for array in {id(a): a for a in self._layout.constants}.values())

    def call(self, instruction: Instruction) -> NativeCall | None:
        """The compiled code that serves an instruction here; None where a Python kernel does."""
        return self._layout.calls.get(id(instruction))

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)

    def run(self, feeds: Sequence[np.ndarray], context: StepContext | None = None) -> list[Any]:
        """One run. feeds: C-contiguous arrays of the planned dtypes and shapes, by _Arg index. Returns the fetched values."""
        instance = self.instance()
        try:
            return instance(feeds, context)
        finally:
            self.free.append(instance)

    def instance(self) -> Callable[[Sequence[np.ndarray], StepContext | None], list[Any]]:
        """A free instance or a new one, for one run; the caller appends it to `free` afterwards."""
        try:
            return self.free.pop()
        except IndexError:
            pass
        with self._lock:
            scope = self._layout.instance_scope()
        scope["walk"] = self._walk
        exec(self._code, scope)
        # neither stays among its functions' globals, where it would close a ring: an instance goes when it is let go of
        make, placement = scope.pop("make"), scope.pop("placement")
        step: Callable[[Sequence[np.ndarray], StepContext | None], list[Any]] = make(placement)
        return step


class _Layout:
    """Where everything of a step lies; shared by its instances."""

    def __init__(self, lowered: Lowered, env: StepEnvironment) -> None:
        self.lowered = lowered
        self.env = env
        self.calls: dict[int, NativeCall] = {}  # id(instruction) -> what serves it, where that is compiled code
        self.stretches: list[_Stretch] = []
        self.segments: list[_Stretch | tuple[int, Instruction]] = []  # what is not in a stretch by its slot, markers too
        self.constants: list[np.ndarray] = []  # kept alive: argument blocks hold their addresses
        self.scope: dict[str, Any] = {}  # names of the generated code that all instances share
        self.words: list[int] = []
        self.arena_words: list[tuple[int, int]] = []  # (word, offset in the arena)
        self.block_words: list[tuple[int, int]] = []  # (word, first word of the argument block whose address it holds)
        self.views: dict[str, tuple[int, Value]] = {}  # name -> (arena offset, value): ndarray views of arena memory
        self._temps: dict[tuple[int, int], Interval] = {}
        self._buffers: dict[int, Interval] = {}  # root value index -> life in the arena
        self.fresh: dict[int, Value] = {}  # root value index -> value in newly made output memory
        self._addresses: dict[KernelSource, Mapping[str, int]] = {}
        self._moved = False  # while code is generated: a Python kernel may have given a variable another buffer
        self._cases: list[tuple[str, int]] = []  # while code is generated, of each branch that is open: its number's name, the case
        self._choose()
        self._jumping = jumps.compiled_constructs(lowered.instructions, self.calls)
        # without the pool itself, which a step that has no compiled code never makes
        self._bundle_threads = min(env.threads, available_cpus()) if env.bundles and self.calls else 1
        self.slots = bundles.plan(lowered, self.calls, self._bundle_threads)
        self.lives = Lifetimes(lowered, self.slots, self.calls)
        self._last = self.lives.last
        self._place_buffers()
        # in-place chains stand under several values but are one interval
        lives = {id(life): life for life in self._buffers.values()}
        self.arena_bytes = lay_out([*lives.values(), *self._temps.values()])
        self._build_segments()

    def _choose(self) -> None:
        """Native where every piece of code the call needs is compiled; a small group one by one while its own kernel is not there."""
        for instruction in self.lowered.instructions:
            breathe()
            for call in (instruction.call, instruction.one_by_one):
                if call is not None and all(self._is_loaded(source) for source in call.sources()):
                    self.calls[id(instruction)] = call
                    break
        # a value that several instructions write is all theirs or all Python's
        mixed = {i.outputs[0].index for i in self.lowered.instructions if i.moves and id(i) not in self.calls}
        for instruction in self.lowered.instructions if mixed else ():
            if instruction.moves and instruction.outputs[0].index in mixed:
                self.calls.pop(id(instruction), None)

    def _is_loaded(self, source: KernelSource) -> bool:
        if source not in self._addresses:
            found = self.env.addresses(source)
            if found is None:
                return False
            self._addresses[source] = found
        return True

    def is_native(self, instruction: Instruction) -> bool:
        """Whether a stretch has it."""
        return id(instruction) in self.calls or id(instruction.construct) in self._jumping

    def _place_buffers(self) -> None:
        """Lives are counted in slots: what the members of a bundle read and write is alive at the same time."""
        fetched_roots = {self.lives.root(value).index for value in self.lowered.fetches}
        for position, members in enumerate(self.slots):
            breathe()
            given: list[Interval] = []  # to outputs of this slot: two of them never share
            for instruction in members:
                if id(instruction) in self.calls:
                    self._place_outputs(position, instruction, fetched_roots, given)

    def _place_outputs(self, position: int, instruction: Instruction, fetched_roots: set[int], given: list[Interval]) -> None:
        for slot, value in enumerate(instruction.outputs):
            if value.storage != "buffer" or value.base is not None:
                continue
            value = self.lives.root(value)
            if value.index in self._buffers or value.index in self.fresh:
                continue
            if value.index in fetched_roots and value.shape != ():
                self.fresh[value.index] = value
                continue
            life = self._reused(position, instruction, slot, fetched_roots)
            if life is None or any(life is other for other in given):
                life = Interval(value.spec.nbytes, position, position)
            given.append(life)
            life.last = self._last[value.index]
            self._buffers[value.index] = life
        for i, nbytes in enumerate(self.calls[id(instruction)].temp_bytes):
            self._temps[id(instruction), i] = Interval(nbytes, position, position)

    def _reused(self, position: int, instruction: Instruction, slot: int, fetched_roots: set[int]) -> Interval | None:
        """The buffer of an input that dies here, that no other member of the bundle reads, and that this output may be written over; or
        None."""
        value = instruction.outputs[slot]
        for output, index in self.calls[id(instruction)].in_place:
            source = self.lives.root(instruction.inputs[index])
            life = self._buffers.get(source.index)
            if (
                output == slot
                and life is not None
                and self._last[source.index] == position == life.last
                and source.index not in fetched_roots
                and sum(1 for member in self.slots[position] for v in member.inputs if self.lives.root(v) is source) == 1
                and align(life.nbytes) >= align(value.spec.nbytes)
            ):
                return life
        return None

    def _build_segments(self) -> None:
        stretch: _Stretch | None = None
        labels = jumps.Labels()
        for position, members in enumerate(self.slots):
            instruction = members[0]
            if self._goes_away(instruction):
                if stretch is not None:
                    stretch.end = position + 1
            elif self.is_native(instruction):
                locked = instruction.inputs[0] if instruction.node.op in ATOMIC else None
                if stretch is None or stretch.locked is not None or locked is not None:
                    stretch = _Stretch(index=len(self.stretches), locked=locked)
                    self.stretches.append(stretch)
                    self.segments.append(stretch)
                stretch.instructions.extend(members)
                stretch.end = position + 1
                if instruction.role is not None:
                    self._add_jump(stretch, instruction, labels)
                    continue
                owned = [self._add_blocks(stretch, member) for member in members]
                if len(members) > 1:
                    self._add_bundle(stretch, owned)
                else:
                    for one in owned[0]:
                        stretch.rows.append((self._code(one.launch), one.block, one.chunks))
                        stretch.owners.append([one])
            else:
                stretch = None
                self.segments.append((position, instruction))

    def _goes_away(self, instruction: Instruction) -> bool:
        """Whether it is a copy from a buffer to itself."""
        if not instruction.moves or id(instruction) not in self.calls:
            return False
        source, target = self.lives.root(instruction.inputs[0]), self.lives.root(instruction.outputs[0])
        return source is target

    def _add_jump(self, stretch: _Stretch, marker: Instruction, labels: jumps.Labels) -> None:
        """What a marker of a loop or branch becomes, and where earlier jumps go that were to come here."""
        stretch.loops |= marker.role == "loop"
        for row, target in labels.arrive(marker, len(stretch.rows)):
            stretch.rows[row] = (target, *stretch.rows[row][1:])
        for jump in labels.leave(marker, len(stretch.rows)):
            block = len(self.words)
            self.words.extend((0,) * STATUS_WORDS)
            if jump.test is not None:
                word = len(self.words)
                self.words += (0, *jump.test)
                self._point_at(stretch, word, marker.inputs[0], 0)
            stretch.rows.append((jump.target, block, jump.kind))
            stretch.owners.append([])

    def _code(self, launch: Launch) -> int:
        return self._addresses[launch.source][launch.entry]

    def _add_blocks(self, stretch: _Stretch, instruction: Instruction) -> list[_Owned]:
        """The argument blocks of an instruction's launches."""
        call = self.calls[id(instruction)]
        self.constants.extend(call.constants)
        owned = []
        for launch in call.launches:
            breathe()
            block = len(self.words)
            self.words.extend((0,) * STATUS_WORDS)
            for word in launch.words:
                if isinstance(word, Pointer):
                    self._point(stretch, instruction, call, word)
                else:
                    self.words.append(_signed(word))
            chunks = bundles.chunks_of(launch.chunks, self.env.threads)
            owned.append(_Owned(instruction, launch, block, chunks))
            stretch.cost_ns += launch.cost_ns
        return owned

    def _add_bundle(self, stretch: _Stretch, owned: Sequence[Sequence[_Owned]]) -> None:
        """One row for all of them; `tfjit_bundle` in walker_ir.py says how its argument block is laid out."""
        chunks = bundles.cut([[(one.launch.cost_ns, one.chunks) for one in member] for member in owned], self._bundle_threads)
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
        stretch.rows.append((walker_ir.load()["tfjit_bundle"], block, len(chunks)))
        stretch.owners.append([one for member in owned for one in member])

    def _point(self, stretch: _Stretch, instruction: Instruction, call: NativeCall, pointer: Pointer) -> None:
        word = len(self.words)
        self.words.append(0)
        if pointer.kind == "code":
            assert pointer.source is not None
            self.words[word] = self._addresses[pointer.source][pointer.entry]
        elif pointer.kind == "const":
            self.words[word] = call.constants[pointer.index].ctypes.data + pointer.offset
        elif pointer.kind == "temp":
            self.arena_words.append((word, self._temps[id(instruction), pointer.index].offset + pointer.offset))
        elif pointer.kind == "cancel":
            stretch.patches.append(_Patch("flag", word, pointer.offset))
            stretch.loops = True
        elif pointer.kind == "state":
            make = find_initial_state(instruction.node.op)
            assert make is not None, f"{instruction.node.op} has no initial state"
            state = self.env.session.node_state(instruction.node.name, lambda: make(instruction.spec))
            self.constants.append(state)
            self.words[word] = state.ctypes.data + pointer.offset
        else:
            value = (instruction.inputs if pointer.kind == "in" else instruction.outputs)[pointer.index]
            self._point_at(stretch, word, value, pointer.offset)

    def _point_at(self, stretch: _Stretch, word: int, value: Value, offset: int) -> None:
        root = self.lives.root(value)
        if root.storage == "const":
            assert root.array is not None
            array = np.require(root.array, requirements=["C", "A"])
            self.constants.append(array)
            self.words[word] = array.ctypes.data + offset
        elif root.index in self._buffers:
            self.arena_words.append((word, self._buffers[root.index].offset + offset))
        else:
            stretch.patches.append(_Patch(self.name_of(root), word, offset))

    def name_of(self, root: Value) -> str:
        """The generated code's name for an array that is not at a planned address."""
        if root.storage == "feed":
            return f"f{root.feed}"
        if root.storage in ("variable", "handle"):
            return self._variable_name(root)
        return f"x{root.index}"

    def _variable_name(self, root: Value) -> str:
        name = f"v{id(root.variable)}"
        self.scope.setdefault(f"var_{name}", root.variable)
        return name

    def generate(self) -> str:
        """The text of `make(placement)`, which returns the instance's step function."""
        source = Source()
        variables = self._variables()
        with source.block("def make(placement):"):
            if variables:
                source.line(f"seen = {' = '.join(variables)} = None")
            with source.block("def step(feeds, context):"):
                self._emit_step(source, variables)
            if self.shares_arena:
                self._emit_lease(source)
            source.line(f"return {'leased' if self.shares_arena else 'step'}")
        return source.text()

    @property
    def shares_arena(self) -> bool:
        """Whether a run borrows its arena from the session."""
        return self.arena_bytes >= SHARED_BYTES

    def _emit_lease(self, source: Source) -> None:
        arenas = self.env.arenas
        self.scope["lend"], self.scope["take_back"], self.scope["bind"] = arenas.lend, arenas.take_back, arenas.bind
        with source.block("def leased(feeds, context):"):
            source.line(f"arena = lend({self.arena_bytes})")
            with source.block("try:"):
                source.line("if arena.address != placement.address: bind(placement, arena)")
                source.line("return step(feeds, context)")
            with source.block("finally:"):
                source.line("take_back(arena)")

    def _emit_step(self, source: Source, variables: Mapping[str, tuple[Value, bool]]) -> None:
        if variables:
            source.line(f"nonlocal seen, {', '.join(variables)}")
        self._emit_feeds(source)
        self._emit_variable_checks(source, variables)
        known: set[str] = set()  # variables whose buffer the code has at hand
        self._moved = False
        made: set[int] = set()
        dying = self._python_made()
        for segment in self.segments:
            if isinstance(segment, _Stretch):
                self._emit_stretch(source, segment, known, made)
                position = segment.end
            else:
                if segment[1].role is not None:
                    self._emit_marker(source, *segment, known, made)
                else:
                    self._emit_python(source, *segment, known)
                position = segment[0] + 1
            self._emit_release(source, position, dying)
        self._emit_return(source, known)

    def _python_made(self) -> list[tuple[int, str]]:
        """(last use, name in the generated code) of every array that a Python kernel makes, the first to die at the end."""
        found: set[tuple[int, str]] = set()
        for instruction in self.lowered.instructions:
            if not self.is_native(instruction):
                made = (v for v in instruction.outputs if v.storage in ("object", "buffer") and v.base is None)
                found.update((self._last[v.index], f"x{v.index}") for v in made)
        return sorted(found, reverse=True)

    def _emit_release(self, source: Source, position: int, dying: list[tuple[int, str]]) -> None:
        """Let go of what no slot from `position` on reads: a first run would hold every intermediate array to its end."""
        names = []
        while dying and dying[-1][0] < position:
            names.append(dying.pop()[1])
        if names:
            source.line(f"del {', '.join(names)}")

    def _emit_feeds(self, source: Source) -> None:
        count = self.lowered.feed_count
        if count:
            source.line(", ".join(f"f{i}" for i in range(count)) + ("," if count == 1 else "") + " = feeds")

    def _variables(self) -> dict[str, tuple[Value, bool]]:
        """By name in the generated code: a value of each variable of the step, and whether compiled code assigns it."""
        found: dict[str, tuple[Value, bool]] = {}
        for instruction in self.lowered.instructions:
            if self.is_native(instruction) and instruction.node.op in ASSIGNMENTS:
                found[self._variable_name(instruction.inputs[0])] = (instruction.inputs[0], True)
        roots = [value.root for instruction in self.lowered.instructions for value in instruction.inputs]
        roots += [value.root for value in self.lowered.fetches if value.root.storage == "variable"]
        for root in roots:
            if root.storage in ("variable", "handle"):
                found.setdefault(self._variable_name(root), (root, False))
        return found

    def _emit_variable_checks(self, source: Source, variables: Mapping[str, tuple[Value, bool]]) -> None:
        """Before anything has an effect: a variable that is not of the planned shape sends the run to the dataflow executor, and so does
        one without a buffer that compiled code would assign.

        Only looked at again when some variable has another array than in the instance's last run. seen is None while one has none.
        """
        if not variables:
            return
        conditional = self._conditional_variables()
        self.scope["reroute"], self.scope["buffers"] = _reroute, BUFFERS
        source.line("now = buffers[0]")
        with source.block("if now != seen:"):
            source.line("seen = None")
            for name, (value, assigned) in variables.items():
                shape = f"shape{value.index}"
                self.scope[shape] = value.shape
                source.line(f"{name} = var_{name}.value")
                test = f"{name} is None or" if assigned or name in conditional else f"{name} is not None and"
                source.line(f"if {test} {name}.shape != {shape}: reroute(var_{name}, {shape})")
                source.line(f"if {name} is None: now = None")
            source.line("seen = now")

    def _conditional_variables(self) -> set[str]:
        """Those that only stretches' loops and branches use: whether they need a value only the dataflow executor finds out."""
        always: set[str] = set()
        sometimes: set[str] = set()
        for instruction in self.lowered.instructions:
            names = [self._variable_name(v.root) for v in instruction.inputs if v.root.storage in ("variable", "handle")]
            (sometimes if self.is_native(instruction) and instruction.construct is not None else always).update(names)
        return sometimes - always

    def _emit_variable(self, source: Source, value: Value, known: set[str], reader: str = "") -> str:
        """The name of the variable's buffer, fetched anew when something may have assigned it since the last look.

        reader: the node that takes the variable itself, for the error when there is no value.
        """
        name = self._variable_name(value)
        if name not in known:
            known.add(name)
            self.scope["uninitialized"] = _uninitialized
            if self._moved:
                source.line(f"{name} = var_{name}.value")
            node = value.producer if value.storage == "variable" else reader or value.producer
            source.line(f"if {name} is None: uninitialized(var_{name}, {node!r})")
        return name

    def _emit_stretch(self, source: Source, stretch: _Stretch, known: set[str], made: set[int]) -> None:
        arrays: list[str] = []
        for instruction in stretch.instructions:
            self._emit_outputs(source, instruction, made)
        self._emit_stretch_variables(source, stretch, known)
        for patch in stretch.patches:
            if patch.array not in arrays:
                arrays.append(patch.array)
        k = stretch.index
        if stretch.loops and "flag" not in arrays:
            arrays.append("flag")
        self.scope[f"arrays{k}"] = arrays
        call = ", ".join([f"t{k}", *arrays])
        if stretch.loops:
            self._emit_looping_walk(source, stretch, call)
        elif stretch.locked is not None:  # other runs of this and other plans may add to the variable too
            lock = f"lock_{self._variable_name(stretch.locked)}"
            assert stretch.locked.variable is not None
            self.scope[lock] = stretch.locked.variable.lock
            with source.block(f"with {lock}:"):
                source.line(f"r = walk({call})")
        else:
            source.line(f"r = walk({call})")
        source.line(f"if r: native_failure({k}, r, w)")

    def _emit_looping_walk(self, source: Source, stretch: _Stretch, call: str) -> None:
        """A walk that an interrupt may end, before the failure that it reports is looked at: what an earlier one reported goes first."""
        self.scope["watched"], self.scope["unwatched"] = watched, unwatched
        for one in (one for owners in stretch.owners for one in owners if one.instruction.node.op == "_Loop"):
            source.line(f"w[{one.block}] = 0")
        source.line("flag = watched(context)")
        with source.block("try:"):
            source.line(f"r = walk({call})")
        with source.block("finally:"):
            source.line("unwatched(flag)")

    def _emit_outputs(self, source: Source, instruction: Instruction, made: set[int]) -> None:
        for value in instruction.outputs:
            root = self.lives.root(value)
            if root.index in self.fresh and root.index not in made:
                made.add(root.index)
                self._emit_fresh(source, root)

    def _emit_marker(self, source: Source, position: int, marker: Instruction, known: set[str], made: set[int]) -> None:
        """A loop or branch in which some Python kernel stands."""
        construct = marker.construct
        assert construct is not None
        if marker.role in ("loop", "branch"):
            inside = self.slots[position : self.lives.ends[id(construct)]]
            for instruction in (member for members in inside for member in members):
                if id(instruction) in self.calls:
                    self._emit_outputs(source, instruction, made)
                elif instruction.serving == "runtime":
                    self._moved = True
        known.clear()  # whether and how often what follows runs is not known
        if marker.role == "loop":
            self.scope["stop_if_cancelled"] = _stop_if_cancelled
            source.begin("while True:")
            source.line("stop_if_cancelled(context)")
        elif marker.role == "test":
            source.line(f"if not {self._expression(source, marker.inputs[0], known, marker.node.name)}: break")
        elif marker.role == "branch":
            expression = self._expression(source, marker.inputs[0], known, marker.node.name)
            number = f"b{position}"
            source.line(f"{number} = {f'not {expression}' if construct.boolean else f'int({expression})'}")
            self._cases.append((number, 0))
            source.begin(f"if {number} == 0:" if construct.cases > 1 else "if True:")
            source.line("pass")
        elif marker.role == "case":
            number, case = self._cases.pop()
            self._cases.append((number, case + 1))
            source.end()
            source.begin(f"elif {number} == {case + 1}:" if case + 2 < construct.cases else "else:")
            source.line("pass")
        else:
            if marker.role == "join":
                self._cases.pop()
            source.end()

    def _emit_stretch_variables(self, source: Source, stretch: _Stretch, known: set[str]) -> None:
        tests = Source()
        for instruction in stretch.instructions:
            for value in instruction.inputs:
                if value.root.storage in ("variable", "handle"):
                    self._emit_variable(tests, value.root, known, instruction.node.name)
        lines = [line for line in tests.text().split("\n") if line]
        if not lines:
            return
        if self._moved:
            for line in lines:
                source.line(line)
        else:
            with source.block("if seen is None:"):
                for line in lines:
                    source.line(line)

    def _emit_fresh(self, source: Source, root: Value) -> None:
        np_dtype = np.dtype(root.dtype.as_numpy_dtype)
        name, shape, dtype = f"x{root.index}", f"shape{root.index}", f"dtype{root.index}"
        self.scope[shape], self.scope[dtype] = root.shape, np_dtype
        if root.spec.nbytes >= RECYCLE_BYTES:
            self.scope["recycled"] = self.env.recycler.empty
            source.line(f"{name} = recycled({shape}, {dtype})")
        else:
            self.scope["empty"] = np.empty
            source.line(f"{name} = empty({shape}, {dtype})")

    def _expression(self, source: Source, value: Value, known: set[str], reader: str = "") -> str:
        """An ndarray expression for a value, for Python kernels."""
        root = self.lives.root(value)
        if root.storage == "const":
            name = f"c{value.index}"
            assert root.array is not None
            self.scope[name] = root.array if root is value else root.array.reshape(value.shape)
            return name
        if root.storage in ("variable", "handle"):
            name = self._emit_variable(source, root, known, reader)
        elif root.index in self._buffers:
            name = f"s{value.index}"
            self.views[name] = (self._buffers[root.index].offset, value)
            return name
        else:
            name = self.name_of(root)
        if value is not root and value.shape != root.shape:
            shape = f"shape{value.index}"
            self.scope[shape] = value.shape
            return f"{name}.reshape({shape})"
        return name

    def _emit_python(self, source: Source, position: int, instruction: Instruction, known: set[str]) -> None:
        kernel = f"k{position}"
        runtime = instruction.serving == "runtime"
        keeps = runtime and any(value.dtype.name == "variant" for value in instruction.outputs)  # a list keeps what is put into it
        inputs = []
        for value in instruction.inputs:
            if runtime and value.storage == "handle":
                name = self._variable_name(value)
                inputs.append(f"var_{name}")
            else:
                text = self._expression(source, value, known, instruction.node.name)
                root = value.root
                inputs.append(f"{text}.copy()" if keeps and (root.storage == "variable" or root.index in self._buffers) else text)
        outputs = [
            f"x{value.index}" if value.storage in ("object", "buffer") and value.base is None else "_" for value in instruction.outputs
        ]
        arguments = f"({', '.join(inputs)}{',' if inputs else ''})"
        self.scope[kernel] = self._python_kernel(instruction)
        target = f"({', '.join(outputs)},) = " if outputs else ""
        source.line(f"{target}{kernel}(context, {arguments})")
        if runtime:
            known.clear()  # it may have assigned a variable
            self._moved = True

    def _python_kernel(self, instruction: Instruction) -> Callable[[StepContext | None, Sequence[Any]], Sequence[Any]]:
        node, compute = instruction.node, instruction.compute
        reads_variable = any(value.root.storage in ("variable", "handle") for value in instruction.inputs)
        if compute is None:
            raise errors.UnimplementedError(
                None,
                None,
                f"{node.name} ({node.op}) has compiled code only, which is not loaded: {instruction.reason or 'still compiling'}",
            )
        if instruction.serving == "runtime":
            device, session, spec = self.env.device, self.env.session, instruction.spec
            op = node.op if node.op_def is None else node.op_def.name
            input_dtypes, output_dtypes = tuple(node.input_dtypes), tuple(node.output_dtypes)
            output_shapes = tuple(node.output_shapes)
            takes_variant = any(dtype.name == "variant" for dtype in input_dtypes)
            reads_list = takes_variant and any(dtype.is_numpy_compatible for dtype in output_dtypes)

            def run_runtime(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
                assert context is not None
                op_context = OpContext(node.name, op, spec.attrs, device, session, context, input_dtypes, output_dtypes, output_shapes)
                try:
                    outputs = compute(op_context, inputs)
                except Exception as error:
                    raise kernel_error(error, op, node.name, inputs) from _cause(error)
                if reads_list:
                    outputs = [_as_planned(value, shape, op, node.name) for value, shape in zip(outputs, output_shapes, strict=True)]
                return _apart(outputs, inputs) if reads_variable else outputs

            return run_runtime
        spec = instruction.spec
        if node.op == "_Loop":
            return self._interpreted_loop(instruction)
        make = find_initial_state(node.op)
        if make is not None:
            state = self.env.session.node_state(instruction.node.name, lambda: make(spec))
            spec = type(spec)(spec.name, spec.op, spec.attrs, spec.inputs, spec.outputs, spec.constants, state)
        planned = bool(self.stretches)

        def run_reference(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
            try:
                outputs = compute(spec, inputs)
            except Exception as error:
                raise kernel_error(error, node.op, node.name, inputs) from _cause(error)
            if planned or reads_variable:
                # arena memory is reused and variables are updated in place: nothing may keep a view of them; compiled code wants C order
                outputs = [o if o.base is None and o.flags.c_contiguous else np.array(o, order="C") for o in map(np.asarray, outputs)]
            return _apart(outputs, inputs)

        return run_reference

    def _interpreted_loop(self, instruction: Instruction) -> Callable[[StepContext | None, Sequence[Any]], Sequence[Any]]:
        """A loop whose kernel is not there yet."""
        from tfjit.runtime.loops import run_loop

        node, spec, env = instruction.node, instruction.spec, self.env

        def run(context: StepContext | None, inputs: Sequence[Any]) -> Sequence[Any]:
            assert context is not None
            try:
                # arena memory is reused and variables are updated in place: nothing may keep a view of them
                return [np.array(output, order="C") for output in run_loop(node, spec, env, context, inputs)]
            except Exception as error:
                raise kernel_error(error, node.op, node.name, inputs) from error

        return run

    def _emit_return(self, source: Source, known: set[str]) -> None:
        results: list[str] = []
        returned: dict[int, str] = {}
        self.scope["own"] = _own
        for value in self.lowered.fetches:
            root = self.lives.root(value)
            if value.index in returned:
                results.append(returned[value.index])
                continue
            if self.lowered.is_body:
                result = self._result_of_body(source, value, known)
            elif root.storage in ("const", "feed", "variable") or any(returned.get(-1 - root.index, "")):
                result = f"{self._expression(source, value, known)}.copy()"
                if value.shape == ():
                    result = f"{self._expression(source, value, known)}[()]"
            elif value.shape == ():
                result = f"{self._expression(source, value, known)}[()]"
            elif root.index in self.fresh:
                result = self._expression(source, value, known)
            elif root.index in self._buffers:
                result = f"{self._expression(source, value, known)}.copy()"
            else:
                result = f"own({self._expression(source, value, known)}, feeds)"
            name = f"y{value.index}"
            source.line(f"{name} = {result}")
            returned[value.index] = name
            returned[-1 - root.index] = name
            results.append(name)
        source.line(f"return [{', '.join(results)}]")

    def _result_of_body(self, source: Source, value: Value, known: set[str]) -> str:
        """What a body returns to its caller's step: constants and arguments as they are (nobody writes them), other memory copied."""
        root = self.lives.root(value)
        if value.storage == "handle":
            return f"var_{self._variable_name(root)}"
        text = self._expression(source, value, known)
        if root.storage in ("const", "feed") or root.index in self.fresh or not value.dtype.is_numpy_compatible:
            return text
        if root.storage == "variable" or root.index in self._buffers:
            return f"{text}.copy()"
        self.scope["asarray"] = np.asarray
        return f"asarray({text})" if value.dtype.as_numpy_dtype is not np.object_ else text

    def _native_failure(self, stretch: int, result: int, words: np.ndarray) -> None:
        """Raise what a compiled kernel reported. result: 1 + row of the stretch."""
        if result < 0:
            raise _cancelled()
        row = result - 1
        failed: list[tuple[_Owned, int, int]] = []
        for one in self.stretches[stretch].owners[row]:
            status, detail = int(words[one.block]), int(words[one.block + 1])
            words[one.block] = words[one.block + 1] = 0
            if status:
                failed.append((one, status, detail))
        words[self.stretches[stretch].rows[row][1]] = 0  # a bundle's own
        one, status, detail = failed[0]
        name = one.instruction.node.name
        if status not in one.launch.errors:
            raise errors.InternalError(None, None, f"kernel of {name} stopped with status {status}, detail {detail}")
        kind, message = one.launch.errors[status]
        raise at_node(getattr(errors, kind)(None, None, message.format(detail=detail)), name)

    def instance_scope(self) -> dict[str, Any]:
        """Globals of one instance: its own argument blocks, tables and views, and its arena unless the session lends it."""
        scope = dict(self.scope)
        words = np.array(self.words, np.int64)
        views = {name: (offset, value.shape, np.dtype(value.dtype.as_numpy_dtype)) for name, (offset, value) in self.views.items()}
        scope["placement"] = placement = Placement(words, self.arena_words, views, scope)
        if not self.shares_arena:
            scope["arena"] = arena = Arena(self.arena_bytes)
            placement.bind(arena)
        address = words.ctypes.data
        for word, block in self.block_words:
            words[word] = address + 8 * block
        pool = self.env.pool() if self.stretches else None
        ticks_per_ns = walker.ticks_per_second() * 1e-9 if pool is not None else 0.0
        scope["w"], scope["constants"], scope["native_failure"] = words, self.constants, self._native_failure
        for k, stretch in enumerate(self.stretches):
            arrays = self.scope[f"arrays{k}"]
            index = {name: i for i, name in enumerate(arrays)}
            table = walker.StepTable(
                len(arrays),
                instructions=[(code, address + 8 * block, chunks) for code, block, chunks in stretch.rows],
                patches=[(index[patch.array], address + 8 * patch.word, patch.offset) for patch in stretch.patches],
                costs=[int(sum(one.launch.cost_ns for one in owned) * ticks_per_ns) for owned in stretch.owners],
                release_gil=stretch.loops or stretch.cost_ns > KEEP_GIL_NS,
                cancel_array=index.get("flag", -1),
                pool=pool.state_address if pool is not None else 0,
            )
            scope[f"t{k}"] = table.words
        return scope


def _cancelled() -> errors.OpError:
    return errors.CancelledError(None, None, "Step was cancelled by an explicit call to `Session::Close()`.")


def _stop_if_cancelled(context: StepContext) -> None:
    if context.cancellation.cancelled:
        raise _cancelled()


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word


def _cause(error: Exception) -> Exception | None:
    """What to raise an error from that `kernel_error` makes of this one, and that may be this very one: as its own cause it would live,
    and its traceback's frames with it, until a garbage collection."""
    return None if isinstance(error, errors.OpError) else error


def _as_planned(value: Any, shape: Shape, op: str, node: str) -> Any:
    """What came out of a list, in the shape and order in memory that compiled code takes it to have. Raises InvalidArgumentError."""
    if not isinstance(value, np.ndarray):
        return value
    if value.shape != shape:
        text = f"{op} found an element of shape {format_shape(value.shape)}, where all that is put into the list has {format_shape(shape)}"
        raise at_node(errors.InvalidArgumentError(None, None, text), node)
    return value if value.flags.c_contiguous else np.array(value, order="C")


def _apart(outputs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Outputs none of which is an input array itself: what it stands for may be a feed, a constant or a variable's buffer."""
    return [o.copy() if isinstance(o, np.ndarray) and any(o is i for i in inputs) else o for o in outputs]


def _own(array: Any, feeds: Sequence[np.ndarray]) -> Any:
    """The caller's own array: a view, a constant or a feed is copied."""
    if array.base is None and array.flags.writeable and not any(array is feed for feed in feeds):
        return array
    return array.copy()


def _uninitialized(variable: Any, node: str) -> None:
    raise at_node(errors.FailedPreconditionError(None, None, variable.uninitialized_message()), node)


def _reroute(variable: Any, planned: tuple[int, ...]) -> None:
    found = "no value" if variable.value is None else f"shape {variable.value.shape}"
    raise Reroute(f"variable {variable.name} has {found}, planned {planned}")
