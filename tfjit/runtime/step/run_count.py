"""Count the runs of a variant's steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from tfjit.runtime.kernel_api.op_kernel import StepContext

Instance = Callable[["Sequence[np.ndarray]", "StepContext | None"], list[Any]]
"""The function of a step's instance, which runs the step once."""


class RunCount:
    """Count runs, and call back at a number of them.

    count: about the number of runs; concurrent ones may count as one.
    """

    __slots__ = ("_limit", "_reached", "count")

    def __init__(self) -> None:
        self.count = 0
        self._limit = math.inf
        self._reached: Callable[[], None] | None = None

    def call_at(self, limit: float, reached: Callable[[], None]) -> None:
        """Call `reached` once, when the count has reached the limit.

        The thread of a run makes the call.
        """
        self._reached = reached
        self._limit = limit

    def counted(self, instance: Instance) -> Instance:
        """Return a function that counts its calls and runs the instance."""

        def run(values: Sequence[np.ndarray], context: StepContext | None) -> list[Any]:
            self.count += 1
            if self.count >= self._limit:
                self._limit = math.inf
                reached, self._reached = self._reached, None
                if reached is not None:
                    reached()
            return instance(values, context)

        return run


__all__ = ["Instance", "RunCount"]
