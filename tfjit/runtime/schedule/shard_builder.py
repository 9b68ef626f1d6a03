"""Build the instructions of one shard of a divided loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.kernels.registry import NativeCall, NodeSpec
from tfjit.runtime.lowering.lowered import Instruction, Lowered, StorageKind, Value
from tfjit.runtime.lowering.lowering import native_call
from tfjit.runtime.lowering.row_splits import Axis, Shard, ShardProgram
from tfjit.runtime.schedule.batch_axes import NotIndependent, ShardSpec, shard_of

if TYPE_CHECKING:
    from tfjit.runtime.schedule.loop_parallelization import DividedRun


@dataclass(slots=True)
class ShardBuilder:
    """Build one shard's instructions.

    run: the divided run. shard: its rows. made: calls by (id of the instruction, rows), shared by
    shards of equal size.
    """

    run: DividedRun
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
            axis = self.run.axes.get(index)
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
        self,
        like: Value,
        shape: tuple[int, ...],
        storage: StorageKind = "buffer",
        array: np.ndarray | None = None,
        feed: int = -1,
        base: Value | None = None,
    ) -> Value:
        value = Value(
            len(self.values),
            like.dtype,
            shape,
            storage,
            array=array,
            feed=feed,
            base=base,
            producer=like.producer,
            level=like.level,
            sequence=like.sequence,
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
            shape = self.shard.shape(value.shape, self.run.axis(value))
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
            return self._new(value, array.shape, "const", array)
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
