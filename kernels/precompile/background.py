"""`python -m tfjit.kernels.precompile.background FOLDER`: build this machine's archive unnoticed.

FOLDER is that of the machine's archives. The process leaves its parent, runs where no other process
wants a core, and ends by itself; SIGTERM ends it with the kernels so far. Nothing is built while
another process builds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from tfjit.kernels.jit.build_lock import BuildLock
from tfjit.kernels.jit.niceness import be_nice
from tfjit.kernels.jit.precompiled import archive_level

_NICE = 19
_OOM_SCORE = Path("/proc/self/oom_score_adj")


def give_way() -> None:
    """Let all other processes have cores and memory first."""
    be_nice(_NICE)
    if hasattr(os, "SCHED_IDLE"):
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        _OOM_SCORE.write_text("1000")


def _end(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)


def build(folder: Path) -> int:
    """Build the archive; return the exit status.

    A failure is noted in the lock's file.
    """
    lock = BuildLock(folder, archive_level())
    if not lock.acquire():
        return 0
    signal.signal(signal.SIGTERM, _end)
    from tfjit.kernels.precompile.own_archive import build_own_archive

    try:
        build_own_archive(folder, processes=0)
    except Exception as error:  # its output is not read
        lock.note(f"{type(error).__name__}: {error}")
        return 1
    return 0


def main() -> int:
    """Run the command."""
    if os.fork():
        return 0
    give_way()
    return build(Path(sys.argv[1]))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # nothing to save, and tearing down LLVM takes its time
