"""Find kernels in the archives that belong to this machine's CPU.

One is installed with tfjit; packs bring others. The installed one is not read before the first
question: a process that finds all its kernels in the disk cache reads none.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tfjit.framework import settings
from tfjit.kernels.jit import target
from tfjit.kernels.jit.archive import SUFFIX, Archive, DamagedArchive
from tfjit.kernels.jit.cache_key import precompiled_key, precompiled_text_key
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile
from tfjit.kernels.source import KernelSource

log = logging.getLogger("tfjit.cache")

FOLDER: Final = Path(__file__).resolve().parent.parent / "precompile"
"""The folder of the archives that are installed with tfjit."""


class Archives:
    """Find kernels in archives, the newest first.

    Packs bring theirs while the process runs. Safe to use from any thread.
    """

    def __init__(self) -> None:
        self._archives: tuple[tuple[str, Archive], ...] = ()

    def add(self, level: str, archive: Archive) -> None:
        """Add the archive of a level, which this CPU has."""
        self._archives = ((level, archive), *self._archives)

    def _all(self) -> tuple[tuple[str, Archive], ...]:
        """Return the archives with their levels."""
        return self._archives

    def key(self, source: KernelSource) -> str:
        """Return the key of a kernel in an archive, or ""."""
        keys = ((precompiled_key(source, level), archive) for level, archive in self._all())
        return next((key for key, archive in keys if key in archive), "")

    def has_archive(self) -> bool:
        """Return whether this CPU has an archive."""
        return bool(self._all())

    def holds(self, key: str) -> bool:
        """Return whether an archive has an object of that key."""
        return any(key in archive for _, archive in self._all())

    def text_key(self, text: str, functions: Sequence[str]) -> str:
        """Return the key of compiled LLVM assembly in an archive, or ""."""
        keys = (
            (precompiled_text_key(text, functions, level), archive)
            for level, archive in self._all()
        )
        return next((key for key, archive in keys if key in archive), "")

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
    """Find kernels in the installed archive of this CPU's highest level.

    Levels without an archive are passed over.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Look for archives in `folder`, or where they are installed.

        TFJIT_PRECOMPILED=0 hides the installed ones.
        """
        super().__init__()
        self._folder = folder
        self._lock = threading.Lock()
        self._known = False

    def _all(self) -> tuple[tuple[str, Archive], ...]:
        with self._lock:
            if not self._known:
                self._known = True
                self._archives = self._find()
            return self._archives

    def _find(self) -> tuple[tuple[str, Archive], ...]:
        folder = self._folder
        if folder is None:
            with settings.using(os.environ):
                if not settings.flag("TFJIT_PRECOMPILED"):
                    return ()
            folder = FOLDER
        if not any(folder.glob(f"*{SUFFIX}")):
            return ()
        for level in target.levels_here():
            path = folder / f"{level}{SUFFIX}"
            try:
                return ((level, Archive(path)),)
            except FileNotFoundError:
                continue
            except (OSError, DamagedArchive) as error:
                log.warning("tfjit: precompiled kernels are not used: %s", error)
        return ()

    def reset_lock(self) -> None:
        """Replace the lock in a forked child; another thread may hold it."""
        self._lock = threading.Lock()
