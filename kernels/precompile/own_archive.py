"""Build this machine's archive of generic kernels in the cache directory.

`tfjit warm` does so on all cores, a background process on none that others want. The file is
written now and then, so that a process that is ended loses little and others see it grow.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tfjit.framework import settings
from tfjit.kernels.jit.archive import SUFFIX, Archive, DamagedArchive, write_archive
from tfjit.kernels.jit.build_lock import BuildLock
from tfjit.kernels.jit.cache_directory import ARCHIVES, private_directory
from tfjit.kernels.jit.cache_key import complete_key, precompiled_key, set_digest
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile
from tfjit.kernels.jit.precompiled import FOLDER, MOST_BUILDS, archive_level, own_archives
from tfjit.kernels.precompile.archive_builder import (
    COMPLETE,
    compiled,
    compilers,
    enumerate_kernels,
)

_FIRST_SAVE_S: Final = 5.0
_SAVE_S: Final = 20.0
_PATIENCE_S: Final = 30.0
"""Seconds that a background process may take to finish its kernel."""
_OLD_S: Final = 3600.0
_COMPRESSION: Final = 6  # 9 takes five times as long, for 2 % of the size

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class OwnArchive:
    """The archive of this machine and code.

    present, compiled: numbers of kernels that were there, and of new ones. refused: titles of
    kernels that do not compile, with the reasons.
    """

    path: Path
    present: int
    compiled: int
    refused: tuple[str, ...]


def own_folder() -> Path:
    """Return the folder of this machine's archives.

    Raises OSError without a usable one.
    """
    folder, reason = private_directory(settings.cache_dir().absolute(), ARCHIVES)
    if folder is None:
        raise OSError(f"there is no cache directory for compiled kernels: {reason}")
    return folder


def build_own_archive(
    folder: Path, processes: int, progress: Progress = lambda done, total: None
) -> OwnArchive:
    """Compile the generic kernels that archives lack, and write all.

    folder: of this machine's archives; the caller holds its lock. processes: niced ones that
    compile; with 0 this process does. progress: called with the numbers of present and of all
    kernels. An end by an exception keeps the kernels so far. Raises OSError.
    """
    level = archive_level()
    path = folder / f"{level}-{set_digest()[:16]}{SUFFIX}"
    with compilers(level, processes) as pool:
        sources = {
            precompiled_key(source, level): source
            for source in pool.submit(enumerate_kernels).result()
        }
        objects = _present(folder, level, sources)
        present = len(objects)
        refused: list[str] = []
        file = _GrowingArchive(path, objects)
        progress(present, len(sources))
        missing = [source for key, source in sources.items() if key not in objects]
        try:
            for found, failed, _ in compiled(pool, level, missing, block=1 if not processes else 8):
                objects.update(found)
                refused += failed
                file.save_if_due()
                progress(sum(key in objects for key in sources), len(sources))
            objects[complete_key(level)] = COMPLETE
        finally:
            file.save()
    _drop_old(folder, level)
    new = sum(key in objects for key in sources) - present
    return OwnArchive(path, present, new, tuple(refused))


class _GrowingArchive:
    """An archive that is written again as its objects become more."""

    def __init__(self, path: Path, objects: dict[str, ObjectFile]) -> None:
        self._path, self._objects = path, objects
        self._due = time.monotonic() + _FIRST_SAVE_S

    def save_if_due(self) -> None:
        """Write the archive some seconds after the last time."""
        if time.monotonic() >= self._due:
            self.save()

    def save(self) -> None:
        """Write the archive."""
        write_archive(self._path, self._objects, _COMPRESSION)
        self._due = time.monotonic() + _SAVE_S


def _present(folder: Path, level: str, keys: Collection[str]) -> dict[str, ObjectFile]:
    """Return the objects that archives have, of other code too."""
    found: dict[str, ObjectFile] = {}
    for path in (FOLDER / f"{level}{SUFFIX}", *own_archives(folder, level)):
        try:
            archive = Archive(path)
        except (OSError, DamagedArchive):
            continue  # it is missing, or will be written again
        for key in keys:
            if key in archive and key not in found:
                with contextlib.suppress(OSError, DamagedObject):
                    if (obj := archive.read(key)) is not None:
                        found[key] = obj
    return found


def _drop_old(folder: Path, level: str) -> None:
    """Drop archives of older code and the leftovers of killed processes."""
    leftovers = [path for path in folder.glob(".*.tmp") if _age_s(path) > _OLD_S]
    for path in (*own_archives(folder, level)[MOST_BUILDS:], *leftovers):
        path.unlink(missing_ok=True)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@contextmanager
def building_alone(folder: Path) -> Iterator[None]:
    """Hold the lock of this machine's archive for the block.

    A background process that holds it saves its kernels and ends. Raises TimeoutError when another
    process keeps the lock.
    """
    lock = BuildLock(folder, archive_level())
    patience = time.monotonic() + _PATIENCE_S
    while not lock.acquire():
        holder = lock.holder()
        if time.monotonic() > patience:
            raise TimeoutError(f"process {holder} builds the archive in {folder}")
        if holder:
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGTERM)
        time.sleep(0.2)
    try:
        yield
    finally:
        lock.release()
