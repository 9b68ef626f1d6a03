"""Packs are read as they were written, and whatever else is at their place is turned away."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tfjit.client.session.pack_file import (
    Manifest,
    PackedLevel,
    PackedRun,
    PackFile,
    StartupRun,
    archive_name,
    pack_path,
    write_pack,
)
from tfjit.framework import errors
from tfjit.kernels.jit import target
from tfjit.kernels.jit.archive import write_archive
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.protos import GraphDef

LEVEL = target.LEVELS[0]
KEY = "ab" * 24


def manifest_here(**changes: object) -> Manifest:
    """Return a manifest that fits this process."""
    import platform
    import sys

    from tfjit.framework.version import __version__
    from tfjit.kernels.jit.cache_key import compiler_digest

    made = Manifest(
        __version__,
        compiler_digest(),
        sys.platform,
        platform.machine().lower(),
        "GraphDef",
        (PackedRun({"x:0": (2, 3), "scale:0": ()}, ("y:0", "train")),),
        (StartupRun("restore_all", {"name:0": "variables/variables"}),),
        {LEVEL: PackedLevel(1, {"a plan": (("Where", "Unique"),)}, ("a kernel: the reason",))},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    write_archive(tmp_path / "kernels", {KEY: ObjectFile({}, (), b"code")})
    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder")
    entries = {
        "model.pb": graph.SerializeToString(),
        "variables/variables.index": b"index",
        archive_name(LEVEL): tmp_path / "kernels",
    }
    write_pack(tmp_path / "model.tfjit", manifest_here(), entries)
    return tmp_path / "model.tfjit"


def test_a_pack_is_read_as_it_was_written(written: Path) -> None:
    assert pack_path(str(written)) == written and pack_path(written) == written
    pack = PackFile(written)
    assert pack.manifest == manifest_here()
    assert pack.read("variables/variables.index") == b"index"
    assert [node.name for node in pack.message().node] == ["x"]
    found = pack.archive(LEVEL).read(KEY)
    assert found is not None and found.code == b"code"
    with pytest.raises(KeyError):
        pack.read("../other")


def test_equal_contents_make_equal_files(written: Path, tmp_path: Path) -> None:
    pack = PackFile(written)
    entries = {name: pack.read(name) for name in pack.entries}
    write_pack(tmp_path / "again.tfjit", pack.manifest, entries)
    assert (tmp_path / "again.tfjit").read_bytes() == written.read_bytes()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".tfjit", ".tfjit"]


def test_other_sources_are_no_packs(tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(b"\n\x05\n\x01x\x12")
    assert pack_path(tmp_path / "model.pb") is None and pack_path(tmp_path) is None
    assert pack_path(b"PK\x03\x04") is None and pack_path(None) is None
    assert pack_path(tmp_path / "missing.tfjit") is None


def test_a_cut_pack_is_turned_away(written: Path) -> None:
    content = written.read_bytes()
    for size in (4, 30, len(content) // 2, len(content) - 1):
        written.write_bytes(content[:size])
        with pytest.raises(errors.InvalidArgumentError, match=r"model.tfjit is a damaged or trunc"):
            PackFile(written)


def test_a_changed_byte_is_noticed(written: Path) -> None:
    """Wherever it is, no changed entry is returned."""
    content = written.read_bytes()
    before = PackFile(written)
    whole = {name: before.read(name) for name in before.entries}
    noticed = 0
    for at in range(0, len(content), 7):
        written.write_bytes(content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :])
        try:
            pack = PackFile(written)
            for name in pack.entries:
                pack.check(name)
            read = {name: pack.read(name) for name in pack.entries}
        except (errors.InvalidArgumentError, errors.DataLossError):
            noticed += 1
            continue
        assert read == whole
    assert noticed > len(content) // 14


def test_other_zip_files_are_turned_away(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", b"")
    with pytest.raises(errors.InvalidArgumentError, match="is a ZIP file and no pack of tfjit"):
        PackFile(path)


def rewritten(written: Path, change: object, compressed: bool = False) -> Path:
    """Write the pack again, with another manifest or with compressed entries."""
    with zipfile.ZipFile(written) as file:
        entries = {info.filename: file.read(info) for info in file.infolist()}
    content = json.loads(entries["tfjit_pack.json"])
    content.update(change)  # type: ignore[call-overload]
    entries["tfjit_pack.json"] = json.dumps(content).encode()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(written, "w", method) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return written


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "a pack of format 2, and tfjit reads format 1 here: pack the model again"),
        ({"format": "x"}, "damaged pack: ValueError in its manifest"),
        ({"runs": 3}, "damaged pack: TypeError in its manifest"),
        ({"entries": {}}, "damaged pack: it lacks model.pb, kernels/x86-64-v2.tfk"),
        ({"entries": {"a": {"bytes": 1, "sha256": ""}}}, "damaged pack: KeyError"),
        ({"levels": {"../v9": {"kernels": 1, "plans": {}, "refused": []}}}, "it lacks kernels/../"),
    ],
)
def test_damaged_manifests_are_turned_away(
    written: Path, change: dict[str, object], reason: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=reason.replace("(", r"\(")):
        PackFile(rewritten(written, change))


def test_compressed_entries_are_turned_away(written: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="has another form or size"):
        PackFile(rewritten(written, {}, compressed=True))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"tfjit": "0.0.9"}, "they were compiled by tfjit 0.0.9, and this is "),
        ({"compiler": "other"}, "they were compiled by other sources of tfjit "),
        ({"machine": "aarch64"}, "they are for linux on aarch64, not linux on x86_64"),
        ({"levels": {"x86-64-v9": PackedLevel(1, {})}}, "they are for x86-64-v9, and this process"),
    ],
)
def test_kernels_fit_or_give_the_reason(
    written: Path, change: dict[str, object], reason: str
) -> None:
    if not target.levels_here():
        pytest.skip("levels are of x86-64")
    pack = PackFile(written)
    pack.manifest = replace(pack.manifest, **change)  # type: ignore[arg-type]
    level, found = pack.fitting_level()
    assert (level == LEVEL and not found) if not reason else (not level and reason in found)
