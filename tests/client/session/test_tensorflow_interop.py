"""A tfjit session among TensorFlow's own tools, and graphs that grow under a session."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.forked_processes import Processes
from tests.waiting import is_blocked
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
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="You must feed a value for placeholder"
        ):
            session.run(x * 2.0)
        session.run(close)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(take)
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(take)
        assert type(caught.value) is tf.errors.OutOfRangeError
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is tf.errors.OutOfRangeError
        assert isinstance(again, tfjit.errors.OutOfRangeError)
        assert again.message == caught.value.message
    with pytest.raises(ValueError, match="Unknown input node"):
        tfjit.Session(graph=GraphDef(node=[NodeDef(name="y", op="Neg", input=["x"])]))


def in_new_thread(function: Any) -> Any:
    """The result of a function in a thread, whose default graphs are new."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.mark.parametrize("kind", [tfjit.Session, tfjit.InteractiveSession])
def test_without_a_graph_a_session_takes_the_one_that_was_built(kind: Any) -> None:
    def run() -> None:
        with tf1.Graph().as_default() as graph:
            assert isinstance(made(), tfjit.Graph)  # TensorFlow's has nothing either
            y = tf.constant(2.0) * 3.0
            session = kind()
            assert session.graph is graph
            assert session.run(y) == 6
            assert y.eval(session=session) == 6
            session.close()
            with tfjit.Graph().as_default() as own:
                assert made() is own  # asked for by a block
            z = tfjit.constant(4.0)
            session = kind()
            assert session.graph is z.graph
            assert session.run(z) == 4
            with pytest.raises(
                TypeError, match="over a graph of tfjit, and mul:0 is of a graph of TensorFlow"
            ):
                session.run([z, y])
            with pytest.raises(TypeError, match="make the session with graph=tensor.graph"):
                session.run(z, {y: 1.0})
            session.close()
            with (
                tfjit.Session(graph=graph) as other,
                pytest.raises(
                    TypeError, match="a graph of TensorFlow, and Const:0 is of a graph of tfjit"
                ),
            ):
                other.run(z)
            with (
                tfjit.Session(graph=tfjit.Graph()) as empty,
                pytest.raises(RuntimeError, match="The Session graph is empty.*get_default_graph"),
            ):
                empty.run("y:0")
        assert isinstance(made(), tfjit.Graph)  # eager: nobody builds in TensorFlow's

    def made() -> Any:
        with tfjit.Session() as session:
            return session.graph

    in_new_thread(run)


def failures(session: Any, graph: Any, fetches: dict[str, Any]) -> dict[str, Any]:
    """The exact class, code, message's end and operation of each failure, by the way it is met."""
    x, checked, called, taken, waits, blocked = (fetches[n] for n in FETCHES)

    def prepared() -> Any:
        return session.partial_run(
            session.partial_run_setup([checked], [x]), [checked], {x: np.nan}
        )

    def closed() -> None:
        def run() -> None:
            try:
                session.run(blocked)
            except Exception as error:
                raised.append(error)

        raised: list[Exception] = []
        thread = threading.Thread(target=run)
        thread.start()
        is_blocked(thread)  # or has ended: TensorFlow's partial run leaves its error
        session.close()
        thread.join()
        raise raised[0]

    soon = tf1.RunOptions(timeout_in_ms=30)
    ways: dict[str, Any] = {
        "run": lambda: session.run(checked, {x: np.nan}),
        "run again": lambda: session.run(checked, {x: np.nan}),
        "no feed": lambda: session.run(checked),
        "options": lambda: session.run(checked, {x: np.nan}, options=tf1.RunOptions(trace_level=0)),
        "callable": lambda: session.make_callable(checked, [x])(np.nan),
        "of eval": lambda: checked.eval({x: np.nan}, session),
        "python function": lambda: session.run(called, {x: 1.0}),
        "queue": lambda: session.run(taken),
        "timeout": lambda: session.run(waits, options=soon),
        "partial run": prepared,
        "close": closed,
    }
    found = {}
    for name, way in ways.items():
        with pytest.raises(tf.errors.OpError) as caught:
            way()
        error = caught.value
        kind = getattr(tfjit.errors, type(error).__name__)
        assert issubclass(kind, tfjit.errors.OpError)
        if isinstance(session, tfjit.Session):
            assert isinstance(error, kind), name
        op = error.op and error.op.name
        found[name] = (type(error), error.error_code, error.message.splitlines()[-1], op)
    return found


FETCHES = ("x", "checked", "called", "taken", "waits", "blocked")


def raise_range_error(x: Any) -> Any:
    raise tf.errors.OutOfRangeError(None, None, "the function's own")


def test_errors_are_exactly_tensorflows_classes() -> None:
    """On every way out of a session, of both: its programs compare classes by `in [...]`."""
    found = []
    for make in (tf1.Session, tfjit.Session):
        graph = tf1.Graph()
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [], name="x")
            checked = tf1.check_numerics(x, "bad", name="checked")
            called = tf1.py_func(raise_range_error, [x], tf.float32, name="called")
            queue = tf1.FIFOQueue(1, [tf.float32], shapes=[[]], name="queue")
            close, taken = queue.close(), queue.dequeue(name="taken")
            waits = tf1.FIFOQueue(1, [tf.float32], name="empty").dequeue(name="waits")
            blocked = tf1.FIFOQueue(1, [tf.float32], name="other").dequeue(name="blocked")
        with make(graph=graph) as session:
            session.run(close)
            values = (x, checked, called, taken, waits, blocked)
            found.append(failures(session, graph, dict(zip(FETCHES, values, strict=True))))
    for of_session in found:  # of what TensorFlow's partial run left, its text depends
        of_session["close"] = of_session["close"][:2]
    theirs, ours = found
    assert ours == theirs


def test_errors_of_own_graphs_are_caught_by_either_name() -> None:
    """A process that has TensorFlow raises its classes over tfjit's graphs too."""
    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.float32, [], name="x")
        bad = tfjit.check_numerics(x, "bad", name="bad")
        with tfjit.Session() as session:
            for kind in (tf.errors.InvalidArgumentError, tfjit.errors.InvalidArgumentError):
                with pytest.raises(kind) as caught:
                    session.run(bad, {x: np.nan})
                assert caught.value.op is bad.op
                assert "bad : Tensor had NaN" in str(caught.value)
                assert "test_tensorflow_interop.py" in str(caught.value)
                again = pickle.loads(pickle.dumps(caught.value))
                assert (type(again), again.message) == (type(caught.value), caught.value.message)
    with pytest.raises(ValueError) as building:
        tfjit.Session(graph=GraphDef(node=[NodeDef(name="y", op="Neg", input=["x"])]))
    assert isinstance(building.value, tf.errors.InvalidArgumentError)
    assert isinstance(building.value, tfjit.errors.InvalidArgumentError)
    assert pickle.loads(pickle.dumps(building.value)).message == building.value.message
    with pytest.raises(tf.errors.NotFoundError):
        tfjit.Session("nowhere://")


def test_tensorflows_errors_stay_as_they_are() -> None:
    """Being subclasses of tfjit's changes nothing that its own sessions' users see."""
    with tfjit.Session(graph=tf1.Graph()):
        pass
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [], name="x")
        y = x * 2.0
    with (
        tf1.Session(graph=graph) as session,
        pytest.raises(tfjit.errors.InvalidArgumentError) as caught,
    ):
        session.run(y)
    error = caught.value
    assert type(error) is tf.errors.InvalidArgumentError
    assert error.args == ()
    assert copy.copy(error).op is x.op
    assert "Original stack trace for 'x'" in str(error)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(error)
    made = tf.errors.NotFoundError("node", None, "text", {"key": b"value"})
    assert (made.node_def, made.op, made.message, made.error_code) == ("node", None, "text", 5)
    assert made.experimental_payloads == {"key": b"value"}
    assert pickle.loads(pickle.dumps(made)).message == "text"
    assert tf1.errors.error_code_from_exception_type(tf.errors.NotFoundError) == 5

    class Mine(tfjit.errors.OutOfRangeError):
        """A further class, as a program may have."""

    with pytest.raises(tf.errors.OutOfRangeError):
        raise Mine(None, None, "over")
    assert isinstance(Mine(None, None, "over"), tfjit.errors.OutOfRangeError)


def test_fetching_what_is_not_fetchable_is_tensorflows_error() -> None:
    from tensorflow.python.framework import errors_impl

    graph = tf1.Graph()
    with graph.as_default():
        op = tf.no_op()
    graph.prevent_fetching(op)
    with tfjit.Session(graph=graph) as session:
        for kind in (errors_impl.InaccessibleTensorError, tfjit.errors.InaccessibleTensorError):
            with pytest.raises(kind):
                session.run(op)


def test_first_sessions_of_several_threads_join_tensorflow_once(
    tensorflow_processes: Processes,
) -> None:
    done = tensorflow_processes.run(
        "-c",
        "import sys, threading\n"
        "import tensorflow as tf, tfjit\n"
        "graph = tf.Graph()\n"
        "with graph.as_default(): y = tf.compat.v1.placeholder(tf.float32) * 2\n"
        "sys.setswitchinterval(1e-6)\n"
        "kinds, barrier = [], threading.Barrier(8)\n"
        "def use():\n"
        "    barrier.wait()\n"
        "    try: tfjit.Session(graph=graph).run(y)\n"
        "    except Exception as error: kinds.append(type(error))\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "[t.start() for t in threads], [t.join() for t in threads]\n"
        "assert kinds == [tf.errors.InvalidArgumentError] * 8, kinds\n"
        "print(tf.errors.InvalidArgumentError.__mro__.count(tfjit.errors.InvalidArgumentError))",
    )
    assert done.stdout == "1\n", done.stderr


def end_of_data(kind: str) -> Any:
    """A fetch that ends after 4 runs."""
    if kind == "limit_epochs":
        return tf1.train.limit_epochs(tf.constant([1.0, 2.0]), num_epochs=4)
    if kind == "strings":
        return tf1.train.string_input_producer(["a", "b"], num_epochs=2, shuffle=False).dequeue()
    if kind == "batches":
        values = tf1.train.slice_input_producer([tf.range(8)], num_epochs=1, shuffle=False)
        return tf1.train.batch(values, 2)
    queue = tf1.FIFOQueue(4, [tf.float32], shapes=[[]])
    fill = queue.enqueue_many([[1.0, 2.0, 3.0, 4.0]])
    tf1.train.add_queue_runner(tf1.train.QueueRunner(queue, [tf.group(fill, name="fill")]))
    tf1.train.get_or_create_global_step()
    once = tf1.train.limit_epochs(tf.constant(1.0), num_epochs=4)
    return queue.dequeue(), once


@pytest.mark.parametrize("kind", ["limit_epochs", "strings", "batches", "queue"])
@pytest.mark.parametrize("way", ["monitored", "coordinated", "supervised"])
def test_programs_end_where_the_data_ends(kind: str, way: str) -> None:
    with tf1.Graph().as_default(), tfjit.patch_tensorflow():
        fetch = end_of_data(kind)
        step = tf1.train.get_or_create_global_step()
        train = tf.group(step.assign_add(1, use_locking=True), tf.nest.flatten(fetch))
        runs = 0
        if way == "monitored":
            seen = Seen()
            with tf1.train.MonitoredTrainingSession(hooks=[seen]) as session:
                assert isinstance(session._tf_sess(), tfjit.Session)
                while not session.should_stop():
                    session.run(train)
                    runs += 1
            assert seen.calls[:3] == ["begin", "session", "run"] and seen.calls[-1] == "end"
        elif way == "supervised":
            supervisor = tf1.train.Supervisor(logdir=None, summary_op=None)
            with supervisor.managed_session() as session:
                assert isinstance(session, tfjit.Session)
                while not supervisor.should_stop():
                    session.run(train)
                    runs += 1
        else:
            with tf1.Session() as session:
                session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
                coordinator = tf1.train.Coordinator()
                threads = tf1.train.start_queue_runners(session, coordinator)
                with coordinator.stop_on_exception():
                    while not coordinator.should_stop():
                        session.run(train)
                        runs += 1
                coordinator.join(threads, stop_grace_period_secs=60)
        assert runs == 4


class Seen(tf1.train.SessionRunHook):
    """Keeps which of its methods were called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin(self) -> None:
        self.calls.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.calls.append("session")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append("run")

    def end(self, session: Any) -> None:
        self.calls.append("end")


@pytest.mark.parametrize("kind", ["AbortedError", "UnavailableError"])
def test_monitored_sessions_recover_from_preemption(kind: str, tmp_path: Any) -> None:
    """A session that is lost is made anew, with what the checkpoint holds, and goes on."""

    class Preempting(tf1.train.SessionRunHook):
        sessions = 0

        def after_create_session(self, session: Any, coord: Any) -> None:
            self.sessions += 1

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if run_values.results == 3 and self.sessions == 1:
                raise getattr(tfjit.errors, kind)(None, None, "the worker is gone")

        def before_run(self, run_context: Any) -> Any:
            return tf1.train.SessionRunArgs(step)

    with tf1.Graph().as_default(), tfjit.patch_tensorflow():
        step = tf1.train.get_or_create_global_step()
        train = step.assign_add(1, use_locking=True)
        preempting = Preempting()
        stop = tf1.train.StopAtStepHook(last_step=6)
        with tf1.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path),
            hooks=[stop, preempting],
            save_checkpoint_steps=1,
            save_summaries_steps=None,
        ) as session:
            while not session.should_stop():
                last = session.run(train)
        assert (last, preempting.sessions) == (6, 2)


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
        coordinator.join(threads, stop_grace_period_secs=60)


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
        coordinator.join(threads, stop_grace_period_secs=60)


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
