"""Errors, time limits, interrupts and lost servers of sessions on a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.distributed.session.servers import (
    ServerProcess,
    answered,
    assert_same,
    both,
    outcome,
    tf1,
)
from tests.ports import free_ports
from tests.waiting import is_blocked
from tfjit.distributed.session import grpc_session
from tfjit.runtime.factory import SessionFactory, SessionOptions


def test_errors_of_kernels_keep_class_message_and_node(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, name="x")
    i = tf1.placeholder(tf.int32, name="i")
    faulty = {
        tf1.add(x, [1.0, 2.0], name="sum"): "InvalidArgumentError",
        tf1.gather([1.0, 2.0], i, name="rows"): "InvalidArgumentError",
        tf1.check_numerics(x / 0.0, "not finite", name="finite"): "InvalidArgumentError",
        tf1.get_variable("empty", [], use_resource=False).read_value(): "FailedPreconditionError",
        tf1.read_file("/no such file", name="file"): "NotFoundError",
    }
    for y, kind in faulty.items():
        found = both(target, graph, lambda s, y=y: s.run(y, {x: [1, 2, 3], i: 9}))
        assert found[0] == kind
    with tfjit.Session(target, graph=graph) as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run("sum:0", {x: [1, 2, 3]})
        assert caught.value.op.name == "sum"
        assert session.run("sum:0", {x: [1, 2]}).tolist() == [2, 4]
    both(target, graph, lambda session: session.run("sum:0"))


def test_unknown_fetches_feeds_and_devices(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [2], name="x")
    tf1.identity(x, name="y")
    for call in (
        lambda session: session.run("none:0"),
        lambda session: session.run("y:0", {"none:0": 1}),
        lambda session: session.run("y:0", {x: [1, 2, 3]}),
    ):
        assert isinstance(both(target, graph, call), tuple)
    with tf1.device("/job:nowhere/task:3"):
        tf1.identity(x, name="far")
    assert both(target, graph, lambda session: session.run("far:0", {x: [1, 2]}))[0] == (
        "InvalidArgumentError"
    )
    # of the whole graph, as at TensorFlow's session
    both(target, graph, lambda session: session.run("y:0", {x: [1, 2]}))


def test_names_that_the_master_does_not_know(target: str) -> None:
    """Through the interface of sessions, without the checks of the client."""
    session = grpc_session.GrpcSessionFactory().make_session(SessionOptions(target=target))
    graph = tfjit.Graph()
    with graph.as_default():
        tfjit.constant(1.0, name="one")
    session.create(graph.as_graph_def())
    assert session.run([], ["one:0", "one:0"], []) == [1.0, 1.0]
    for feeds, fetches, targets in (
        ([], ["none:0"], []),
        ([], [], ["none"]),
        ([("none:0", np.float32(1))], ["one:0"], []),
    ):
        with pytest.raises(tfjit.errors.OpError):
            session.run(feeds, fetches, targets)
    with pytest.raises(tfjit.errors.AlreadyExistsError):
        session.create(graph.as_graph_def())
    session._version += 1
    with graph.as_default():
        tfjit.constant(1.0, name="two")
    with pytest.raises(tfjit.errors.AbortedError, match="Current version is"):
        session.extend(graph.as_graph_def(from_version=1))
    session.close()
    session.close()
    session.destroy()
    with pytest.raises(tfjit.errors.CancelledError, match="closed"):
        session.run([], ["one:0"], [])


def test_time_limits(target: str, graph: Any) -> None:
    """TensorFlow's client has its own words for the deadline or gRPC's, whichever come first."""
    got = tf1.FIFOQueue(1, [tf.float32], name="limited").dequeue()
    y = tf1.constant(1.0)
    options = tf1.RunOptions(timeout_in_ms=50)
    config = tf1.ConfigProto(operation_timeout_in_ms=50)

    def of_a_run(library: Any) -> Any:
        with library.Session(target, graph=graph) as session:
            return outcome(lambda: session.run(got, options=options)), session.run(y)

    def of_a_session(library: Any) -> Any:
        with library.Session(target, graph=graph, config=config) as session:
            return outcome(lambda: session.run(got))

    assert of_a_run(tfjit) == (("DeadlineExceededError", "Operation timed out."), 1.0)
    (kind, _), value = answered(lambda: of_a_run(tf1))
    assert (kind, value) == ("DeadlineExceededError", 1.0)
    # the making of a session has the limit too
    assert outcome(lambda: of_a_session(tfjit))[0] == "DeadlineExceededError"
    assert answered(lambda: of_a_session(tf1))[0] == "DeadlineExceededError"


def test_closing_cancels_running_steps(target: str, graph: Any) -> None:
    got = tf1.FIFOQueue(1, [tf.float32], name="closed").dequeue()
    found = []
    for kind in (tf1.Session, tfjit.Session):
        session = kind(target, graph=graph)
        session.run(tf1.constant(1.0))
        waiting = threading.Thread(
            target=lambda session=session: found.append(outcome(lambda: session.run(got)))
        )
        waiting.start()
        assert is_blocked(waiting)
        time.sleep(0.2)  # the server gets the call
        session.close()
        waiting.join(60)
        assert not waiting.is_alive()
        assert outcome(lambda session=session: session.run(got))[0] == "RuntimeError"
    assert_same(found[1], found[0])
    assert found[0][0] == "CancelledError"


def test_an_interrupt_cancels_the_step(target: str, graph: Any) -> None:
    queue = tf1.FIFOQueue(1, [tf.float32], name="interrupted")
    got, put, size = queue.dequeue(), queue.enqueue(1.0), queue.size()
    with tfjit.Session(target, graph=graph) as session:
        assert session.run(size) == 0
        seen, main = threading.Event(), threading.current_thread()

        def interrupt() -> None:
            assert is_blocked(main)
            time.sleep(0.1)  # the server gets the call
            os.kill(os.getpid(), signal.SIGINT)
            while not seen.wait(10):  # one that meets a callback of a weak reference is dropped
                os.kill(os.getpid(), signal.SIGINT)

        # a process that a shell started in the background ignores the signal
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            thread = threading.Thread(target=interrupt)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                session.run(got)
            seen.set()
            thread.join()
        finally:
            signal.signal(signal.SIGINT, before)
        time.sleep(0.1)
        session.run(put)
        time.sleep(0.1)
        assert session.run(size) == 1  # the interrupted step did not take it
        session.run(got)


def test_targets_that_name_no_task() -> None:
    for wrong in ("grpc://", "grpc://host", "grpc://host:port"):
        theirs = outcome(lambda wrong=wrong: tf1.Session(wrong, graph=tf.Graph()))
        assert outcome(lambda wrong=wrong: tfjit.Session(wrong, graph=tfjit.Graph())) == theirs
    assert {*SessionFactory._factories} >= {"GRPC_SESSION", "DIRECT_SESSION"}


def test_a_task_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    where = f"grpc://localhost:{free_ports(1)[0]}"
    config = tfjit.ConfigProto(operation_timeout_in_ms=100)
    with pytest.raises(tfjit.errors.DeadlineExceededError):
        tfjit.Session(where, graph=tfjit.Graph(), config=config)
    master_of = grpc_session._master_of

    def impatient(target: str, timeout_ms: int) -> Any:
        channel, master = master_of(target, timeout_ms)
        master._patience_s = 0.1  # type: ignore[attr-defined]
        return channel, master

    monkeypatch.setattr(grpc_session, "_master_of", impatient)
    with pytest.raises(tfjit.errors.UnavailableError, match="is its server running"):
        tfjit.Session(where, graph=tfjit.Graph())


def test_a_server_that_is_killed_and_started_again(graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [], name="x")
    y = x * 2.0
    got = tf1.FIFOQueue(1, [tf.float32]).dequeue()
    server = ServerProcess()
    try:
        lost, restarted = (tfjit.Session(server.target, graph=graph) for _ in range(2))
        assert lost.run(y, {x: 1.0}) == restarted.run(y, {x: 1.0}) == 2.0
        waiting: list[Any] = []
        thread = threading.Thread(target=lambda: waiting.append(outcome(lambda: lost.run(got))[0]))
        thread.start()
        assert is_blocked(thread)
        server.kill()
        thread.join(60)
        assert waiting == ["UnavailableError"]
        for call in (
            lambda: lost.run(y, {x: 1.0}),
            lost.list_devices,
            lambda: lost.partial_run_setup([y], [x]),
            lambda: lost.run(y + 1.0, {x: 1.0}),
            lost.close,
        ):
            assert outcome(call)[0] == "UnavailableError"
        lost.close()
        server.start()
        end = time.monotonic() + 60
        while True:
            found = outcome(lambda: restarted.run(y, {x: 1.0}))
            if found[0] != "UnavailableError" or time.monotonic() > end:
                break
            time.sleep(0.1)
        # the answers of TensorFlow's own session
        missing = "Session HANDLE is not found."
        assert found == ("AbortedError", missing)
        assert outcome(lambda: restarted.partial_run_setup([y], [x])) == ("AbortedError", missing)
        assert outcome(lambda: restarted.run(y + 1.0, {x: 1.0})) == ("AbortedError", missing)
        assert outcome(restarted.list_devices)[0] == "InvalidArgumentError"
        with tfjit.Session(server.target, graph=graph) as session:
            assert session.run(y, {x: 1.0}) == 2.0
        with restarted:  # leaving the block says that the session cannot be closed, and goes on
            pass
        restarted.close()
    finally:
        server.close()


def test_requests_for_plans_say_where_plans_are(target: str) -> None:
    graph = tfjit.Graph()
    with graph.as_default():
        y = tfjit.constant(1.0)
    with tfjit.Session(target, graph=graph) as session:
        session.run(y)
        for call in (
            lambda: session.explain(y),
            lambda: session.lower(y),
            session.plan_counters,
            session.wait_until_compiled,
        ):
            with pytest.raises(tfjit.errors.UnimplementedError, match="without a target"):
                call()


def test_session_handles_are_refused_as_by_tensorflow(target: str, graph: Any) -> None:
    x = tf1.placeholder(tf.float32, [])
    handle = tf1.get_session_handle(x * 2.0)
    assert both(target, graph, lambda session: session.run(handle, {x: 1.0}))[0] == (
        "FailedPreconditionError"
    )


def test_options_of_sessions_in_this_process(target: str) -> None:
    options = SessionOptions(target=target, custom_kernel_creator=lambda node: None)
    with pytest.raises(tfjit.errors.UnimplementedError, match="custom_kernel_creator"):
        tfjit.Session(graph=tfjit.Graph(), options=options)


def test_without_grpcio() -> None:
    """Targets of clusters say what to install; nothing of gRPC is loaded before."""
    code = """
import sys, tfjit
assert "grpc" not in sys.modules and "tfjit.distributed" not in sys.modules
sys.modules["grpc"] = None
with tfjit.Session() as session:
    assert "tfjit.distributed" not in sys.modules
try:
    tfjit.Session("grpc://localhost:1")
except tfjit.errors.UnimplementedError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "pip install 'tfjit[grpc]'" in done.stdout
