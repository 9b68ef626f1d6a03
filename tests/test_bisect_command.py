"""The command `tfjit bisect`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.lab.rewrites.planted import FEEDS, negate, plant, small_program
from tfjit.cli import main


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFJIT_JIT", "off")
    path = tmp_path / "model.pb"
    path.write_bytes(small_program().as_graph_def().SerializeToString())
    np.save(tmp_path / "x.npy", FEEDS["x:0"])
    return path


def arguments(model: Path, *more: str) -> list[str]:
    feed = f"x={model.with_name('x.npy')}"
    return ["bisect", str(model), "--feed", feed, "--fetch", "y:0", *more]


def test_the_pass_and_the_two_graphs_are_printed(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(monkeypatch, "fold_constants", negate)
    assert main(arguments(model)) == 0
    text = capsys.readouterr().out
    assert text.startswith("pass fold_constants, rewrite ") and "planted by a test" in text
    assert "before:\n" in text and "after:\n" in text and "= Neg(" in text
    assert main(arguments(model, "--json", "--tolerance", "0.01")) == 0
    assert json.loads(capsys.readouterr().out)["culprit"]["pass_name"] == "fold_constants"


def test_a_good_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(model)) == 0
    assert capsys.readouterr().out.startswith("nothing to find")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--tolerance", "-1"], "--tolerance -1.0: expected a positive number"),
        (["--slower-than", "0"], "--slower-than 0.0: expected a positive number"),
        (["--", "extra"], "unexpected extra: a model has no arguments"),
    ],
)
def test_a_wrong_command_line(
    model: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(model, *more)) == 2
    assert message in capsys.readouterr().err


def test_a_script_has_no_feeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", str(tmp_path / "a.py"), "--fetch", "y"]) == 2
    assert "a script is judged by its exit status" in capsys.readouterr().err
    assert main(["bisect", str(tmp_path / "a.py")]) == 2
    assert "there is no script" in capsys.readouterr().err
