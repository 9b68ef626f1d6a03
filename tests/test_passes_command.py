"""`tfjit passes`, and `--passes` of the other commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tfjit.cli import main
from tfjit.passes import Pipeline
from tfjit.passes.manager.pass_registry import PASSES

DIGITS = Path(__file__).resolve().parent.parent / "tfjit" / "demo" / "digits_cnn.pb"


@pytest.fixture(autouse=True)
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")


def test_the_printed_passes_are_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["passes"]) == 0
    text = capsys.readouterr().out
    assert Pipeline.parse(text) == Pipeline.default()
    assert all(name in text for name in (*PASSES, "graph:", "partition:", "# cluster: "))
    assert "# [arithmetic] before folding: it removes reads of frozen variables" in text
    path = tmp_path / "passes.txt"
    assert main(["passes", "--passes", "default without cse, fuse"]) == 0
    path.write_text(capsys.readouterr().out)
    assert main(["passes", "--passes", str(path)]) == 0
    assert capsys.readouterr().out == path.read_text()
    assert Pipeline.from_file(path) == Pipeline.default().without("cse", "fuse")


def test_explain_and_run_take_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["explain", str(DIGITS), "--fetch", "probs:0", "--shape", "images:0=2,8,8,1", "--json"]
    assert main([*model, "--passes", "default without fuse"]) == 0
    ran = {entry["name"] for entry in json.loads(capsys.readouterr().out)["passes"]}
    assert "simplify" in ran and "fuse" not in ran
    np.save(tmp_path / "images.npy", np.zeros((1, 8, 8, 1), np.float32))
    feed = ["--fetch", "probs:0", "--feed", f"images:0={tmp_path / 'images.npy'}"]
    assert main(["run", str(DIGITS), *feed, "--passes", "default only"]) == 0
    assert "probs:0: float32 [1, 10]" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["passes", "run", "explain"])
def test_a_typing_error_is_a_usage_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = [] if command == "passes" else [str(DIGITS), "--fetch", "probs:0"]
    path = tmp_path / "passes.txt"
    path.write_text("partition:\n  fuze\n")
    for given, message in (
        ("default without fuze", "--passes: pipeline: 'fuze': there is no pass of that name"),
        (str(path), f"--passes: {path}:2: 'fuze': there is no pass of that name; did you mean"),
        ("no_such_file.txt", "--passes: pipeline: there is no pipeline 'no_such_file.txt'"),
        (str(tmp_path), f"--passes: pipeline: there is no pipeline '{tmp_path}'"),
    ):
        assert main([command, *model, "--passes", given]) == 2
        assert message in capsys.readouterr().err
    path.write_bytes(b"\xff\xfe\x00")
    assert main([command, *model, "--passes", str(path)]) == 2
    assert "it cannot be read: " in capsys.readouterr().err
