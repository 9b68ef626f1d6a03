"""Tests of programs: their description, memory, and the end of their life."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.kernels.ir.backend import backend_for


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def test_a_closed_session_gives_memory_back() -> None:
    """The device's memory is that of before, with variables and programs of several shapes."""
    device = backend_for("GPU").accelerator
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3])
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=np.ones((2, 3), np.float32))
            y = tf.reverse(x, [0]) * 2.0
            update = tf.assign_add(v, x)
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        memory = device(0).memory  # type: ignore[attr-defined]
        session.run(init)
        for _ in range(2):
            for rows in (1, 2, 3):
                value = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
                np.testing.assert_array_equal(session.run(y, {x: value}), value[::-1] * 2)
            session.run(update, {x: value[:2]})
            assert session.wait_until_compiled(60)
        assert memory.used > 0
    del session
    gc.collect()
    assert memory.used == 0
