"""Threads of a test whose errors make the test fail."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable, Mapping, Sequence


class CheckedThread:
    """A thread that a test starts and has to join."""

    def __init__(
        self,
        test: unittest.TestCase,
        target: Callable[..., object],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> None:
        self._test = test
        self._target, self._args, self._kwargs = target, args, kwargs
        self._thread = threading.Thread(target=self._run)
        self._error: Exception | None = None
        self._joined = False

    def _run(self) -> None:
        try:
            self._target(*self._args, **self._kwargs)
        except Exception as error:
            self._error = error

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread; fail the test for its error."""
        self._joined = True
        self._thread.join()
        if self._error is not None:
            self._test.fail(f"Error in checkedThread: {self._error}")

    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Fail the test if the thread was not joined."""
        if not self._joined:
            self._test.fail("A checked thread was not joined.")
