"""Identify the code of this installation."""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Final

from tfjit.framework.version import __version__

_PARTS: Final = ("tfjit.kernels", "tfjit.passes")
"""Packages beside the folder of tfjit in a source tree.

They are inside when installed.
"""
_LEFT_OUT: Final = frozenset({"__pycache__", "client", "demo", "precompile"})


def _modules(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name not in _LEFT_OUT:
                yield from _modules(entry.path)
        elif entry.name.endswith(".py"):
            yield entry


def _folders() -> list[str]:
    """Return the folders of the packages; one inside another is left out."""
    found: list[str] = []
    for name in ("tfjit", *_PARTS):
        folder = os.path.dirname(str(importlib.import_module(name).__file__))
        if not any(folder.startswith(outer + os.sep) for outer in found):
            found.append(folder)
    return found


@functools.cache
def code_digest() -> str:
    """Return a hash that changes with each change of the installed modules.

    The hash covers paths, sizes and times of modification, not text: a file takes 2 us. The modules
    of the front end are left out.
    """
    digest = hashlib.sha256(f"{__version__} {sys.version}".encode())
    for folder in _folders():
        entries = sorted(_modules(folder), key=lambda entry: entry.path)
        for entry in entries:
            found = entry.stat()
            digest.update(f"{entry.path} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _recorded() -> list[str]:
    """Return a wheel's lines of RECORD with the modules' hashes.

    A source tree has none.
    """
    folder = _folders()[0]
    path = f"{os.path.dirname(folder)}/tfjit-{__version__}.dist-info/RECORD"
    try:
        with open(path, encoding="utf-8") as file:
            return sorted(line for line in file if line.startswith("tfjit/") and ".py,sha" in line)
    except OSError:
        return []


@functools.cache
def content_digest() -> str:
    """Return a hash of the text of the installed modules.

    All machines have the same. The modules of the front end are left out.
    """
    digest = hashlib.sha256(__version__.encode())
    recorded = _recorded()
    if recorded:
        digest.update("".join(recorded).encode())
        return digest.hexdigest()
    for folder in _folders():
        for entry in sorted(_modules(folder), key=lambda entry: entry.path):
            digest.update(os.path.relpath(entry.path, folder).encode())
            with open(entry.path, "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


__all__ = ["code_digest", "content_digest"]
