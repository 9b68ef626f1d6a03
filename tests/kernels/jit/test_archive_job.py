"""The process that builds the archive is started once, late, and only where it has work."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tfjit.kernels.jit import archive_job, precompiled
from tfjit.kernels.jit.archive import write_archive
from tfjit.kernels.jit.archive_job import ArchiveJob
from tfjit.kernels.jit.build_lock import BuildLock
from tfjit.kernels.jit.cache_key import complete_key
from tfjit.kernels.jit.compile_queue import CompileQueue
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.jit.precompiled import Precompiled, archive_level
from tfjit.kernels.jit.store import KernelStore
from tfjit.kernels.source import KernelSource


class Started:
    """Stand for subprocess.Popen; count the processes."""

    commands: list[list[str]]
    environments: list[dict[str, str]]
    returncode = None

    def __init__(self, command: list[str], env: dict[str, str], **options: Any) -> None:
        Started.commands.append(command)
        Started.environments.append(env)

    def wait(self) -> int:
        return 0


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> type[Started]:
    Started.commands, Started.environments = [], []
    monkeypatch.setattr(subprocess, "Popen", Started)
    monkeypatch.setattr(archive_job, "_LOOK_S", 0.001)
    monkeypatch.setattr(archive_job, "_IDLE_S", 0.005)
    monkeypatch.setenv("TFJIT_PRECOMPILED", "1")
    monkeypatch.setenv("TFJIT_BUILD_ARCHIVE", "1")
    return Started


def job(tmp_path: Path, pending: int = 0) -> ArchiveJob:
    installed = Precompiled(tmp_path / "installed", lambda: tmp_path / "cache" / "archives")
    return ArchiveJob(installed, lambda: pending, lambda: tmp_path / "cache")


def test_it_is_started_by_an_idle_process(tmp_path: Path, started: type[Started]) -> None:
    begun = job(tmp_path)
    begun.want()
    begun._thread.join(60)  # type: ignore[union-attr]
    begun.close()
    ((_, _, module, folder),) = started.commands
    assert module == archive_job.COMMAND and folder == str(tmp_path / "cache" / "archives")
    assert started.environments[0]["TFJIT_BUILD_ARCHIVE"] == "0"


def test_it_waits_for_pending_kernels_and_is_started_at_the_end(
    tmp_path: Path, started: type[Started]
) -> None:
    begun = job(tmp_path, pending=1)
    begun.want()
    time.sleep(0.03)
    assert not started.commands
    begun.close()
    assert len(started.commands) == 1


@pytest.mark.parametrize("name", ["TFJIT_PRECOMPILED", "TFJIT_BUILD_ARCHIVE"])
def test_the_settings_forbid_it(
    name: str, tmp_path: Path, started: type[Started], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "0")
    begun = job(tmp_path)
    begun.want()
    begun.close()
    assert not started.commands and not (tmp_path / "cache").exists()


@pytest.mark.parametrize("place", ["installed", "cache/archives"])
def test_a_complete_archive_leaves_no_work(place: str, tmp_path: Path) -> None:
    level = archive_level()
    if level == precompiled.HOST_LEVEL:
        pytest.skip("no installed archive is for this CPU")
    folder = tmp_path / place
    folder.mkdir(parents=True)
    name = f"{level}.tfk" if place == "installed" else f"{level}-0.tfk"
    write_archive(folder / name, {"0" * 48: ObjectFile({}, (), b"")})
    assert job(tmp_path).start()
    write_archive(folder / name, {complete_key(level): ObjectFile({}, (), b"")})
    assert not job(tmp_path).start()


def test_one_process_builds_at_a_time(tmp_path: Path) -> None:
    assert job(tmp_path).start()
    lock = BuildLock(tmp_path / "cache" / "archives", archive_level())
    assert lock.acquire()
    old = time.time() - 3600
    os.utime(lock._path, (old, old))
    assert not job(tmp_path).start()
    lock.release()
    assert job(tmp_path).start()
    os.utime(lock._path)  # the last process began just now, and could not finish
    assert not job(tmp_path).start()


def test_nothing_is_built_in_a_folder_that_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not job(tmp_path).start()
    (tmp_path / "cache" / "archives").rmdir()
    (tmp_path / "cache" / "archives").write_text("no folder")
    assert not job(tmp_path).start()


def test_a_store_asks_for_it_with_its_first_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[ArchiveJob] = []
    monkeypatch.setattr(ArchiveJob, "want", lambda job: wanted.append(job))
    monkeypatch.setattr(CompileQueue, "put", lambda queue, key, for_others=False: None)
    store = KernelStore(tmp_path)
    for k in (1, 2):
        store._load_or_queue([KernelSource(f"# {k}\ndef kernel(args, chunk, nchunks):\n  pass\n")])
    assert len(wanted) == 1
    store.close()
