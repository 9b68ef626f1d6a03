"""The background process gives way to all others, and leaves a word about a failure."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tfjit.kernels.jit.build_lock import BuildLock
from tfjit.kernels.jit.precompiled import archive_level
from tfjit.kernels.precompile import background, own_archive

pytest.importorskip("fcntl")


@pytest.fixture(autouse=True)
def terminated() -> object:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_build_and_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []
    lock = BuildLock(tmp_path, archive_level())

    def build(folder: Path, processes: int) -> None:
        folders.append(folder)
        assert processes == 0 and not lock.acquire()
        if len(folders) > 1:
            raise OSError("no space left")

    monkeypatch.setattr(own_archive, "build_own_archive", build)
    monkeypatch.setattr(BuildLock, "acquire", taken := acquiring(BuildLock.acquire))
    assert background.build(tmp_path) == 0 and lock.failure() == ""
    taken.locks[0].release()
    assert background.build(tmp_path) == 1 and lock.failure() == "OSError: no space left"
    assert background.build(tmp_path) == 0 and len(folders) == 2  # it is held
    taken.locks[1].release()


def acquiring(acquire):  # type: ignore[no-untyped-def]
    """Wrap `acquire`; keep the locks that were taken."""

    def taken(lock: BuildLock) -> bool:
        free = acquire(lock)
        if free:
            taken.locks.append(lock)  # type: ignore[attr-defined]
        return bool(free)

    taken.locks = []  # type: ignore[attr-defined]
    return taken


def test_the_process_gives_way() -> None:
    code = (
        "import os; from tfjit.kernels.precompile.background import give_way; give_way(); "
        "print(os.nice(0), os.sched_getscheduler(0) == os.SCHED_IDLE)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "19 True\n"
