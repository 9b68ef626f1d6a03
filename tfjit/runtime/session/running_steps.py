"""Count the running steps of a session, and wait for their ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.runtime.session.running_step import RunningStep


class RunningSteps:
    """The running steps of a session. Thread-safe.

    running: step -> its thread; steps of one thread nest where a kernel runs Python.
    """

    def __init__(self) -> None:
        self.running: dict[RunningStep, int] = {}
        self._idle = threading.Condition()

    def begin(self, step: RunningStep, check: Callable[[], None]) -> None:
        """Count a step of this thread, unless `check` raises."""
        with self._idle:
            check()  # under the lock: a waiting thread waits for all that began before
            self.running[step] = threading.get_ident()

    def end(self, step: RunningStep) -> None:
        """Count a step as over, if it was counted."""
        with self._idle:
            # a child that forked within the step has no entry
            self.running.pop(step, None)
            self._idle.notify_all()

    def wait_for_others(self, timeout_s: float) -> bool:
        """Wait for the steps of other threads; return whether all have ended."""
        with self._idle:
            # this thread may be inside a step, in a Python function that the step calls
            me = threading.get_ident()
            return self._idle.wait_for(lambda: not {*self.running.values()} - {me}, timeout_s)

    def after_fork(self) -> None:
        """Forget the steps in a forked child: their threads are gone."""
        self._idle = threading.Condition()
        self.running.clear()
