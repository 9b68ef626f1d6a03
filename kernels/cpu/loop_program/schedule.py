"""Order the steps of a loop program's kernel.

The schedule also decides which steps write a block's results to their targets. `text.py` turns the
decisions into text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.ir.loop_program import (
    CONTROL,
    ELEMENT,
    SET_ELEMENT,
    Block,
    LoopProgram,
    Step,
    block_reads,
    free_values,
)

INDEXED: Final = frozenset({ELEMENT, SET_ELEMENT})


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of an array.

    place: "in", "out" or "temp" and its number there; scope: the alias scope of its accesses, -1
    for an input.
    """

    name: str
    dtype: DType
    size: int
    place: Literal["in", "out", "temp"]
    index: int
    scope: int


@dataclass(frozen=True, slots=True)
class Target:
    """The buffer of a block's result at the block's end.

    old: the value that is in the buffer as the block begins, or -1.
    """

    value: int
    buffer: Buffer
    old: int = -1


@dataclass(slots=True)
class Item:
    """A unit of emitted text.

    It is a scalar step, a control step, or a stage (steps of one loop over elements).
    """

    steps: list[Step]
    is_stage: bool = False
    reads: set[int] = field(default_factory=set)
    defines: set[int] = field(default_factory=set)


def items_of(program: LoopProgram, block: Block) -> list[Item]:
    """Return the block's steps as items.

    A scalar step moves before the stage that is being collected, unless it needs a reduction of it.
    """
    found: list[Item] = []
    stage = Item([], True)
    size = -1

    def close() -> None:
        nonlocal stage
        if stage.steps:
            found.append(stage)
        stage = Item([], True)

    for step in block.steps:
        reads = free_values(step)
        scalars = {r for r in stage.defines if program.is_scalar(r)}
        arrays = [v for v in (*step.args, *step.results) if not program.is_scalar(v)]
        if step.op in CONTROL or step.op in INDEXED or not arrays:
            if (
                reads & stage.defines
                or step.op == SET_ELEMENT
                or (step.op in CONTROL and _touches_arrays(program, step))
            ):
                close()
            found.append(Item([step], False, reads, set(step.results)))
            continue
        if stage.steps and (program.values[arrays[0]].size != size or reads & scalars):
            close()
        size = program.values[arrays[0]].size
        stage.steps.append(step)
        stage.reads |= reads - stage.defines
        stage.defines.update(step.results)
    close()
    return found


def _touches_arrays(program: LoopProgram, step: Step) -> bool:
    values = {*step.args, *step.results, *free_values(step)}
    inner = {
        r
        for block in step.blocks
        for other in block.all_steps()
        for r in (*other.args, *other.results)
    }
    return any(not program.is_scalar(v) for v in values | inner)


def split_targets(
    items: Sequence[Item], targets: Sequence[Target]
) -> tuple[dict[int, list[Target]], list[Target]]:
    """Divide targets into early and late ones.

    The item that computes a value writes its early targets; the late ones are copied at the block's
    end. A buffer may be written early when no later step and no copy at the end reads its old
    value.
    """
    targets = [t for t in targets if t.value != t.old]
    maker = {v: number for number, item in enumerate(items) for v in item.defines}
    late = [t for t in targets if t.value not in maker]
    early = [t for t in targets if t.value in maker]
    while True:
        read_last = {t.value for t in late}
        refused = [
            t for t in early if t.old in read_last or not _is_last_reader(items, maker[t.value], t)
        ]
        if not refused:
            break
        late += refused
        early = [t for t in early if t not in refused]
    direct: dict[int, list[Target]] = {}
    for t in early:
        direct.setdefault(maker[t.value], []).append(t)
    return direct, late


def _is_last_reader(items: Sequence[Item], number: int, target: Target) -> bool:
    if any(target.old in item.reads for item in items[number + 1 :]):
        return False
    step = items[number].steps[0]
    if step.op != "While":
        return True
    return all(target.old not in block_reads(block) for block in step.blocks)
