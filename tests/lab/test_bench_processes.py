"""Scripts in fresh processes: exit statuses, printed lines, times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tfjit.lab import bench_script
from tfjit.lab.bench_processes import WAYS, ScriptRun


def stub(monkeypatch: pytest.MonkeyPatch, **runs: ScriptRun) -> list[str]:
    """Put simulated processes in the place of real ones; return the ways in order."""
    rng = np.random.default_rng(0)
    ways: list[str] = []

    def run(
        script: Path, arguments: Sequence[str], way: str, folder: Path, limit: float
    ) -> ScriptRun:
        ways.append(way)
        given = runs.get(way, ScriptRun(0, 1.0, "1\n2\n", ""))
        noise = float(np.exp(rng.normal(0, 0.01)))
        return ScriptRun(given.status, given.elapsed_s * noise, given.printed, given.errors)

    monkeypatch.setattr("tfjit.lab.bench_processes._run", run)
    return ways


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text("import sys\nprint(len(sys.argv))\nsys.exit(len(sys.argv) - 1)\n")
    return path


def test_times_are_judged(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = stub(monkeypatch, tensorflow=ScriptRun(0, 1.3, "1\n2\n", ""))
    found = bench_script(script, rounds=9, check_output=True, seed=1)
    assert found.agrees and len(ways) == 30 and ways[:3] != ways[3:6]
    assert [row.verdict for row in found.rows] == [None, "no difference", "slower"]
    assert json.loads(json.dumps(found.as_json()))["rows"][2]["verdict"] == "slower"
    assert "slower" in str(found) and "<table>" in found._repr_html_()


def test_equal_ways_have_no_difference(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(monkeypatch)
    for seed in range(20):
        assert {row.verdict for row in bench_script(script, seed=seed).rows[1:]} == {
            "no difference"
        }


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (ScriptRun(3, 1.0, "", "Traceback\nValueError: no"), "ended with status 3"),
        (ScriptRun(None, 60.0, "", ""), "took more than 6"),
        (ScriptRun(0, 1.0, "1\n3\n", ""), "line 2: "),
        (ScriptRun(0, 1.0, "1\n2\n4\n", ""), "line 3: "),
    ],
)
def test_ends_that_differ(
    script: Path, monkeypatch: pytest.MonkeyPatch, run: ScriptRun, text: str
) -> None:
    stub(monkeypatch, tensorflow=run)
    found = bench_script(script, check_output=True, seed=0)
    assert not found.agrees and not found.rows and text in str(found)
    if run.status == 0:
        assert bench_script(script, seed=0).agrees


def test_real_processes_have_their_arguments(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAYS, "default", ((), {}))
    monkeypatch.setitem(WAYS, "tensorflow", (("-S",), {}))
    found = bench_script(script, ["a", "b"], ways=["default", "tensorflow"], check_output=True)
    assert found.agrees and all(0 < row.warm_s < 10 for row in found.rows)


def test_scripts_that_cannot_be(script: Path) -> None:
    with pytest.raises(ValueError, match="there is no script"):
        bench_script(script.with_name("other.py"))
    with pytest.raises(ValueError, match="8 are the fewest"):
        bench_script(script, rounds=7)
    with pytest.raises(ValueError, match="expected two or more"):
        bench_script(script, ways=["default"])
