"""Whole programs of the benchmarks: equal outputs on both libraries, and the figures' arithmetic."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as benchmarks_command
from benchmarks.programs import child, command, runner
from benchmarks.programs.catalogue import BY_NAME, PROGRAMS, Program
from benchmarks.programs.figures import (
    break_even,
    differences,
    durations,
    even,
    figures,
    last_tenth,
    slowest_step,
    slowest_window,
)
from benchmarks.programs.profile import Profile, largest
from benchmarks.programs.record import Record, Recorder
from tests.forked_processes import Processes


@pytest.fixture
def tensorflow() -> Any:
    """TensorFlow as of version 1; its modes are restored."""
    import tensorflow.compat.v1 as tf

    resources, control_flow = tf.resource_variables_enabled(), tf.control_flow_v2_enabled()
    tf.disable_resource_variables()
    tf.disable_control_flow_v2()
    yield tf
    if resources:
        tf.enable_resource_variables()
    if control_flow:
        tf.enable_control_flow_v2()


@pytest.mark.oracle
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_has_equal_outputs(program: Program, tensorflow: Any) -> None:
    import tfjit

    theirs = child.run(program, "tensorflow", tensorflow, "tiny", 2, 100.0)
    with tfjit.patch_tensorflow():
        ours = child.run(program, "tfjit", tensorflow, "tiny", 2, 100.0)
    assert not theirs.failure and not ours.failure, theirs.failure + ours.failure
    assert theirs.complete and ours.complete and ours.outputs
    assert differences(ours, theirs, program) == []
    assert sorted(ours.ends_s) == ours.ends_s and len(ours.ends_s) == program.tiny_steps
    assert ours.built_rss_mb > 0 and ours.total_cpu_s > 0


SECONDS = [1.0, 1.5, 2.0, 2.5, 3.0]


def test_steps_are_timed_by_their_ends() -> None:
    assert durations(SECONDS) == [1.0, 0.5, 0.5, 0.5, 0.5]
    assert durations([]) == []
    assert last_tenth(list(range(100))) == list(range(90, 100))
    assert last_tenth([1, 2, 3]) == [1, 2, 3] and last_tenth(list(range(9))) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("ours", "theirs", "first", "for_good"),
    [
        (SECONDS, SECONDS, 1.0, 1.0),
        ([0.5, 1.0, 1.5], [1.0, 2.0, 3.0], 0.5, 0.5),
        # three of three steps at 2.2 s, behind before
        ([2.0, 2.1, 2.2], [1.0, 2.0, 3.0], 2.1, 2.1),
        ([3.5, 3.6, 3.7, 3.8], [1.0, 2.0, 3.0, 4.0], 3.7, 3.7),
        # ahead at first, then behind for a while
        ([0.5, 2.5, 2.6, 2.7], [1.0, 2.0, 3.0, 4.0], 0.5, 2.5),
        # never: the last step comes later, or is missing
        ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], math.inf, math.inf),
        ([0.5, 1.0], [1.0, 2.0, 3.0], 0.5, math.inf),
        ([], [1.0], math.inf, math.inf),
        ([1.0], [], math.inf, math.inf),
    ],
)
def test_break_even(ours: list[float], theirs: list[float], first: float, for_good: float) -> None:
    assert even(ours, theirs) == first
    assert break_even(ours, theirs) == for_good


def test_the_slowest_step_after_a_time() -> None:
    ends = [0.9, 1.9, 2.0, 2.1, 3.1, 3.2, 3.3]
    assert slowest_step(ends, 0.95) == pytest.approx(1.0)
    assert slowest_step(ends, 3.5) is None
    # one long step among short ones does not make a slow window
    assert slowest_window(ends, 1.0, 1.2) == pytest.approx(0.1)
    assert slowest_window(ends, 0.0, 0.5) == pytest.approx(1.0)
    assert slowest_window(ends, 9.0) is None


def _record(library: str, step_s: float, outputs: list[list[float]], steps: int = 50) -> Record:
    ends = [step_s * (k + 1) for k in range(steps)]
    return Record(library, ends, ends, outputs, built_rss_mb=100, peak_rss_mb=150, complete=True)


def test_figures_of_made_up_stamps() -> None:
    program = Program("made up", lambda *_: None, (1, 1))
    outputs = [[1.0]] * 50
    theirs = _record("tensorflow", 0.1, outputs)
    ours = _record("tfjit cold", 0.05, outputs)
    ours.ends_s = [2.0 + end for end in ours.ends_s]
    found = figures(ours, theirs, program)
    assert found.first_s == pytest.approx(2.05) and found.done == [0, 20, 50]
    assert found.steady_s == pytest.approx(0.05) and found.total_s == pytest.approx(4.5)
    # after 40 steps: 2.0 + 40 * 0.05 = 4.0 = 40 * 0.1
    assert found.break_even_s == pytest.approx(4.0, abs=0.06)
    assert found.slowest == [pytest.approx(0.5), None]
    assert found.grown_rss_mb == 50 and found.problems == []
    assert found.as_json()["slowest"] == found.slowest
    ours.ends_s = [10.0 + end for end in ours.ends_s]
    assert figures(ours, theirs, program).as_json()["break_even_s"] is None


def test_outputs_are_compared() -> None:
    program = Program("made up", lambda *_: None, (1, 1), strict=5, rtol=1e-3, late=0.1)
    theirs = _record("tensorflow", 0.1, [[2.0, 1.0]] * 40)
    same = [[2.001, 1.0]] * 5 + [[2.1, 3.0]] * 35
    assert differences(_record("tfjit", 0.1, same), theirs, program) == []
    early = [[2.0, 1.0]] * 3 + [[2.01, 1.0]] * 37
    (problem,) = differences(_record("tfjit", 0.1, early), theirs, program)
    assert problem.startswith("output 3 differs")
    late = [[2.0, 1.0]] * 36 + [[3.0, 1.0]] * 4
    assert differences(_record("tfjit", 0.1, late), theirs, program) == []
    late = [[2.0, 1.0]] * 30 + [[math.nan, 1.0]] * 10
    (problem,) = differences(_record("tfjit", 0.1, late), theirs, program)
    assert problem.startswith("the last tenth of the outputs has median nan")
    (problem,) = differences(_record("tfjit", 0.1, same[:30]), theirs, program)
    assert problem == "30 outputs, TensorFlow 40"
    sparing = replace(program, strict=None, spared=0.05)
    few = [[2.0, 1.0]] * 38 + [[5.0, 1.0]] * 2
    assert differences(_record("tfjit", 0.1, few), theirs, sparing) == []
    many = [[2.0, 1.0]] * 37 + [[5.0, 1.0]] * 3
    (problem,) = differences(_record("tfjit", 0.1, many), theirs, sparing)
    assert problem.startswith("output 37 differs") and problem.endswith("3 of 40 differ")
    cut = _record("tfjit", 0.1, same[:3], 3)
    cut.complete = False
    assert differences(cut, theirs, program) == []
    cut.outputs = []
    assert differences(cut, theirs, program) == ["no outputs to compare"]


def test_a_recorder_stops_at_its_limit() -> None:
    recorder = Recorder(1000, limit_s=0.0)
    recorder.start()
    for step in recorder.steps():
        recorder.output(step, [[1, 2]])
    record = Record("tfjit")
    recorder.fill(record)
    assert len(record.ends_s) == len(record.cpu_s) == 1 and not record.complete
    assert record.outputs == [[0.0, 1.0, 2.0]]


@pytest.mark.oracle
def test_the_command_runs_processes_and_compares(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tensorflow_processes: Processes,
) -> None:
    """Its processes are forked from one that has imported TensorFlow."""

    def forked(command: list[str], env: dict[str, str], timeout: float, **_: Any) -> Any:
        assert command[0] == sys.executable
        return tensorflow_processes.run(*command[1:], env=env, timeout=timeout)

    monkeypatch.setattr(subprocess, "run", forked)
    file = tmp_path / "figures.json"
    assert benchmarks_command.main(["programs", "perceptron", "--tiny", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "perceptron, 4 steps" in printed and "tfjit warm" in printed
    (result,) = json.loads(file.read_text())["results"]
    assert list(result["figures"]) == [runner.TENSORFLOW, runner.COLD, runner.WARM]
    assert all(len(r["ends_s"]) == 4 for r in result["records"].values())


def test_the_status_says_that_outputs_differ(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds: list[str] = []

    def start(program: Program, kind: str, options: Any, cache: Path) -> Record:
        kinds.append(kind)
        value = 2.0 if kind == runner.WARM else 1.0
        return _record(kind, 0.1, [[value]] * 50)

    monkeypatch.setattr(runner, "start", start)
    assert command.main(["simulation", "--cold"]) == 0
    assert command.main(["simulation", "--warm"]) == 1
    assert kinds == [runner.TENSORFLOW, runner.COLD, runner.TENSORFLOW, runner.COLD, runner.WARM]
    assert "tfjit warm: output 0 differs" in capsys.readouterr().out
    assert command.main(["absent"]) == 2
    assert "there are encoder" in capsys.readouterr().err


def test_the_other_mode_of_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert runner.onednn_mode(runner.TENSORFLOW) == runner.onednn_mode(runner.COLD) == "0"
    assert runner.onednn_mode(runner.OTHER_MODE) == "1"
    assert set(BY_NAME) >= {"encoder", "simulation"} and asdict(Record("tfjit"))["failure"] == ""


def test_a_profile_tells_stages_apart() -> None:
    import numpy as np

    import tfjit
    from tfjit.kernels.cpu.reference.arithmetic import matrix_product

    profile = Profile(30.0)
    profile.start()
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [None], name="x")
        y = tfjit.exp(x)
    with tfjit.Session(graph=graph) as session:
        session.run(y, {x: np.ones(3)})
    begin = time.thread_time()  # the process has background work, too
    square = np.ones([300, 300])
    while time.thread_time() - begin < 0.5:
        matrix_product._product(square, square)
    profile.stop()
    # where BLAS has several threads, its own may have used more
    stages = [stage for stage in profile.cpu if not stage.startswith("library threads")]
    kernel = max(stages, key=lambda stage: profile.cpu[stage])
    assert kernel.startswith("reference matrix_product._product:")
    assert 0.2 < profile.cpu[kernel] <= sum(profile.cpu.values())
    assert profile.step_wall[kernel] > 0.2 and "ended" not in profile.step_wall
    lines = largest({"reference nn.a:1": 2.0, "passes": 1.5, "reference nn.b:2": 0.25})
    assert lines == ["2.2 reference, 1.5 passes", "reference kernels: 2.0 nn.a:1, 0.2 nn.b:2"]


def test_packed_runs_have_a_process_that_packs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[str, str]] = []

    def start(
        program: Program, kind: str, options: Any, cache: Path, arguments: Any = ()
    ) -> Record:
        started.append((kind, arguments[0] if arguments else ""))
        return _record(kind, 0.1, [[1.0]] * 50)

    monkeypatch.setattr(runner, "start", start)
    assert command.main(["simulation", "--warm", "--packed"]) == 0
    assert started[-2:] == [(runner.PACKED, "--write-pack"), (runner.PACKED, "--pack")]
    assert "tfjit packed" in capsys.readouterr().out
    started.clear()
    assert command.main(["wide_and_deep", "--cold", "--packed"]) == 0
    assert runner.PACKED not in dict(started)
    assert "not packed: threads of TensorFlow's queue runners" in capsys.readouterr().out


def test_a_packed_session_runs_names(tmp_path: Path) -> None:
    import tfjit
    from benchmarks.programs.packed import PackedSession
    from tfjit.client.packing.packer import _content
    from tfjit.client.session.model_file import read_model
    from tfjit.client.session.pack_file import write_pack

    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [2], name="x")
        y = tfjit.add(x, 1.0, name="y")
        init = tfjit.group(name="init")
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
        manifest, entries = _content(read_model(tmp_path / "graph.pb"))
        write_pack(tmp_path / "model.tfjit", manifest, entries)
        with PackedSession(tfjit, None, tmp_path / "model.tfjit") as session:
            assert session.run(init) is None
            for _ in range(2):
                values = session.run([y, {"again": [y]}], {x: [1.0, 2.0]})
                assert values[0].tolist() == values[1]["again"][0].tolist() == [2.0, 3.0]
