"""Tests of programs: their description, memory, and the end of their life."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import GPU, simulated_gpu
from tests.waiting import wait_until
from tfjit.kernels import random_stream
from tfjit.kernels.ir.backend import backend_for
from tfjit.protos import CallableOptions
from tfjit.runtime.host import fork_safety
from tfjit.runtime.offload import device_program
from tfjit.runtime.offload.binding import COPIED, Binding
from tfjit.runtime.offload.bound_programs import BoundPrograms
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.offload.graph_form import GraphForm
from tfjit.runtime.op_kernels.control_flow.offload_ops import OffloadKernel
from tfjit.runtime.resources.device_tensor import DeviceTensor
from tfjit.runtime.resources.migrating_variable import MigratingVariable


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
            assert session.wait_until_compiled(300)
        assert memory.used > 0
    del session
    gc.collect()
    wait_until(lambda: memory.used == 0)  # background work may hold the plan for a moment


def test_programs_at_the_same_time_draw_different_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position is taken and moved on at once, whatever other programs of its node do."""

    def slow(state: np.ndarray, count: int) -> None:
        time.sleep(0.02)
        random_stream.advance(state, count)

    monkeypatch.setattr(device_program, "advance", slow)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None])
        with tf.device("/device:GPU:0"):
            y = tf.random_uniform(tf.shape(x), seed=3) + 0.0
    feeds = [np.zeros(size, np.float32) for size in (3, 4, 5)]
    with tf.Session(graph=graph) as session, ThreadPoolExecutor(len(feeds)) as pool:
        for feed in feeds:
            session.run(y, {x: feed})
        assert session.wait_until_compiled(300)
        for feed in feeds:
            session.run(y, {x: feed})
        drawn = list(pool.map(lambda feed: session.run(y, {x: feed})[:3], feeds))
    assert len({value.tobytes() for value in drawn}) == len(feeds)


@pytest.mark.simulator
def test_a_tensor_at_an_odd_address_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of another library's array may begin anywhere; vectors of 16 bytes may not."""
    bindings = []
    make = BoundPrograms._program_for

    def record(self: BoundPrograms, binding: Binding, lookup: Any) -> Any:
        bindings.append(binding)
        return make(self, binding, lookup)

    monkeypatch.setattr(BoundPrograms, "_program_for", record)
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        x = tf.placeholder(tf.float32, [4])
        y = x * 2.0
    options = CallableOptions(feed=["Placeholder:0"], fetch=[y.name])
    options.feed_devices["Placeholder:0"] = GPU
    whole = np.arange(8, dtype=np.float32)
    with tf.Session(graph=graph) as session:
        call = session._make_callable_from_options(options)
        owner = DeviceTensor.of_array(backend_for("GPU").accelerator(0), whole)
        for start, place in ((1, {COPIED}), (4, {owner.address + 16})):
            part = DeviceTensor(
                *(owner.accelerator, owner.dtype, (4,), owner.address + 4 * start), owner=owner
            )
            bindings.clear()
            call(part)
            assert session.wait_until_compiled(300)
            for _ in range(3):
                np.testing.assert_array_equal(call(part)[0], whole[start : start + 4] * 2)
            assert {binding.feeds[0] for binding in bindings} == place


def test_locks_are_free_in_a_forked_child() -> None:
    """A run of the child raises its error instead of waiting for a thread of the parent."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [3])
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=np.ones(3, np.float32))
            y = v * tf.exp(x)
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        for _ in range(2):
            session.run(y, {x: np.ones(3)})
            assert session.wait_until_compiled(300)
        locks: dict[type, str] = {
            **dict.fromkeys((OffloadKernel, GraphForm, DeviceProgram), "_lock"),
            MigratingVariable: "_moves",
        }
        watched = list(fork_safety._objects)
        for kind, name in locks.items():
            found = [one for one in watched if type(one) is kind]
            assert found
            for one in found:
                lock = getattr(one, name)
                held = threading.Thread(target=lock.acquire)
                held.start()
                held.join()
                assert not lock.acquire(blocking=False)
                one.after_fork()  # type: ignore[attr-defined]
                assert lock.acquire(blocking=False)
                lock.release()
