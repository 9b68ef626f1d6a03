"""Tests of the parts that check tfjit on a machine with a GPU, with other commands in their place."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import gpu_facts, gpu_parts
from tests.gpu_parts import Part, results, run, run_part

ROOT = Path(__file__).resolve().parent.parent
XDIST = """\
[gw0] [ 25%] PASSED tests/a.py::test_one[x y]
[gw1] [ 50%] PASSED tests/a.py::test_two
[gw1] [ 50%] ERROR tests/a.py::test_two
[gw0] [ 75%] FAILED tests/a.py::test_three
FAILED tests/a.py::test_three - AssertionError
"""
ALONE = "tests/a.py::test_one[x y] PASSED      [ 50%]\ntests/a.py::test_two FAILED    [100%]\n"


def python(name: str, code: str, limit_s: float = 60.0) -> Part:
    return Part(name, ("-c", code), limit_s)


def test_the_parts_name_what_is_there(tmp_path: Path) -> None:
    """Each folder of kernels has a part, and the first one is that of the machine."""
    every = gpu_parts.parts(tmp_path, sys.executable)
    assert every[0].name == "machine" and len({part.name for part in every}) == len(every)
    named = {argument for part in every for argument in part.arguments}
    paths = {argument for argument in named if argument.startswith("tests/")}
    assert not [path for path in paths if not (ROOT / path).exists()]
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / gpu_parts._CUDA).glob("*/test_*.py")}  # fmt: skip
    assert rooms <= paths


def test_results_of_a_log() -> None:
    assert results(XDIST) == (1, ["tests/a.py::test_three", "tests/a.py::test_two"])
    assert results(ALONE) == (1, ["tests/a.py::test_two"])


def test_a_run_goes_on_where_it_was_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part has a record as soon as it ends; a part that is done is not run again."""
    monkeypatch.setattr(gpu_parts, "_LEAST_S", 0.0)
    monkeypatch.setattr(gpu_parts, "_ENDING_S", 0.1)
    count = tmp_path / "count"
    add = f"open({str(count)!r}, 'a').write('x')"
    some = [python("machine", "print('here')"), python("good", add), python("bad", f"{add}; 1 / 0")]
    run(some, False, tmp_path, sys.executable, 60.0)
    slow = python("slow", "import time; time.sleep(60)", 0.1)
    cut = python("cut", "import time; time.sleep(60)")
    found = run([*some, slow, cut], False, tmp_path, sys.executable, 4.0)
    assert json.loads((tmp_path / "parts.json").read_text()) == found
    states = {name: record["state"] for name, record in found.items()}
    wanted = {"machine": "passed", "good": "passed", "bad": "failed", "slow": "timeout"}
    assert states == {**wanted, "cut": "cut off"}
    assert count.read_text() == "xx" and "ZeroDivisionError" in found["bad"]["last"]
    run([some[1]], True, tmp_path, sys.executable, 60.0)
    assert count.read_text() == "xxx"
    monkeypatch.setattr(gpu_parts, "_LEAST_S", 20.0)
    run([cut], False, tmp_path, sys.executable, 4.0)
    assert "the time is over before 'cut': run again to go on" in capsys.readouterr().out


def test_figures_that_are_missing_are_measured_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    part = Part("figures", ("-c", f"open({str(count)!r}, 'a').write('x'); 1 / 0", "--resume"), 60.0)
    for _ in range(2):
        found = run([part], False, tmp_path, sys.executable, 60.0)
        assert found["figures"]["state"] == "failed"
    assert count.read_text() == "xx"


def test_without_a_machine_nothing_else_runs(tmp_path: Path) -> None:
    none = [python("machine", "raise SystemExit('no GPU')"), python("other", "")]
    assert list(run(none, False, tmp_path, sys.executable, 60.0)) == ["machine"]


def test_what_is_missing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_parts.shutil, "which", lambda program, path: None)
    record = run_part(Part("checked", (), 1.0, "compute-sanitizer --tool x"), tmp_path, "", 1.0)
    assert record == {"state": "left out", "reason": "compute-sanitizer is not installed"}
    assert gpu_parts.main(["nonsense"]) == 2


def test_facts_of_a_machine_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gpu_facts.facts()
    assert found["versions"]["numpy"] and found["error"].startswith("no GPU: ")
    monkeypatch.setattr(gpu_facts, "_NEEDED", ("numpy", "no_such_module"))
    assert gpu_facts.facts()["error"] == "not installed: no_such_module"
