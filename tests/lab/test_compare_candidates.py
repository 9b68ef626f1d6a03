"""Comparisons of pipelines on small graphs, most of them by reference kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.framework import errors
from tfjit.lab import Comparison, compare
from tfjit.lab.measure.candidates import named_candidates
from tfjit.passes import Pipeline

QUICK = {"rounds": 4, "sessions": 2, "block_s": 0.0005, "threads": 1, "seed": 0}


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")


def small_graph() -> tfjit.Graph:
    graph = tfjit.Graph()
    with graph.as_default():
        x = tfjit.placeholder(tfjit.float32, [None, 3], name="x")
        y = tfjit.multiply(x, 2.0, name="double")
        tfjit.nn.relu(tfjit.add(y, 1.0, name="more"), name="y")
    return graph


def with_squares(graph: Any, ctx: Any) -> None:
    """Multiply x by itself in place of 2: a wrong rewrite."""
    if "double" in graph:
        inputs = {
            k["dst_input"]: (s, k["src_output"]) for s, _, k in graph.in_edges("double", data=True)
        }
        graph.replace_input("double", 1, *inputs[0])


def run(candidates: list[Any], **changed: Any) -> Comparison:
    given: dict[str, Any] = {"fetches": ["y:0"], "shapes": {"x:0": (2, 3)}} | QUICK | changed
    model = given.pop("model", None) or small_graph()
    return compare(model, candidates, **given)


@pytest.mark.usefixtures("uncompiled")
def test_a_graph_and_itself() -> None:
    found = run(["default", "default"])
    assert found.agrees and found.verdict == "no difference"
    assert [row.name for row in found.rows] == ["default", "default (2)"]
    assert found.feeds == {"x:0": ("float32", (2, 3))}
    assert [len(session) for session in found.round_us["default"]] == [4, 4]
    assert found.rows[0].ratio is None and found.rows[1].ratio is not None
    figures = json.loads(json.dumps(found.as_json()))
    assert figures["rows"][1]["verdict"] == "no difference" and figures["agrees"]
    assert "default (2)" in str(found) and "no difference" in str(found)
    page = found._repr_html_()
    assert page.count("<table>") == page.count("</table>") >= 2


def test_fused_and_unfused_kernels_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfjit.runtime.profiling.kernel_timing.MEASURE_S", 0.002)
    monkeypatch.setattr("tfjit.kernels.executor.roofline._DRAM_BYTES", 1 << 20)
    found = run(["default", "default without fuse"])
    base, other = found.rows
    assert base.launches == 1 and other.launches == 3
    assert base.bytes_moved is not None and other.bytes_moved is not None
    assert base.bytes_moved < other.bytes_moved
    (part,) = found.differences
    assert part.nodes == ("double", "more", "y")
    assert (len(part.kernels), len(part.base_kernels)) == (3, 1)
    assert part.us > 0 and part.base_us > 0


@pytest.mark.usefixtures("uncompiled")
def test_wrong_outputs_are_reported_and_nothing_is_timed() -> None:
    wrong = Pipeline.default().before("fuse", with_squares)
    found = run(["default", wrong])
    assert not found.agrees and not found.rows and found.verdict is None
    (mismatch,) = found.mismatches
    assert (mismatch.fetch, mismatch.when, mismatch.index) == ("y:0", "before timing", (0, 0))
    assert (mismatch.count, mismatch.size) == (6, 6)
    assert "6 of 6 elements differ" in str(found)
    assert run(["default", wrong], tolerance=10.0, explain=False).agrees


@pytest.mark.usefixtures("uncompiled")
def test_state_is_reset_by_setup_operations() -> None:
    graph = tfjit.Graph()
    with graph.as_default():
        count = tfjit.get_variable("count", [], initializer=tfjit.zeros_initializer())
        tfjit.identity(tfjit.assign_add(count, 1.0), name="y")
        tfjit.global_variables_initializer()
    common = {"model": graph, "shapes": {}, "explain": False}
    found = run(["default", "default"], setup=["init"], **common)
    assert found.agrees and not found.notes
    with pytest.raises(errors.FailedPreconditionError):
        run(["default", "default"], **common)


@pytest.mark.usefixtures("uncompiled")
def test_state_that_nothing_resets_is_noted() -> None:
    graph = tfjit.Graph()
    with graph.as_default():
        tfjit.random_uniform([4], seed=3, name="y")
    name = graph.get_operations()[-1].outputs[0].name
    found = run(["default", "default"], model=graph, fetches=[name], shapes={}, explain=False)
    assert found.agrees and "compared before timing only" in found.notes[0]


@pytest.mark.usefixtures("uncompiled")
def test_an_operation_is_fetched_by_its_output_or_run() -> None:
    assert run(["default", "default"], fetches=["y"], explain=False).fetches == ("y:0",)
    graph = small_graph()
    with graph.as_default():
        tfjit.group(graph.get_tensor_by_name("y:0"), name="all")
    found = run(["default", "default"], model=graph, fetches=["all"], explain=False)
    assert found.fetches == ("all",) and found.notes[0].startswith("no tensor is fetched")


@pytest.mark.usefixtures("uncompiled")
def test_tensorflow_takes_part() -> None:
    found = run(["default", "tensorflow"], explain=False)
    assert found.agrees and found.rows[1].name == "tensorflow"
    assert found.rows[1].kernels is None


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"shapes": {}}, errors.InvalidArgumentError, r"shape of x:0 \(float32\) is not known"),
        ({"shapes": {"z:0": (1,)}}, errors.InvalidArgumentError, "z:0 cannot be fed"),
        ({"shapes": {"x:0": (2, 4)}}, errors.InvalidArgumentError, "feed of x:0: "),
        ({"feeds": {"x:0": np.zeros((2, 3))}}, errors.InvalidArgumentError, "both a value and"),
        ({"fetches": ["nothing:0"]}, ValueError, "nothing:0"),
        ({"fetches": []}, ValueError, "nothing to fetch"),
        ({"setup": ["double:0"]}, ValueError, "set-up takes operations"),
        ({"rounds": 3, "sessions": 2}, ValueError, "allow no verdict"),
        ({"sessions": 0}, ValueError, "allow no verdict"),
        ({"threads": 0}, ValueError, "expected a positive number"),
    ],
)
def test_runs_that_cannot_be(changed: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run(["default", "default"], **changed)


def test_candidates_that_cannot_be() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="'defalt': no pipeline and none of tens"):
        run(["default", "defalt"])
    with pytest.raises(errors.InvalidArgumentError, match="tensorflow is among the candidates twi"):
        named_candidates(["tensorflow", "default", "tensorflow"])
    with pytest.raises(ValueError, match="two candidates"):
        run(["default"])


def test_a_runtime_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfjit.lab.measure.candidates.installed", lambda module: False)
    with pytest.raises(RuntimeError, match=r"onnxruntime is not installed: pip install tfjit"):
        run(["onnxruntime", "tensorflow"])
    monkeypatch.setenv("TFJIT_JIT", "off")
    found = run(["default", "default", "tensorflow"], optional=["tensorflow"], explain=False)
    assert list(found.absent) == ["tensorflow"] and len(found.rows) == 2


def test_a_picture_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Comparison("m", ("y:0",), {}, 1, 4, 2)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install tfjit\[plot\]"):
        found.plot(tmp_path / "x.png")
