from __future__ import annotations

import io
from typing import Any

import pytest

from tfjit.kernels.jit import progress
from tfjit.kernels.jit.progress import CompileCounts, CompileProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, counts: Any = None) -> str:
    """The text of a report over three looks at the counts."""
    for name in ("_LOOK_S", "_TERMINAL_S", "_FIRST_LINE_S"):
        monkeypatch.setattr(progress, name, 0.001)
    left = iter(
        counts or [CompileCounts(5, 2), *[CompileCounts(6, 1)] * 20, *[CompileCounts(7, 0)] * 2]
    )
    made = CompileProgress(lambda: next(left), stream)
    made.begin()
    if made._thread is not None:
        made._thread.join()
    return stream.getvalue()


def test_nothing_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFJIT_PROGRESS", raising=False)
    assert report(io.StringIO(), monkeypatch) == ""


def test_lines_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_PROGRESS", "1")
    lines = report(io.StringIO(), monkeypatch).splitlines()
    assert lines[0].startswith("tfjit: compiled 1 of 2 kernels, ")
    assert lines[-1].startswith("tfjit: compiled 2 kernels in ")


def test_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_PROGRESS", "1")
    text = report(Terminal(), monkeypatch)
    assert text.count("\n") == 1
    assert "\rtfjit: compiled 1 of 2 kernels, " in text
    assert text.endswith(" s\n")


def test_quick_work_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_PROGRESS", "1")
    assert report(io.StringIO(), monkeypatch, [CompileCounts(0, 1), CompileCounts(1, 0)]) == ""
