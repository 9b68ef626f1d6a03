"""Remember on disk which libraries have passed their checks."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.code_digest import code_digest
from tfjit.kernels.jit.cache_directory import private_directory
from tfjit.kernels.jit.object_file import write_atomically

if TYPE_CHECKING:
    import ctypes

FOLDER: Final = "libraries"
"""Of the cache directory, with a file for each library and device."""
_MAPS: Final = "/proc/self/maps"
_FORM: Final = "tfjit passed check 1"


def path_of(library: ctypes.CDLL) -> str | None:
    """Return the path of an opened library, None if unknown."""
    name = getattr(library, "_name", None)
    if not name or os.path.isabs(name):
        return name or None
    try:
        with open(_MAPS, encoding="utf-8", errors="surrogateescape") as maps:
            mapped = {line.split(maxsplit=5)[-1].rstrip("\n") for line in maps if "/" in line}
    except OSError:
        return None
    # the loader maps the file behind a link: libcudnn.so.9.8.0 for libcudnn.so.9
    found = [path for path in mapped if os.path.basename(path).startswith(name)]
    return found[0] if len(found) == 1 else None


class PassedCheck:
    """The record of one library's check on one device.

    It holds for the same files of the library, the same version, device, driver and code of tfjit.
    Another text in its file counts as none.
    """

    def __init__(self, library: str, version: str, path: str, device: str, driver: int) -> None:
        """Describe the check.

        path: of the library's file. device: name and compute capability. driver: its CUDA version.
        """
        facts = [_FORM, library, version, _files(path), device, driver, code_digest()]
        self._facts = json.dumps(facts)
        name = hashlib.sha256(json.dumps([library, path, device]).encode()).hexdigest()
        self._name = f"{name[:32]}.json"

    def found(self) -> str | None:
        """Return the findings of the passed check, None for no record."""
        folder, _ = private_directory(_cache_directory(), FOLDER, make=False)
        if folder is None:
            return None
        try:
            facts, _, remembered = (folder / self._name).read_text("utf-8").partition("\n")
        except (OSError, UnicodeDecodeError):
            return None
        whole = remembered.endswith("\n")
        return remembered[:-1] if whole and facts == self._facts else None

    def write(self, remembered: str) -> None:
        """Record that the check was passed.

        A directory that refuses gets no record."""
        folder, reason = private_directory(_cache_directory(), FOLDER)
        try:
            if folder is not None:
                text = f"{self._facts}\n{remembered}\n"
                write_atomically(folder / self._name, text.encode())
        except OSError as error:
            reason = str(error)
        if reason:
            settings.say("kernels", "the passed check of a library is not recorded: %s", reason)


def _cache_directory() -> Path:
    return settings.cache_dir().absolute()


def _files(path: str) -> list[list[object]]:
    """Return path, size and time of a library's files.

    They are the opened one and those beside it of one stem: libcudnn.so.9 loads
    libcudnn_ops.so.9 and others.
    """
    folder, name = os.path.split(path)
    stem = name.partition(".so")[0]
    pattern = os.path.join(glob.escape(folder), f"{glob.escape(stem)}*.so*")
    found = []
    for one in sorted({path, *glob.glob(pattern)}):
        facts = os.stat(one)
        found.append([one, facts.st_size, facts.st_mtime_ns])
    return found


__all__ = ["FOLDER", "PassedCheck", "path_of"]
