"""Timers of hooks: actions at intervals of steps or seconds."""

from __future__ import annotations

import time


class SecondOrStepTimer:
    """Says at which steps an action is due.

    every_secs, every_steps: the interval. The first step asked about is due. Raises ValueError
    unless exactly one of the two is given.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs = every_secs
        self._every_steps = every_steps
        self.reset()

    def reset(self) -> None:
        """Forget the last action."""
        self._last_step: int | None = None
        self._last_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """Return whether the action is due; never twice at one step."""
        if self._last_step is None:
            return True
        if step == self._last_step:
            return False
        if self._every_steps is not None:
            return step >= self._last_step + self._every_steps
        assert self._every_secs is not None
        return time.time() >= self._last_time + self._every_secs

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note an action; return seconds and steps since the one before.

        Both are None for the first.
        """
        now = time.time()
        since: tuple[float | None, int | None] = (None, None)
        if self._last_step is not None:
            since = (now - self._last_time, step - self._last_step)
        self._last_step, self._last_time = step, now
        return since

    def last_triggered_step(self) -> int | None:
        """Return the step of the last action, or None."""
        return self._last_step
