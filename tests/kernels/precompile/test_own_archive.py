"""The machine's archive is built once, keeps its kernels when a build ends, and replaces old ones.

The compiler's answers are given.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path

import pytest

from tfjit.kernels.jit import cache_key, precompiled
from tfjit.kernels.jit.archive import Archive, write_archive
from tfjit.kernels.jit.build_lock import BuildLock
from tfjit.kernels.jit.cache_key import complete_key, precompiled_key
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.jit.precompiled import Precompiled
from tfjit.kernels.precompile import own_archive
from tfjit.kernels.precompile.own_archive import build_own_archive, building_alone, own_folder
from tfjit.kernels.source import KernelSource

LEVEL = "x86-64-v3"
SOURCES = tuple(KernelSource(f"# {n}\ndef kernel(args, chunk, nchunks):\n  pass\n") for n in "abc")


class Pool:
    """Stand for the compiler processes."""

    def submit(self, function: object) -> Future[tuple[KernelSource, ...]]:
        future: Future[tuple[KernelSource, ...]] = Future()
        future.set_result(SOURCES)
        return future


class Compiler:
    """Answer with code for all kernels but those `refused`; fail at `fatal`."""

    def __init__(self) -> None:
        self.seen: list[KernelSource] = []
        self.refused: Sequence[KernelSource] = ()
        self.fatal: KernelSource | None = None

    def __call__(
        self, pool: object, level: str, sources: Sequence[KernelSource], block: int
    ) -> Iterator[tuple[dict[str, ObjectFile], list[str], float]]:
        for source in sources:
            if source is self.fatal:
                raise KeyboardInterrupt
            self.seen.append(source)
            found = {precompiled_key(source, level): ObjectFile({}, (), source.text.encode())}
            yield ({}, ["refused"], 0.0) if source in self.refused else (found, [], 0.0)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    answers = Compiler()
    monkeypatch.setattr(own_archive, "compilers", lambda level, count: nullcontext(Pool()))
    monkeypatch.setattr(own_archive, "compiled", answers)
    monkeypatch.setattr(own_archive, "archive_level", lambda: LEVEL)
    monkeypatch.setattr(precompiled, "archive_level", lambda: LEVEL)
    monkeypatch.setattr(own_archive, "FOLDER", tmp_path / "installed")
    return answers


def test_a_new_archive(compiler: Compiler, tmp_path: Path) -> None:
    shown: list[tuple[int, int]] = []
    built = build_own_archive(tmp_path, 1, lambda done, total: shown.append((done, total)))
    assert (built.present, built.compiled, built.refused) == (0, 3, ())
    assert shown == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [path.name for path in tmp_path.glob("*.tfk")] == [built.path.name]
    archives = Precompiled(tmp_path / "installed", lambda: tmp_path)
    assert archives.is_complete(LEVEL) and all(archives.key(source) for source in SOURCES)
    again = build_own_archive(tmp_path, 1)
    assert (again.present, again.compiled) == (3, 0) and len(compiler.seen) == 3


def test_an_interrupted_build_goes_on_where_it_ended(compiler: Compiler, tmp_path: Path) -> None:
    compiler.fatal = SOURCES[2]
    with pytest.raises(KeyboardInterrupt):
        build_own_archive(tmp_path, 1)
    archives = Precompiled(tmp_path / "installed", lambda: tmp_path)
    assert archives.key(SOURCES[1]) and not archives.key(SOURCES[2])
    assert not archives.is_complete(LEVEL)
    compiler.fatal = None
    assert build_own_archive(tmp_path, 1).compiled == 1 and compiler.seen == list(SOURCES)


def test_the_file_grows_meanwhile(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_archive, "_FIRST_SAVE_S", 0.0)
    monkeypatch.setattr(own_archive, "_SAVE_S", 0.0)
    sizes: list[int] = []

    def look(done: int, total: int) -> None:
        sizes.extend(len(Archive(path)) for path in tmp_path.glob("*.tfk"))

    build_own_archive(tmp_path, 1, look)
    assert sizes == [1, 2, 3]


def test_a_refused_kernel_is_left_out_of_a_complete_archive(
    compiler: Compiler, tmp_path: Path
) -> None:
    compiler.refused = SOURCES[:1]
    built = build_own_archive(tmp_path, 1)
    assert (built.compiled, built.refused) == (2, ("refused",))
    assert complete_key(LEVEL) in Archive(built.path)


def test_other_code_takes_over_what_is_the_same(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old archives stay for a while: another installation may be of that code."""
    (tmp_path / "installed").mkdir()
    first = ObjectFile({}, (), b"installed")
    key = precompiled_key(SOURCES[0], LEVEL)
    write_archive(tmp_path / "installed" / f"{LEVEL}.tfk", {key: first})
    for n in range(5):
        monkeypatch.setattr(own_archive, "set_digest", lambda n=n: str(n) * 20)
        monkeypatch.setattr(cache_key, "set_digest", lambda n=n: str(n) * 20)
        built = build_own_archive(tmp_path, 1)
        os.utime(built.path, (n, n))
    assert compiler.seen == list(SOURCES[1:]) and Archive(built.path).read(key) == first
    kept = sorted(path.name for path in tmp_path.glob("*.tfk"))
    assert kept == [f"{LEVEL}-{str(n) * 16}.tfk" for n in (2, 3, 4)]


def test_building_alone_ends_a_background_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    background = BuildLock(tmp_path, precompiled.archive_level())
    assert background.acquire()
    monkeypatch.setattr(os, "kill", lambda pid, number: background.release())
    with building_alone(tmp_path):
        assert not BuildLock(tmp_path, precompiled.archive_level()).acquire()
    assert background.acquire()
    monkeypatch.setattr(own_archive, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    with (
        pytest.raises(TimeoutError, match=f"process {os.getpid()} builds"),
        building_alone(tmp_path),
    ):
        pass
    background.release()


def test_the_folder_is_in_the_cache_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_CACHE_DIR", str(tmp_path))
    assert own_folder() == tmp_path / "archives"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TFJIT_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(OSError, match="no cache directory"):
        own_folder()
