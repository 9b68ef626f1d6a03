"""Count running steps, for which a server that stops waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tfjit.framework import errors


class Activity:
    """The steps that run, and whether new work is refused. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self.is_draining = False

    def check(self) -> None:
        """Raise UnavailableError once the server stops."""
        if self.is_draining:
            raise errors.UnavailableError(None, None, "The server is stopping.")

    def enter(self) -> Callable[[], None]:
        """Count a step; return the function to call at its end."""
        with self._changed:
            self._count += 1
        over: list[bool] = []

        def leave() -> None:
            with self._changed:
                if over:
                    return
                over.append(True)
                self._count -= 1
                if not self._count:
                    self._changed.notify_all()

        return leave

    def begin(self) -> Callable[[], None]:
        """Count a step, as `enter` does. Raises UnavailableError once the server stops."""
        self.check()
        return self.enter()

    def drain(self, grace_s: float) -> bool:
        """Refuse new work; return whether all steps have ended in time."""
        self.is_draining = True
        until = time.monotonic() + grace_s
        with self._changed:
            while self._count:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True
