"""A word on stderr while slow work goes on."""

from __future__ import annotations

import io
import re

import pytest

from tests.waiting import wait_until
from tfjit.demo.progress import Progress


def test_progress_is_silent_when_quick_and_speaks_when_slow() -> None:
    stream = io.StringIO()
    with Progress("compiling", after_s=600.0, stream=stream):
        pass
    assert stream.getvalue() == ""
    with Progress("compiling", after_s=0.01, stream=stream):
        wait_until(stream.getvalue)
    assert re.match(r"tfjit: compiling \.\.\. \d+\.\d s\n", stream.getvalue())
    assert stream.getvalue().endswith(" s\n")
    assert "done" in stream.getvalue()
    stream = io.StringIO()
    with pytest.raises(ValueError), Progress("compiling", after_s=0.01, stream=stream):
        wait_until(stream.getvalue)
        raise ValueError
    assert "compiling failed" in stream.getvalue()


def test_more_about_the_work() -> None:
    stream = io.StringIO()
    with Progress("compiling", after_s=0.01, stream=stream, detail=lambda: ", 3 of 4"):
        wait_until(stream.getvalue)
    assert stream.getvalue().splitlines()[-1].endswith(" s, 3 of 4")
