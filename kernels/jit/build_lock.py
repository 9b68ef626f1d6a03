"""Let one process at a time build the archive of a level.

The system releases the lock with the process that holds it, however that ends. Its file holds the
number of the last process and, if that failed, the reason.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_CLOSED_ON_EXEC: Final = getattr(os, "O_CLOEXEC", 0)


class BuildLock:
    """The lock file of a level's archive in the cache directory."""

    def __init__(self, folder: Path, level: str) -> None:
        self._path = folder / f"{level}.lock"

    def acquire(self) -> bool:
        """Take the lock until this process ends; return whether it was free.

        It is always free where the system has no such locks. Raises OSError.
        """
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | _CLOSED_ON_EXEC, 0o600)
        if not _locked(handle):
            os.close(handle)
            return False
        self._handle = handle  # closing it would release the lock
        self.note("")
        return True

    def release(self) -> None:
        """Let other processes build."""
        os.close(self._handle)

    def note(self, failure: str) -> None:
        """Write this process's number and the reason why it failed."""
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        os.write(self._handle, f"{os.getpid()} {failure}".encode())

    def holder(self) -> int:
        """Return the number of the process that holds the lock, or 0."""
        with self._opened() as handle:
            if handle is None or _locked(handle):
                return 0
            return int(self._text().split(" ", 1)[0] or 0)

    def failure(self) -> str:
        """Return the reason why the last process failed, or ""."""
        return self._text().partition(" ")[2].strip()

    def age_s(self) -> float:
        """Return the seconds since the last process took the lock."""
        try:
            return time.time() - self._path.stat().st_mtime
        except FileNotFoundError:
            return float("inf")

    def _text(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int | None]:
        """Open the file to test its lock; None without a file."""
        try:
            handle = os.open(self._path, os.O_RDONLY | _CLOSED_ON_EXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            yield handle
        finally:
            os.close(handle)


def _locked(handle: int) -> bool:
    """Lock an open file if that is free; return whether it was."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
