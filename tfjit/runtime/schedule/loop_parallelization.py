"""Divide loops with independent batch rows between the threads.

Each thread runs all iterations for its own rows, without waiting for other threads.

    transpose, While(t, c, h, states), transpose
    ->  the same on rows 0..16 and on rows 16..32, as two chunks of one launch

A divided run consists of a loop and the instructions right before and after the loop. Each shard
computes the counters and conditions, which are the same for all rows. A shard has separate memory
for the values that it defines and uses inside. Its outside inputs and results are rows of the whole
arrays: used in place if the rows are contiguous, else copied. `batch_axes.py` has the rules that
keep rows apart. An instruction that may fail for some of the rows is not divided, so an error is
always an error of the whole.

This file only decides: `shard_builder.py` builds the shards, `layout.py` lays them out, and
`tfjit_parts` in `kernels/executor/table_executor_ir.py` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_traits import ASSIGN, ASSIGN_ADD
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.lowering.lowering import SHARDS
from tfjit.runtime.lowering.row_splits import Axis, RowSplit, Shard
from tfjit.runtime.schedule import branch_lowering
from tfjit.runtime.schedule.batch_axes import (
    NotIndependent,
    ShardSpec,
    reshaped_axis,
    shard_spec,
)
from tfjit.runtime.schedule.horizontal_batching import HANDOVER_NS, chunks_of
from tfjit.runtime.schedule.shard_builder import ShardBuilder

if TYPE_CHECKING:
    from tfjit.runtime.lowering.structured_control_flow import Construct

# least time of one iteration: a shorter loop ends before a thread has joined
_LEAST_NS: Final = 3000.0
_MAX_TIME_LEFT: Final = 0.93  # largest ratio of the divided to the undivided time
_REPEATS: Final = 20  # assumed trip count of a loop
_SEEDS: Final = 24  # number of (value, axis) pairs tried for each loop


def find_splits(lowered: Lowered, threads: int) -> list[RowSplit]:
    """Return the profitable divisions of a partition's outermost loops.

    Needs the instructions' calls.
    """
    instructions = lowered.instructions
    if threads < 2 or not any(instruction.role == "loop" for instruction in instructions):
        return []
    calls = {id(i): i.call for i in instructions if i.call is not None}
    jumping = branch_lowering.compiled_constructs(instructions, calls)
    found: list[RowSplit] = []
    taken = 0  # instructions before this position are not divided
    for position, instruction in enumerate(instructions):
        construct = instruction.construct
        if (
            instruction.role != "loop"
            or construct is None
            or construct.parent is not None
            or id(construct) not in jumping
            or position < taken
        ):
            continue
        yield_interpreter()
        end = next(
            k
            for k in range(position, len(instructions))
            if instructions[k].role == "repeat" and instructions[k].construct is construct
        )
        run = DividedRun(lowered, position, end + 1, taken, jumping)
        split = run.divide(threads)
        if split is not None:
            found.append(split)
            taken = run.end
    return found


def _is_divisible(instruction: Instruction, jumping: set[int]) -> bool:
    """Return whether an instruction may run in shards at the same time.

    Such an instruction is compiled, and reads and writes arrays only.
    """
    if instruction.role is not None:
        return id(instruction.construct) in jumping
    call = instruction.call
    if (
        call is None
        or instruction.serving == "runtime"
        or instruction.node.op == "_Loop"
        or instruction.node.has_trait(ASSIGN | ASSIGN_ADD)
    ):
        return False
    if any(
        isinstance(w, Pointer) and w.kind in ("state", "cancel")
        for launch in call.launches
        for w in launch.words
    ):
        return False
    return all(
        value.root.storage not in ("handle", "object")
        for value in (*instruction.inputs, *instruction.outputs)
    )


class DividedRun:
    """Hold a loop and the instructions divided with it.

    The run covers instructions first..end without those in `hoisted`. axes: root index -> axis of a
    value defined in the run. seeds: value index -> axis of a value read from outside. rules: of
    each instruction, by its id.
    """

    def __init__(
        self, lowered: Lowered, loop: int, end: int, limit: int, jumping: set[int]
    ) -> None:
        self.lowered, self.loop, self.end, self.limit, self.jumping = (
            lowered,
            loop,
            end,
            limit,
            jumping,
        )
        self.instructions = lowered.instructions
        self.first = loop
        self.rows = 0
        self.inside: set[int] = set()
        self.hoisted: list[Instruction] = []
        self.axes: dict[int, int] = {}
        self.seeds: dict[int, int] = {}
        self.rules: dict[int, ShardSpec] = {}

    @property
    def members(self) -> list[Instruction]:
        """Return the divided instructions, in order."""
        hoisted = {id(i) for i in self.hoisted}
        return [i for i in self.instructions[self.first : self.end] if id(i) not in hoisted]

    def divide(self, threads: int) -> RowSplit | None:
        """Return a profitable division, or None."""
        if not self._take_writers() or self._iteration_ns() < _LEAST_NS:
            return None
        for value, axis in self._candidates():
            yield_interpreter()
            if not self._try(value, axis):
                continue
            self._extend_forward()
            self._extend_backward()
            try:
                return self._build(min(threads, self.rows))
            except NotIndependent:
                return None
        return None

    def _take_writers(self) -> bool:
        """Extend the run back to the first write of a loop-carried value.

        Return False if an instruction before the loop prevents this.
        """
        made = {v.root.index for i in self.instructions[self.loop : self.end] for v in i.outputs}
        for position, instruction in enumerate(self.instructions):
            if any(v.root.index in made for v in instruction.outputs):
                if position >= self.end:
                    return False
                self.first = min(self.first, position)
        if self.first < self.limit or not all(
            _is_divisible(i, self.jumping) for i in self.instructions[self.first : self.end]
        ):
            return False
        for instruction in self.instructions[
            self.first : self.loop
        ]:  # loop-invariant instructions that initialise no loop-carried value
            if instruction.role is None and not instruction.moves:
                if any(v.root.index in made for v in (*instruction.inputs, *instruction.outputs)):
                    return False
                self.hoisted.append(instruction)
        self.inside = {v.root.index for i in self.members for v in i.outputs}
        return all(i.role is None for i in self.instructions[self.first : self.loop])

    def _iteration_ns(self) -> float:
        calls = [
            i.call
            for i in self.instructions[self.loop : self.end]
            if i.call is not None and i.role is None
        ]
        return sum(launch.cost_ns for call in calls for launch in call.launches)

    def _candidates(self) -> list[tuple[Value, int]]:
        """Return (value, axis) pairs: possible rows that the loop reads.

        Computed and fed values come first, then constants.
        """
        read: dict[int, Value] = {}
        for instruction in self.members:
            for value in instruction.inputs if instruction.role is None else ():
                if value.root.index not in self.inside:
                    read.setdefault(value.index, value)
        ordered = sorted(read.values(), key=lambda v: v.root.storage in ("const", "variable"))
        return [(v, axis) for v in ordered for axis, length in enumerate(v.shape) if length > 1][
            :_SEEDS
        ]

    def _try(self, value: Value, axis: int) -> bool:
        self.rows, self.seeds, self.axes, self.rules = (
            value.shape[axis],
            {value.index: axis},
            {},
            {},
        )
        try:
            while self._pass():
                pass
            self._settle()
        except NotIndependent:
            return False
        return bool(self.axes)

    def axis(self, value: Value) -> Axis:
        """Return the known axis of a value; None for a whole value."""
        if value.root.index not in self.inside:
            return self.seeds.get(value.index)
        if value.base is None:
            return self.axes.get(value.index)
        return reshaped_axis(value.base.shape, self.axis(value.base), value.shape, self.rows)

    def _rule(self, instruction: Instruction) -> ShardSpec:
        """Return an instruction's ShardSpec for the present axes.

        Raises NotIndependent.
        """
        found = [self.axis(value) for value in instruction.inputs]
        if instruction.role is not None:
            if any(axis is not None for axis in found):
                raise NotIndependent("rows decide for themselves")
            return ShardSpec(tuple(found), ())
        if instruction.moves:
            given = self.axes.get(instruction.outputs[0].root.index)
            axis = found[0] if given is None else given
            rule = ShardSpec((axis,), (axis,))
        else:
            rule = shard_spec(instruction.spec, found, self.rows)
        if any(
            have is not None and have != needed
            for have, needed in zip(found, rule.inputs, strict=True)
        ):
            raise NotIndependent(f"{instruction.node.name} takes rows along another axis")
        return rule

    def _pass(self) -> bool:
        """Update the axes by each instruction once; return whether one changed.

        Raises NotIndependent.
        """
        changed = False
        for instruction in self.members:
            rule = self._rule(instruction)
            for value, axis in zip(instruction.outputs, rule.outputs):
                if axis is None:
                    continue
                known = self.axes.setdefault(value.root.index, -1)
                if known == -1:
                    if value.base is not None or value.shape[axis] % self.rows:
                        raise NotIndependent(f"{instruction.node.name} gives rows in pieces")
                    self.axes[value.root.index] = axis
                    changed = True
                elif known != axis:
                    raise NotIndependent(f"{instruction.node.name} gives rows along another axis")
        return changed

    def _settle(self) -> None:
        """Record the rules after the axes have converged.

        Raises NotIndependent.
        """
        for instruction in self.members:
            self._take(instruction, self._rule(instruction))

    def _take(self, instruction: Instruction, rule: ShardSpec) -> None:
        for value, needed in zip(instruction.inputs, rule.inputs, strict=True):
            if needed is not None and value.shape[needed] % self.rows:
                raise NotIndependent(f"{instruction.node.name} takes rows in pieces")
            if self.axis(value) != needed and value.root.index in self.inside:
                raise NotIndependent(f"{instruction.node.name} takes rows of what is whole")
        for value, axis in zip(instruction.outputs, rule.outputs, strict=True):
            if self.axes.get(value.root.index) != axis:
                raise NotIndependent(
                    f"{instruction.node.name} gives what is whole where rows are wanted"
                )
        by_row = any(axis is not None for axis in (*rule.inputs, *rule.outputs))
        may_fail = instruction.call is not None and any(
            launch.errors for launch in instruction.call.launches
        )
        if by_row and may_fail and not _fails_alike(instruction, rule):
            raise NotIndependent(f"{instruction.node.name} may fail for one row")
        self.rules[id(instruction)] = rule

    def _extend_forward(self) -> None:
        """Add the instructions after the run while they take rows."""
        while self.end < len(self.instructions):
            instruction = self.instructions[self.end]
            if (
                instruction.role is not None
                or instruction.moves
                or not _is_divisible(instruction, self.jumping)
            ):
                return
            found = [self.axis(value) for value in instruction.inputs]
            if all(axis is None for axis in found) or any(
                v.base is not None for v in instruction.outputs
            ):
                return
            if not self._add(instruction, found):
                return
            self.end += 1

    def _extend_backward(self) -> None:
        """Add the instructions before the run that compute the rows it reads."""
        while self.first > self.limit:
            instruction = self.instructions[self.first - 1]
            if (
                instruction.role is not None
                or instruction.moves
                or not _is_divisible(instruction, self.jumping)
            ):
                return
            wanted = self._wanted(instruction)
            if wanted is None or len(instruction.outputs) != 1:
                return
            for k, value in enumerate(instruction.inputs):
                axes = [
                    a for a, length in enumerate(value.shape) if length and length % self.rows == 0
                ]
                tries = [
                    [a if k == n else None for n in range(len(instruction.inputs))] for a in axes
                ]
                if any(self._add(instruction, found, wanted) for found in tries):
                    break
            else:
                return
            self.first -= 1

    def _wanted(self, instruction: Instruction) -> Axis:
        """Return the axis along which the run takes an instruction's output.

        Return None if there is no such axis, or if another instruction needs the output too.
        """
        (root, *others) = [value.root for value in instruction.outputs]
        if others or root.fetched or any(value.root is root for value in self.lowered.fetches):
            return None
        found: set[Axis] = set()
        members = {id(i) for i in self.members}
        for reader in self.instructions:
            for k, value in enumerate(reader.inputs):
                if value.root is not root:
                    continue
                if id(reader) not in members:
                    return None
                axis = self.rules[id(reader)].inputs[k]
                try:
                    found.add(reshaped_axis(value.shape, axis, root.shape, self.rows))
                except NotIndependent:
                    return None
        return found.pop() if len(found) == 1 else None

    def _add(self, instruction: Instruction, found: Sequence[Axis], wanted: Axis = None) -> bool:
        """Add an instruction whose inputs are sharded along `found`."""
        try:
            rule = shard_spec(instruction.spec, found, self.rows)
            if any(
                have is not None and have != needed
                for have, needed in zip(found, rule.inputs, strict=True)
            ):
                return False
            if wanted is not None and rule.outputs[0] != wanted:
                return False
            roots = [value.root.index for value in instruction.outputs]
            self.axes.update(
                {root: axis for root, axis in zip(roots, rule.outputs) if axis is not None}
            )
            self._take(instruction, rule)
            self.inside.update(roots)
        except NotIndependent:
            for value in instruction.outputs:
                self.axes.pop(value.root.index, None)
            return False
        return True

    def _build(self, count: int) -> RowSplit | None:
        """Return the shards if they pay.

        Raises NotIndependent if a shard has no compiled code.
        """
        members = self.members
        given = self._given(members)
        bounds = [self.rows * k // count for k in range(count + 1)]
        made: dict[tuple[int, int], NativeCall] = {}
        shards = []
        for k in range(count):
            builder = ShardBuilder(self, Shard(bounds[k], bounds[k + 1], self.rows), made)
            shards.append(builder.build(members, given, first=k == 0))
        alone = sum(_weight(i) * _shared_ns(i.call, count) for i in members if i.call is not None)
        apart = max(
            sum(_weight(i) * _ns(i.call) for i in shard.lowered.instructions if i.call is not None)
            for shard in shards
        )
        if apart + HANDOVER_NS > _MAX_TIME_LEFT * alone:
            return None
        node = self.instructions[self.loop].node
        sources: dict[int, Value] = {}
        for shard in shards:
            sources.update({value.index: value for value, _ in shard.sources})
        targets = [self.lowered.values[index] for index in given]
        spec = NodeSpec(
            node.name,
            SHARDS,
            {},
            tuple(v.spec for v in sources.values()),
            tuple(v.spec for v in targets),
        )
        instruction = Instruction(
            node, "native", list(sources.values()), targets, spec, sequence=members[0].sequence
        )
        return RowSplit(
            [*self.hoisted, *members], list(self.hoisted), instruction, tuple(shards), apart * count
        )

    def _given(self, members: Sequence[Instruction]) -> list[int]:
        """Return root indices of the run's values that are read outside."""
        own = {id(i) for i in members}
        read = {v.root.index for i in self.instructions if id(i) not in own for v in i.inputs}
        read |= {value.root.index for value in self.lowered.fetches}
        return sorted(read & {v.root.index for i in members for v in i.outputs})


def _fails_alike(instruction: Instruction, rule: ShardSpec) -> bool:
    """Return whether a kernel fails for all rows or for none.

    Such a kernel checks the index of an element, which is the same for all rows.
    """
    return instruction.node.op in ("_GetRow", "_SetRow") and rule.inputs[1] is None


def _ns(call: NativeCall | None) -> float:
    return sum(launch.cost_ns for launch in call.launches) if call is not None else 0.0


def _shared_ns(call: NativeCall | None, threads: int) -> float:
    """Return an undivided instruction's time on several threads.

    The threads share its launches.
    """
    total = 0.0
    for launch in call.launches if call is not None else ():
        chunks = chunks_of(launch.chunks, threads)
        total += (
            launch.cost_ns if chunks == 1 else launch.cost_ns / min(chunks, threads) + HANDOVER_NS
        )
    return total


def _weight(instruction: Instruction) -> float:
    construct: Construct | None = instruction.construct
    return float(_REPEATS ** (construct.level if construct is not None else 0))


def calls_of(splits: Iterable[RowSplit]) -> Iterator[NativeCall | None]:
    """Yield the calls of all shards."""
    for split in splits:
        for shard in split.shards:
            for instruction in shard.lowered.instructions:
                yield instruction.call


__all__ = ["calls_of", "find_splits"]
