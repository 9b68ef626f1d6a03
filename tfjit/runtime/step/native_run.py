"""Describe native runs: compiled launches that one call runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.kernels.registry import Launch
    from tfjit.runtime.lowering.lowered import Instruction, Value
    from tfjit.runtime.lowering.row_splits import ShardProgram
    from tfjit.runtime.step.layout import Layout


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
