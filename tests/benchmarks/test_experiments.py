"""Experiments: each runs by its name, its outputs agree, and its figures are written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import __main__ as benchmarks_command
from benchmarks.experiments import command
from benchmarks.experiments.predicted_cost import rank_correlation


@pytest.mark.parametrize("name", command.NAMES)
def test_an_experiment(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["experiments", name, "--quick", "--threads", "1", "--out", str(tmp_path)]
    assert benchmarks_command.main(argv) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{name}: ") and "outputs differ" not in printed
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["question"] in printed and written["figures"]


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="extra `plot`")
    assert command.main(["optimizer_updates", "--quick", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "optimizer_updates.png").stat().st_size > 1000


def test_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["foldings"]) == 2
    assert "there are folding, algebra" in capsys.readouterr().err


def test_rank_correlation() -> None:
    values = np.array([3.0, 1.0, 2.0, 10.0])
    assert rank_correlation(values, values**3) == pytest.approx(1)
    assert rank_correlation(values, -values) == pytest.approx(-1)
