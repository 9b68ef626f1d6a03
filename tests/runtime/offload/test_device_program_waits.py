"""Tests of the waits within a run: only where the host needs a value, and once at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.framework import errors
from tfjit.kernels.cuda.device import simulated_accelerator
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator

GPU, CPU = "/device:GPU:0", "/device:CPU:0"
X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
pytestmark = pytest.mark.simulator


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    with simulated_gpu():
        yield


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Starts of programs, waits for them, and synchronous copies, in order."""
    found: list[str] = []

    def record(kind: Any, name: str) -> None:
        call = getattr(kind, name)

        def recorded(self: Any, *arguments: Any) -> Any:
            found.append(name)
            return call(self, *arguments)

        monkeypatch.setattr(kind, name, recorded)

    for name in ("start", "wait"):
        record(simulated_accelerator._Program, name)
    for name in ("read", "write"):
        record(SimulatedAccelerator, name)
    return found


def updated(between: Any) -> tuple[tf.Graph, Any, Any, Any]:
    """Return a graph that updates a variable, runs a node of the host, and reads the variable."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 4])
        with tf.device(GPU):
            v = tf.get_variable("v", initializer=X, use_resource=True)
            update = tf.assign_add(v, x)
        with tf.device(CPU), tf.control_dependencies([update.op]):
            host = tf.py_func(between, [], tf.float32)
            host.set_shape([])
        with tf.device(GPU), tf.control_dependencies([host]):
            y = tf.matmul(v.read_value(), x)
        init = tf.global_variables_initializer()
    return graph, x, [y, host], init


def test_the_host_does_not_wait_for_a_program_without_results(calls: list[str]) -> None:
    seen: list[list[str]] = []
    graph, x, fetches, init = updated(lambda: (seen.append(list(calls)), np.float32(1))[1])
    value = X.copy()
    with tf.Session(graph=graph) as session:
        session.run(init)
        for _ in range(3):
            calls.clear()
            found, _ = session.run(fetches, {x: X})
            value += X
            np.testing.assert_allclose(found, value @ X, rtol=1e-5)
    assert seen[-1] == ["start"] and calls == ["start", "start", "wait", "wait"]


def test_a_run_waits_for_its_updates_at_the_end(calls: list[str]) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 4])
        with tf.device(GPU):
            v = tf.get_variable("v", initializer=X)
            update = tf.assign_add(v, x).op
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        for _ in range(3):
            calls.clear()
            session.run(update, {x: X})
            assert calls == ["start", "wait"]


def test_the_end_of_a_run_raises_the_errors_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, *arguments: Any) -> None:
        raise errors.InternalError(None, None, "an illegal address")

    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 4])
        with tf.device(GPU):
            v = tf.get_variable("v", initializer=X)
            update = tf.assign_add(v, x).op
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        session.run(update, {x: X})
        with monkeypatch.context() as patch:
            patch.setattr(SimulatedAccelerator, "_run", fail)
            with pytest.raises(errors.InternalError, match="an illegal address"):
                session.run(update, {x: X})
        session.run(update, {x: X})


@pytest.mark.parametrize("rows", [4, 128])
def test_a_value_stays_on_the_device_between_two_programs(calls: list[str], rows: int) -> None:
    """The host has its copy, too."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [rows, 128])
        with tf.device(GPU):
            y = tf.tanh(x)
        with tf.device(CPU):
            host = tf.py_func(lambda value: value + 1, [y], tf.float32)
            host.set_shape([rows, 128])
        with tf.device(GPU):
            z = tf.reverse(y, [0]) * host
    value = np.linspace(-2, 2, rows * 128, dtype=np.float32).reshape(rows, 128)
    expected = np.tanh(value)[::-1] * (np.tanh(value) + 1)
    with tf.Session(graph=graph) as session:
        for _ in range(4):
            calls.clear()
            np.testing.assert_allclose(session.run(z, {x: value}), expected, rtol=1e-5, atol=1e-6)
    assert calls == ["start", "wait", "start", "wait"]
