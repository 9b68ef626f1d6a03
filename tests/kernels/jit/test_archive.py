"""Archives give back what was written, and nothing from a file that changed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tfjit.kernels.jit.archive import Archive, DamagedArchive, write_archive
from tfjit.kernels.jit.object_file import DamagedObject, ObjectFile

KERNELS = {
    f"{n:048x}": ObjectFile({"kernel": f"k{n}"}, ("memcpy",) * n, bytes(range(n)) * 9)
    for n in (0, 3, 7)
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    size = write_archive(tmp_path / "level.tfk", KERNELS)
    assert size == (tmp_path / "level.tfk").stat().st_size
    return tmp_path / "level.tfk"


def test_every_kernel_is_read_back(path: Path) -> None:
    archive = Archive(path)
    assert len(archive) == len(KERNELS)
    for key, kernel in KERNELS.items():
        assert key in archive and archive.read(key) == kernel


def test_unknown_keys(path: Path) -> None:
    archive = Archive(path)
    assert "9" * 48 not in archive and archive.read("9" * 48) is None
    assert "../no key" not in archive and archive.read("../no key") is None


def test_the_file_does_not_depend_on_the_order_of_kernels(path: Path, tmp_path: Path) -> None:
    write_archive(tmp_path / "other.tfk", dict(reversed(KERNELS.items())))
    assert (tmp_path / "other.tfk").read_bytes() == path.read_bytes()


def test_an_empty_archive(tmp_path: Path) -> None:
    write_archive(tmp_path / "empty.tfk", {})
    assert len(Archive(tmp_path / "empty.tfk")) == 0


@pytest.mark.parametrize("size", [0, 5, 30, 60, 100])
def test_a_short_file_is_refused(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DamagedArchive):
        Archive(path)


def test_another_version_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"archive 1", b"archive 2"))
    with pytest.raises(DamagedArchive, match="no archive of this version"):
        Archive(path)


@pytest.mark.parametrize("place", [20, 50, 60, 90, 200])
def test_a_changed_index_is_refused(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedArchive, match="does not match its digest"):
        Archive(path)


def test_a_changed_object_is_refused_alone(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    archive = Archive(path)
    *whole, last = sorted(KERNELS)
    for key in whole:
        assert archive.read(key) == KERNELS[key]
    with pytest.raises(DamagedObject):
        archive.read(last)


def test_a_file_replaced_after_opening_gives_no_wrong_kernel(path: Path) -> None:
    archive = Archive(path)
    write_archive(path, {key: KERNELS[key] for key in list(KERNELS)[1:]})
    for key, kernel in KERNELS.items():
        with contextlib.suppress(DamagedObject):
            assert archive.read(key) in (kernel, None)
