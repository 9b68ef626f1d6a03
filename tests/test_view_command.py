"""`tfjit view`: the file that it writes, and how it ends on bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tfjit.cli import main


def call(*argv: str | Path) -> int:
    try:
        return main([str(argument) for argument in argv])
    except SystemExit as stop:
        return int(stop.code or 0)


def test_a_page_of_a_model(
    demo_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    given = ["--fetch", "probs", "--shape", "images=4,8,8,1", "-o", page]
    assert call("view", demo_dir / "digits_cnn.pb", *given) == 0
    assert capsys.readouterr().out.startswith(f"{page}: ")
    text = page.read_text("utf-8")
    assert "<title>digits_cnn.pb</title>" in text
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert match and "probs" in json.loads(match[1])["names"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["-o", "page.html"], "nothing to fetch"),
        (["--fetch", "probs", "-o", "no/such/folder/page.html"], "--out"),
        (["--fetch", "probs"], "-o/--out"),
        (["--fetch", "probs", "--shape", "images=a", "-o", "page.html"], "--shape"),
        (["--fetch", "probs", "--feed", "images=none.npy", "-o", "page.html"], "none.npy"),
    ],
)
def test_wrong_arguments(
    given: list[str],
    said: str,
    demo_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("view", demo_dir / "digits_cnn.pb", *given) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
