"""The benchmark of compile times on one small kernel."""

from __future__ import annotations

import pytest

from benchmarks import compile_time
from tests.golden import templates


def test_phases_add_up_to_the_kernels() -> None:
    (source,) = templates.loop().sources()
    (row,), phases = compile_time.measure([source])
    assert row.title == source.title
    assert row.bytes > 0
    assert set(phases.seconds) == {
        "text to LLVM IR",
        "LLVM passes",
        "object emission",
        "import of texts, LLVM's parser",
    }
    assert phases.seconds.total() == pytest.approx(row.cpu_s, rel=0.05, abs=1e-3)


def test_unknown_names_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_time.main(["no such workload"]) == 2
    assert "no such workload" in capsys.readouterr().err
