"""Loops as one kernel in a session: cancellation, time limits, `close`, first runs that last,
several threads, off switches.
"""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.waiting import wait_until
from tfjit.runtime.step import loop_osr

tf1 = tf.compat.v1


def endless(vector: bool) -> bytes:
    """A loop that ends when `go` is False, which it never becomes."""
    with tf1.Graph().as_default() as graph:
        go = tf1.placeholder(tf.bool, [], name="go")
        x = tf1.placeholder(tf.float32, [1000] if vector else [], name="x")
        tf.identity(
            tf.while_loop(lambda i, v: go, lambda i, v: [i + 1, v * 0.5 + 1.0], [0, x])[1], name="y"
        )
    data: bytes = graph.as_graph_def().SerializeToString()
    return data


def session(graph: bytes, compiled: bool, timeout_ms: int = 0) -> Any:
    config = tfjit.ConfigProto(intra_op_parallelism_threads=2, operation_timeout_in_ms=timeout_ms)
    config.graph_options.optimizer_options.global_jit_level = 2 if compiled else 0
    return tfjit.Session(graph=graph, config=config)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("vector", [False, True])
def test_ends_at_its_time_limit(compiled: bool, vector: bool) -> None:
    x = np.ones(1000 if vector else (), np.float32)
    with session(endless(vector), compiled) as s:
        s.run("y:0", {"go:0": False, "x:0": x})  # what takes long is done
        with pytest.raises(tfjit.errors.DeadlineExceededError):
            s.run("y:0", {"go:0": True, "x:0": x}, options=tfjit.RunOptions(timeout_in_ms=30))
        np.testing.assert_array_equal(s.run("y:0", {"go:0": False, "x:0": x}), x)


@pytest.mark.parametrize("compiled", [False, True])
def test_ends_on_close(compiled: bool) -> None:
    s = session(endless(True), compiled)
    x = np.ones(1000, np.float32)
    s.run("y:0", {"go:0": False, "x:0": x})
    raised: list[BaseException] = []

    def run() -> None:
        try:
            s.run("y:0", {"go:0": True, "x:0": x})
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: s._runtime_session.steps.running)
    time.sleep(0.05)
    s.close()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(raised[0], tfjit.errors.CancelledError)


@pytest.mark.parametrize("compiled", [False, True])
def test_ends_on_an_interrupt(compiled: bool) -> None:
    x = np.ones(1000, np.float32)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with session(endless(True), compiled) as s:
        s.run("y:0", {"go:0": False, "x:0": x})
        main, over = threading.main_thread().ident, threading.Event()
        assert main is not None

        def interrupt() -> None:
            wait_until(lambda: s._runtime_session.steps.running)
            wait_s = 0.2
            while not over.wait(wait_s):
                signal.pthread_kill(main, signal.SIGINT)
                wait_s = 10.0  # one that meets a callback of a weak reference is dropped

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                s.run("y:0", {"go:0": True, "x:0": x}, options=tfjit.RunOptions(timeout_in_ms=0))
        finally:
            over.set()
            thread.join()
            signal.signal(signal.SIGINT, before)
        for _ in range(3):
            np.testing.assert_array_equal(s.run("y:0", {"go:0": False, "x:0": x}), x)


def test_a_first_run_goes_on_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_osr, "PATIENCE_S", 0.0)
    with tf1.Graph().as_default() as graph:
        n = tf1.placeholder(tf.int32, [], name="n")
        x = tf1.placeholder(tf.float32, [5], name="x")
        i, y = tf.while_loop(
            lambda i, v: i < n, lambda i, v: [i + 1, v * 0.999 + tf.cast(i % 7, tf.float32)], [0, x]
        )
        tf.identity(i, name="i")
        tf.identity(y, name="y")
    count, value = np.int32(300_000), np.arange(5, dtype=np.float32)
    with session(graph.as_graph_def().SerializeToString(), False) as s:
        began = time.monotonic()
        got = s.run(["i:0", "y:0"], {"n:0": count, "x:0": value})
        # by NumPy alone it takes longer than the compiler, but no test depends on it
        assert time.monotonic() - began < 60
    wanted = value
    for k in range(count):
        wanted = wanted * np.float32(0.999) + np.float32(k % 7)
    assert got[0] == count
    np.testing.assert_array_equal(got[1], wanted)


def test_runs_at_the_same_time() -> None:
    x = np.linspace(0, 1, 1000).astype(np.float32)
    with tf1.Graph().as_default() as graph:
        v, n = (
            tf1.placeholder(tf.float32, [1000], name="x"),
            tf1.placeholder(tf.int32, [], name="n"),
        )
        tf.identity(
            tf.while_loop(lambda i, v: i < n, lambda i, v: [i + 1, v * 0.5 + 1.0], [0, v])[1],
            name="y",
        )
    with session(graph.as_graph_def().SerializeToString(), True) as s:
        wrong: list[int] = []

        def work(n: int) -> None:
            wanted = x
            for _ in range(n):
                wanted = wanted * np.float32(0.5) + np.float32(1.0)
            for _ in range(50):
                if not np.array_equal(s.run("y:0", {"x:0": x, "n:0": np.int32(n)}), wanted):
                    wrong.append(n)

        threads = [threading.Thread(target=work, args=(n,)) for n in (0, 3, 20, 200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
