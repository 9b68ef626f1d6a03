"""Callbacks wait for their kernels, in a forked child, too."""

from __future__ import annotations

import threading

import pytest

from tests.kernels.jit.scaling import scale_by
from tfjit.kernels.jit.kernel_callbacks import KernelCallbacks
from tfjit.kernels.source import KernelSource


def test_a_callback_comes_once_when_its_last_kernel_is_settled() -> None:
    settled: set[KernelSource] = set()
    callbacks = KernelCallbacks(threading.Lock(), settled.issuperset)
    calls: list[str] = []
    assert callbacks.add([scale_by(1), scale_by(2)], lambda: calls.append("both"))
    assert callbacks.add([scale_by(2)], lambda: calls.append("second"))
    settled.add(scale_by(2))
    callbacks.call_ready()
    assert calls == ["second"]
    settled.add(scale_by(1))
    callbacks.call_ready()
    callbacks.call_ready()
    assert calls == ["second", "both"]
    assert not callbacks.add([scale_by(1)], lambda: calls.append("late"))


def test_a_callback_that_fails_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    settled: set[KernelSource] = set()
    callbacks = KernelCallbacks(threading.Lock(), settled.issuperset)
    calls: list[str] = []

    def fail() -> None:
        raise ValueError("planted")

    callbacks.add([scale_by(1)], fail)
    callbacks.add([scale_by(1)], lambda: calls.append("second"))
    settled.add(scale_by(1))
    callbacks.call_ready()
    assert calls == ["second"] and "planted" in caplog.text


def test_a_forked_child_waits_for_the_rest() -> None:
    callbacks = KernelCallbacks(threading.Lock(), lambda sources: True)
    assert not callbacks.after_fork(threading.Lock())
    settled: set[KernelSource] = set()
    waiting = KernelCallbacks(threading.Lock(), settled.issuperset)
    calls: list[str] = []
    waiting.add([scale_by(1)], lambda: calls.append("child"))
    assert waiting.after_fork(threading.Lock())
    settled.add(scale_by(1))
    waiting.call_ready()
    assert calls == ["child"]
