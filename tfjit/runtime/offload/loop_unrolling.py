"""Unroll the loops of an offloaded graph into one list of instructions.

The instructions of a loop are walked once for each iteration. The host computes conditions, indices
and the numbers that follow from them. The device's instructions are recorded, with new values in
each iteration: a loop variable is the result of the iteration before, and the layout of memory lets
such values alternate between buffers, without a copy. A row that is read by index is a view. This
file only decides; it runs reference kernels of small numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import WHILE
from tfjit.framework.types.tensors import truth
from tfjit.kernels.registry import NodeSpec, Unsupported, find_initial_state
from tfjit.passes.offload.offloadable_loops import ROW_OPS
from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value, copy_out
from tfjit.runtime.offload.array_rows import RowView, WriteRow, place_rows

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

MAX_INSTRUCTIONS: Final = 1 << 14
"""Instructions of one program; a graph with more is not unrolled.

One takes some 40 us to record.
"""
_KNOWN_ELEMENTS: Final = 1024
"""The largest array of numbers that the host computes."""
_NUMBER_ELEMENTS: Final = 16
"""The largest argument of the run that may decide on iterations."""
_NUMBERS: Final = frozenset({"int32", "int64", "bool"})
_BY_POSITION: Final = frozenset({"Slice", "StridedSlice", "StridedSliceGrad"})
"""Ops with kernels for known positions only."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """A value of the present iteration.

    value: in device memory, or None. array: its elements, where the host knows them.
    """

    value: Value | None = None
    array: np.ndarray | None = None


def deciding_feeds(lowered: Lowered) -> tuple[int, ...]:
    """Return the feeds on which conditions and indices depend.

    Raises Unsupported for one that is no small array of numbers.
    """
    makers: dict[int, list[Instruction]] = {}
    waiting: list[Value] = []
    for instruction in lowered.instructions:
        for value in instruction.outputs:
            makers.setdefault(value.root.index, []).append(instruction)
        if instruction.role == "test":
            waiting += instruction.inputs
        elif instruction.node.op in ROW_OPS:
            waiting.append(instruction.inputs[1])
        elif instruction.node.op in _BY_POSITION:
            waiting += [value for value in instruction.inputs if value.dtype.name in _NUMBERS]
    feeds: set[int] = set()
    seen: set[int] = set()
    while waiting:
        root = waiting.pop().root
        if root.index in seen:
            continue
        seen.add(root.index)
        if root.storage == "feed":
            if root.dtype.name not in _NUMBERS or np.prod(root.shape) > _NUMBER_ELEMENTS:
                raise Unsupported(
                    f"the condition of a loop depends on {root.producer}, which is no small array "
                    "of numbers"
                )
            feeds.add(root.feed)
        for maker in makers.get(root.index, ()):
            waiting += maker.inputs
    return tuple(sorted(feeds))


def unroll(lowered: Lowered, known: Mapping[int, np.ndarray]) -> Lowered:
    """Return a graph without loops, for known values of some feeds.

    Raises Unsupported where the device decides on an iteration, and for too many instructions;
    OpError where a number cannot be computed.
    """
    return _Unrolling(lowered, known).run()


class _Unrolling:
    """One walk over the instructions of a graph."""

    def __init__(self, lowered: Lowered, known: Mapping[int, np.ndarray]) -> None:
        self._lowered = lowered
        self._instructions = lowered.instructions
        self._values = list(lowered.values)
        self._out: list[Instruction] = []
        self._rows: dict[int, WriteRow] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Value] = {}
        self._bound: dict[int, _Bound] = {
            value.index: _Bound(value, known.get(feed)) for feed, value in lowered.feeds.items()
        }
        self._tests: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        for position, instruction in enumerate(self._instructions):
            if instruction.role in ("test", "repeat"):
                places = self._tests if instruction.role == "test" else self._ends
                places[id(instruction.construct)] = position

    def run(self) -> Lowered:
        self._run(0, len(self._instructions))
        fetches = [self._on_device(self._resolved(value)) for value in self._lowered.fetches]
        out = place_rows(self._out, self._rows, fetches)
        return replace(self._lowered, instructions=out, values=self._values, fetches=fetches)

    def _run(self, position: int, end: int) -> None:
        while position < end:
            instruction = self._instructions[position]
            if instruction.role is None:
                self._instruction(instruction)
                if len(self._out) > MAX_INSTRUCTIONS:
                    raise Unsupported(f"its loops make more than {MAX_INSTRUCTIONS} instructions")
            elif instruction.role == "loop":
                position = self._loop(position)
            else:
                raise Unsupported(f"{instruction.node.name} ({instruction.node.op}) is a branch")
            position += 1

    def _loop(self, begin: int) -> int:
        """Unroll a loop; return the position of its end."""
        construct = id(self._instructions[begin].construct)
        test, end = self._tests[construct], self._ends[construct]
        while True:
            self._run(begin + 1, test)
            holds = self._resolved(self._instructions[test].inputs[0]).array
            if holds is None:
                node = self._instructions[begin].node
                raise Unsupported(f"the condition of {node.name} depends on values of the device")
            if not truth(holds):
                return end
            self._run(test + 1, end)

    def _instruction(self, instruction: Instruction) -> None:
        if instruction.serving == "copy":
            self._copy(instruction)
            return
        inputs = [self._resolved(value) for value in instruction.inputs]
        if instruction.node.op in ROW_OPS:
            self._row(instruction, inputs)
            return
        arrays = [bound.array for bound in inputs if bound.array is not None]
        if len(arrays) == len(inputs) and _is_number(instruction):
            assert instruction.compute is not None
            for value, array in zip(
                instruction.outputs, instruction.compute(instruction.spec, arrays), strict=True
            ):
                dtype = value.dtype.as_numpy_dtype
                self._bound[value.index] = _Bound(
                    None, np.ascontiguousarray(array, dtype).reshape(value.shape)
                )
            return
        spec = instruction.spec
        if instruction.node.op in _BY_POSITION:
            constants = {k: b.array for k, b in enumerate(inputs) if b.array is not None}
            spec = replace(spec, constants=constants)
        operands = [self._on_device(bound) for bound in inputs]
        self._emit(instruction, operands, [self._made(v) for v in instruction.outputs], spec)

    def _copy(self, instruction: Instruction) -> None:
        """Pass on a loop variable's value; copy a variable's."""
        found = self._resolved(instruction.inputs[-1])
        (target,) = instruction.outputs
        changes = found.value is not None and found.value.root.storage in ("variable", "handle")
        if instruction.moves and not changes:
            self._bound[target.index] = found
            return
        self._emit(instruction, [self._on_device(found)], [self._made(target)], instruction.spec)

    def _row(self, instruction: Instruction, inputs: Sequence[_Bound]) -> None:
        """Read or write a row at a known index."""
        rows, index = inputs[0], inputs[1].array
        (target,) = instruction.outputs
        count = instruction.inputs[0].shape[0]
        if index is None:
            raise Unsupported(f"the index of {instruction.node.name} is a value of the device")
        if not 0 <= int(index) < count:  # the host's loop raises the error
            raise Unsupported(f"{instruction.node.name} has the index {int(index)} of {count}")
        if instruction.node.op == "_GetRow":
            row = None if rows.array is None else np.ascontiguousarray(rows.array[int(index)])
            view: Value | None = None
            if rows.value is not None:
                found = view = self._row_view(rows.value, int(index), target)
                # a variable may change while the row is used
                small = row is not None and row.size <= _KNOWN_ELEMENTS
                if small and not found.is_aligned:
                    view = None
                elif not found.is_aligned or found.root.storage == "variable":
                    view = self._made(target)
                    self._emit_copy(instruction, found, view)
            self._bound[target.index] = _Bound(view, row)
            return
        operands = [self._on_device(rows), self._on_device(inputs[2])]
        made = self._made(target)
        self._emit(instruction, operands, [made], instruction.spec)
        written = self._row_view(made, int(index), instruction.inputs[2])
        self._rows[id(self._out[-1])] = WriteRow(operands[0], operands[1], made, written)

    def _row_view(self, rows: Value, index: int, like: Value) -> RowView:
        view = RowView(
            len(self._values),
            like.dtype,
            like.shape,
            rows.storage,
            base=rows,
            producer=like.producer,
            offset=index * like.spec.nbytes,
        )
        self._values.append(view)
        return view

    def _emit(
        self,
        instruction: Instruction,
        inputs: list[Value],
        outputs: list[Value],
        spec: NodeSpec,
    ) -> None:
        self._out.append(
            replace(instruction, inputs=inputs, outputs=outputs, spec=spec, construct=None)
        )

    def _emit_copy(self, instruction: Instruction, source: Value, target: Value) -> None:
        spec = NodeSpec(instruction.spec.name, "DeepCopy", {}, (source.spec,), (target.spec,))
        self._emit(instruction, [source], [target], spec)
        self._out[-1].serving, self._out[-1].compute = "copy", copy_out

    # ---- values

    def _resolved(self, value: Value) -> _Bound:
        """Return a value of the graph in the present iteration."""
        root = value.root
        if root.storage in ("handle", "variable"):
            return _Bound(value)
        if root.storage == "const":
            assert root.array is not None
            return _Bound(value, root.array.reshape(value.shape))
        found = self._bound[root.index]
        if value is root:
            return found
        array = None if found.array is None else found.array.reshape(value.shape)
        if found.value is None:
            return _Bound(None, array)
        view = Value(
            len(self._values),
            value.dtype,
            value.shape,
            found.value.storage,
            base=found.value,
            producer=value.producer,
        )
        self._values.append(view)
        return _Bound(view, array)

    def _on_device(self, bound: _Bound) -> Value:
        """Return a value in device memory; a known array becomes a constant."""
        if bound.value is not None:
            return bound.value
        assert bound.array is not None
        return self._constant(bound.array, _dtype_of(bound.array))

    def _constant(self, array: np.ndarray, dtype: DType) -> Value:
        key = dtype.name, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is None:
            found = Value(len(self._values), dtype, array.shape, "const", array=array)
            self._values.append(found)
            self._constants[key] = found
        return found

    def _made(self, value: Value) -> Value:
        """Return the new value that an output is in the present iteration."""
        if value.root.storage in ("handle", "variable"):
            return value
        made = Value(
            len(self._values), value.dtype, value.shape, value.storage, producer=value.producer
        )
        self._values.append(made)
        self._bound[value.index] = _Bound(made)
        return made


def _dtype_of(array: np.ndarray) -> DType:
    from tfjit.framework.types.dtypes import as_dtype

    return as_dtype(array.dtype)


def _is_number(instruction: Instruction) -> bool:
    """Return whether the host computes an instruction of known inputs."""
    node = instruction.node
    return (
        instruction.serving in ("reference", "native")
        and instruction.compute is not None
        and not node.is_stateful
        and not node.has_trait(WHILE)
        and find_initial_state(node.op) is None
        and all(
            value.base is None
            and value.storage == "buffer"
            and (value.dtype.name in _NUMBERS or value.shape == ())
            and np.prod(value.shape) <= _KNOWN_ELEMENTS
            for value in instruction.outputs
        )
    )


__all__ = ["MAX_INSTRUCTIONS", "deciding_feeds", "unroll"]
