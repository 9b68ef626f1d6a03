"""Rows of arrays in an arena: random programs give the values of copies."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tfjit.framework.types import dtypes
from tfjit.kernels.registry import NativeCall, NodeSpec
from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
from tfjit.runtime.offload.array_rows import RowView, WriteRow, place_rows
from tfjit.runtime.offload.device_memory import lay_out_program
from tfjit.runtime.offload.program_commands import CommandWriter

ROWS = 3
NODE = cast("Any", SimpleNamespace(name="node", op="Op", has_trait=lambda trait: False))


class Program:
    """A random list of instructions over arrays and rows, with the values they should make."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.width = int(self.rng.choice([16, 5]))  # rows of 64 bytes, and unaligned ones
        self.values: list[Value] = []
        self.expected: dict[int, np.ndarray] = {}
        self.instructions: list[Instruction] = []
        self.writes: dict[int, WriteRow] = {}
        self.feed = self.value("feed", (ROWS, self.width), np.arange(ROWS * self.width))
        arrays, rows = [self.feed], [self.row(self.feed, 0)]
        for _ in range(int(self.rng.integers(4, 30))):
            # the newest are the likeliest, as in loops
            array = arrays[-1] if self.rng.random() < 0.95 else arrays[self.pick(len(arrays))]
            row = rows[-1] if self.rng.random() < 0.8 else rows[self.pick(len(rows))]
            kind = self.rng.choice(["write", "row", "read", "array"], p=[0.4, 0.4, 0.1, 0.1])
            if kind == "write":
                arrays.append(self.write(array, row))
            elif kind == "read":
                rows.append(self.row(array, self.pick(ROWS)))
            elif kind == "row":
                other = self.row(array, self.pick(ROWS)) if self.rng.random() < 0.3 else rows[-1]
                rows.append(self.computed([row, other]))
            else:
                arrays.append(self.computed([array, arrays[0]]))
        self.fetches = [arrays[-1], rows[-1], arrays[self.pick(len(arrays))]]

    def pick(self, count: int) -> int:
        return int(self.rng.integers(count))

    def value(self, storage: Any, shape: tuple[int, ...], expected: np.ndarray) -> Value:
        value = Value(len(self.values), dtypes.float32, shape, storage, feed=0)
        self.values.append(value)
        self.expected[value.index] = expected.reshape(shape).astype(np.float32)
        return value

    def row(self, array: Value, index: int) -> Value:
        view = RowView(
            len(self.values),
            dtypes.float32,
            array.shape[1:],
            array.storage,
            base=array,
            offset=4 * self.width * index,
        )
        self.values.append(view)
        self.expected[view.index] = self.expected[array.index][index]
        return view

    def emit(self, inputs: list[Value], output: Value) -> None:
        spec = NodeSpec("node", "Op", {}, (), (output.spec,))
        self.instructions.append(Instruction(NODE, "reference", inputs, [output], spec))

    def computed(self, inputs: list[Value]) -> Value:
        values = [self.expected[value.index] for value in inputs]
        made = self.value("buffer", inputs[0].shape, computation(*values))
        self.emit(inputs, made)
        return made

    def write(self, array: Value, row: Value, index: int | None = None) -> Value:
        index = self.pick(ROWS) if index is None else index
        expected = self.expected[array.index].copy()
        expected[index] = self.expected[row.index]
        made = self.value("buffer", array.shape, expected)
        self.emit([array, row], made)
        written = cast("RowView", self.row(made, index))
        self.writes[id(self.instructions[-1])] = WriteRow(array, row, made, written)
        return made


def computation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one * 3 + other + 1) % 1000


def run(program: Program, instructions: list[Instruction]) -> list[np.ndarray]:
    """Return the fetches of instructions over an arena."""
    lowered = Lowered(instructions, program.values, program.fetches, {0: program.feed}, 1)
    steps = [(i, None if i.serving == "copy" else NativeCall(())) for i in instructions]
    layout = lay_out_program(lowered, steps)
    arena = np.full(layout.arena_bytes, 0xEE, np.uint8)
    writer = CommandWriter(
        layout, 0, 0, 0, lambda root: layout.offsets[root.index], lambda source: None
    )

    def view(value: Value) -> np.ndarray:
        start = writer.address(value)
        found = arena[start : start + value.spec.nbytes].view(np.float32)
        return found.reshape(value.shape)

    view(program.feed)[...] = program.expected[program.feed.index]
    for instruction in instructions:
        inputs = [view(value) for value in instruction.inputs]
        out = view(instruction.outputs[0])
        if instruction.serving == "copy":
            out[...] = inputs[-1].copy()
        else:
            out[...] = -1  # a kernel may write before it has read all
            out[...] = computation(*inputs)
    return [view(value).copy() for value in program.fetches]


@pytest.mark.parametrize("seed", range(300))
def test_random_programs(seed: int) -> None:
    program = Program(seed)
    placed = place_rows(program.instructions, program.writes, program.fetches)
    for value, found in zip(program.fetches, run(program, placed), strict=True):
        np.testing.assert_array_equal(found, program.expected[value.index])


def test_a_loop_over_rows_copies_nothing_but_the_array_that_enters() -> None:
    """Each row is computed into its place, and read there by the next iteration."""
    program = Program(0)
    program.width, program.instructions, program.writes = 16, [], {}
    array = program.value("const", (ROWS, 16), np.zeros(ROWS * 16))
    row = program.value("feed", (16,), np.arange(16))
    for index in range(ROWS):
        row = program.computed([row, row])
        array = program.write(array, row, index)
    placed = place_rows(program.instructions, program.writes, [array])
    copies = [i for i in placed if i.serving == "copy"]
    assert len(copies) == 2 and len(placed) == ROWS + 2
    assert all(value.root is copies[0].outputs[0] for value in placed[-1].outputs)
