"""Find the object code of kernels in packs, disk cache and archives.

On disk a kernel is two files named by a key (cache_key.py): KEY.py, the text, for people and
tracebacks, and KEY.o, the object code (object_file.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from pathlib import Path

from tfjit.framework import settings
from tfjit.kernels.jit import loader
from tfjit.kernels.jit.cache_directory import ARCHIVES, KERNELS, private_directory
from tfjit.kernels.jit.cache_key import cache_key
from tfjit.kernels.jit.counters import Counters
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile
from tfjit.kernels.jit.precompiled import Archives, Precompiled, archive_level
from tfjit.kernels.jit.targets import find_target
from tfjit.kernels.source import KernelSource

log = logging.getLogger("tfjit.cache")

_TOUCH_SECONDS = 86400.0


class StoredCode:
    """Object code that packs, the disk cache and archives have.

    counters: of its owner. packs, precompiled: the archives before and behind the disk cache.
    without_compiler: target -> the reason why its kernels have no key, once it was met.
    """

    def __init__(
        self, counters: Counters, directory: Path | None = None, archives: Path | None = None
    ) -> None:
        """Look in the cache directory, or where the settings say.

        archives: the folder of precompiled kernels, by default that of the installed package.
        """
        self.packs = Archives()
        self.precompiled = Precompiled(archives, self.own_archives)
        self.without_compiler: dict[str, str] = {}
        self._counters = counters
        self._parent = directory
        self._directory: Path | None = None
        self._directory_known = False
        self._generic: dict[KernelSource, str] = {}  # those from archives, with their keys

    def cache_directory(self) -> Path:
        """Return the folder of all that is cached."""
        return (self._parent or settings.cache_dir()).absolute()

    def own_archives(self) -> Path | None:
        """Return the folder of the machine's own archives, or None."""
        return private_directory(self.cache_directory(), ARCHIVES, make=False)[0]

    @property
    def directory(self) -> Path | None:
        """Return the directory of object code; None where none is usable."""
        if not self._directory_known:
            self._directory, reason = private_directory(self.cache_directory(), KERNELS)
            self._directory_known = True
            if reason:
                # a pack brings its kernels, and no directory is asked for
                level = logging.DEBUG if self.packs.has_archive() else logging.WARNING
                log.log(level, "tfjit: compiled kernels are kept in memory only: %s", reason)
        return self._directory

    def key(self, source: KernelSource) -> str:
        """Return the kernel's name in the disk cache; "" without a compiler."""
        if source.target in self.without_compiler:
            return ""
        try:
            return cache_key(source)
        except loader.NoCompiler as error:
            self.without_compiler[source.target] = str(error)
            return ""

    def is_generic(self, source: KernelSource) -> bool:
        """Return whether the kernel was loaded from an archive."""
        return source in self._generic

    def name_of(self, source: KernelSource) -> str:
        """Return the name under which a later process finds a loaded kernel."""
        return self._generic.get(source) or cache_key(source)

    def holds_name(self, name: str) -> bool:
        """Return whether disk cache or archives have a kernel of that name."""
        return (
            self.packs.holds(name)
            or self._is_cached(os.path.basename(name))
            or self.precompiled.holds(name)
        )

    def holds(self, source: KernelSource, key: str) -> bool:
        """Return whether disk cache or archives have a kernel.

        key: its name in the disk cache, or "".
        """
        return self._is_cached(key) or bool(self.precompiled.key(source))

    def has_kernels(self) -> bool:
        """Return whether there is any kernel."""
        if self.packs.has_archive() or self.precompiled.has_archive():
            return True
        directory = self.directory
        if directory is None:
            return False
        with os.scandir(directory) as entries:  # a kernel has its text beside its code
            return any(entry.name.endswith(".py") for entry in entries)

    def load(self, source: KernelSource, key: str, archived: str = "") -> dict[str, int] | None:
        """Load a kernel from pack, disk cache or archive; return its addresses.

        key: its name in the disk cache, or "". archived: its name in archives, where it is known.
        Returns None where none of them has it.
        """
        addresses = self._load_archived(source, self.packs, archived)
        if addresses is None:
            addresses = self._load_cached(source, key)
        if addresses is None:
            addresses = self._load_archived(source, self.precompiled, archived)
        if addresses is not None:
            self._counters.hits += 1
        return addresses

    def _is_cached(self, key: str) -> bool:
        directory = self.directory if key else None
        return directory is not None and (directory / f"{key}.o").exists()

    def _load_cached(self, source: KernelSource, key: str) -> dict[str, int] | None:
        directory = self.directory if key else None
        if directory is None:
            return None
        path = directory / f"{key}.o"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        try:
            addresses = self.load_object(source, ObjectFile.decode(data))
        except (DamagedObject, loader.LoadError) as error:
            self._counters.damaged += 1
            settings.say("cache", "%s is compiled again: %s", path, error)
            return None
        # Another process may drop it, or the directory be read-only: it is loaded all the same.
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _TOUCH_SECONDS:
                os.utime(path)  # the worker drops kernels by their last use
        return addresses

    def _load_archived(
        self, source: KernelSource, archives: Archives, key: str
    ) -> dict[str, int] | None:
        key = key or archives.key(source)
        obj = archives.read(key) if key else None
        if obj is None:
            return None
        try:
            addresses = self.load_object(source, obj)
        except loader.LoadError as error:
            settings.say("cache", "the precompiled %s does not load: %s", source.title, error)
            return None
        self._generic[source] = key
        self._counters.precompiled += 1
        return addresses

    def load_object(self, source: KernelSource, obj: ObjectFile) -> dict[str, int]:
        """Load object code of a kernel; return its addresses. Raises LoadError."""
        start = time.perf_counter()
        load = find_target(source.target).load if source.target else loader.load
        addresses = load(obj)
        self._counters.load_ms += (time.perf_counter() - start) * 1e3
        return addresses

    def describe_archives(self) -> str:
        """Return as text which archives there are, and which process builds more."""
        found = self.precompiled.describe() or "none"
        folder = self.own_archives()
        if folder is None or "=0" in found:
            return found
        from tfjit.kernels.jit.build_lock import BuildLock

        lock = BuildLock(folder, archive_level())
        builder, failure = lock.holder(), lock.failure()
        if builder:
            return f"{found}; process {builder} builds more"
        return f"{found}; the last build failed: {failure}" if failure else found
