"""The benchmark harness: outputs are checked, every candidate is timed, figures are written. No
time is judged here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import harness, memory
from benchmarks.candidates import Tfjit
from benchmarks.harness import Options, check, measure
from benchmarks.machine import measure_limits
from benchmarks.scripts.scale import random_dag
from benchmarks.work import flops
from benchmarks.workload import Workload, feeds_of, uniform
from tfjit.lab.peers.graph import ShapedGraph


def _double(tf: Any) -> None:
    tf.multiply(tf.placeholder(tf.float32, [None], name="x"), 2.0, name="y")


WORKLOAD = Workload(
    "double",
    ["y:0"],
    feeds_of(x=uniform([5])),
    _double,
    reference=lambda feeds: [feeds["x:0"] * 2],
    wanted=1.0,
)
OPTIONS = Options(rounds=2, threads=1, peers=("tf", "xla"))


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time as few runs as the harness does when a run is long."""
    monkeypatch.setattr(harness, "ROUND_S", 1e-3)


def test_every_candidate_is_measured() -> None:
    result = measure(
        replace(WORKLOAD, callables=True), replace(OPTIONS, peers=("tf", "tf other", "xla"))
    )
    assert result.tensorflow() == min(("tf", "tf other"), key=lambda name: result.timings[name].us)
    assert set(result.timings) == {
        "tfjit",
        "unfused",
        "tf",
        "tf other",
        "tf inline",
        "tfjit call",
        "tf call",
        "xla",
        "numpy",
    }
    assert result.ratios["tfjit"] == 1
    assert all(timing.us > 0 and len(timing.rounds_us) == 2 for timing in result.timings.values())
    assert result.bytes_moved == 2 * 5 * 4 + 4 and result.notes == {} and not result.failed


def test_outputs_that_differ_are_told() -> None:
    wrong = check(WORKLOAD, {"tfjit": [[np.zeros(5)]], "numpy": [[np.ones(5)]]}, "before timing")
    assert list(wrong) == ["tfjit"] and wrong["tfjit"].startswith(
        "WRONG against numpy before timing:"
    )


def test_a_candidate_that_fails_loses_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Tfjit, graph_def: bytes, threads: int) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("benchmarks.peers.tensorflow.Xla.prepare", fail)
    result = measure(WORKLOAD, OPTIONS)
    assert result.notes == {"xla": "failed: ValueError: broken"} and not result.failed
    monkeypatch.setattr(Tfjit, "prepare", fail)
    result = measure(WORKLOAD, OPTIONS)
    assert result.failed and set(result.timings) == {"tf", "tf inline", "numpy"}


@pytest.mark.parametrize("keys", ["strings", "tensors", "tensorflow"])
def test_callers_kept_outputs_and_keys(keys: Any) -> None:
    result = measure(replace(WORKLOAD, callers=3, keys=keys), OPTIONS)
    assert result.notes == {} and result.timings["tfjit"].us > 0
    result = measure(replace(WORKLOAD, kept=2, keys=keys), replace(OPTIONS, feeds="run"))
    assert result.notes == {} and result.timings["tfjit"].us > 0


def _count(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    weights = tf.Variable(tf.constant(np.ones((3, 4), np.float32)), use_resource=True)
    loss = tf.reduce_mean(tf.matmul(x, weights), name="loss")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
    tf.variables_initializer([weights], name="init")


def test_a_training_step_starts_from_the_same_state() -> None:
    training = Workload(
        "train",
        ["loss:0"],
        feeds_of(x=uniform([2, 3])),
        _count,
        targets=["train"],
        setup=["init"],
        steps=3,
    )
    result = measure(training, OPTIONS)
    assert result.notes == {}
    assert set(result.timings) >= {"tfjit", "tf", "xla"}
    assert result.flops == 2 * 2 * 2 * 3 * 4  # forward, and the weights' gradient


def test_first_results_come_from_fresh_sessions() -> None:
    result = measure(replace(WORKLOAD, wanted_first=1.0, fresh_sessions=2), OPTIONS)
    assert {name: len(seconds) for name, seconds in result.first_s.items()} == {"tfjit": 2, "tf": 2}
    assert result.first_ratio is not None and result.first_ratio > 0


def test_random_dag_has_the_nodes_it_says_and_stays_tame() -> None:
    import tfjit

    feeds = feeds_of(**{f"x{i}": uniform([16]) for i in range(4)})(np.random.default_rng(0))
    for size in (100, 1000):
        graph = ShapedGraph(random_dag(size), ["y:0"], (), feeds)
        assert abs(len(graph.order) - size) <= size // 50
        assert flops(graph) == 0
        with tfjit.Session(graph=random_dag(size)) as session:
            assert np.all(np.abs(session.run("y:0", feeds)) <= 4.0)
    assert random_dag(100) == random_dag(100)


def test_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures, limits = tmp_path / "figures.json", measure_limits(1)
    monkeypatch.setattr(command, "measure_limits", lambda threads: limits)  # takes seconds
    assert (
        command.main(["add of two scalars,", "--rounds", "1", "--no-peers", "--json", str(figures)])
        == 0
    )
    assert "add of two scalars, strings as keys" in capsys.readouterr().out
    results = json.loads(figures.read_text())["results"]
    assert [r["timings"].keys() for r in results] == [{"tfjit", "unfused", "numpy"}] * 2
    assert command.main(["no such benchmark"]) == 2
    assert command.main(["--list"]) == 0
    assert "dispatch:" in capsys.readouterr().out
    quick = [
        replace(WORKLOAD, name="with a target", callables=True),
        replace(WORKLOAD, name="without", wanted=None),
    ]
    monkeypatch.setattr(command, "scripts", lambda: {"dispatch": quick, "others": quick})
    assert command.main(["dispatch", "--rounds", "1", "--peers", "tf", "--only-targets"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("with a target") == 1 and "without" not in shown and "others" not in shown


def test_memory_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One candidate in a process of its own; the others' figures are taken here, as their processes
    take them.
    """
    tiny = "add of two scalars, strings"
    (workload,) = memory._chosen([tiny])
    for name in memory.CANDIDATES:
        figures = memory.measure_one(workload, name, threads=1)
        assert figures.keys() == {"faults", "running_mb", "loading_mb"} and figures["faults"] >= 0
    monkeypatch.setattr(memory, "CANDIDATES", ("tfjit",))
    assert memory.main([tiny]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[-1] == "tfjit"
    assert row.startswith(tiny) and len(row.split()) >= 5 + 3
    assert memory.main(["no such benchmark"]) == 2


def test_what_is_left_out_is_no_failure() -> None:
    result = measure(replace(WORKLOAD, leave_out={"unfused": "no need", "xla": "slow"}), OPTIONS)
    assert (
        result.notes == {"unfused": "left out: no need", "xla": "left out: slow"}
        and not result.failed
    )
    assert set(result.timings) == {"tfjit", "tf", "tf inline", "numpy"}
