"""Tests of the memory that commands say they use: they read and write no other bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.runtime.offload.drawn_graphs import values_of
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.ir.accelerator import Command, CommandOrder
from tfjit.runtime.offload.command_hazards import MemoryUse, Range
from tfjit.runtime.offload.program_commands import CommandWriter

pytestmark = pytest.mark.simulator
GARBAGE = 0x7B


class Watched:
    """Runs each command of programs with garbage in all bytes that it does not name.

    Memory that no command of a program writes stays as it is: constants are not named.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands = 0
        self._uses: list[tuple[CommandOrder, list[MemoryUse]]] = []
        order, program = CommandWriter.order, SimulatedAccelerator.program

        def noted(writer: CommandWriter) -> CommandOrder:
            found = order(writer)
            self._uses.append((found, list(writer._uses)))
            return found

        def watched(device: Any, commands: Sequence[Command], order: CommandOrder) -> Any:
            made: Any = program(device, commands, order)
            (uses,) = (uses for known, uses in self._uses if known is order)
            made.start = lambda: self._run(device, commands, uses)
            return made

        monkeypatch.setattr(CommandWriter, "order", noted)
        monkeypatch.setattr(SimulatedAccelerator, "program", watched)

    def _run(self, device: Any, commands: Sequence[Command], uses: list[MemoryUse]) -> None:
        written = [span for use in uses for span in use.writes]
        memory = {
            start: block.data
            for start, block in device._allocations.items()
            if any(span[0] < start + block.data.nbytes and start < span[1] for span in written)
        }
        for command, use in zip(commands, uses, strict=True):
            before = {start: data.copy() for start, data in memory.items()}
            for start, data in memory.items():
                data[outside((*use.reads, *use.writes), start, data.nbytes)] = GARBAGE
            device.run((command,))
            self.commands += 1
            for start, data in memory.items():
                unnamed = outside((*use.reads, *use.writes), start, data.nbytes)
                assert (data[unnamed] == GARBAGE).all(), f"{command} writes elsewhere"
                data[unnamed] = before[start][unnamed]
                unwritten = outside(use.writes, start, data.nbytes)
                assert (data[unwritten] == before[start][unwritten]).all(), f"{command} writes"


def outside(spans: Sequence[Range], start: int, nbytes: int) -> np.ndarray:
    """Return which bytes of memory are in none of the ranges."""
    found = np.ones(nbytes, bool)
    for first, end in spans:
        found[max(first - start, 0) : max(end - start, 0)] = False
    return found


@pytest.mark.parametrize("seed", range(4))
def test_commands_use_the_memory_that_they_name(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    expected = values_of(seed, "/device:GPU:0", None)
    watched = Watched(monkeypatch)
    found = values_of(seed, "/device:GPU:0", None)
    assert watched.commands > 10
    for run, other in zip(found, expected, strict=True):
        for value, known in zip(run, other, strict=True):
            np.testing.assert_array_equal(value, known)
