"""Lay out the device memory of an offloaded graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tfjit.kernels.random_stream import POSITION_BYTES
from tfjit.kernels.registry import Pointer
from tfjit.runtime.offload.array_rows import byte_offset
from tfjit.runtime.offload.branch_memory import DeepInterval, lay_out_branches
from tfjit.runtime.offload.command_hazards import MemoryUse, Range, depths, find_hazards
from tfjit.runtime.step.memory_planner import align

if TYPE_CHECKING:
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value
    from tfjit.runtime.offload.library_forms import ProgramCall


Constant = int | tuple[int, int]
"""A constant's index, or its call's position and its number."""


@dataclass(slots=True)
class DeviceLayout:
    """The offsets of a program's values in one arena of device memory.

    offsets: of values in the arena, by index of the root value. temps: of the scratch buffers of
    each instruction, in order. streams: of positions of random streams in a part of the arena, by
    instruction; that part has stream_bytes from stream_start on. arena_bytes: the size. constants:
    arrays with their offsets in a separate block, which is written once. constant_bytes: the size
    of that block.
    """

    offsets: dict[int, int] = field(default_factory=dict)
    temps: list[tuple[int, ...]] = field(default_factory=list)
    streams: dict[int, int] = field(default_factory=dict)
    stream_start: int = 0
    stream_bytes: int = 0
    arena_bytes: int = 0
    constants: dict[Constant, tuple[int, np.ndarray]] = field(default_factory=dict)
    constant_bytes: int = 0


def lay_out_program(
    lowered: Lowered, steps: list[tuple[Instruction, ProgramCall | None]]
) -> DeviceLayout:
    """Return the memory of a program.

    steps: instructions in order with their calls, None for copies. Buffers of values that are not
    alive at the same time share memory (`branch_memory.py`); feeds and fetched values live
    throughout.
    """
    layout = DeviceLayout()
    count = len(steps)
    depth = depths(find_hazards(_uses_apart(steps)))
    intervals: dict[int, DeepInterval] = {}

    def meet(value: Value, first: int, last: int) -> None:
        root = value.root
        if root.storage not in ("buffer", "feed", "object"):
            return
        found = intervals.get(root.index)
        if found is None:
            found = intervals[root.index] = DeepInterval(max(root.spec.nbytes, 1), first, last)
            found.depth = depth[first] if 0 <= first < count else 0
        else:
            found.first, found.last = min(found.first, first), max(found.last, last)
        if 0 <= first < count:
            found.depth = min(found.depth, depth[first])
        if last < count:
            found.last_depth = max(found.last_depth, depth[last])

    for value in lowered.feeds.values():
        meet(value, -1, count)
    temps: list[list[DeepInterval]] = []
    for position, (instruction, call) in enumerate(steps):
        for value in (*instruction.inputs, *instruction.outputs):
            meet(value, position, position)
        sizes = call.temp_bytes if call is not None else ()
        temps.append(
            [
                DeepInterval(max(size, 1), position, position, -1, depth[position], depth[position])
                for size in sizes
            ]
        )
    for value in lowered.fetches:
        meet(value, count, count)
    for position, (_, call) in enumerate(steps):
        if call is not None and call.stream_blocks:
            layout.streams[position] = layout.stream_bytes
            layout.stream_bytes += POSITION_BYTES
    streams = DeepInterval(max(layout.stream_bytes, 1), -1, count)
    every = [streams, *intervals.values(), *(one for some in temps for one in some)]
    layout.arena_bytes = lay_out_branches(every)
    layout.offsets = {index: interval.offset for index, interval in intervals.items()}
    layout.stream_start = streams.offset
    layout.temps = [tuple(one.offset for one in some) for some in temps]
    _place_constants(layout, lowered, steps)
    return layout


def _uses_apart(steps: Sequence[tuple[Instruction, ProgramCall | None]]) -> list[MemoryUse]:
    """Return the memory that instructions use if each value had its own."""
    starts: dict[int, int] = {}
    end = 0

    def spans(values: Iterable[Value]) -> tuple[Range, ...]:
        nonlocal end
        found = []
        for value in values:
            root, variable = value.root, value.root.variable
            if root.storage == "const":
                continue
            key = id(root) if variable is None else id(variable)
            if key not in starts:
                starts[key] = end
                end += root.spec.nbytes if variable is None else math.prod(root.shape)
            start = starts[key]
            if variable is None:
                start += byte_offset(value)
                found.append((start, start + value.spec.nbytes))
            else:
                found.append((start, start + math.prod(root.shape)))
        return tuple(found)

    return [
        MemoryUse(
            spans(instruction.inputs),
            spans(
                [*instruction.outputs, *(v for v in instruction.inputs if v.storage == "handle")]
            ),
        )
        for instruction, _ in steps
    ]


def _place_constants(
    layout: DeviceLayout, lowered: Lowered, steps: list[tuple[Instruction, ProgramCall | None]]
) -> None:
    used = {
        value.root.index for instruction, call in steps for value in _read_inputs(instruction, call)
    } | {value.root.index for value in lowered.fetches}
    wanted: dict[Constant, np.ndarray] = {
        value.index: value.array
        for value in lowered.values
        if value.storage == "const"
        and value.base is None
        and value.array is not None
        and value.index in used
    }
    for position, (_, call) in enumerate(steps):
        for number, array in enumerate(call.constants if call is not None else ()):
            wanted[position, number] = array
    places: dict[int, int] = {}  # one array of several calls is stored once
    for key, array in wanted.items():
        found = places.get(id(array))
        if found is None:
            found = places[id(array)] = layout.constant_bytes
            layout.constant_bytes += align(max(array.nbytes, 1))
        layout.constants[key] = found, array


def _read_inputs(instruction: Instruction, call: ProgramCall | None) -> list[Value]:
    """Return the inputs that launches name.

    A known one may be in a constant of the call instead, in another form.
    """
    if call is None:
        return list(instruction.inputs)
    words = (word for launch in call.launches for word in launch.words)
    named = {word.index for word in words if isinstance(word, Pointer) and word.kind == "in"}
    return [value for number, value in enumerate(instruction.inputs) if number in named]


__all__ = ["DeviceLayout", "lay_out_program"]
