"""Build the compiled kernel of a `_Loop` node.

The loop program becomes one launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tfjit.kernels.cpu.loop_program.text import (
    CANCELLED,
    Form,
    ProgramText,
    array_sizes,
    is_tileable,
    program_source,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.ir.fused_group import node_suffix
from tfjit.kernels.ir.loop_program import CONTROL, WHILE, LoopProgram, Step
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native

TILE_BYTES: Final = 16 << 10
"""Bytes of a tile's arrays: half of a first-level cache."""
_MIN_TILE: Final = 128
_GUESSED_NS: Final = 100_000.0
"""Assumed time of a loop, which is not known before it runs.

It is long enough to let other threads run meanwhile.
"""
_GUESSED_ITERATIONS: Final = 100
_LINE: Final = 64
LANE_BYTES: Final = 256
"""Bytes of the widest array's lanes.

They are four vectors in flight, while a handful of arrays still fit the registers.
"""
_MAX_LANE_STEPS: Final = 24
_MAX_CARRIED: Final = 5
_CHEAP_NS: Final = 0.2


@native("_Loop")
def _loop(spec: NodeSpec) -> NativeCall:
    program: LoopProgram = spec.attrs["program"]
    if tuple(t.shape for t in spec.inputs) != tuple(t.shape for t in program.input_specs):
        raise Unsupported("a loop is bound to its shapes")
    return program_call(program)


def program_call(program: LoopProgram, form: Form | None = None) -> NativeCall:
    """Return the launch of a loop program.

    form: None lets the builder choose. Raises Unsupported.
    """
    text, lanes = _text(program, form)
    constants = dict(program.constants)
    words: list[Word] = [Pointer("cancel")]
    chunks, pitch = 1, {}
    temps = [b for b in text.buffers if b.place == "temp"]
    cost = _GUESSED_NS
    if text.form != "whole":
        (count,) = array_sizes(program)
        cost = cost_model.FIXED_NS + _iterations(program) * count * max(text.element_ns, 0.05)
        words.append(count)
        chunks = cost_model.chunks_for(cost, max(count // max(_MIN_TILE, 2 * lanes), 1))
    if text.form == "tiled":
        tile = max(
            TILE_BYTES // max(sum(b.dtype.size for b in text.buffers), 1) // _LINE * _LINE,
            _MIN_TILE,
        )
        words.append(tile)
        pitch = {
            b.index: -(-min(tile, max(count, 1)) * b.dtype.size // _LINE) * _LINE for b in temps
        }
    words += [*text.sizes, *text.extents]
    words += [Pointer("in", k) for k in text.scalars]
    words += [Pointer("out", k) for k in text.outputs]
    words += [int(np.asarray(constants[v]).astype(np.int64)) for v in text.numbers]
    for b in text.buffers:
        words.append(Pointer(b.place, b.index))
        if b.index in pitch and b.place == "temp":
            words.append(pitch[b.index])
    sizes = [pitch[b.index] * chunks if pitch else max(b.size * b.dtype.size, 1) for b in temps]
    moved = sum(t.nbytes for t in (*program.input_specs, *program.output_specs))
    launch = Launch(
        text.source,
        tuple(words),
        chunks=chunks,
        cost_ns=max(cost, _GUESSED_NS),
        errors=_errors(text),
    )
    return NativeCall((launch,), temp_bytes=tuple(sizes), bytes_moved=moved)


def _text(program: LoopProgram, form: Form | None) -> tuple[ProgramText, int]:
    """Return the kernel's text and, for LANES, their number."""
    if form is None:
        form = "tiled" if is_tileable(program) else "whole"
        if form == "tiled" and array_sizes(program)[0] >= _lanes(program) > 0:
            form = "lanes"
    lanes = LANE_BYTES // _widest(program) if form == "lanes" else 0
    return program_source(program, form, lanes), lanes


def _lanes(program: LoopProgram) -> int:
    """Return the number of elements that loops may hold in registers.

    It is 0 for a program that is too long or carries too many values.
    """
    steps = [
        step
        for step in program.block.all_steps()
        if step.op not in CONTROL and any(program.values[v].size != 1 for v in step.results)
    ]
    carried = [
        v
        for step in program.block.all_steps()
        for v in step.results
        if step.op in CONTROL and program.values[v].size != 1
    ]
    if (
        len(steps) > _MAX_LANE_STEPS
        or len(carried) > _MAX_CARRIED
        or not all(cost_model.op_ns(step.op) <= _CHEAP_NS for step in steps)
    ):
        return 0
    return LANE_BYTES // _widest(program)


def _iterations(program: LoopProgram) -> float:
    """Return the number of iterations of the outermost loops.

    It is known where a loop counts from a constant to a constant, else guessed.
    """
    constants = dict(program.constants)
    found = [_counted(step, constants) for step in program.block.steps if step.op == WHILE]
    return max((n if n is not None else _GUESSED_ITERATIONS for n in found), default=1)


def _counted(loop: Step, constants: Mapping[int, Any]) -> float | None:
    condition, body = loop.blocks
    makers = {
        step.results[0]: step for step in (*condition.steps, *body.steps) if len(step.results) == 1
    }
    tests = [makers.get(condition.results[0])]
    for test in tests:  # the tests that must all hold
        if test is None:
            continue
        if test.op == "LogicalAnd":
            tests += [makers.get(a) for a in test.args]
        elif (
            test.op in ("Less", "LessEqual")
            and test.args[0] in condition.params
            and test.args[1] in constants
        ):
            k = condition.params.index(test.args[0])
            step = makers.get(body.results[k])
            if (
                step is None
                or step.op != "AddV2"
                or loop.args[k] not in constants
                or body.params[k] not in step.args
            ):
                continue
            by = next((constants[a] for a in step.args if a in constants), 0)
            if by > 0:
                return float(
                    max(
                        (float(constants[test.args[1]]) - float(constants[loop.args[k]]))
                        / float(by),
                        0,
                    )
                )
    return None


def _widest(program: LoopProgram) -> int:
    return max(spec.dtype.size for spec in program.values if spec.size != 1)


def _errors(text: ProgramText) -> dict[int, tuple[str, str]]:
    """Return the errors that the kernel may report.

    A message names the failing step, in braces that go through str.format.
    """
    found = {CANCELLED: ("CancelledError", "Loop execution was cancelled.")}
    for status, (kind, message, name) in text.failures.items():
        found[status] = (kind, message + node_suffix(name).replace("{", "{{").replace("}", "}}"))
    return found
