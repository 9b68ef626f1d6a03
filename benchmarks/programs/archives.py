"""Give tfjit's runs the archive of generic kernels that this machine has.

Each run has a cache directory of its own, so the machine's own archive is copied there. No run
builds one: that would take the runs' time.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tfjit.framework import settings
from tfjit.kernels.jit.cache_directory import ARCHIVES
from tfjit.kernels.jit.precompiled import archive_level, own_archives
from tfjit.kernels.jit.store import store

WITHOUT: Final = {"TFJIT_PRECOMPILED": "0"}
"""The variables of runs without archives."""
VARIABLES: Final = {"TFJIT_BUILD_ARCHIVE": "0"}
"""The variables of all runs."""


def describe() -> str:
    """Return the archives that runs find, as text."""
    found = store.archives()
    if store.has_all_generic():
        return found
    return f"{found} (not all of this code's: `tfjit warm` compiles them)"


def copy_own(cache: Path) -> None:
    """Copy the machine's own archives into a run's cache directory."""
    folder = settings.cache_dir() / ARCHIVES
    target = cache / ARCHIVES
    for path in own_archives(folder, archive_level()):
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy2(path, target)
