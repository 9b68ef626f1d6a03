"""Report slow work on stderr."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO


class Progress:
    """Context manager that reports work of more than `after_s` seconds.

    It prints the work's name, again at growing intervals, and its duration at the end. On a
    terminal one line is rewritten; elsewhere lines are few. Quick work prints nothing. detail:
    returns more about the work's state.
    """

    def __init__(
        self,
        what: str,
        after_s: float = 1.0,
        stream: TextIO | None = None,
        detail: Callable[[], str] = lambda: "",
    ) -> None:
        self._what = what
        self._detail = detail
        self._after_s = after_s
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._done = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._tell, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if self._shown:
            self._write("failed" if kind else "done", end="\n")

    def _tell(self) -> None:
        wait_s = self._after_s
        while not self._done.wait(wait_s):
            self._shown = True
            self._write("...", end="" if self._terminal else "\n")
            wait_s = 0.5 if self._terminal else min(10.0, 2 * wait_s)

    def _write(self, state: str, end: str) -> None:
        start = "\r" if self._terminal else ""
        detail = self._detail()
        if detail and self._terminal:
            start += "\033[K"  # the line before may be longer
        seconds = time.monotonic() - self._started
        self._stream.write(f"{start}tfjit: {self._what} {state} {seconds:.1f} s{detail}{end}")
        self._stream.flush()
