"""Load LLVM assembly that tfjit writes itself.

The executor's loops and the measured instructions are such texts. They are compiled in this
process, in tens of milliseconds, where no pack, disk cache or archive has their object code.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfjit.framework import settings
from tfjit.kernels.jit import loader
from tfjit.kernels.jit.cache_key import text_key
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile, write_atomically
from tfjit.kernels.jit.precompiled import Archives, Precompiled


class AssemblyLoader:
    """Loader of LLVM assembly. Safe to use from any thread.

    keys: names of the objects it has loaded. names: name by digest of the text, those that an
    earlier process gave included.
    """

    def __init__(
        self, directory: Callable[[], Path | None], packs: Archives, precompiled: Precompiled
    ) -> None:
        """Make a loader that has loaded nothing.

        directory: returns the folder of object code, or None for memory only.
        """
        self.keys: set[str] = set()
        self.names: dict[str, str] = {}
        self._directory = directory
        self._packs, self._precompiled = packs, precompiled
        self._expected: dict[str, str] = {}
        self._recorded: dict[tuple[str, tuple[str, ...]], None] | None = None

    def expect(self, names: Mapping[str, str]) -> None:
        """Take `names` of an earlier process, which make computed ones needless."""
        self._expected |= names

    def record(self) -> None:
        """Record the texts that are loaded from now on."""
        self._recorded = {}

    def recorded(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the recorded texts, each with its functions."""
        return list(self._recorded or ())

    def load(self, text: str, functions: Sequence[str]) -> dict[str, int]:
        """Return function -> address for LLVM assembly.

        A text is to be loaded once a process, and its functions need unique names. Raises
        NoCompiler where it has to be compiled and cannot be.
        """
        if self._recorded is not None:
            self._recorded[text, tuple(functions)] = None
        packed = self._load_archived(self._packs, text, functions)
        if packed is not None:
            return packed
        digest = hashlib.sha256(repr((text, sorted(functions))).encode()).hexdigest()
        expected = self._load_expected(self._expected.get(digest, ""))
        if expected is not None:
            self.names[digest] = self._expected[digest]
            return expected
        key, path = "", None
        with contextlib.suppress(loader.NoCompiler):
            key = text_key(text, sorted(functions))
            directory = self._directory()
            path = directory / f"{key}.o" if directory else None
        if path is not None:
            try:
                addresses = loader.load(ObjectFile.decode(path.read_bytes()))
                self.keys.add(key)
                self.names[digest] = key
                return addresses
            except OSError:
                pass  # not on disk yet
            except (DamagedObject, loader.LoadError) as error:
                settings.say("cache", "%s is compiled again: %s", path, error)
        ready = self._load_archived(self._precompiled, text, functions)
        if ready is not None:
            self.names[digest] = self._precompiled.text_key(text, functions)
            return ready
        obj = loader.compile_ir(text, functions)
        if path is not None:
            with contextlib.suppress(OSError):
                write_atomically(path, obj.encode())
        self.keys.add(key)
        self.names[digest] = key
        return loader.load(obj)

    def _load_expected(self, key: str) -> dict[str, int] | None:
        """Load the object of a known name, or return None."""
        if not key:
            return None
        directory, obj = self._directory(), None
        if directory is not None:
            with contextlib.suppress(OSError, DamagedObject):
                obj = ObjectFile.decode((directory / f"{key}.o").read_bytes())
        if obj is None:
            obj = self._precompiled.read(key)
        if obj is None:
            return None
        try:
            addresses = loader.load(obj)
        except loader.LoadError as error:
            settings.say("cache", "compiled assembly %s does not load: %s", key, error)
            return None
        self.keys.add(key)
        return addresses

    def _load_archived(
        self, archives: Archives, text: str, functions: Sequence[str]
    ) -> dict[str, int] | None:
        """Load the object that archives have, or return None."""
        key = archives.text_key(text, functions)
        ready = archives.read(key) if key else None
        if ready is None:
            return None
        try:
            addresses = loader.load(ready)
        except loader.LoadError as error:
            settings.say("cache", "the precompiled %s does not load: %s", functions[0], error)
            return None
        self.keys.add(key)
        return addresses
