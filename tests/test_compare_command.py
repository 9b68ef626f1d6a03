"""`tfjit compare` on the digits model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tfjit.cli import main

DIGITS = Path(__file__).resolve().parent.parent / "tfjit" / "demo" / "digits_cnn.pb"
QUICK = ["--rounds", "4", "--sessions", "2", "--threads", "1"]


@pytest.fixture(autouse=True)
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")


def compared(*arguments: object) -> int:
    return main(["compare", str(DIGITS), *QUICK, *map(str, arguments)])


def test_pipelines_by_text_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 8, 8, 1), np.float32))
    (tmp_path / "mine.txt").write_text("default without cse")
    given = ["--fetch", "probs", "--feed", f"images={tmp_path / 'x.npy'}"]
    figures = tmp_path / "figures.json"
    assert compared(*given, "--with", tmp_path / "mine.txt", "--json", figures) == 0
    out = capsys.readouterr().out
    assert "default without fuse" in out and "99% interval" in out and "noise" in out
    rows = json.loads(figures.read_text())["rows"]
    assert [row["name"] for row in rows][:2] == ["default", "default without fuse"]
    assert rows[2]["name"].startswith("default without ")


def test_wrong_outputs_end_with_status_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfjit.lab.measure.candidates import Tfjit

    outputs = Tfjit.outputs
    monkeypatch.setattr(Tfjit, "outputs", lambda c: [v + ("without" in c.name) for v in outputs(c)])
    assert compared("--fetch", "probs", "--shape", "images=1,8,8,1") == 1
    captured = capsys.readouterr()
    assert "10 of 10 elements differ, by at most 1" in captured.out
    assert "the outputs differ" in captured.err and "99% interval" not in captured.out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--fetch", "probs"], 1, "shape of images:0 (float32) is not known"),
        ([], 2, "nothing to fetch"),
        (["--fetch", "probs", "--shape", "images=1,x"], 2, "sizes are whole numbers"),
        (["--fetch", "probs", "--shape", "pictures=1"], 1, "pictures:0 cannot be fed"),
        (["--fetch", "prob", "--shape", "images=1,8,8,1"], 1, "prob"),
        (
            ["--fetch", "probs", "--shape", "images=1,8,8,1", "--b", "default withut fuse"],
            1,
            "'default withut fuse': no pipe",
        ),
        (["--fetch", "probs", "--feed", "images=none.npy"], 2, "there is no file none.npy"),
        (["--fetch", "probs", "--json", "/nowhere/x.json"], 2, "a folder that exists"),
    ],
)
def test_command_lines_that_cannot_be(
    arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(*arguments) == code
    assert text in capsys.readouterr().err


def test_a_picture_needs_matplotlib(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfjit.lab.peers.presence.installed", lambda module: False)
    assert compared("--fetch", "probs", "--plot", "x.png") == 2
    assert "pip install tfjit[plot]" in capsys.readouterr().err
