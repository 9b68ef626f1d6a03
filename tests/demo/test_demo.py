"""The demo: its results, its table, its end on bad input; and the stopwatch behind it."""

from __future__ import annotations

import time

import pytest

from tfjit.cli import main
from tfjit.demo.stopwatch import medians_us


def test_demo_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0.3", "--no-tensorflow"]) == 0
    out = capsys.readouterr().out
    assert "297 held-out digits: accuracy 0.9933 (TensorFlow 0.9933)" in out
    assert (
        "tfjit fused" in out and "tfjit unfused" in out and "where the time goes, batch 256" in out
    )


def test_demo_refuses_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "0"]) == 2
    assert "--seconds" in capsys.readouterr().err


def test_stopwatch_gives_medians_and_changes_the_number() -> None:
    seen: list[int] = []
    medians = medians_us(
        {"sleep": lambda number: time.sleep(0.001), "note": seen.append}, seconds=0.05
    )
    assert medians["sleep"] > 1000 > medians["note"]
    assert seen == list(range(len(seen))) and len(seen) >= 20
