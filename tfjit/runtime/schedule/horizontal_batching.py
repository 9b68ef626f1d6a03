"""Bundle independent launches that do not fill the thread pool alone.

Examples are the updates of mid-sized variables, the branches of a graph, many small ops: each would
keep one thread busy while the others wait. A bundle's launches are one row of the table executor's
table, and threads claim its chunks like those of a single launch (`tfjit_bundle` in
`kernels/executor/thread_pool_ir.py`).

This file only decides: `plan` chooses order and bundles, `cut` chooses the chunks of a bundle.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.runtime.lowering.lowering import SHARDS

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall
    from tfjit.runtime.lowering.lowered import Instruction, Lowered

CHUNKS_PER_THREAD: Final = 4
LEAST_NS: Final = 400.0
"""Least time of a bundled instruction.

A shorter one takes less time than the transfer of its operands from another core's cache.
"""
HANDOVER_NS: Final = 1500.0
"""Time to share a launch out and await the last thread."""
_GAIN_NS: Final = 2000.0  # least saving of a bundle
# Share of the threads' time that an instruction uses alone; above this one, a bundle does not pay.
_FILLED: Final = 0.75
# A thread's part of a full bundle, which waits for no more members: its inputs should still be in
# the caches.
_FULL_BUNDLE_NS: Final = 50_000.0
_WINDOW: Final = 256
"""Number of positions by which an instruction may run early."""


@dataclass(frozen=True, slots=True)
class _Load:
    """Hold the predicted cost of an instruction.

    alone_ns: with its launches shared between all threads. longest_ns: of its longest indivisible
    piece.
    """

    total_ns: float
    alone_ns: float
    longest_ns: float


def chunks_of(chunks: int, threads: int) -> int:
    """Return the chunk count of a launch with at most `chunks`."""
    return 1 if threads <= 1 else min(chunks, CHUNKS_PER_THREAD * threads)


def cut(
    members: Sequence[Sequence[tuple[float, int]]], threads: int
) -> list[list[tuple[int, int, int, int]]]:
    """Return the chunks of a bundle, about equally long.

    Each chunk is a list of (member, launch, chunk, chunks of the launch) to run in that order.
    members: for each its launches as (predicted ns, chunks). The launches of a member that has
    several stay together, in their order; each has one chunk then. The longest chunks come at both
    ends, at which callers and helpers begin.
    """
    pieces: list[tuple[float, list[tuple[int, int, int, int]]]] = []
    for m, launches in enumerate(members):
        if len(launches) == 1:
            cost, size = launches[0]
            pieces += [(cost / size, [(m, 0, chunk, size)]) for chunk in range(size)]
        elif launches:
            pieces.append(
                (sum(cost for cost, _ in launches), [(m, n, 0, 1) for n in range(len(launches))])
            )
    pieces.sort(key=lambda piece: -piece[0])
    least = sum(cost for cost, _ in pieces) / (CHUNKS_PER_THREAD * threads)
    found: list[list[tuple[int, int, int, int]]] = []
    filled = least
    for cost, items in pieces:
        if filled >= least:
            found.append([])
            filled = 0.0
        found[-1] += items
        filled += cost
    return found[::2] + found[1::2][::-1]


def plan(
    lowered: Lowered, calls: Mapping[int, NativeCall], threads: int, alone_threads: int
) -> list[tuple[Instruction, ...]]:
    """Return all instructions in execution order, bundles as tuples.

    The members of a tuple do not depend on each other and run as a bundle. calls: id(instruction)
    -> its compiled code. threads: of a bundle. alone_threads: of any other launch. The order is the
    lowered one except for the members of bundles. A native run without any bundle keeps the lowered
    order. Python kernels, and instructions that hold a variable's lock, keep their places.
    """
    instructions = lowered.instructions
    loads: dict[int, _Load] = {}
    if threads > 1 and lowered.graph is not None:
        for position, instruction in enumerate(instructions):
            yield_interpreter()
            call = calls.get(id(instruction))
            alone = call is None or instruction.locks_variable or instruction.spec.op == SHARDS
            load = None
            if call is not None and not alone:
                load = _candidate(call, threads, alone_threads)
            if load is not None:
                loads[position] = load
    if len(loads) < 2 or _gain(list(loads.values()), threads) < _GAIN_NS:
        return [(instruction,) for instruction in instructions]
    assert lowered.graph is not None
    order = _Order(instructions, loads, threads)
    for first, end in _rows(instructions, calls):
        order.run(first, end)
    return [tuple(instructions[position] for position in group) for group in order.emitted]


def _candidate(call: NativeCall, threads: int, alone_threads: int) -> _Load | None:
    """Return the load of an instruction that suits a bundle, or None.

    Unsuitable are instructions that are too short, that fill all threads alone, or that have
    dependent launches.
    """
    launches = [
        (launch.cost_ns, chunks_of(launch.chunks, alone_threads)) for launch in call.launches
    ]
    total = sum(cost for cost, _ in launches)
    if total < LEAST_NS or (len(launches) > 1 and any(size > 1 for _, size in launches)):
        return None
    alone = sum(
        cost if size == 1 else cost / min(size, alone_threads) + HANDOVER_NS
        for cost, size in launches
    )
    if total > _FILLED * threads * alone:
        return None
    return _Load(total, alone, total if len(launches) > 1 else total / launches[0][1])


def _gain(loads: Sequence[_Load], threads: int) -> float:
    """Return the time that a bundle of these loads saves."""
    bundled_ns = max(
        sum(load.total_ns for load in loads) / threads, max(load.longest_ns for load in loads)
    )
    return sum(load.alone_ns for load in loads) - bundled_ns - HANDOVER_NS


def _rows(
    instructions: Sequence[Instruction], calls: Mapping[int, NativeCall]
) -> list[tuple[int, int]]:
    """Return (first, end) of each run of compiled instructions.

    Any other instruction is alone in a run, markers of loops and branches too.
    """
    found: list[tuple[int, int]] = []
    joined = False
    for position, instruction in enumerate(instructions):
        joins = id(instruction) in calls and not instruction.locks_variable
        if joins and joined:
            found[-1] = (found[-1][0], position + 1)
        else:
            found.append((position, position + 1))
        joined = joins
    return found


# id of the graph around a node, and its name, or a position
_Key = tuple[int, str | int]


def _key(instruction: Instruction, position: int) -> _Key:
    """Return the key of an instruction in the dependence graph: its node.

    A loop or branch ends at its last marker.
    """
    if (
        instruction.moves
        or instruction.spec.op == SHARDS
        or instruction.role not in (None, "repeat", "join")
    ):
        return id(instruction.graph), position
    return id(instruction.graph), instruction.node.name


class _Order:
    """Emit instructions as soon as their predecessors are emitted.

    Instructions are known by their positions in the lowered order. A ready candidate is held until
    a successor needs its result, or until enough candidates are held; then all held ones are
    emitted together.
    """

    def __init__(
        self, instructions: Sequence[Instruction], loads: Mapping[int, _Load], threads: int
    ) -> None:
        self.emitted: list[tuple[int, ...]] = []
        self._loads, self._threads = loads, threads
        self._markers = {
            position
            for position, instruction in enumerate(instructions)
            if instruction.role is not None
        }
        self._names = [
            _key(instruction, position) for position, instruction in enumerate(instructions)
        ]
        self._at = {name: position for position, name in enumerate(self._names)}
        # node -> the nodes that depend on it
        self._after: dict[_Key, list[_Key]] = {name: [] for name in self._names}
        self._waiting: dict[_Key, int] = dict.fromkeys(self._names, 0)
        for scope, graph in {id(i.graph): i.graph for i in instructions}.items():
            if graph is None:
                continue
            for node in graph:
                yield_interpreter()
                name = (scope, node)
                self._waiting.setdefault(name, 0)
                followers: list[_Key] = [(scope, follower) for follower in graph.successors(node)]
                self._after[name] = followers
                for follower in followers:
                    self._waiting[follower] = self._waiting.get(follower, 0) + 1
        for earlier, later in (*_accesses(instructions), *_uses(instructions)):
            self._after[self._names[earlier]].append(self._names[later])
            self._waiting[self._names[later]] += 1
        self._small: list[int] = []  # ready candidates, a heap
        self._ready: set[int] = set()
        self._held: set[int] = set()
        self._out: set[int] = set()
        self._leading: dict[int, bool] = {}
        self._arrive([name for name, count in self._waiting.items() if not count])

    def _arrive(self, names: list[_Key]) -> None:
        """Mark nodes as ready; release successors of nodes without instruction."""
        while names:
            name = names.pop()
            position = self._at.get(name)
            if position is None:
                names += self._release(name)
            else:
                self._ready.add(position)
                if position in self._loads:
                    heapq.heappush(self._small, position)

    def _release(self, name: _Key) -> list[_Key]:
        freed = []
        for follower in self._after[name]:
            self._waiting[follower] -= 1
            if not self._waiting[follower]:
                freed.append(follower)
        return freed

    def _emit(self, group: Sequence[int]) -> None:
        self.emitted.append(tuple(group))
        self._out.update(group)
        for position in group:
            self._arrive(self._release(self._names[position]))

    def run(self, first: int, end: int) -> None:
        """Emit a run of instructions that may change places with each other."""
        if first in self._markers:
            self._emit((first,))
            return
        begun = len(self.emitted)
        cursor = first  # the first position neither emitted nor held
        while True:
            yield_interpreter()
            while cursor < end and (cursor in self._out or cursor in self._held):
                cursor += 1
            if self._hold(min(end, cursor + _WINDOW)):
                continue
            if cursor < end and cursor in self._ready:
                self._emit((cursor,))
            elif not self._held:
                break
            elif cursor == end or self._gain() >= _GAIN_NS:
                self._flush()
            else:
                self._emit((self._held_back(),))
        for position in range(first, end):
            if position not in self._out:
                self._emit((position,))
        if all(len(group) == 1 for group in self.emitted[begun:]):
            self.emitted[begun:] = [(position,) for position in range(first, end)]

    def _hold(self, end: int) -> bool:
        """Hold the next ready candidate if its position is before `end`."""
        if not self._small or self._small[0] >= end:
            return False
        self._held.add(heapq.heappop(self._small))
        if self._fills_threads():
            self._flush()
        return True

    def _gain(self) -> float:
        return _gain([self._loads[position] for position in self._held], self._threads)

    def _fills_threads(self) -> bool:
        total = sum(self._loads[position].total_ns for position in self._held)
        longest = max(self._loads[position].longest_ns for position in self._held)
        return (
            total - longest >= _FULL_BUNDLE_NS * self._threads and total >= longest * self._threads
        )

    def _flush(self) -> None:
        held, self._held = sorted(self._held), set()
        if _gain([self._loads[position] for position in held], self._threads) >= _GAIN_NS:
            self._emit(held)
        else:
            for position in held:
                self._emit((position,))

    def _held_back(self) -> int:
        """Release the first held candidate that has successors.

        There is one: the instruction at the cursor depends on a held candidate, or would be ready.
        """
        position = min((p for p in self._held if self._leads(p)), default=min(self._held))
        self._held.remove(position)
        return position

    def _leads(self, position: int) -> bool:
        if position not in self._leading:
            self._leading[position] = self._search(position)
        return self._leading[position]

    def _search(self, position: int) -> bool:
        """Return whether another instruction depends on this one.

        The dependence may lead through nodes without instruction.
        """
        seen: set[_Key] = set()
        todo = [self._names[position]]
        while todo:
            for follower in self._after[todo.pop()]:
                if follower in self._at:
                    return True
                if follower not in seen:
                    seen.add(follower)
                    todo.append(follower)
        return False


def _uses(instructions: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Return (earlier, later) pairs that the graphs' edges do not express.

    The pairs concern copies for loops and branches, and the instructions that use or define the
    copied values.
    """
    # values with several definitions, or with uses outside their graph
    special: set[int] = set()
    for instruction in instructions:
        if instruction.moves or instruction.path or instruction.spec.op == SHARDS:
            special.update(
                value.root.index for value in (*instruction.outputs, *instruction.inputs)
            )
    found: list[tuple[int, int]] = []
    written: dict[int, int] = {}
    read: dict[int, list[int]] = {}
    for position, instruction in enumerate(instructions):
        special_writes = {
            value.root.index for value in instruction.outputs if value.root.storage != "handle"
        } & special
        special_reads = {value.root.index for value in instruction.inputs} & special
        for index in special_reads | special_writes:
            if index in written:
                found.append((written[index], position))
        for index in special_writes:
            found += [(earlier, position) for earlier in read.pop(index, []) if earlier != position]
            written[index] = position
        for index in special_reads:
            read.setdefault(index, []).append(position)
    return found


def _accesses(instructions: Sequence[Instruction]) -> list[tuple[int, int]]:
    """Return (earlier, later) pairs of uses of one variable.

    At least one use of a pair may change the variable.
    """
    found: list[tuple[int, int]] = []
    written: dict[int, int] = {}
    read: dict[int, list[int]] = {}
    for position, instruction in enumerate(instructions):
        roots = {value.root.index: value.root for value in instruction.inputs}
        writes = {id(root.variable) for root in roots.values() if root.storage == "handle"}
        reads = {
            id(root.variable) for root in roots.values() if root.storage == "variable"
        } - writes
        for variable in writes:
            found += [(earlier, position) for earlier in read.pop(variable, [])]
        for variable in (*writes, *reads):
            if variable in written:
                found.append((written[variable], position))
        for variable in reads:
            read.setdefault(variable, []).append(position)
        written.update(dict.fromkeys(writes, position))
    return found
