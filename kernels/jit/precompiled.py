"""Find kernels in the archives that belong to this machine's CPU.

One is installed with tfjit, or this machine has built one in the cache directory; packs bring
others. The first two are not read before the first question: a process that finds all its kernels
in the disk cache reads none.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tfjit.framework import settings
from tfjit.kernels.jit import target
from tfjit.kernels.jit.archive import SUFFIX, Archive, DamagedArchive
from tfjit.kernels.jit.cache_key import (
    HOST_LEVEL,
    complete_key,
    precompiled_key,
    precompiled_text_key,
)
from tfjit.kernels.jit.loader import NoCompiler
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile
from tfjit.kernels.source import KernelSource

log = logging.getLogger("tfjit.cache")

FOLDER: Final = Path(__file__).resolve().parent.parent / "precompile"
"""The folder of the archives that are installed with tfjit."""
MOST_BUILDS: Final = 3
"""Archives of one level in the cache directory, each of other code."""
_LOOK_S: Final = 1.0  # between two looks for a changed archive

Archived = tuple[tuple[str, Archive], ...]
"""Archives with their levels."""


class Archives:
    """Find kernels in archives, the newest first.

    Packs bring theirs while the process runs. Safe to use from any thread.
    """

    def __init__(self) -> None:
        self._archives: Archived = ()

    def add(self, level: str, archive: Archive) -> None:
        """Add the archive of a level, which this CPU has."""
        self._archives = ((level, archive), *self._archives)

    def _all(self) -> Archived:
        return self._archives

    def _find_key(self, key_of: Callable[[str], str]) -> str:
        """Return the first key that its archive has, or "".

        key_of: the key for a level.
        """
        keys: dict[str, str] = {}
        for level, archive in self._all():
            if level not in keys:
                try:
                    keys[level] = key_of(level)
                except NoCompiler:  # it has no archive of this CPU
                    keys[level] = ""
            if keys[level] in archive:
                return keys[level]
        return ""

    def key(self, source: KernelSource) -> str:
        """Return the key of a kernel in an archive, or "".

        Archives have kernels for the host alone.
        """
        if source.target:
            return ""
        return self._find_key(lambda level: precompiled_key(source, level))

    def has_archive(self) -> bool:
        """Return whether this CPU has an archive."""
        return bool(self._all())

    def holds(self, key: str) -> bool:
        """Return whether an archive has an object of that key."""
        return any(key in archive for _, archive in self._all())

    def text_key(self, text: str, functions: Sequence[str]) -> str:
        """Return the key of compiled LLVM assembly in an archive, or ""."""
        return self._find_key(lambda level: precompiled_text_key(text, functions, level))

    def read(self, key: str) -> ObjectFile | None:
        """Return the object of a key; None where missing or damaged."""
        for _, archive in self._all():
            try:
                found = archive.read(key)
            except (OSError, DamagedObject) as error:
                settings.say("cache", "%s: kernel %s is compiled: %s", archive.path, key, error)
                continue
            if found is not None:
                return found
        return None


class Precompiled(Archives):
    """Find kernels in the installed archive, then in the machine's own.

    Of the installed archives, that of this CPU's highest level serves; levels without an archive
    are passed over.
    The machine's own grow while a process builds them, and are read again.
    """

    def __init__(
        self,
        folder: Path | None = None,
        own_folder: Callable[[], Path | None] = lambda: None,
    ) -> None:
        """Look for archives in `folder`, or where they are installed.

        own_folder: returns the folder of the machine's own archives, or None.
        TFJIT_PRECOMPILED=0 hides both, unless `folder` is given.
        """
        super().__init__()
        self._folder = folder
        self._own_folder = own_folder
        self._installed: Archived = ()
        self._own: dict[Path, tuple[int, Archive | None]] = {}
        self._seen = 0  # the time stamp of the own folder
        self._looked = 0.0
        self._lock = threading.Lock()
        self._known = False
        self._hidden = False

    def _all(self) -> Archived:
        with self._lock:
            if not self._known:
                self._known = True
                with settings.using(os.environ):
                    self._hidden = self._folder is None and not settings.flag("TFJIT_PRECOMPILED")
                self._installed = () if self._hidden else tuple(self._find_installed())
                self._archives = self._installed
            if not self._hidden and time.monotonic() > self._looked + _LOOK_S:
                self._look()
                self._looked = time.monotonic()
            return self._archives

    def _find_installed(self) -> Iterator[tuple[str, Archive]]:
        folder = self._folder or FOLDER
        if not any(folder.glob(f"*{SUFFIX}")):
            return
        for level in target.levels_here():
            try:
                yield level, Archive(folder / f"{level}{SUFFIX}")
            except FileNotFoundError:
                continue
            except (OSError, DamagedArchive) as error:
                log.warning("tfjit: precompiled kernels are not used: %s", error)
                continue
            return

    def _look(self) -> None:
        """Read the machine's own archives that are new or have grown."""
        folder = self._own_folder()
        try:
            seen = folder.stat().st_mtime_ns if folder is not None else 0
        except OSError:
            seen = 0
        if folder is None or seen == self._seen:
            return
        level = archive_level()
        found: dict[Path, tuple[int, Archive | None]] = {}
        for path in own_archives(folder, level)[:MOST_BUILDS]:
            try:
                stamp = path.stat().st_mtime_ns
                if self._own.get(path, (0, None))[0] == stamp:
                    found[path] = self._own[path]
                else:
                    found[path] = stamp, Archive(path)
            except FileNotFoundError:
                continue  # another process replaced it
            except (OSError, DamagedArchive) as error:
                found[path] = stamp, None
                log.warning("tfjit: precompiled kernels are not used: %s", error)
        self._seen, self._own = seen, found
        own = tuple((level, archive) for _, archive in found.values() if archive is not None)
        self._archives = (*self._installed, *own)

    def read(self, key: str) -> ObjectFile | None:
        """Return the object of a key; None where missing or damaged."""
        self._looked = 0.0  # another process may have replaced the file since its index was read
        return super().read(key)

    def is_complete(self, level: str) -> bool:
        """Return whether an archive has the whole set of this code.

        Raises NoCompiler for the level of the host.
        """
        return bool(self._all()) and self.holds(complete_key(level))

    def describe(self) -> str:
        """Return the archives with their numbers of kernels as text."""
        archives = self._all()
        if self._hidden:
            return "none (TFJIT_PRECOMPILED=0)"
        return ", ".join(
            f"{level}, {len(archive)} kernels, {'cached' if at >= 0 else 'installed'}"
            for at, (level, archive) in enumerate(archives, -len(self._installed))
        )

    def reset_lock(self) -> None:
        """Replace the lock in a forked child; another thread may hold it."""
        self._lock = threading.Lock()


def archive_level() -> str:
    """Return the level for which this machine builds an archive for itself."""
    return next(iter(target.levels_here()), HOST_LEVEL)


def own_archives(folder: Path, level: str) -> list[Path]:
    """Return a level's archives in the cache directory, the newest first."""
    return sorted(folder.glob(f"{level}-*{SUFFIX}"), key=_changed, reverse=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
