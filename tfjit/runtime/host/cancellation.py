"""Cancellation: stop a step, or all work of a session, once.

Waiting kernels register callbacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from tfjit.framework.errors import CancelledError
from tfjit.runtime.host.fork_safety import release_lock


def cancelled_step() -> CancelledError:
    """Return the error of a step that was stopped from outside.

    The cause is the session's closing, a timeout or an interrupt.
    """
    return CancelledError(
        None, None, "Step was cancelled by an explicit call to `Session::Close()`."
    )


class CancellationManager:
    """Callbacks to run when cancelled. A child is cancelled with its parent.

    flag: one int64 that compiled loops may poll by address; non-zero once cancelled.
    """

    def __init__(self, parent: CancellationManager | None = None) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_token = 0
        self._parent = parent
        self._parent_token: int | None = None
        self.cancelled = False
        self.flag: np.ndarray | None = None
        if parent is not None:
            self._parent_token = parent.register(self.cancel)
            if self._parent_token is None:
                self.cancelled = True

    def poll_flag(self) -> np.ndarray:
        """Return the polled word, made on first use."""
        with self._lock:
            if self.flag is None:
                self.flag = np.array([int(self.cancelled)], np.int64)
            return self.flag

    def register(self, callback: Callable[[], None]) -> int | None:
        """Call `callback` once on cancellation.

        Returns a token, or None when already cancelled (the callback is not called).
        """
        with self._lock:
            if self.cancelled:
                return None
            token = self._next_token
            self._next_token += 1
            self._callbacks[token] = callback
            return token

    def deregister(self, token: int | None) -> bool:
        """Forget a callback; False if it has run or is running."""
        if token is None:
            return False
        with self._lock:
            return self._callbacks.pop(token, None) is not None

    def cancel(self) -> None:
        """Run every registered callback once; refuse later registrations.

        The latest callback runs first: a waiting kernel reports its wait before its step gives up.
        """
        with self._lock:
            if self.cancelled:
                return
            self.cancelled = True
            if self.flag is not None:
                self.flag[0] = 1
            callbacks = list(reversed(self._callbacks.values()))
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def after_fork(self) -> None:
        """Reset the manager in a forked child, where no step runs."""
        release_lock(self._lock)
        self._callbacks.clear()

    def release(self) -> None:
        """Detach from the parent (the step has ended)."""
        if self._parent is not None:
            self._parent.deregister(self._parent_token)


class CancellableWait:
    """A block that waits, until cancellation or an error.

    `cancel` is called then. manager: None where nothing else cancels. An interrupt of the
    thread raises in the block.
    """

    __slots__ = ("_cancel", "_manager", "_token")

    def __init__(self, manager: CancellationManager | None, cancel: Callable[[], None]) -> None:
        self._manager, self._cancel = manager, cancel
        self._token: int | None = None

    def __enter__(self) -> None:
        if self._manager is None:
            return
        self._token = self._manager.register(self._cancel)
        if self._token is None:
            self._cancel()

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is not None:
            self._cancel()
        if self._manager is not None:
            self._manager.deregister(self._token)
