"""The archive of the highest level that is there and whole serves this CPU."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tfjit.kernels.jit import cache_key, precompiled, target
from tfjit.kernels.jit.archive import write_archive
from tfjit.kernels.jit.cache_key import precompiled_key, precompiled_text_key
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.jit.precompiled import Precompiled
from tfjit.kernels.source import KernelSource

SOURCE = KernelSource("def kernel(args, chunk, nchunks):\n    return\n")
V2, V3, V4 = target.LEVELS


@pytest.fixture(autouse=True)
def three_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "levels_here", lambda: (V4, V3, V2))


def archive(folder: Path, level: str, code: bytes) -> Path:
    path = folder / f"{level}.tfk"
    write_archive(path, {precompiled_key(SOURCE, level): ObjectFile({}, (), code)})
    return path


def code_of(found: Precompiled) -> bytes | None:
    key = found.key(SOURCE)
    obj = found.read(key) if key else None
    return obj.code if obj is not None else None


def test_the_highest_level_serves(tmp_path: Path) -> None:
    assert code_of(Precompiled(tmp_path)) is None
    archive(tmp_path, V2, b"two")
    assert code_of(Precompiled(tmp_path)) == b"two"
    archive(tmp_path, V3, b"three")
    assert code_of(Precompiled(tmp_path)) == b"three"


def test_a_level_of_other_cpus_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tmp_path, V4, b"four")
    monkeypatch.setattr(target, "levels_here", lambda: (V3, V2))
    assert code_of(Precompiled(tmp_path)) is None


def test_an_archive_under_another_level_s_name_has_none_of_its_kernels(tmp_path: Path) -> None:
    archive(tmp_path, V4, b"four").rename(tmp_path / f"{V2}.tfk")
    assert code_of(Precompiled(tmp_path)) is None


def test_a_damaged_archive_is_named_once_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive(tmp_path, V3, b"three")
    archive(tmp_path, V4, b"four").write_bytes(b"tfjit archive 1\nwhat is this")
    found = Precompiled(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert [code_of(found), code_of(found)] == [b"three"] * 2
    assert len(caplog.records) == 1 and f"{V4}.tfk" in caplog.text


def test_nothing_is_read_before_the_first_question(tmp_path: Path) -> None:
    found = Precompiled(tmp_path)
    archive(tmp_path, V3, b"three")
    assert found.holds(precompiled_key(SOURCE, V3)) and not found.holds("no key")


def test_installed_archives_are_hidden_by_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tmp_path, V3, b"three")
    monkeypatch.setattr(precompiled, "FOLDER", tmp_path)
    monkeypatch.setenv("TFJIT_PRECOMPILED", "0")
    assert code_of(Precompiled()) is None
    monkeypatch.setenv("TFJIT_PRECOMPILED", "1")
    assert code_of(Precompiled()) == b"three"


def test_keys_hold_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """They name level, text and imports, and neither the CPU nor installed versions."""
    keys = [precompiled_key(SOURCE, V3), precompiled_text_key("ret void", ("f",), V3)]
    monkeypatch.setattr(cache_key, "environment", lambda: "another machine")
    assert keys == [precompiled_key(SOURCE, V3), precompiled_text_key("ret void", ("f",), V3)]
    assert precompiled_key(SOURCE, V4) != keys[0]
    assert precompiled_key(KernelSource(SOURCE.text + "\n"), V3) != keys[0]


def test_the_machine_s_own_archive_serves_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is behind an installed one, and may be written again at any time."""
    monkeypatch.setattr(precompiled, "_LOOK_S", 0.0)
    installed, own = tmp_path / "installed", tmp_path / "own"
    installed.mkdir()
    found = Precompiled(installed, lambda: own)
    assert code_of(found) is None and found.describe() == ""
    own.mkdir()
    archive(own, V4, b"first").rename(own / f"{V4}-1.tfk")
    assert code_of(found) == b"first" and found.describe() == f"{V4}, 1 kernels, cached"
    archive(own, V4, b"first one, but longer").rename(own / f"{V4}-1.tfk")
    assert code_of(found) == b"first one, but longer"
    (own / f"{V4}-2.tfk").write_bytes(b"tfjit archive 1\nwhat is this")
    assert code_of(found) == b"first one, but longer" and f"{V4}-2.tfk" in caplog.text
    archive(installed, V4, b"installed")
    assert code_of(Precompiled(installed, lambda: own)) == b"installed"
    assert code_of(Precompiled(tmp_path / "none", lambda: tmp_path / "none")) is None


def test_the_setting_hides_the_machine_s_own_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(tmp_path, V4, b"own").rename(tmp_path / f"{V4}-1.tfk")
    monkeypatch.setattr(precompiled, "FOLDER", tmp_path / "installed")
    monkeypatch.setenv("TFJIT_PRECOMPILED", "0")
    found = Precompiled(None, lambda: tmp_path)
    assert code_of(found) is None and found.describe() == "none (TFJIT_PRECOMPILED=0)"
    monkeypatch.setenv("TFJIT_PRECOMPILED", "1")
    assert code_of(Precompiled(None, lambda: tmp_path)) == b"own"


def test_a_machine_without_levels_builds_for_its_own_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "levels_here", lambda: ())
    assert precompiled.archive_level() == precompiled.HOST_LEVEL
    archive(tmp_path, "host", b"host").rename(tmp_path / "host-1.tfk")
    found = Precompiled(tmp_path / "none", lambda: tmp_path)
    assert code_of(found) == b"host"
    monkeypatch.setattr(cache_key, "environment", lambda: "another machine")
    cache_key._archive.cache_clear()
    try:
        assert code_of(found) is None
    finally:
        monkeypatch.undo()
        cache_key._archive.cache_clear()


def test_the_digest_of_code_covers_names_and_texts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    digest = cache_key.code_digest([tmp_path])
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert cache_key.code_digest([tmp_path]) != digest
    (tmp_path / "b.py").write_text("b")
    assert cache_key.code_digest([tmp_path]) != digest
    (tmp_path / "b.py").rename(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "more.tfk").write_text("c")
    assert cache_key.code_digest([tmp_path]) == digest
    assert len(cache_key.set_digest()) == 64
