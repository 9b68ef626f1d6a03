from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from tfjit.framework.env import LOCAL_FILES, FileSystem
from tfjit.framework.files.positioned_reads import PositionedReads


class InMemory(FileSystem):
    """One file, without descriptors."""

    def open(self, path: str, mode: str) -> IO[Any]:
        return io.BytesIO(b"0123456789")


@pytest.fixture(params=["local", "in memory"])
def reads(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[PositionedReads, str]:
    path = tmp_path / "digits"
    path.write_bytes(b"0123456789")
    return PositionedReads(LOCAL_FILES if request.param == "local" else InMemory()), str(path)


def test_reads_at_positions(reads: tuple[PositionedReads, str]) -> None:
    reader, path = reads
    target = np.zeros(4, np.uint8)
    for _ in range(2):
        assert reader.read_into(path, 3, target) == 4
        assert target.tobytes() == b"3456"
        assert reader.read_into(path, 8, target) == 2  # the file ends
        assert target[:2].tobytes() == b"89"
        assert reader.read_into(path, 0, np.empty(0, np.uint8)) == 0
        with reader:
            assert reader.read_into(path, 1, target) == 4
            assert target.tobytes() == b"1234"
            assert reader.read_into(path, 8, target) == 2
            assert reader.read_into(path, 0, np.empty(0, np.uint8)) == 0


def test_a_file_stays_open_within_a_block(tmp_path: Path) -> None:
    class Counting(FileSystem):
        opened = 0

        def open(self, path: str, mode: str) -> IO[Any]:
            self.opened += 1
            return super().open(path, mode)

    (tmp_path / "f").write_bytes(b"abc")
    files = Counting()
    with PositionedReads(files) as reader:
        for _ in range(3):
            reader.read_into(str(tmp_path / "f"), 0, np.empty(2, np.uint8))
    assert files.opened == 1
    with pytest.raises(FileNotFoundError):
        reader.read_into(str(tmp_path / "missing"), 0, np.empty(2, np.uint8))
