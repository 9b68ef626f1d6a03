"""The surroundings of a session: files, clock and environment variables.

By default they are the process's. A session reads the world through its `Env` alone: file kernels
and checkpoints its `files`, time limits and step statistics its `clock`, and TFJIT_* settings its
`variables`. Two things stay the process's for all sessions: the store of compiled code
(TFJIT_CACHE_DIR), and the times by which tfjit decides to compile.
"""

from __future__ import annotations

import glob
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any


class FileSystem:
    """The process's files; a subclass may serve others.

    A subclass need not override methods that are never called. Paths are as the graph has them,
    less a leading "file://". Raises the errors of the functions of the same purpose in `os`.
    """

    def open(self, path: str, mode: str) -> IO[Any]:
        """Return a file object, seekable when opened for reading.

        mode: "rb", "wb" (the folder must be there) or "a" (text).
        """
        return open(path, mode)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder of that name."""
        return os.path.exists(path)

    def replace(self, source: str, target: str) -> None:
        """Rename a file, replacing any file of the new name."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def make_folders(self, path: str) -> None:
        """Make a folder and its missing parents."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern, in any order.

        The pattern may hold *, ? and [...].
        """
        return glob.glob(pattern)

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        with self.open(path, "rb") as file:
            data: bytes = file.read()
            return data

    def write(self, path: str, data: bytes) -> None:
        """Write a whole file."""
        with self.open(path, "wb") as file:
            file.write(data)


class Clock:
    """The process's clock."""

    def time_ns(self) -> int:
        """Return the nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Return the nanoseconds of a clock that never goes back.

        Its start is any time.
        """
        return time.perf_counter_ns()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event, at most `seconds` of this clock.

        Returns whether the event is set.
        """
        return event.wait(seconds)


LOCAL_FILES = FileSystem()
_CLOCK = Clock()


@dataclass(frozen=True, slots=True)
class Env:
    """The surroundings of one session.

    files: where file operations of the graph read and write. clock: of time limits and step
    statistics. variables: where TFJIT_* settings are looked up; the default is `os.environ` itself,
    so that later changes count.
    """

    files: FileSystem = LOCAL_FILES
    clock: Clock = _CLOCK
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)


DEFAULT_ENV = Env()
