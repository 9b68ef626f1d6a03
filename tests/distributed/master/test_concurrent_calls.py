"""Calls at the same time: errors, and calls given up."""

from __future__ import annotations

import threading

from tfjit.distributed.master.concurrent_calls import call_all, first_error
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager


def test_calls_run_at_the_same_time_and_one_of_them_here() -> None:
    together = threading.Barrier(3)
    threads = {}

    def call(name: str) -> str:
        together.wait(60)
        threads[name] = threading.current_thread()
        return name

    found = call_all({name: lambda name=name: call(name) for name in "abc"}, here="b")
    assert {name: outcome.value for name, outcome in found.items()} == {n: n for n in "abc"}
    assert threads["b"] is threading.current_thread()
    assert first_error(found) is None


def test_errors_and_calls_that_are_given_up() -> None:
    cancellation = CancellationManager()
    release = threading.Event()

    def fail() -> None:
        cancellation.cancel()
        raise ValueError("faulty")

    found = call_all({"slow": lambda: release.wait(60), "bad": fail}, "bad", cancellation)
    release.set()
    assert isinstance(found["bad"].error, ValueError)
    assert isinstance(found["slow"].error, errors.CancelledError)
    assert isinstance(first_error(found), ValueError)
    late = call_all({"a": lambda: 1}, cancellation=cancellation)["a"]
    assert late.value == 1 or isinstance(late.error, errors.CancelledError)
    assert call_all({}) == {}
