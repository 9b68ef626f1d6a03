"""The surroundings of a session: its files, its clock and its environment variables. By default
they are the process's.

A session reads the world through its `Env` alone: file kernels and checkpoints its `files`, time
limits and step statistics its `clock`, and TFJIT_* settings its `variables`. What belongs to the
process, whatever its sessions say, stays the process's: the store of compiled code
(TFJIT_CACHE_DIR), and the times by which tfjit decides what to compile.
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
    """The process's files. A subclass serves others: it need not override what it never gets asked.

    Paths are as the graph has them, less a leading "file://". Raises what the functions of the same
    purpose in `os` raise.
    """

    def open(self, path: str, mode: str) -> IO[Any]:
        """A file object, seekable when it is read. mode: "rb", "wb" (the folder must be there) or
        "a" (text).
        """
        return open(path, mode)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that name."""
        return os.path.exists(path)

    def replace(self, source: str, target: str) -> None:
        """Give a file another name, in place of what had it."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it, as far as they are missing."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def glob(self, pattern: str) -> list[str]:
        """The paths that a pattern with *, ? and [...] matches, in any order."""
        return glob.glob(pattern)

    def read(self, path: str) -> bytes:
        """A whole file."""
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
        """Nanoseconds since the epoch."""
        return time.time_ns()

    def monotonic_ns(self) -> int:
        """Nanoseconds of a clock that never goes back, from any start."""
        return time.perf_counter_ns()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until the event is set, or until so many seconds of this clock are over; whether it
        is set.
        """
        return event.wait(seconds)


LOCAL_FILES = FileSystem()
_CLOCK = Clock()


@dataclass(frozen=True, slots=True)
class Env:
    """files: where file operations of the graph read and write. clock: of time limits and step
    statistics. variables: where TFJIT_* settings are looked up; the default is `os.environ` itself,
    so that later changes count.
    """

    files: FileSystem = LOCAL_FILES
    clock: Clock = _CLOCK
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)


DEFAULT_ENV = Env()
