"""Sessions over packs: what serves the process, and the files below a pack's path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import tfjit
from tfjit.client.session import packed_session
from tfjit.client.session.pack_file import (
    Manifest,
    PackedLevel,
    PackFile,
    archive_name,
    write_pack,
)
from tfjit.client.session.packed_session import PackFiles, use_kernels
from tfjit.framework import errors
from tfjit.framework.env import FileSystem
from tfjit.framework.version import __version__
from tfjit.kernels.jit import target
from tfjit.kernels.jit.archive import Archive, write_archive
from tfjit.kernels.jit.cache_key import compiler_digest
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.jit.store import store
from tfjit.runtime.plan import first_run
from tfjit.runtime.stored_plans import plan_warm_start


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pack of a small graph with an archive of this CPU's level, without a useful kernel."""
    if not target.levels_here():
        pytest.skip("packs are for x86-64")
    level = target.levels_here()[0]
    write_archive(tmp_path / "archive", {"ab" * 24: ObjectFile({}, (), b"code")})
    with tfjit.Graph().as_default() as graph:
        tfjit.add(tfjit.constant([1.0, 2.0]), 1.0, name="y")
    entries: dict[str, bytes | Path] = {
        "model.pb": graph.as_graph_def().SerializeToString(),
        archive_name(level): tmp_path / "archive",
        "assets/words.txt": b"a\nb\n",
        "variables/variables.data-00000-of-00001": bytes(range(100)),
    }
    manifest = Manifest(
        *(__version__, compiler_digest(), os.uname().sysname.lower(), "x86_64", "GraphDef"),
        levels={level: PackedLevel(1, {"a plan": (("Where", "Unique"),)})},
    )
    write_pack(tmp_path / "model.tfjit", manifest, entries)
    monkeypatch.setattr(packed_session, "_used", set())
    monkeypatch.setattr(plan_warm_start, "_packed", {})
    return tmp_path / "model.tfjit"


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels of the archives that the store was given."""
    levels: list[str] = []

    def add(level: str, archive: Archive) -> None:
        levels.append(level)

    monkeypatch.setattr(store, "add_archive", add)
    return levels


def test_kernels_and_plans_serve_the_process_once(path: Path, added: list[str]) -> None:
    for _ in range(2):
        with tfjit.Session(graph=path) as session:
            assert session.run("y:0").tolist() == [2.0, 3.0]
    assert added == [target.levels_here()[0]]
    record = plan_warm_start.read("a plan")
    assert record is not None and first_run.record_pays(record)
    assert plan_warm_start.read_splits("a plan") == [["Where", "Unique"]]
    assert plan_warm_start.read("another plan") is None


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "levels_here",
            lambda: ("x86-64-v1",),
            "this process has x86-64-v1. Its model is compiled",
        ),
        (
            "limit_to",
            lambda level: False,
            "has made kernels for more already: set TFJIT_CPU=x86-64",
        ),
    ],
)
def test_a_pack_that_does_not_fit_gives_its_model(
    path: Path,
    added: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: object,
    reason: str,
) -> None:
    monkeypatch.setattr(target, name, value)
    with tfjit.Session(graph=path) as session:
        assert session.run("y:0").tolist() == [2.0, 3.0]
    assert not added and reason in caplog.text and f"{path} are not used" in caplog.text


def test_damaged_kernels_are_not_used(path: Path, added: list[str]) -> None:
    entry = PackFile(path).entries[archive_name(target.levels_here()[0])]
    content = bytearray(path.read_bytes())
    content[entry.begin + entry.size - 1] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(errors.DataLossError, match=r"kernels/.* does not match its digest"):
            tfjit.Session(graph=path)
    assert not added


def test_a_pack_cannot_be_repaired_by_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "model.tfjit").write_bytes(b"PK\x03\x04 and then something else")
    with pytest.raises(errors.InvalidArgumentError, match="damaged or truncated pack"):
        tfjit.Session(graph=tmp_path / "model.tfjit")


def test_use_kernels_says_why_not(path: Path, added: list[str]) -> None:
    assert use_kernels(PackFile(path)) == "" and len(added) == 1


def test_files_below_the_path_of_a_pack(path: Path, tmp_path: Path) -> None:
    files = PackFiles(PackFile(path), FileSystem())
    assert files.read(f"{path}/assets/words.txt") == b"a\nb\n"
    assert files.read(f"file://{path}/assets/words.txt") == b"a\nb\n"
    with files.open(f"{path}/variables/variables.data-00000-of-00001", "rb") as data:
        assert data.seek(90) == 90 and data.read(4) == bytes(range(90, 94))
        target_bytes = bytearray(20)
        assert data.readinto(target_bytes) == 6 and target_bytes[:6] == bytes(range(94, 100))
        assert data.read() == b"" and data.seek(-3, os.SEEK_END) == 97
    assert files.exists(f"{path}/assets") and not files.exists(f"{path}/asset")
    assert files.glob(f"{path}/variables/*") == [f"{path}/variables/variables.data-00000-of-00001"]
    with pytest.raises(FileNotFoundError):
        files.open(f"{path}/assets/others.txt", "rb")
    for change in (
        lambda: files.write(f"{path}/assets/words.txt", b""),
        lambda: files.remove(f"{path}/assets/words.txt"),
        lambda: files.remove_folder(f"{path}/assets"),
        lambda: files.make_folders(f"{path}/more"),
        lambda: files.replace(str(tmp_path / "a"), f"{path}/a"),
    ):
        with pytest.raises(OSError) as raised:
            change()
        assert raised.value.errno == errno.EROFS


def test_other_files_are_those_of_the_session(path: Path, tmp_path: Path) -> None:
    files = PackFiles(PackFile(path), FileSystem())
    files.make_folders(str(tmp_path / "folder"))
    files.write(str(tmp_path / "folder" / "a"), b"text")
    files.replace(str(tmp_path / "folder" / "a"), str(tmp_path / "folder" / "b"))
    assert files.glob(str(tmp_path / "folder" / "*")) == [str(tmp_path / "folder" / "b")]
    assert files.exists(str(tmp_path / "folder" / "b")) and files.read(f"{tmp_path}/folder/b")
    files.remove(str(tmp_path / "folder" / "b"))
    files.remove_folder(str(tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()
