"""Tests of programs: their description, memory, and the end of their life."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.op_kernels.control_flow import offload_ops


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def test_old_programs_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node keeps the programs of a bounded number of shapes, and gives memory back."""
    monkeypatch.setattr(offload_ops, "MAX_PROGRAMS", 2)
    closed = []
    close = DeviceProgram.close
    monkeypatch.setattr(DeviceProgram, "close", lambda self: (closed.append(self), close(self)))
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3])
        with tf.device("/device:GPU:0"):
            y = tf.reverse(x, [0]) * 2.0
    with tf.Session(graph=graph) as session:
        for _ in range(2):
            for rows in (1, 2, 3, 4):
                value = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
                for _ in range(2):
                    np.testing.assert_array_equal(session.run(y, {x: value}), value[::-1] * 2)
                    assert session.wait_until_compiled(60)
    assert len(closed) >= 5
    assert all(program._arena == 0 for program in closed)
