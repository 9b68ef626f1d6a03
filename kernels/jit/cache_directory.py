"""Find the folders of object code in the cache directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

KERNELS: Final = "kernels"
"""The folder of single kernels."""
ARCHIVES: Final = "archives"
"""The folder of archives that this machine has built."""


def private_directory(parent: Path, name: str, make: bool = True) -> tuple[Path | None, str]:
    """Return a folder for object code, or None and the reason.

    parent: the cache directory. Code in the folder is run: only its user, or root, may write there.
    make: create a missing folder.
    """
    directory = parent / name
    try:
        if make:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        return None, str(error)
    if hasattr(os, "geteuid"):
        if found.st_uid not in (os.geteuid(), 0):
            return None, f"{directory} belongs to another user"
        if stat.S_IMODE(found.st_mode) & 0o022:
            if found.st_uid != os.geteuid():
                return None, f"{directory} can be written by others"
            try:
                directory.chmod(0o700)
            except OSError as error:
                return None, str(error)
    return directory, ""
