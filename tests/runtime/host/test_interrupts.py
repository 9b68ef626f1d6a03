"""Ctrl-C during `run`: the step ends, KeyboardInterrupt is raised, and the session goes on."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Press Ctrl-C that much later, from another thread, as a terminal does.

    And again where nothing came of it for long: an interrupt that comes in a callback of a weak
    reference is dropped by Python.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    over, main = threading.Event(), threading.main_thread().ident
    assert main is not None

    def press() -> None:
        wait = seconds
        while not over.wait(wait):
            signal.pthread_kill(main, signal.SIGINT)
            wait = 10.0

    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)


class World:
    """A graph with something of each way to run, and a session over it."""

    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.queue = tf1.FIFOQueue(4, [tf.float32], shapes=[[]])
            self.take, self.take_two, self.put = (
                self.queue.dequeue(),
                self.queue.dequeue_many(2),
                self.queue.enqueue(7.0),
            )
            self.size = self.queue.size()
            self.x = tf1.placeholder(tf.float32, [None])
            self.y = tf.tanh(self.x) * 2.0
            self.count = tf1.get_variable("count", initializer=0, use_resource=False)
            self.bump = tf1.assign_add(self.count, 1)
            self.slept = tf1.py_func(_sleep, [self.x], tf.float32)
            self.init = tf1.global_variables_initializer()
        self.session = tfjit.Session(graph=self.graph)
        self.session.run(self.init)

    def check(self) -> None:
        """The session works, and nothing of the interrupted step is left behind."""
        session = self.session
        np.testing.assert_array_equal(session.run(self.y, {self.x: [0.0]}), [0])
        before = session.run(self.count)
        assert session.run(self.bump) == before + 1
        session.run(self.put)
        assert session.run(self.size) == 1
        assert session.run(self.take) == 7
        session.close()


def _sleep(x: Any) -> Any:
    time.sleep(30)
    return x


WAITS: dict[str, Callable[[World], Callable[[], Any]]] = {
    "queue": lambda w: lambda: w.session.run(w.take),
    "queue, a part taken": lambda w: lambda: w.session.run(w.take_two),
    "queue with a deadline": lambda w: (
        lambda: w.session.run(w.take, options=tf1.RunOptions(timeout_in_ms=60_000))
    ),
    "queue in a callable": lambda w: w.session.make_callable(w.take),
    "Python function": lambda w: lambda: w.session.run(w.slept, {w.x: [1.0]}),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_step_that_waits(name: str) -> None:
    world = World()
    call = WAITS[name](world)
    if name == "queue, a part taken":
        world.session.run(world.put)
    with interrupted_after(0.3):
        call()
    if name == "queue, a part taken":  # what it had taken is back
        assert world.session.run(world.take) == 7
    world.check()


def test_a_partial_run_that_waits() -> None:
    world = World()
    with world.graph.as_default():
        total = world.take + world.x
    handle = world.session.partial_run_setup([total], [world.x])
    with interrupted_after(0.3):
        world.session.partial_run(handle, total, {world.x: [1.0]})
    with pytest.raises(tfjit.errors.InvalidArgumentError, match="Must run 'setup'"):
        world.session.partial_run(handle, total)
    world.check()


@pytest.mark.parametrize(
    "how",
    ["straight line", "reference kernels", "dataflow executor", "new feed shapes", "new graph"],
)
def test_steps_one_after_the_other(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted wherever it happens to be, many times."""
    if how == "reference kernels":
        monkeypatch.setenv("TFJIT_JIT", "off")
    if how == "dataflow executor":
        monkeypatch.setenv("TFJIT_DISABLE", "straight_line")
    world = World()
    session = world.session
    sizes = itertools.count(1)
    values = np.zeros(200, "f4")

    def work() -> None:
        if how == "new feed shapes":
            session.run(world.y, {world.x: values[: next(sizes) % 190]})
        elif how == "new graph":
            # half an operation would be TensorFlow's matter
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            with world.graph.as_default():
                made = tf.identity(world.y)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            session.run(made, {world.x: values})
        else:
            session.run([world.bump, world.y], {world.x: values})

    work()
    for i in range(5):
        with interrupted_after(0.02 + 0.013 * i):
            while True:
                work()
        work()
    world.check()


def test_the_graph_is_sent_whole() -> None:
    """An interrupt while a graph is sent is raised when it is there."""
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [])
        y = x
        for _ in range(3000):
            y = y + 1.0
    for delay in (0.01, 0.05, 0.1):
        session = tfjit.Session(graph=graph)
        with interrupted_after(delay):
            while True:
                session.run(y, {x: 0})
        assert session.run(y, {x: 0}) == 3000
        session.close()
