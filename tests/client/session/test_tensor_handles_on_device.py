"""Session handles of values that a simulated GPU:0 computes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import GPU, simulated_gpu
from tests.waiting import wait_until
from tfjit.kernels.ir.backend import backend_for
from tfjit.runtime.resources.device_tensor import DeviceTensor

X = np.array([1, 2, 3], np.float32)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


class World:
    """y = 2 x on the device, kept by a handle; w = -x on the host, kept by another."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf.placeholder(tf.float32, [None])
            with tf.device("/device:GPU:0"):
                self.y = self.x * 2.0
                self.h = tf.get_session_handle(self.y)
            with tf.device("/device:CPU:0"):
                self.w = tf.negative(self.x)
                self.k = tf.get_session_handle(self.w)
        self.session = tf.Session(graph=self.graph)

    def kept(self) -> list[Any]:
        return [
            found.value for found in self.session._runtime_session.state.tensors._tensors.values()
        ]


def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which copies from and to the host are added."""
    device: Any = backend_for("GPU").accelerator(0)
    found: list[str] = []
    run = device._run

    def noted(command: Any) -> None:
        if getattr(command, "direction", "") in ("in", "out"):
            found.append(command.direction)
        run(command)

    monkeypatch.setattr(device, "_run", noted)
    return found


@pytest.mark.simulator
def test_a_handle_fed_back_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    s = world.session
    found = copies(monkeypatch)
    handle = s.run(world.h, {world.x: X})
    expected = X * 2
    for _ in range(6):
        assert handle.handle.endswith(GPU)
        assert all(isinstance(value, DeviceTensor) for value in world.kept())
        np.testing.assert_array_equal(handle.eval(), expected)
        assert s.wait_until_compiled(300)
        found.clear()
        handle = s.run(world.h, {world.x: handle})
        expected = expected * 2
    assert found == []
    np.testing.assert_array_equal(s.run(world.y, {world.x: handle}), expected * 2)
    assert found == ["out"]


def test_handles_of_host_and_device_mix() -> None:
    world = World()
    s = world.session
    for _ in range(3):
        h, k, y = s.run([world.h, world.k, world.y], {world.x: X})
        np.testing.assert_array_equal(y, 2 * X)
        np.testing.assert_array_equal(h.eval(), 2 * X)
        np.testing.assert_array_equal(k.eval(), -X)
        np.testing.assert_array_equal(s.run(world.w, {world.x: h}), -2 * X)
        np.testing.assert_array_equal(s.run(world.y, {world.x: k}), -2 * X)
        fed, y = s.run([world.x, world.y], {world.x: h})
        np.testing.assert_array_equal(fed, 2 * X)
        np.testing.assert_array_equal(y, 4 * X)
        assert s.wait_until_compiled(300)


@pytest.mark.simulator
def test_by_session_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users on the device read it there, others a copy."""
    world = World()
    s = world.session
    handle = s.run(world.h, {world.x: X})
    with world.graph.as_default():
        holder, value = tf.get_session_tensor(handle.handle, tf.float32)
        with tf.device("/device:GPU:0"):
            kept = tf.get_session_handle(tf.square(value))
        with tf.device("/device:CPU:0"):
            root = tf.sqrt(value)
    found = copies(monkeypatch)
    for _ in range(3):
        squares = s.run(kept, {holder: handle.handle})
        np.testing.assert_array_equal(squares.eval(), np.square(2 * X))
        np.testing.assert_array_equal(s.run(root, {holder: handle.handle}), np.sqrt(2 * X))
        assert s.wait_until_compiled(300)
    found.clear()
    s.run(kept, {holder: handle.handle})
    assert found == []


def test_a_deleted_handle_frees_its_memory() -> None:
    world = World()
    s = world.session
    memory = backend_for("GPU").accelerator(0).memory  # type: ignore[attr-defined]
    first = s.run(world.h, {world.x: X})
    s.wait_until_compiled(300)
    second = s.run(world.h, {world.x: first})
    third = s.run(world.h, {world.x: second})
    before = memory.used
    third.delete()
    assert memory.used == before - 256
    np.testing.assert_array_equal(second.eval(), 4 * X)
    s.close()
    del first, second, third, s, world
    gc.collect()
    wait_until(lambda: memory.used == 0)  # background work may hold the plan for a moment
