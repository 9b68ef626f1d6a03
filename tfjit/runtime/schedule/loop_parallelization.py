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

This file only decides: `layout.py` lays the shards out, and `tfjit_parts` in
`kernels/executor/table_executor_ir.py` runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_traits import ASSIGN, ASSIGN_ADD
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.lowering.lowering import SHARDS, native_call
from tfjit.runtime.lowering.row_splits import Axis, RowSplit, Shard, ShardProgram
from tfjit.runtime.schedule import branch_lowering
from tfjit.runtime.schedule.batch_axes import (
    NotIndependent,
    ShardSpec,
    reshaped_axis,
    shard_of,
    shard_spec,
)
from tfjit.runtime.schedule.horizontal_batching import HANDOVER_NS, chunks_of

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
        run = _Run(lowered, position, end + 1, taken, jumping)
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


class _Run:
    """Hold a loop and the instructions divided with it.

    The run covers instructions first..end without those in `hoisted`. axes: root index -> axis of a
    value defined in the run. seeds: value index -> axis of a value read from outside. rules: of
    each instruction.
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

    def _axis(self, value: Value) -> Axis:
        """Return the known axis of a value; None for a whole value."""
        if value.root.index not in self.inside:
            return self.seeds.get(value.index)
        if value.base is None:
            return self.axes.get(value.index)
        return reshaped_axis(value.base.shape, self._axis(value.base), value.shape, self.rows)

    def _rule(self, instruction: Instruction) -> ShardSpec:
        """Return an instruction's ShardSpec for the present axes.

        Raises NotIndependent.
        """
        found = [self._axis(value) for value in instruction.inputs]
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
            if self._axis(value) != needed and value.root.index in self.inside:
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
            found = [self._axis(value) for value in instruction.inputs]
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
            builder = _ShardBuilder(self, Shard(bounds[k], bounds[k + 1], self.rows), made)
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

    def axis_of_root(self, index: int) -> Axis:
        """Return the axis of a root value that the run defines."""
        return self.axes.get(index)

    def axis_inside(self, value: Value) -> Axis:
        """Return the axis of a run's value, or of its view."""
        return self._axis(value)


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


@dataclass(slots=True)
class _ShardBuilder:
    """Build one shard's instructions.

    made: calls by (id of the instruction, rows), shared by shards of equal size.
    """

    run: _Run
    shard: Shard
    made: dict[tuple[int, int], NativeCall]
    values: list[Value] = field(default_factory=list)
    sources: list[tuple[Value, int]] = field(default_factory=list)
    out: list[Instruction] = field(default_factory=list)
    # index of a value defined inside -> the shard's value
    inner: dict[int, Value] = field(default_factory=dict)
    # (index of a value read, axis) -> the shard's value
    outer: dict[tuple[int, Axis], Value] = field(default_factory=dict)
    feeds: dict[int, Value] = field(default_factory=dict)

    def build(
        self, members: Sequence[Instruction], given: Sequence[int], first: bool
    ) -> ShardProgram:
        """Return the shard of the divided run.

        first: this shard gives the values that are the same for all shards.
        """
        for instruction in members:
            yield_interpreter()
            self._add(instruction)
        targets: dict[int, tuple[Value, int]] = {}
        fetches: list[Value] = []
        for index in given:
            whole = self.run.lowered.values[index]
            axis = self.run.axis_of_root(index)
            if axis is None and not first:
                continue
            value = self.inner[index]
            offset = 0
            if axis is not None and not _is_leading(whole.shape, axis):
                value = self._copied_out(value, whole, axis)
            elif axis is not None:
                offset = _start(whole, axis, self.shard)
            value.fetched = True
            targets[value.index] = (whole, offset)
            fetches.append(value)
        lowered = Lowered(
            self.out,
            self.values,
            fetches,
            self.feeds,
            len(self.sources),
            graph=None,
            is_shard=True,
            backend=self.run.lowered.backend,
        )
        return ShardProgram(self.shard, lowered, self.sources, targets)

    def _new(
        self, like: Value, shape: tuple[int, ...], storage: str = "buffer", **kw: object
    ) -> Value:
        value = Value(
            len(self.values),
            like.dtype,
            shape,
            storage,  # type: ignore[arg-type]
            producer=like.producer,
            level=like.level,
            sequence=like.sequence,
            **kw,  # type: ignore[arg-type]
        )
        self.values.append(value)
        return value

    def _add(self, instruction: Instruction) -> None:
        rule = self.run.rules[id(instruction)]
        inputs = [
            self._read(value, axis)
            for value, axis in zip(instruction.inputs, rule.inputs, strict=True)
        ]
        outputs = [self._inside(value) for value in instruction.outputs]
        spec, call = instruction.spec, instruction.call
        if call is not None:
            spec = shard_of(spec, rule, self.shard)
            call = self._call(instruction, spec, rule)
        kept = Instruction(
            instruction.node,
            instruction.serving,
            inputs,
            outputs,
            spec,
            None,
            call,
            construct=instruction.construct,
            role=instruction.role,
            graph=instruction.graph,
            path=instruction.path,
            sequence=instruction.sequence,
            moves=instruction.moves,
        )
        self.out.append(kept)

    def _call(self, instruction: Instruction, spec: NodeSpec, rule: ShardSpec) -> NativeCall:
        sliced = any(rule.inputs[k] is not None for k in spec.constants) or spec.op == "_Fused"
        key = (
            id(instruction),
            self.shard.first
            if sliced and _depends_on_row_count(spec, rule)
            else -1 - (self.shard.last - self.shard.first),
        )
        if key not in self.made:
            if all(axis is None for axis in (*rule.inputs, *rule.outputs)):
                assert instruction.call is not None
                self.made[key] = instruction.call
            else:
                call, reason = native_call(self.run.lowered.backend, spec)
                if call is None:
                    raise NotIndependent(reason)
                self.made[key] = call
        return self.made[key]

    def _inside(self, value: Value) -> Value:
        """Return the shard of a value that the run defines."""
        if value.index not in self.inner:
            base = self._inside(value.base) if value.base is not None else None
            shape = self.shard.shape(value.shape, self.run.axis_inside(value))
            self.inner[value.index] = self._new(value, shape, base=base)
        return self.inner[value.index]

    def _read(self, value: Value, axis: Axis) -> Value:
        """Return the shard's operand: rows along an axis, or the whole."""
        if value.root.index in self.run.inside:
            return self._inside(value)
        key = (value.index, axis)
        if key not in self.outer:
            self.outer[key] = self._outside(value, axis)
        return self.outer[key]

    def _outside(self, value: Value, axis: Axis) -> Value:
        if value.root.storage == "const":
            assert value.root.array is not None
            array = value.root.array.reshape(value.shape)
            if axis is not None:
                array = np.ascontiguousarray(array[self.shard.slices(value.shape, axis)])
            return self._new(value, array.shape, "const", array=array)
        if axis is None or _is_leading(value.shape, axis):
            offset = 0 if axis is None else _start(value, axis, self.shard)
            return self._feed(value, self.shard.shape(value.shape, axis), offset)
        whole = self._feed(value, value.shape, 0)
        shard = self._new(value, self.shard.shape(value.shape, axis))
        self._copy(whole, shard, axis, reads=True)
        return shard

    def _feed(self, value: Value, shape: tuple[int, ...], offset: int) -> Value:
        fed = self._new(value, shape, "feed", feed=len(self.sources))
        self.feeds[len(self.sources)] = fed
        self.sources.append((value, offset))
        return fed

    def _copied_out(self, value: Value, whole: Value, axis: int) -> Value:
        target = self._new(whole, whole.shape)
        self._copy(value, target, axis, reads=False)
        return target

    def _copy(self, source: Value, target: Value, axis: int, reads: bool) -> None:
        """Emit a copy of rows from (reads) or to the whole."""
        whole = source if reads else target
        slices = self.shard.slices(whole.shape, axis)
        call = self.run.lowered.backend.part_copy(whole.spec, slices, reads)
        node = self.run.instructions[self.run.loop].node
        spec = NodeSpec(node.name, "DeepCopy", {}, (source.spec,), (target.spec,))
        made = Instruction(node, "native", [source], [target], spec, None, call)
        self.out.insert(0, made) if reads else self.out.append(made)


def _depends_on_row_count(spec: NodeSpec, rule: ShardSpec) -> bool:
    """Return whether a call may hold rows of a constant.

    Such rows differ from shard to shard.
    """
    if any(rule.inputs[k] is not None for k in spec.constants):
        return True
    return spec.op == "_Fused" and any(value.size > 1 for value in spec.attrs["group"].constants)


def _is_leading(shape: tuple[int, ...], axis: int) -> bool:
    """Return whether rows along an axis are contiguous in memory."""
    return prod(shape[:axis]) == 1


def _start(value: Value, axis: int, shard: Shard) -> int:
    """Return the byte at which a shard's rows begin."""
    return shard.start(value.shape[axis]) * prod(value.shape[axis + 1 :]) * value.dtype.size


def calls_of(splits: Iterable[RowSplit]) -> Iterator[NativeCall | None]:
    """Yield the calls of all shards."""
    for split in splits:
        for shard in split.shards:
            for instruction in shard.lowered.instructions:
                yield instruction.call


__all__ = ["calls_of", "find_splits"]
