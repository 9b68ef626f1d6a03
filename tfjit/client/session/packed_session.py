"""Open sessions over packs: their kernels, plans, variables and assets.

Kernels and plans serve the whole process. A pack that does not fit this tfjit or this CPU gives its
model alone, and its kernels are compiled as for any model.
"""

from __future__ import annotations

import errno
import fnmatch
import io
import logging
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from tfjit.client.session.pack_file import PackFile, archive_name
from tfjit.framework.env import FileSystem
from tfjit.kernels.jit import target
from tfjit.kernels.jit.store import store
from tfjit.runtime.stored_plans import plan_warm_start, stored_plan

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from tfjit.client.session.base_session import BaseSession
    from tfjit.framework.graphs.typing import Message
    from tfjit.runtime.factory import SessionOptions

log = logging.getLogger("tfjit.cache")

_used: Final[set[str]] = set()  # digests of the archives that the store has


def opened(path: Path) -> PackFile:
    """Open a pack, and let its kernels serve this process.

    If they do not fit it, the log gives the reason. Raises the errors of PackFile.
    """
    pack = PackFile(path)
    reason = use_kernels(pack)
    if reason:
        log.warning(
            "tfjit: the kernels of %s are not used: %s. Its model is compiled as any other.",
            path,
            reason,
        )
    return pack


def graph_def_of(pack: PackFile) -> Message:
    """Return the GraphDef of a pack. Raises DataLossError when it is damaged."""
    message = pack.message()
    return message.graph_def if message.DESCRIPTOR.name == "MetaGraphDef" else message


def use_kernels(pack: PackFile) -> str:
    """Let the pack's kernels and plans serve this process.

    Returns "", or the reason why they do not. Raises DataLossError when they are damaged.
    """
    if not pack.manifest.levels:
        return ""
    level, reason = pack.fitting_level()
    if reason:
        return reason
    if not target.limit_to(level):
        return (
            f"they are for {level}, and this process has made kernels for more already: set "
            f"TFJIT_CPU={level}, or open the pack first"
        )
    digest = pack.entries[archive_name(level)].sha256
    if digest not in _used:
        store.add_archive(level, pack.archive(level))
        _used.add(digest)
    plan_warm_start.add_packed(pack.manifest.levels[level].plans)
    stored_plan.add_packed(
        {key: partial(pack.read, name) for key, name in pack.plans(level).items()}
    )
    return ""


def with_files(options: SessionOptions, pack: PackFile) -> SessionOptions:
    """Return a session's options with the files of a pack added."""
    env = options.env
    return replace(options, env=replace(env, files=PackFiles(pack, env.files)))


def start(session: BaseSession, pack: PackFile) -> None:
    """Restore the variables and fill the tables of a new session."""
    for run in pack.manifest.startup:
        session.run(run.target, {name: f"{pack.path}/{file}" for name, file in run.files.items()})


class _Section(io.RawIOBase):
    """A part of a file, read as a file."""

    def __init__(self, path: Path, begin: int, size: int) -> None:
        self._file = path.open("rb")
        self._begin, self._size, self._at = begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")[: max(0, self._size - self._at)]
        self._file.seek(self._begin + self._at)
        count = self._file.readinto(view) if view.nbytes else 0
        self._at += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class PackFiles(FileSystem):
    """The files of a session and, below its path, of a pack.

    Large entries are read in parts, which checkpoints check by digests of their own; others are
    checked when they are opened.
    """

    def __init__(self, pack: PackFile, others: FileSystem) -> None:
        self._pack, self._others = pack, others
        self._prefix = f"{pack.path}/"

    def _name(self, path: str) -> str:
        """Return the entry that a path names, or ""."""
        path = path.removeprefix("file://")
        return path.removeprefix(self._prefix) if path.startswith(self._prefix) else ""

    def _writable(self, path: str) -> str:
        if self._name(path):
            raise OSError(errno.EROFS, "A pack cannot be changed", path)
        return path

    def open(self, path: str, mode: str) -> IO[bytes]:
        name = self._name(path)
        if not name:
            return self._others.open(path, mode)
        if mode != "rb":
            self._writable(path)
        entry = self._pack.entries.get(name)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "The pack has no such entry", path)
        if ".data-" in name:
            return cast("IO[bytes]", _Section(self._pack.path, entry.begin, entry.size))
        return io.BytesIO(self._pack.read(name))

    def exists(self, path: str) -> bool:
        name = self._name(path)
        if not name:
            return self._others.exists(path)
        return any(entry == name or entry.startswith(f"{name}/") for entry in self._pack.entries)

    def replace(self, source: str, target: str) -> None:
        self._others.replace(self._writable(source), self._writable(target))

    def remove(self, path: str) -> None:
        self._others.remove(self._writable(path))

    def remove_folder(self, path: str) -> None:
        self._others.remove_folder(self._writable(path))

    def make_folders(self, path: str) -> None:
        self._others.make_folders(self._writable(path))

    def glob(self, pattern: str) -> list[str]:
        name = self._name(pattern)
        if not name:
            return self._others.glob(pattern)
        found = fnmatch.filter(self._pack.entries, name)
        return [f"{self._prefix}{entry}" for entry in found]


__all__ = [
    "PackFiles",
    "graph_def_of",
    "opened",
    "start",
    "use_kernels",
    "with_files",
]
