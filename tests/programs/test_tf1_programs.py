"""TensorFlow 1 programs, unmodified, print the same under tfjit as under TensorFlow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import tf1_programs
from tests.forked_processes import Processes


@pytest.mark.parametrize("name", tf1_programs.programs())
def test_a_program_prints_the_same(
    name: str, tmp_path: Path, tensorflow_processes: Processes
) -> None:
    """Each library's run is a process of its own."""
    runs = []
    for library in tf1_programs.LIBRARIES:
        done = tensorflow_processes.run(
            *tf1_programs.arguments(name, library, tmp_path / library), timeout=240
        )
        runs.append(tf1_programs.Run(done.stdout, done.stderr, done.returncode, 0.0))
    theirs, ours = runs
    for library, made in zip(tf1_programs.LIBRARIES, runs, strict=True):
        assert made.status == 0, made.errors
        assert f"sessions of {library}" in made.errors
    assert ours.printed == theirs.printed
    assert len(theirs.printed.splitlines()) >= 6
    assert not ours.failure(theirs.printed)


def test_failures_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program that another library prints otherwise, and one that fails, each time."""
    monkeypatch.setattr(tf1_programs, "FOLDER", tmp_path)
    (tmp_path / "same.py").write_text("print('same')\n")
    (tmp_path / "other.py").write_text("import sys\nprint('tfjit' in sys.modules)\n")
    (tmp_path / "fails.py").write_text("import sys\nsys.exit(3 if 'tfjit' in sys.modules else 0)\n")
    keep = tmp_path / "kept"
    assert (
        tf1_programs.main(["same", "--times", "1", "--load", "1", "--cold", "--keep", str(keep)])
        == 0
    )
    assert tf1_programs.main(["other", "fails", "--times", "2", "--keep", str(keep)]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"same: 0 of 1 failed", printed)
    assert "other, run 1: printed something else" in printed
    assert "fails, run 0: ended with status 3" in printed
    assert "fails: 2 of 2 failed" in printed
    assert len(list(keep.iterdir())) == 4
    assert tf1_programs.main(["absent"]) == 2
