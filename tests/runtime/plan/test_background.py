"""The thread of background work."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest

from tfjit.framework import cooperative_yield
from tfjit.runtime.plan.background import Background


def test_only_the_first_job_has_the_interpreter_promptly(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def prompt() -> nullcontext[None]:
        events.append("prompt")
        return nullcontext()

    monkeypatch.setattr(cooperative_yield, "prompt_interpreter", prompt)
    background, over = Background(), threading.Event()
    for number in range(2):
        background.submit(lambda number=number: events.append(f"job {number}"), lambda: 0.5)
    background.submit(over.set, lambda: 0.5)
    assert over.wait(60)
    assert events == ["prompt", "job 0", "job 1"]
