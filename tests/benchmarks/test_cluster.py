"""The benchmark of clusters, in small. No time is judged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks_command
from benchmarks.cluster import command
from benchmarks.cluster.command import Result, Row, measure
from benchmarks.cluster.runner import OURS, TENSORFLOW, Candidate, Failed


def test_it_measures_every_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "figures.json"
    arguments = ["--quick", "--rounds", "1", "--candidates", OURS, "--json", str(written)]
    assert benchmarks_command.main(["cluster", *arguments]) == 0
    found = json.loads(written.read_text())
    assert [result["row"]["name"] for result in found] == [row.name for row in command.rows(True)]
    assert all(result["medians"][OURS] > 0 and not result["problem"] for result in found)
    assert "digits, 2 workers" in capsys.readouterr().out


def test_ratios_are_of_speeds() -> None:
    time = Result(Row("a", "a", "us"), {TENSORFLOW: [4.0, 6.0, 9.0], OURS: [2.0, 2.0, 3.0]})
    assert time.medians == {TENSORFLOW: 6.0, OURS: 2.0} and time.ratios == {OURS: 3.0}
    rate = Result(Row("a", "a", "GB/s", 8), {TENSORFLOW: [2.0], OURS: [5.0]})
    assert rate.ratios == {OURS: 2.5}
    assert Result(Row("a", "a", "us"), {OURS: [1.0]}).ratios == {}
    assert rate.row.figure(2e-9) == 4.0 and time.row.figure(2e-6) == 2.0


class Wrong(Candidate):
    """A candidate whose results differ."""

    def __init__(self, name: str, results: list[float]) -> None:
        self.name, self._results = name, results

    def prepare(self, what: str, size: int = 0) -> list[float]:
        return self._results


def test_wrong_results_have_no_figures() -> None:
    row = command.rows(True)[0]
    result = measure(row, [Wrong("tensorflow", [7.0]), Wrong("tfjit", [7.5])], 1, True)
    assert "tfjit gives [7.5]" in result.problem and not result.rounds
    assert "WRONG" in command.line(result, ["tensorflow", "tfjit"])


def test_a_process_that_fails_says_so() -> None:
    candidate = Candidate(OURS)
    try:
        candidate.wait()
        with pytest.raises(Failed, match="(?s)client 0.*no_such_graph"):
            candidate.prepare("no_such_graph")
        candidate.client.close()
        with pytest.raises((Failed, ValueError)):
            candidate.prepare("one_task")
    finally:
        candidate.close()


def test_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["no such row"]) == 2
    assert command.main(["--candidates", "torch"]) == 2
    assert "torch" in capsys.readouterr().err
