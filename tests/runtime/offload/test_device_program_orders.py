"""Programs whose commands run in other orders, as their hazards allow, have the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.runtime.offload.drawn_graphs import Order, values_of
from tests.simulated_gpu import simulated_gpu
from tfjit.runtime.offload import program_commands

ORDERS: tuple[Order, ...] = (None, "late", 1, 2)
pytestmark = pytest.mark.simulator


@pytest.fixture(autouse=True)
def programs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")


@pytest.mark.parametrize("seed", range(3))
def test_drawn_graphs(seed: int) -> None:
    expected = values_of(seed, "/device:CPU:0", None)
    in_order, *others = (values_of(seed, "/device:GPU:0", order) for order in ORDERS)
    for run, host in zip(in_order, expected, strict=True):
        for found, value in zip(run, host, strict=True):
            np.testing.assert_allclose(found, value, rtol=2e-4, atol=2e-5)
    for other in others:
        for run, host in zip(other, in_order, strict=True):
            for found, value in zip(run, host, strict=True):
                np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("order", ORDERS)
def test_layers_of_a_loop(order: Order) -> None:
    """Two recurrent layers: the second one of an iteration may run beside the next first one."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(5, 2, 3)).astype(np.float32)
    weights = [rng.normal(size=(6, 3)).astype(np.float32) for _ in range(2)]
    expected = []
    states = [np.zeros((2, 3), np.float32) for _ in range(2)]
    for row in x:
        below = row
        for k, w in enumerate(weights):
            states[k] = below = np.tanh(np.concatenate([below, states[k]], 1) @ w)
        expected.append(below)
    with simulated_gpu(order):
        with tf.Graph().as_default() as graph:
            fed = tf.placeholder(tf.float32, [5, 2, 3])
            with tf.device("/device:GPU:0"):
                cells = [
                    lambda below, state, w=w: tf.tanh(tf.matmul(tf.concat([below, state], 1), w))
                    for w in weights
                ]

                def body(t: Any, first: Any, second: Any, rows: Any) -> list[Any]:
                    first = cells[0](tf.gather(fed, t), first)
                    second = cells[1](first, second)
                    return [t + 1, first, second, rows.write(t, second)]

                zeros = tf.zeros([2, 3])
                rows = tf.TensorArray(tf.float32, 5, element_shape=[2, 3])
                *_, rows = tf.while_loop(
                    lambda t, *_: t < 5, body, [tf.constant(0), zeros, zeros, rows]
                )
                y = rows.stack()
        with tf.Session(graph=graph) as session:
            for _ in range(2):
                np.testing.assert_allclose(session.run(y, {fed: x}), expected, rtol=1e-5, atol=1e-6)


def test_commands_may_be_kept_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_commands, "find_hazards", lambda uses: ((),) * len(uses))
    monkeypatch.setenv("TFJIT_DISABLE", "overlap")
    for found, value in zip(
        values_of(0, "/device:GPU:0", "late"), values_of(0, "/device:GPU:0", None), strict=True
    ):
        np.testing.assert_array_equal(found, value)


def test_a_missing_wait_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hazards, an order that starts with the last command has other values."""
    in_order = values_of(0, "/device:GPU:0", "late")
    monkeypatch.setattr(program_commands, "find_hazards", lambda uses: ((),) * len(uses))
    without = values_of(0, "/device:GPU:0", "late")
    assert any(
        not np.array_equal(found, value)
        for run, other in zip(without, in_order, strict=True)
        for found, value in zip(run, other, strict=True)
    )
