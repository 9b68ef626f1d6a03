"""The benchmark harness: outputs are checked, every candidate is timed, figures are written. No time is judged here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks.harness import check, graph_bytes, measure
from benchmarks.workload import Workload, feeds_of, uniform


def _double(tf: Any) -> None:
    tf.multiply(tf.placeholder(tf.float32, [None], name="x"), 2.0, name="y")


WORKLOAD = Workload("double", ["y:0"], feeds_of(x=uniform([5])), _double, reference=lambda feeds: [feeds["x:0"] * 2], bytes_moved=40)


def test_every_candidate_is_measured() -> None:
    result = measure(WORKLOAD, rounds=2, threads=1)
    assert set(result.timings) == {"tfjit", "unfused", "tf", "tf inline", "numpy"}
    assert result.ratios["tfjit"] == 1
    assert all(timing.us > 0 and len(timing.rounds_us) == 2 for timing in result.timings.values())


def test_outputs_that_differ_are_an_error() -> None:
    with pytest.raises(AssertionError, match="double: tfjit against numpy, y:0, before timing"):
        check(WORKLOAD, {"tfjit": [np.zeros(5)], "numpy": [np.ones(5)]}, "before timing")


def test_every_workload_has_a_graph_with_its_feeds_and_fetches() -> None:
    import tfjit

    for script, workloads in command.scripts().items():
        for workload in workloads:
            if "224" in workload.name:
                continue  # Keras takes a minute to build them
            with tfjit.Session(graph=graph_bytes(workload)) as session:
                for name in (*workload.fetches, *workload.feeds(np.random.default_rng(0))):
                    assert session.graph.get_tensor_by_name(name) is not None, (script, workload.name)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    assert command.main(["add of two scalars", "--rounds", "1", "--no-peers", "--json", str(figures)]) == 0
    assert "add of two scalars" in capsys.readouterr().out
    assert json.loads(figures.read_text())["results"][0]["timings"].keys() == {"tfjit", "unfused", "numpy"}
    assert command.main(["no such benchmark"]) == 2
    assert command.main(["--list"]) == 0
    assert "dispatch: " in capsys.readouterr().out
