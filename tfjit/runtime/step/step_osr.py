"""Restart a still-looping reference step in compiled code (OSR).

A lasting first run gives way to the compiled step once that is ready. The run then starts again
from the beginning, which takes a small part of the remaining time in compiled code. Only a step
without effects may restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfjit.kernels.registry import find_initial_state

if TYPE_CHECKING:
    from tfjit.runtime.lowering.lowered import Lowered

PATIENCE_S: Final = 0.05
"""Time after which a running step is compiled."""


class TierUp(Exception):
    """Signal that the compiled step is ready."""


def is_restartable(lowered: Lowered) -> bool:
    """Return whether an abandoned run of these instructions may restart.

    Such a run changes no state that a second run reads.
    """
    return lowered.has_loops and not any(
        instruction.serving == "runtime"
        or find_initial_state(instruction.node.op) is not None
        or any(value.root.storage == "handle" for value in instruction.inputs)
        for instruction in lowered.instructions
    )


class TierUpWatch:
    """Check for the compiled step before each iteration of a Python loop.

    begin: starts the compilation. compiled_ready: returns true once the compilation is done.
    """

    def __init__(self, begin: Callable[[], None], compiled_ready: Callable[[], bool]) -> None:
        self._begin: Callable[[], None] | None = begin
        self._compiled_ready = compiled_ready
        self._until = time.monotonic() + PATIENCE_S

    def __call__(self) -> None:
        """Raise TierUp once the compiled step is ready."""
        if self._begin is not None:
            if time.monotonic() < self._until:
                return
            self._begin()
            self._begin = None
        if self._compiled_ready():
            raise TierUp


__all__ = ["PATIENCE_S", "TierUp", "TierUpWatch", "is_restartable"]
