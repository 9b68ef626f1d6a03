"""Open a vendor's library for a device on another thread."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import Final

_EXIT_S: Final = 30.0
_PAUSE_S: Final = 0.001
"""Between steps, in which runs get the interpreter and the device."""
_STEP = threading.RLock()
"""Held during each step of an opening.

A fork waits for the step: a child would inherit the locks of the loader and of imports as held.
"""


class LibraryOpening:
    """The opening of one library for one device.

    library: its name. usable: whether it may be used, known once the opening is done. Thread-safe.
    """

    def __init__(self, library: str) -> None:
        self.library = library
        self.usable = False
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[LibraryOpening], None]] = []
        _LIVING.add(self)

    @property
    def is_done(self) -> bool:
        """Return whether the library is open, or left out."""
        return self._done.is_set()

    def start(self, steps: Generator[None, None, bool]) -> None:
        """Take the steps on a new thread.

        steps: yields between steps, and returns whether the library is usable.
        """
        thread = threading.Thread(
            target=self._run, args=(steps,), name=f"tfjit-{self.library}", daemon=True
        )
        _THREADS.add(thread)
        thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the opening is done; return whether it is.

        timeout: in seconds, None for no limit.
        """
        return self._done.wait(timeout)

    def when_done(self, callback: Callable[[LibraryOpening], None]) -> None:
        """Call back once the opening is done.

        The call comes on the opening's thread, or at once where it is done already. It must not
        raise.
        """
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def _run(self, steps: Generator[None, None, bool]) -> None:
        usable = False
        try:
            while not _ENDING.is_set():
                with _STEP:
                    next(steps)
                time.sleep(_PAUSE_S)
        except StopIteration as end:
            usable = end.value
        finally:  # also where the steps raise, which the thread's hook reports
            steps.close()
            self._settle(usable)

    def _settle(self, usable: bool) -> None:
        with self._lock:
            self.usable = usable
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def after_fork(self) -> None:
        """Leave the library out of a forked child.

        The child has no thread that opens it.
        """
        if not self._done.is_set():
            self._lock = threading.Lock()
            self._done = threading.Event()
            self._done.set()
            self._callbacks = []


_ENDING = threading.Event()
_LIVING: weakref.WeakSet[LibraryOpening] = weakref.WeakSet()
_THREADS: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def _end() -> None:
    """Wait for the present steps.

    Libraries must not be loading when the process ends.
    """
    _ENDING.set()
    for thread in list(_THREADS):
        thread.join(_EXIT_S)


def _in_child() -> None:
    _STEP.release()
    _THREADS.clear()
    for opening in list(_LIVING):
        opening.after_fork()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_STEP.acquire, after_in_parent=_STEP.release, after_in_child=_in_child
    )

__all__ = ["LibraryOpening"]
