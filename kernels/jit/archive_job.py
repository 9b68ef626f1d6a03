"""Start the background process that builds this machine's archive of generic kernels.

It is started once a machine and version of the code, where no archive fits: by a process that has
compiled a kernel, when that waits for no further one, or when it ends. The process itself is
`tfjit.kernels.precompile.background`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tfjit.framework import settings
from tfjit.kernels.jit.build_lock import BuildLock
from tfjit.kernels.jit.cache_directory import ARCHIVES, private_directory
from tfjit.kernels.jit.loader import NoCompiler
from tfjit.kernels.jit.precompiled import Precompiled, archive_level
from tfjit.kernels.jit.worker import child_environment

COMMAND: Final = "tfjit.kernels.precompile.background"
_IDLE_S: Final = 3.0
"""Seconds without a kernel that is waited for, before the process starts."""
_LOOK_S: Final = 0.5
_AGAIN_S: Final = 600.0
"""Seconds between two starts of a process that cannot finish."""


class ArchiveJob:
    """Start the building of the archive once this process is idle.

    pending: returns the number of kernels that this process waits for. cache: returns the cache
    directory.
    """

    def __init__(
        self, precompiled: Precompiled, pending: Callable[[], int], cache: Callable[[], Path]
    ) -> None:
        self._precompiled, self._pending, self._cache = precompiled, pending, cache
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def want(self) -> None:
        """Start the process when idle, unless the settings forbid it."""
        with settings.using(os.environ):
            wanted = settings.flag("TFJIT_BUILD_ARCHIVE") and settings.flag("TFJIT_PRECOMPILED")
        if wanted:
            self._thread = threading.Thread(
                target=self._start_when_idle, name="tfjit-archive", daemon=True
            )
            self._thread.start()

    def _start_when_idle(self) -> None:
        began = time.monotonic()
        while not self._closed.wait(_LOOK_S):
            if self._pending():
                began = time.monotonic()
            elif time.monotonic() >= began + _IDLE_S:
                break
        self.start()

    def close(self) -> None:
        """Start the process at once if it is due; called at exit."""
        if self._thread is not None:
            self._closed.set()
            self._thread.join(1.0)

    def start(self) -> bool:
        """Start the process if it has work; return whether it has."""
        folder = self._work()
        if folder is None:
            return False
        settings.say(
            "cache",
            "no archive of generic kernels fits this code: a background process builds one in %s",
            folder,
        )
        process = subprocess.Popen(
            [sys.executable, "-m", COMMAND, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            cwd=os.path.abspath(os.sep),
            close_fds=True,
            start_new_session=True,
        )
        if self._closed.is_set():
            process.returncode = 0  # it outlives this process
        else:
            process.wait()  # it leaves the work to a child at once
        return True

    def _work(self) -> Path | None:
        """Return the folder of the archive to build, or None."""
        folder, reason = private_directory(self._cache(), ARCHIVES)
        if folder is None or not os.access(folder, os.W_OK):
            settings.say("cache", "no archive is built: %s", reason or f"{folder} is read-only")
            return None
        level = archive_level()
        lock = BuildLock(folder, level)
        try:
            if lock.age_s() < _AGAIN_S or lock.holder() or self._precompiled.is_complete(level):
                return None
        except (NoCompiler, OSError) as error:
            settings.say("cache", "no archive is built: %s", error)
            return None
        return folder
