"""The command that compiles all kernels of suites: it collects each form, and tells each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.cuda.collected_texts import CollectedText, Outcome, read_texts
from tests.kernels.cuda.compile_all import report
from tests.kernels.cuda.launch_collection import LaunchCollection
from tfjit.kernels.cuda.device import simulator
from tfjit.kernels.cuda.device.compiler import Resources
from tfjit.kernels.cuda.template import launches
from tfjit.kernels.cuda.template.launches import CudaLaunch

TEXT = "# nothing\ndef kernel(a):\n    pass\n"


def collected(*blocks: int) -> CollectedText:
    forms = {((1, 1, 1), (threads, 1, 1), 0) for threads in blocks}
    return CollectedText(TEXT, ("kernel",), 1, "nothing", "tests/a.py", forms, {"tests/ops/t.py"})


def test_each_form_of_a_launch_is_collected_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CudaLaunch, "__init__", CudaLaunch.__init__)
    monkeypatch.setattr(simulator, "load", simulator.load)
    collection = LaunchCollection(tmp_path)
    collection.install()
    source = launches.source(TEXT, 1, "nothing", __name__)
    CudaLaunch(source, (1,))  # no test runs
    for origin in ("tests/ops/a.py", "tests/ops/b.py"):
        collection.origin = origin
        for blocks, threads in ((1, 32), (2, 32), (2, 64)):
            CudaLaunch(source, (1,), grid=(blocks, 1, 1), block=(threads, 1, 1))
    assert collection.count == 4
    ((digest, one),) = read_texts(tmp_path).items()
    assert digest == source.digest and (one.text, one.arity) == (TEXT, 1)
    assert {block for _, block, _ in one.forms} == {(32, 1, 1), (64, 1, 1)}
    assert one.origins == {"tests/ops/a.py", "tests/ops/b.py"}


def test_faults_of_a_launch() -> None:
    outcome = Outcome("d", "sm_90", resources=Resources(72, 1024, 16))
    assert list(outcome.faults(collected(256, 1024))) == [
        "1024 threads of 72 registers in a block",
        "16 bytes of local memory",
    ]
    outcome = Outcome("d", "sm_90", resources=Resources(32, 60_000, 0))
    assert list(outcome.faults(collected(32))) == ["60000 + 0 bytes of shared memory"]
    assert list(Outcome("d", "sm_90", "no").faults(collected(32))) == ["refused: no"]
    assert not list(Outcome("d", "sm_90", resources=Resources(64, 1024, 0)).faults(collected(1024)))


def test_the_report_tells_whether_a_gpu_runs_all(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"d": collected(256)}
    assert report(texts, [Outcome("d", "sm_90", resources=Resources(40, 1024, 8))])
    assert (
        "tests/a.py: nothing (tests/ops/t.py), sm_90: 8 bytes of local" in capsys.readouterr().out
    )
    assert not report(texts, [Outcome("d", "sm_90"), Outcome("d", "sm_80", "line 1: no")])
    assert "sm_80: refused: line 1: no" in capsys.readouterr().out
