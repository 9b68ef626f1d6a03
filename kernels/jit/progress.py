"""Tell on stderr how far the compiling of kernels is, with TFJIT_PROGRESS=1."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from tfjit.framework import settings

_LOOK_S: Final = 0.2
_TERMINAL_S: Final = 0.3
_FIRST_LINE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class CompileCounts:
    """The numbers of a process's kernels.

    done: compiled or refused. pending: being compiled or loaded.
    """

    done: int
    pending: int


class CompileProgress:
    """Writer of a line about kernels while some are compiled.

    On a terminal one line is rewritten. Elsewhere lines come at growing intervals, the first after
    two seconds. counts: called by the writer's thread, several times a second.
    """

    def __init__(self, counts: Callable[[], CompileCounts], stream: TextIO | None = None) -> None:
        self._counts = counts
        self._stream = stream
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start a report if TFJIT_PROGRESS is set and none is running."""
        if not settings.flag("TFJIT_PROGRESS"):
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._report,
                    args=(self._counts().done,),
                    name="tfjit-progress",
                    daemon=True,
                )
                self._thread.start()

    def after_fork(self) -> None:
        """Reset the lock in a forked child, which has no reporting thread."""
        self._lock = threading.Lock()
        self._thread = None

    def _report(self, done_before: int) -> None:
        stream = self._stream or sys.stderr
        terminal = stream.isatty()
        began = time.monotonic()
        pause = _TERMINAL_S if terminal else _FIRST_LINE_S
        due, shown = began + pause, False
        while True:
            counts = self._counts()
            done = counts.done - done_before
            elapsed = time.monotonic() - began
            if not counts.pending:
                break
            if time.monotonic() >= due:
                text = f"tfjit: compiled {done} of {done + counts.pending} kernels, {elapsed:.1f} s"
                _write(stream, f"\r{text}" if terminal else f"{text}\n")
                shown = True
                pause = _LOOK_S if terminal else min(2 * pause, _LONGEST_PAUSE_S)
                due = time.monotonic() + pause
            time.sleep(_LOOK_S)
        if shown:
            text = f"tfjit: compiled {done} kernels in {elapsed:.1f} s\n"
            _write(stream, f"\r\033[K{text}" if terminal else text)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
