"""First runs that last: a step of reference kernels whose loop still goes round when the compiled
step is there gives way to that.

The run then begins again in compiled code, which takes a small part of what is left; so only a step
without effects may give way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfjit.kernels.registry import find_initial_state

if TYPE_CHECKING:
    from tfjit.runtime.lowering.lowering import Lowered

PATIENCE_S: Final = 0.05
"""A run that has not ended by then has its step compiled."""


class TierUp(Exception):
    """The compiled step is there."""


def is_restartable(lowered: Lowered) -> bool:
    """Whether a run of these instructions that is left in the middle changes nothing that a second
    one sees.
    """
    return lowered.has_loops and not any(
        instruction.serving == "runtime"
        or find_initial_state(instruction.node.op) is not None
        or any(value.root.storage == "handle" for value in instruction.inputs)
        for instruction in lowered.instructions
    )


class TierUpWatch:
    """Looks, before each iteration of a loop that Python runs, whether the run has been overtaken.

    begin: starts the compilation. compiled_ready: whether it is done.
    """

    def __init__(self, begin: Callable[[], None], compiled_ready: Callable[[], bool]) -> None:
        self._begin: Callable[[], None] | None = begin
        self._compiled_ready = compiled_ready
        self._until = time.monotonic() + PATIENCE_S

    def __call__(self) -> None:
        """Raises Overtaken."""
        if self._begin is not None:
            if time.monotonic() < self._until:
                return
            self._begin()
            self._begin = None
        if self._compiled_ready():
            raise TierUp


__all__ = ["PATIENCE_S", "TierUp", "TierUpWatch", "is_restartable"]
