"""Remove unused steps of a loop program, and number its values."""

from __future__ import annotations

from dataclasses import replace

from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.loop_program import WHILE, Block, LoopProgram, Step, block_reads


def without_dead_steps(block: Block, wanted: set[int]) -> Block:
    """Return the block without steps that have unused results.

    Steps that may fail count as used, since they report errors.
    """
    needed = set(wanted) | set(block.results)
    kept: list[Step] = []
    for step in reversed(block.steps):
        row = elementwise.lookup(step.op)
        fails = any(
            row is not None and row.error is not None
            for row in (
                row,
                *(elementwise.lookup(s.op) for b in step.blocks for s in b.all_steps()),
            )
        )
        if not fails and step.op != WHILE and not needed & set(step.results):
            continue
        blocks = tuple(without_dead_steps(inner, set()) for inner in step.blocks)
        step = replace(step, blocks=blocks)
        kept.append(step)
        needed.update(step.args)
        for inner in blocks:
            needed |= block_reads(inner)
    return Block(block.params, tuple(reversed(kept)), block.results)


def renumbered(program: LoopProgram) -> LoopProgram:
    """Return the program with values numbered in order of appearance.

    Equal loops then have one text.
    """
    numbers: dict[int, int] = {}

    def of(value: int) -> int:
        return numbers.setdefault(value, len(numbers))

    def rewritten(block: Block) -> Block:
        params = tuple(of(p) for p in block.params)
        steps = []
        for step in block.steps:
            args = tuple(of(a) for a in step.args)
            blocks = tuple(rewritten(inner) for inner in step.blocks)
            steps.append(
                replace(step, args=args, blocks=blocks, results=tuple(of(r) for r in step.results))
            )
        return Block(params, tuple(steps), tuple(of(r) for r in block.results))

    inputs = tuple(of(v) for v in program.inputs)
    block = rewritten(program.block)
    outputs = tuple(of(v) for v in program.outputs)
    constants = tuple(sorted((of(v), c) for v, c in program.constants))
    order = sorted(numbers, key=numbers.__getitem__)
    return replace(
        program,
        values=tuple(program.values[v] for v in order),
        constants=constants,
        inputs=inputs,
        block=block,
        outputs=outputs,
    )
