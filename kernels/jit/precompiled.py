"""Find kernels in the archive that belongs to this machine's CPU.

Nothing is read before the first question: a process that finds all its kernels in the disk cache
reads no archive.
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


class Precompiled:
    """Find kernels in the archive of this CPU's highest level.

    Levels without an archive are passed over. Safe to use from any thread.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Look for archives in `folder`, or where they are installed.

        TFJIT_PRECOMPILED=0 hides the installed ones.
        """
        self._folder = folder
        self._lock = threading.Lock()
        self._opened: tuple[str, Archive] | None = None
        self._known = False

    def _open(self) -> tuple[str, Archive] | None:
        """Return the level and the archive, or None."""
        with self._lock:
            if not self._known:
                self._known = True
                self._opened = self._find()
            return self._opened

    def _find(self) -> tuple[str, Archive] | None:
        folder = self._folder
        if folder is None:
            with settings.using(os.environ):
                if not settings.flag("TFJIT_PRECOMPILED"):
                    return None
            folder = FOLDER
        # The look at the CPU imports LLVM.
        if not any(folder.glob(f"*{SUFFIX}")):
            return None
        for level in target.levels_here():
            path = folder / f"{level}{SUFFIX}"
            try:
                return level, Archive(path)
            except FileNotFoundError:
                continue
            except (OSError, DamagedArchive) as error:
                log.warning("tfjit: precompiled kernels are not used: %s", error)
        return None

    def key(self, source: KernelSource) -> str:
        """Return the key of a kernel in the archive, or ""."""
        opened = self._open()
        if opened is None:
            return ""
        key = precompiled_key(source, opened[0])
        return key if key in opened[1] else ""

    def has_archive(self) -> bool:
        """Return whether this CPU has an archive."""
        return self._open() is not None

    def holds(self, key: str) -> bool:
        """Return whether the archive has an object of that key."""
        opened = self._open()
        return opened is not None and key in opened[1]

    def text_key(self, text: str, functions: Sequence[str]) -> str:
        """Return the key of compiled LLVM assembly in the archive, or ""."""
        opened = self._open()
        if opened is None:
            return ""
        key = precompiled_text_key(text, functions, opened[0])
        return key if key in opened[1] else ""

    def read(self, key: str) -> ObjectFile | None:
        """Return the object of a key; None where missing or damaged."""
        opened = self._open()
        if opened is None:
            return None
        try:
            return opened[1].read(key)
        except (OSError, DamagedObject) as error:
            settings.say("cache", "%s: kernel %s is compiled: %s", opened[1].path, key, error)
            return None

    def reset_lock(self) -> None:
        """Replace the lock in a forked child; another thread may hold it."""
        self._lock = threading.Lock()
