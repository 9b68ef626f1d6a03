"""Section 6, points 7, 8, 13 to 18 and 31 to 33: what a session is, and what ends its steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware
from tests.contract.worlds import both, essence, ours, shared_world, theirs, world
from tests.waiting import is_blocked

tf1 = tf.compat.v1
X = np.ones((2, 3), "f4")
GPUS = [f"GPU:{number}" for number in range(hardware.gpu_count())]
THREE = pytest.mark.parametrize("front", ["tfjit", "tf", "oracle"])
"""As `both`, and with TensorFlow's own session."""


def build(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None, 3], name="x")
    y = api.add(x, 1.0, name="y")
    n = api.placeholder(api.int32, [], name="n")
    queue = api.FIFOQueue(2, [api.float32], shapes=[[]], name="queue")
    return {
        "x": x,
        "y": y,
        "z": api.multiply(y, 2.0, name="z"),
        "constant": api.constant(np.arange(3), name="constant"),
        "op": api.group(y, name="op"),
        "n": n,
        "divided": api.floordiv(6, n, name="divided"),
        "res": api.get_variable("res", initializer=2.5, use_resource=True),
        "random": api.random_uniform([3], seed=7, name="random"),
        "init": api.global_variables_initializer(),
        "take": queue.dequeue(name="take"),
        "put": queue.enqueue(1.0, name="put"),
        "close": queue.close(name="close"),
    }


def a_world(front: str) -> SimpleNamespace:
    return shared_world("tf" if front == "oracle" else front, build)


def a_session(front: str, w: SimpleNamespace, config: Any = None) -> Any:
    return theirs(w, config) if front == "oracle" else ours(w, config)


def library(front: str) -> Any:
    return tfjit if front == "tfjit" else tf1


class Blocked:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any], waits: bool = True) -> None:
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if waits:
            assert is_blocked(self._thread)

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error

    def join(self) -> BaseException | None:
        self._thread.join(60)
        assert not self._thread.is_alive(), "still blocked"
        return self.error


@THREE
def test_after_close(front: str) -> None:
    """Point 7."""
    w = a_world(front)
    session = a_session(front, w)
    fed, plain = session.make_callable(w.y, [w.x]), session.make_callable(w.constant)
    session.run(w.y, {w.x: X})
    fed(X)
    session.close()
    session.close()
    calls: list[Callable[[], Any]] = [
        lambda: session.run(w.y, {w.x: X}),
        lambda: session.run(
            w.y, {w.x: X}, options=tf1.RunOptions(), run_metadata=tf1.RunMetadata()
        ),
        lambda: session.partial_run_setup(w.y, [w.x]),
        lambda: session.partial_run("handle", w.y, {w.x: X}),
        lambda: fed(X),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"Attempted to use a closed Session\."):
            call()
    with pytest.raises((RuntimeError, tf.errors.CancelledError), match=r"closed"):
        plain()
    with pytest.raises(tf.errors.CancelledError, match=r"Session has been closed\."):
        session.list_devices()
    assert session.graph is w.graph  # point 33: the graph stays while the session object lives


@THREE
def test_with(front: str) -> None:
    """Point 8."""
    w = a_world(front)
    api = library(front)
    session = a_session(front, w)
    with session as entered:
        assert entered is session
        assert api.get_default_session() is session
        assert api.get_default_graph() is w.graph
        with (
            pytest.raises(RuntimeError, match="Session context managers are not re-entrant"),
            session,
        ):
            pass
    assert api.get_default_session() is None
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(w.constant)
    session = a_session(front, w)
    seen: list[Any] = []
    for _ in range(2):
        with session.as_default() as same:
            assert same is session
            thread = threading.Thread(target=lambda: seen.append(api.get_default_session()))
            thread.start()
            thread.join()
            assert seen.pop() is None  # default sessions are a thread's
            np.testing.assert_array_equal(w.constant.eval(), [0, 1, 2])
            assert w.op.run({w.x: X}) is None
    np.testing.assert_array_equal(session.run(w.constant), [0, 1, 2])  # as_default does not close
    session.close()


@THREE
def test_eval_and_run_without_a_fitting_session(front: str) -> None:
    w = a_world(front)
    other = world("tf" if front == "oracle" else front, lambda api: {"a": api.constant(1.0)})
    for call in (w.y.eval, w.op.run):
        with pytest.raises(ValueError, match="No default session is registered"):
            call()
    with a_session(front, other) as session:
        for call in (w.y.eval, w.op.run):
            with pytest.raises(ValueError, match="graph is different from the session's graph"):
                call()
            with pytest.raises(ValueError, match="graph is different from the session's graph"):
                call(session=session)
    with a_session(front, w) as session:
        np.testing.assert_array_equal(w.y.eval({w.x: X}, session=session), X + 1)
        assert w.op.run({w.x: X}, session) is None


@THREE
def test_interactive_sessions(front: str) -> None:
    """Point 33: an InteractiveSession is the default until it is closed; out of order
    is an error.
    """
    kind = tf1.InteractiveSession if front == "oracle" else tfjit.InteractiveSession
    api = library(front)
    w = a_world(front)

    def program() -> None:
        first = kind(graph=w.graph)
        assert api.get_default_session() is first
        assert api.get_default_graph() is w.graph
        np.testing.assert_array_equal(w.constant.eval(), [0, 1, 2])
        second = kind(graph=w.graph)
        assert api.get_default_session() is second
        with pytest.raises(AssertionError, match="Nesting violated"):
            first.close()
        second.close()

    # in a thread, whose stacks go with it: TensorFlow leaves on them what it complained of
    thread = Blocked(program, waits=False)
    error = thread.join()
    if error is not None:
        raise error


@THREE
def test_make_callable(front: str) -> None:
    """Point 13."""
    w = a_world(front)
    with a_session(front, w) as session:
        np.testing.assert_array_equal(session.make_callable(w.y, [w.x])(X, 1, "more"), X + 1)
        np.testing.assert_array_equal(session.make_callable(w.y, [w.x])(X.astype("f8")), X + 1)
        np.testing.assert_array_equal(session.make_callable("y:0", ("x:0",))(X), X + 1)
        assert session.make_callable(w.op, [w.x])(X) is None
        got = session.make_callable({"a": [w.y, w.op]}, [w.x])(X)
        np.testing.assert_array_equal(got["a"][0], X + 1)
        np.testing.assert_array_equal(session.make_callable(w.constant)(), [0, 1, 2])
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor 'x'"
        ):
            session.make_callable(w.y, [w.x])()
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="You must feed a value for placeholder tensor 'x'"
        ):
            session.make_callable(w.y)()
        for wrong in (w.x, "x:0", {w.x.name: 1}):
            with pytest.raises(
                TypeError,
                match=r"Argument `feed_list` must be a list or tuple. Received: feed_list=",
            ):
                session.make_callable(w.y, wrong)
        with pytest.raises(TypeError, match="Cannot be None"):
            session.make_callable(None)
        late = session.make_callable("nope:0", [w.x])
        with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
            late(X)
        metadata = tf1.RunMetadata()
        function = session.make_callable(w.y, [w.x], accept_options=True)
        np.testing.assert_array_equal(
            function(X, options=tf1.RunOptions(trace_level=3), run_metadata=metadata), X + 1
        )
        assert metadata.step_stats.dev_stats


@THREE
def test_partial_runs(front: str) -> None:
    """Points 14 and those of section 2.2."""
    w = a_world(front)
    with a_session(front, w) as session:
        handle = session.partial_run_setup([w.y, w.z], [w.x])
        assert ";" in handle
        np.testing.assert_array_equal(session.partial_run(handle, w.y, {w.x: X}), X + 1)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="The fetch y:0 has already been fetched."
        ):
            session.partial_run(handle, w.y)
        np.testing.assert_array_equal(session.partial_run(handle, w.z), X * 2 + 2)
        steps: dict[str, Callable[[str], Any]] = {
            "The fetch constant:0 was not specified in partial_run_setup": lambda h: (
                session.partial_run(h, w.constant, {w.x: X})
            ),
            "The feed constant:0 was not specified in partial_run_setup": lambda h: (
                session.partial_run(h, w.y, {w.constant: [1, 2, 3]})
            ),
            "Fetch x:0 can't be computed from the feeds that have been fed so far": lambda h: (
                session.partial_run(h, w.y)
            ),
        }
        for text, call in steps.items():
            handle = session.partial_run_setup([w.y, w.z], [w.x])
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                call(handle)
            # a mistake does not end it
            np.testing.assert_array_equal(session.partial_run(handle, w.y, {w.x: X}), X + 1)
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="The feed x:0 has already been fed"
            ):
                session.partial_run(handle, w.z, {w.x: X})
            np.testing.assert_array_equal(session.partial_run(handle, w.z), X * 2 + 2)
        with pytest.raises(RuntimeError, match=r"requires empty `target_list`"):
            session.partial_run(
                session.partial_run_setup([w.y, w.op], [w.x]), [w.y, w.op], {w.x: X}
            )
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="Must run 'setup' before performing partial runs!"
        ):
            session.partial_run("nobody's", w.y, {w.x: X})
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="Must specify at least one target"
        ):
            session.partial_run_setup([], [w.x])
        # one key may stand for a list of one; the last feed and fetch end it, and so does a
        # kernel's failure
        handle = session.partial_run_setup(w.y, w.x)
        np.testing.assert_array_equal(session.partial_run(handle, w.y, {w.x: X}), X + 1)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup'"):
            session.partial_run(handle, w.y, {w.x: X})
        handle = session.partial_run_setup([w.divided, w.y], [w.n, w.x])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
            session.partial_run(handle, w.divided, {w.n: 0})
        with pytest.raises(
            (tf.errors.InvalidArgumentError, tf.errors.CancelledError),
            match="Must run 'setup'|RecvAsync is cancelled",
        ):
            session.partial_run(handle, w.y, {w.x: X})
        if front != "oracle":  # of which every later partial run says "RecvAsync is cancelled"
            handle = session.partial_run_setup(w.y, w.x)
            np.testing.assert_array_equal(session.partial_run(handle, w.y, {w.x: X}), X + 1)


def endless(api: Any) -> dict[str, Any]:
    tf1.disable_control_flow_v2()
    try:
        return {"end": tf1.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [tf.constant(0)])}
    finally:
        tf1.enable_control_flow_v2()


@THREE
def test_time_limits(front: str) -> None:
    """Point 15: of a run and of a session, in a queue and in a loop that would not end."""
    w = a_world(front)
    loop = shared_world({"oracle": "tf", "tfjit": "imported"}.get(front, front), endless)
    with a_session(front, w) as session:
        with pytest.raises(
            tf.errors.DeadlineExceededError, match="Timed out waiting for notification"
        ):
            session.run(w.take, options=tf1.RunOptions(timeout_in_ms=60))
        assert session.run([w.put, w.take]) == [None, 1]
        # a GPU's kernel of it is compiled before the time is limited
        np.testing.assert_array_equal(session.run(w.y, {w.x: X}), X + 1)
    with (
        a_session(front, loop) as session,
        pytest.raises(tf.errors.DeadlineExceededError, match="Timed out waiting for notification"),
    ):
        session.run(loop.end, options=tf1.RunOptions(timeout_in_ms=60))
    with a_session(front, w, tf1.ConfigProto(operation_timeout_in_ms=60)) as session:
        for _ in range(2):
            with pytest.raises(
                tf.errors.DeadlineExceededError, match="Timed out waiting for notification"
            ):
                session.run(w.take)
        # by a limit of its own: a first run may take longer than that of the session
        options = tf1.RunOptions(timeout_in_ms=60_000)
        np.testing.assert_array_equal(session.run(w.y, {w.x: X}, options), X + 1)


def two_devices(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None, 3], name="x")
    with api.device("/cpu:1"):
        far = api.multiply(x, 2.0, name="far")
    with api.device("/cpu:0"):
        return {"x": x, "near": api.add(far, 1.0, name="near")}


@THREE
def test_metadata(front: str) -> None:
    """Point 16."""
    w = a_world(front)
    with a_session(front, w) as session:
        metadata = tf1.RunMetadata()
        session.run(w.y, {w.x: X}, run_metadata=metadata)
        assert not metadata.step_stats.dev_stats
        assert not metadata.partition_graphs
        session.run(w.y, {w.x: X}, tf1.RunOptions(output_partition_graphs=True), metadata)
        assert len(metadata.partition_graphs) == 1
        session.run(w.y, {w.x: X}, tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE), metadata)
        assert [d.device for d in metadata.step_stats.dev_stats] == [
            "/job:localhost/replica:0/task:0/device:CPU:0"
        ]
        names = {n.node_name for n in metadata.step_stats.dev_stats[0].node_stats}
        assert {"_SOURCE", "_arg_x_0_0"} <= names
        # the nodes of a GPU's program are one
        assert "y" in names or (GPUS and any(name.startswith("y/offload/") for name in names))
    w = shared_world("tf" if front == "oracle" else front, two_devices)
    with a_session(front, w, tf1.ConfigProto(device_count={"CPU": 2})) as session:
        np.testing.assert_array_equal(session.run(w.near, {w.x: X}), X * 2 + 1)
        session.run(w.near, {w.x: X}, tf1.RunOptions(output_partition_graphs=True), metadata)
        assert len(metadata.partition_graphs) == 2
        ops = {n.op for graph in metadata.partition_graphs for n in graph.node}
        assert {"_Send", "_Recv", "_Arg", "_Retval"} <= ops


@THREE
def test_devices(front: str) -> None:
    """Points 17 and, for a process without processors, 33."""
    w = a_world(front)
    with a_session(front, w) as session:
        device, *gpus = session.list_devices()
        assert [d.name[-5:] for d in gpus] == ([] if front == "oracle" else GPUS)
        assert device.name == "/job:localhost/replica:0/task:0/device:CPU:0"
        assert device.device_type == "CPU"
        assert device.memory_limit_bytes == 256 << 20
        assert "CPU" in repr(device)
    with a_session(front, w, tf1.ConfigProto(device_count={"CPU": 3})) as session:
        assert [d.name[-5:] for d in session.list_devices()] == [
            *("CPU:0", "CPU:1", "CPU:2"),
            *([] if front == "oracle" else GPUS),
        ]
    with pytest.raises(
        tf.errors.NotFoundError, match="No CPU devices are available in this process"
    ):
        a_session(front, w, tf1.ConfigProto(device_count={"CPU": 0}))


@THREE
def test_queues(front: str) -> None:
    """Point 18."""
    w = a_world(front)
    with a_session(front, w) as session:
        session.run(w.put)
        assert session.run(w.take) == 1
        waiting = Blocked(lambda: session.run(w.take))
        session.run(w.close)
        error = waiting.join()
        assert type(error).__name__ == "OutOfRangeError"
        assert "is closed and has insufficient elements (requested 1, current size 0)" in essence(
            error
        )
        with pytest.raises(
            tf.errors.OutOfRangeError,
            match=r"is closed and has insufficient elements \(requested 1, current size 0\)",
        ):
            session.run(w.take)
        with pytest.raises(tf.errors.CancelledError, match="is closed"):
            session.run(w.put)
    session = a_session(front, w)
    session.run([w.put, w.take])
    waiting = Blocked(lambda: session.run(w.take))
    session.close()
    error = waiting.join()
    assert type(error).__name__ == "CancelledError"
    assert "Dequeue operation was cancelled" in str(error)


@both
def test_the_type_that_tensorflows_tools_test_for(front: str) -> None:
    """Point 31."""
    from tensorflow.python.client.session import SessionInterface

    with ours(a_world(front)) as session:
        assert isinstance(session, SessionInterface)
        assert isinstance(session, tfjit.Session)


@THREE
def test_streams_and_state_are_a_sessions(front: str) -> None:
    """Point 32: each session starts every seeded stream anew, and variables are its own."""
    w = a_world(front)
    courses = []
    for _ in range(2):
        with a_session(front, w) as session:
            with pytest.raises(tf.errors.FailedPreconditionError):
                session.run(w.res)
            session.run(w.init)
            assert session.run(w.res) == 2.5
            courses.append([session.run(w.random) for _ in range(3)])
    np.testing.assert_array_equal(courses[0], courses[1])
    assert not np.array_equal(courses[0][0], courses[0][1])
    with theirs(shared_world("tf", build)) as session:
        np.testing.assert_array_equal(
            courses[0], [session.run(shared_world("tf", build).random) for _ in range(3)]
        )


def seeded(api: Any) -> dict[str, Any]:
    api.set_random_seed(99)
    return {"a": api.random_uniform([3], name="a"), "b": api.random_uniform([3], name="b")}


@both
def test_ops_with_the_graphs_seed_differ(front: str) -> None:
    """Point 32: two ops with only the graph's seed have streams of their own, TensorFlow's."""
    reference, w = shared_world("tf", seeded), shared_world(front, seeded)
    with theirs(reference) as session:
        expected = session.run([reference.a, reference.b])
    with ours(w) as session:
        got = session.run([w.a, w.b])
    np.testing.assert_array_equal(got, expected)
    assert not np.array_equal(*got)


@THREE
def test_default_graphs_are_a_threads(front: str) -> None:
    """Point 33."""
    api = library(front)
    w = a_world(front)
    seen: list[Any] = []
    with w.graph.as_default():
        assert api.get_default_graph() is w.graph
        thread = threading.Thread(target=lambda: seen.append(api.get_default_graph()))
        thread.start()
        thread.join()
    assert seen[0] is not w.graph
