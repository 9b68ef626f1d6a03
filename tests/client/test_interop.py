"""A tfjit session among TensorFlow's own tools, and graphs that grow under a session."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.protos import GraphDef, NodeDef

tf1 = tf.compat.v1


def test_tensorflow_takes_it_for_a_session() -> None:
    from tensorflow.python.client.session import SessionInterface

    with tfjit.Session(graph=tf1.Graph()) as session:
        assert isinstance(session, SessionInterface)
        assert isinstance(session, tfjit.Session)
    assert not isinstance(object(), SessionInterface)


def test_tensorflows_except_clauses_catch_tfjits_errors() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(1, [tf.float32], shapes=[[]])
        close, take = queue.close(), queue.dequeue()
        x = tf1.placeholder(tf.float32, [])
        v = tf1.Variable(1.0, use_resource=False)
    with tfjit.Session(graph=graph) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized") as failed:
            session.run(v)
        assert isinstance(failed.value, tfjit.errors.FailedPreconditionError)
        assert failed.value.op is v.op
        assert failed.value.error_code == 9
        with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value for placeholder"):
            session.run(x * 2.0)
        session.run(close)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(take)
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(take)
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is tfjit.errors.OutOfRangeError
        assert again.message == caught.value.message
    with pytest.raises(ValueError, match="Unknown input node"):
        tfjit.Session(graph=GraphDef(node=[NodeDef(name="y", op="Neg", input=["x"])]))


def test_default_sessions_serve_tensorflows_eval() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        y = x * 2.0
        v = tf1.Variable(1.0, use_resource=False)
        init = tf1.global_variables_initializer()
    with tfjit.Session(graph=graph) as session:
        assert tf1.get_default_session() is session
        init.run()
        assert v.eval() == 1
        np.testing.assert_array_equal(y.eval({x: [3]}), [6])
        with tf1.Session(graph=graph) as other:
            assert tf1.get_default_session() is other
        assert tf1.get_default_session() is session
        v.load(5.0, session)
        assert v.eval(session) == 5
    assert tf1.get_default_session() is None
    session = tfjit.Session(graph=graph)
    np.testing.assert_array_equal(y.eval({x: [3]}, session=session), [6])
    assert y.op.run({x: [3]}, session=session) is None
    with session.as_default(), session.as_default():
        assert tf1.get_default_session() is session
    assert tf1.get_default_session() is None
    session.close()
    with tfjit.Session(graph=tfjit.Graph()):  # no session for TensorFlow's tensors
        assert tf1.get_default_session() is None


def test_queue_runners_and_coordinator() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.train.string_input_producer(["a", "b", "c"], shuffle=False)
        take = queue.dequeue()
    with tfjit.Session(graph=graph) as session, graph.as_default():
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        assert [session.run(take) for _ in range(7)] == [b"a", b"b", b"c", b"a", b"b", b"c", b"a"]
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)


def test_a_limited_producer_ends() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.train.string_input_producer(["a", "b"], shuffle=False, num_epochs=2)
        take = queue.dequeue()
        init = tf1.local_variables_initializer()
    with tfjit.Session(graph=graph) as session, graph.as_default():
        session.run(init)
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        seen = []
        with pytest.raises(tfjit.errors.OutOfRangeError):
            while True:
                seen.append(session.run(take))
        assert seen == [b"a", b"b"] * 2
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)


@pytest.mark.parametrize("device", ["", "/cpu:1"])
@pytest.mark.parametrize("resource", [False, True])
def test_what_is_added_finds_the_variables_there(device: str, resource: bool) -> None:
    """Updates are colocated with variables that were sent, initialised and run before."""
    graph = tf1.Graph()
    config = tf1.ConfigProto(device_count={"CPU": 2})
    values: list[list[Any]] = []
    with graph.as_default(), tf.device(device):
        v = tf1.Variable(np.arange(3, dtype="f4"), use_resource=resource, name="v")
        x = tf1.placeholder(tf.float32, [3], name="x")
    for make in (tf1.Session, tfjit.Session):
        with graph.as_default(), make(graph=graph, config=config) as session:
            session.run(v.initializer)
            row = [session.run(v)]
            update = v.assign_add(x)  # new in each session
            session.run(update.op, {x: [1, 1, 1]})
            row.append(session.run(v))
            with tf1.colocate_with(v):
                near = tf.identity(x * 2.0)
            row.append(session.run(near, {x: [1, 2, 3]}))
            loss = tf.reduce_sum(tf.square(v))
            train = tf1.train.GradientDescentOptimizer(0.25).minimize(loss, var_list=[v])
            session.run(train)
            row += session.run([loss, v])
            values.append(row)
    for ours, theirs in zip(values[1], values[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
