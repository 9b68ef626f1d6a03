"""A library opens by steps on a thread; forks wait for a step, and the child goes without."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.forked_calls import in_child
from tfjit.kernels.ir import library_opening
from tfjit.kernels.ir.library_opening import LibraryOpening

Steps = Generator[None, None, bool]


def steps(usable: bool, count: int = 2, step: Callable[[], object] = lambda: None) -> Steps:
    for _ in range(count):
        step()
        yield
    return usable


@pytest.mark.parametrize("usable", [True, False])
def test_an_opening_calls_back_once(usable: bool) -> None:
    go = threading.Event()
    opening = LibraryOpening("cuNothing")
    called: list[str] = []
    opening.when_done(lambda o: called.append(f"{o.usable} {threading.current_thread().name}"))
    opening.start(steps(usable, step=go.wait))
    assert not opening.is_done and not opening.wait(0) and not called
    go.set()
    assert opening.wait(60) and opening.is_done and opening.usable is usable
    while not called:  # callbacks come behind the event
        time.sleep(0.001)
    assert called == [f"{usable} tfjit-cuNothing"]
    opening.when_done(lambda o: called.append("at once"))
    assert called[1:] == ["at once"]


def test_an_error_leaves_the_library_out(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))

    def fail() -> None:
        raise RuntimeError("a bug")

    opening = LibraryOpening("cuNothing")
    opening.start(steps(True, step=fail))
    assert opening.wait(60) and not opening.usable
    for thread in list(library_opening._THREADS):
        thread.join(60)
    assert [str(error) for error in told] == ["a bug"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_waits_for_a_step_and_the_child_goes_without() -> None:
    in_step, go, forked = threading.Event(), threading.Event(), threading.Event()

    def step() -> None:
        in_step.set()
        time.sleep(0.02)

    def endless() -> Steps:
        while not go.is_set():
            step()
            yield
        return True

    opening = LibraryOpening("cuNothing")
    opening.start(endless())
    assert in_step.wait(60)
    assert in_child(lambda: [opening.is_done, opening.usable, opening.wait(0)]) == [
        True, False, True,
    ]  # fmt: skip
    forked.set()
    assert not opening.is_done
    go.set()
    assert opening.wait(60) and opening.usable


def test_the_end_of_the_process_stops_between_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_opening, "_ENDING", threading.Event())
    opening = LibraryOpening("cuNothing")
    taken: list[int] = []
    opening.start(steps(True, 100_000, lambda: taken.append(1)))
    library_opening._end()
    assert opening.is_done and not opening.usable and len(taken) < 100_000
