"""TensorFlow's promises of a session on a cluster, each as a function of a `World`.

A promise makes sessions, calls them and returns what a user sees: values, and errors as (class
name, message). It does so over any client and any servers; the test compares the answers with those
of TensorFlow's session at TensorFlow's servers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tests.distributed.session.servers import outcome
from tests.waiting import is_blocked

tf1 = tf.compat.v1
Promise = Callable[["World"], Any]
PROMISES: Final[dict[str, Promise]] = {}
_SHORT_MS: Final = 150


class World:
    """A client library at a cluster, with a graph for one promise.

    far: the device of the cluster's last task.
    """

    def __init__(self, library: Any, target: str, tasks: int) -> None:
        self.library, self.target, self.tasks = library, target, tasks
        self.graph = tf.Graph()
        self.far = f"/job:worker/task:{tasks - 1}"
        self._sessions: list[Any] = []

    def session(self, graph: Any = None, **options: Any) -> Any:
        """Return a session, over another graph or with fields of ConfigProto."""
        config = tf1.ConfigProto(**{"operation_timeout_in_ms": 20_000, **options})
        made = self.library.Session(self.target, graph=graph or self.graph, config=config)
        self._sessions.append(made)
        return made

    def reset(self, containers: list[str]) -> None:
        """Clear containers."""
        self.library.Session.reset(self.target, containers)

    def close(self) -> None:
        """Close what the promise left open."""
        for session in self._sessions:
            outcome(session.close)
        self.reset([])


def _promise(function: Promise) -> Promise:
    PROMISES[function.__name__] = function
    return function


def _variable(name: str, value: Any, **options: Any) -> Any:
    return tf1.get_variable(name, initializer=value, use_resource=False, **options)


def _waiting(call: Callable[[], Any]) -> Callable[[], Any]:
    """Start a call on a thread; return a function that waits for its outcome."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(outcome(call)), daemon=True)
    thread.start()
    assert is_blocked(thread), found
    time.sleep(0.15)  # the servers get the call

    def wait() -> Any:
        thread.join(60)
        assert not thread.is_alive(), "still waits"
        return found[0]

    return wait


# the graph grows


@_promise
def a_graph_that_grows_is_extended(w: World) -> Any:
    x = tf1.placeholder(tf.float32, [], name="x")
    session, found, y = w.session(), [], x
    for step in range(3):
        with tf1.device(w.far):
            y = y * 2.0 + step
        found.append(session.run(y, {x: 1.0}))
    with tf1.device(w.far):
        v = _variable("grown/v", 3.0)
    session.run(v.initializer)
    return found, session.run([v.assign_add(y), y], {x: 1.0})


@_promise
def an_extension_goes_on_beside_a_step(w: World) -> Any:
    with tf1.device(w.far):
        queue = tf1.FIFOQueue(1, [tf.float32], [[]], shared_name="beside")
    got, put = queue.dequeue(), queue.enqueue(7.0)
    session = w.session()
    wait = _waiting(lambda: session.run(got))
    later = tf1.constant(2.0) * 4.0
    value = session.run(later)
    session.run(put)
    return value, wait()


@_promise
def an_extension_that_cannot_be_placed_stays(w: World) -> Any:
    x = tf1.constant(1.0, name="fits")
    session = w.session()
    before = session.run(x)
    with tf1.device("/job:worker/task:9"):
        y = tf1.identity(x, name="nowhere")
    return before, outcome(lambda: session.run(y)), outcome(lambda: session.run(x))


# partial runs


def _chain(w: World) -> tuple[Any, ...]:
    a, b, c = (tf1.placeholder(tf.float32, [], name=name) for name in "abc")
    with tf1.device(w.far):
        first = tf1.add(a, b, name="first")
    return a, b, c, first, tf1.multiply(first, c, name="second")


@_promise
def a_partial_run_goes_in_parts(w: World) -> Any:
    a, b, c, first, second = _chain(w)
    session = w.session()
    found = []
    handles = [session.partial_run_setup([first, second], [a, b, c]) for _ in range(2)]
    for handle, value in zip(handles, (1.0, 10.0), strict=True):
        found.append(session.partial_run(handle, first, {a: value, b: 2.0}))
    for handle in reversed(handles):
        found.append(session.partial_run(handle, [second], {c: 5.0}))
    return found


@_promise
def a_partial_run_refuses_mistakes(w: World) -> Any:
    a, b, c, first, second = _chain(w)
    session = w.session()
    found = []
    for parts in (
        [(first, {a: 1.0})],
        [(first, {a: 1.0, b: 2.0}), (first, {})],
        [(first, {a: 1.0, b: 2.0}), (second, {a: 1.0, c: 1.0})],
        [(second, {c: 1.0})],
        [(first, {a: 1.0, b: 2.0}), (second, {c: 1.0}), (second, {c: 1.0})],
    ):
        handle = session.partial_run_setup([first, second], [a, b, c])
        found.append(
            [
                outcome(lambda fetch=fetch, fed=fed, h=handle: session.partial_run(h, fetch, fed))
                for fetch, fed in parts
            ]
        )
    handle = session.partial_run_setup([first], [a, b])
    found.append([outcome(lambda: session.partial_run(handle, second, {a: 1.0, b: 1.0}))])
    found.append([outcome(lambda: session.partial_run(handle, first, {a: 1.0, b: 1.0, c: 1.0}))])
    found.append([outcome(lambda: session.partial_run("none", first, {a: 1.0}))])
    found.append([session.run(first, {a: 1.0, b: 2.0})])
    return found


@_promise
def an_error_ends_a_partial_run(w: World) -> Any:
    a = tf1.placeholder(tf.float32, name="a")
    b = tf1.placeholder(tf.float32, name="b")
    with tf1.device(w.far):
        bad = tf1.add(a, [1.0, 2.0], name="bad")
    good = tf1.add(b, 1.0, name="good")
    session = w.session()
    handle = session.partial_run_setup([bad, good], [a, b])
    first = outcome(lambda: session.partial_run(handle, bad, {a: [1.0, 2.0, 3.0]}))
    again = outcome(lambda: session.partial_run(handle, good, {b: 1.0}))
    return first, again, session.run(good, {b: 1.0})


# callables


@_promise
def callables_run_by_position(w: World) -> Any:
    x = tf1.placeholder(tf.float32, [None], name="x")
    z = tf1.placeholder(tf.float32, [None], name="z")
    with tf1.device(w.far):
        y = tf1.add(x, z, name="y")
    session = w.session()
    made = session.make_callable([y, {"twice": y * 2.0}], [x, z])
    plain, two = session.make_callable(tf1.constant(3.0)), np.ones(2, "f4")
    found = [made(two, two), outcome(lambda: made(np.ones(3, "f4"), two)), made([1, 2], two)]
    return [*found, plain(), outcome(lambda: made(two))]


def _from_options(w: World, session: Any, **fields: Any) -> Any:
    from tensorflow.core.protobuf import config_pb2

    return session._make_callable_from_options(config_pb2.CallableOptions(**fields))


@_promise
def callables_of_options_run_and_are_released(w: World) -> Any:
    x = tf1.placeholder(tf.float32, [None], name="x")
    with tf1.device(w.far):
        v = _variable("callables/v", [1.0, 1.0])
        tf1.add(v, x, name="y")
    tf1.group(v.assign_add([1.0, 1.0]), name="up")
    session = w.session()
    session.run(v.initializer)
    made = _from_options(w, session, feed=["x:0"], fetch=["y:0"])
    up = _from_options(w, session, target=["up"])
    found = [made(np.ones(2, "f4")), outcome(lambda: made(np.ones(3, "f4"))), up()]
    found += [made(np.ones(2, "f4"))]
    del up
    return [*found, made(np.zeros(2, "f4"))]


@_promise
def callables_name_what_is_not_there(w: World) -> Any:
    tf1.constant(1.0, name="one")
    session = w.session()
    session.run("one:0")
    return [
        outcome(lambda: _from_options(w, session, fetch=["none:0"])()),
        outcome(lambda: _from_options(w, session, fetch=["one:0"], feed=["none:0"])()),
        outcome(lambda: _from_options(w, session, target=["none"])()),
        session.run("one:0"),
    ]


# containers, Reset and sharing


@_promise
def reset_clears_containers_and_ends_sessions(w: World) -> Any:
    with tf1.device(w.far):
        with w.graph.container("reset-kept"):
            kept = _variable("kept", 1.0)
        with w.graph.container("reset-cleared"):
            cleared = _variable("cleared", 2.0)
        default = _variable("in_default", 3.0)
    reads = [kept.read_value(), cleared.read_value(), default.read_value()]
    found = []
    for containers in (["reset-cleared"], []):
        session = w.session()
        session.run([kept.initializer, cleared.initializer, default.initializer])
        w.reset(containers)
        found.append(outcome(lambda session=session: session.run(reads)))
        found.append(outcome(session.list_devices))
        fresh = w.session()
        found.append([outcome(lambda one=one: fresh.run(one)) for one in reads])  # noqa: B023  called at once
        fresh.close()
    w.reset(["reset-kept", "reset-cleared"])
    return found


@_promise
def variables_queues_and_tables_are_shared(w: World) -> Any:
    with tf1.device(w.far):
        v = _variable("shared/v", 1.0)
        r = tf1.get_variable("shared/r", initializer=5.0, use_resource=True)
        queue = tf1.FIFOQueue(4, [tf.float32], [[]], shared_name="shared/queue")
    put, got = queue.enqueue(v.read_value()), queue.dequeue()
    one, other = w.session(), w.session()
    one.run([v.initializer, r.initializer])
    found = [other.run([v.assign_add(1.0), r.assign_add(1.0)])]
    one.run(put)
    one.close()
    found.append(other.run(got))
    return [*found, w.session().run([v, r])]


@_promise
def isolated_sessions_share_nothing(w: World) -> Any:
    with tf1.device(w.far):
        v = _variable("isolated/v", 1.0)
    read = v.read_value()
    shared, isolated = w.session(), w.session(isolate_session_state=True)
    shared.run(v.initializer)
    found = [outcome(lambda: isolated.run(read))]
    isolated.run(v.initializer)
    isolated.run(v.assign_add(5.0))
    return [*found, isolated.run(read), shared.run(read)]


# cancellation and time limits


@_promise
def closing_cancels_the_sessions_own_steps(w: World) -> Any:
    with tf1.device(w.far):
        queue = tf1.FIFOQueue(1, [tf.float32], [[]], shared_name="closing")
    got, put = queue.dequeue(), queue.enqueue(1.0)
    closed, other = w.session(), w.session()
    waits = [_waiting(lambda one=one: one.run(got)) for one in (closed, other)]
    closed.close()
    found = [waits[0](), outcome(lambda: closed.run(got))]
    other.run(put)
    return [*found, waits[1]()]


@_promise
def closing_a_queue_ends_what_waits(w: World) -> Any:
    with tf1.device(w.far):
        queue = tf1.FIFOQueue(1, [tf.float32], [[]], shared_name="ended", name="ended")
    got, end = queue.dequeue(name="got"), queue.close(cancel_pending_enqueues=True)
    session = w.session()
    wait = _waiting(lambda: session.run(got))
    session.run(end)
    return wait()


@_promise
def a_failure_cancels_what_waits_in_the_step(w: World) -> Any:
    x, two = tf1.placeholder(tf.float32, name="x"), tf1.placeholder(tf.float32, name="z")
    with tf1.device(w.far):
        got = tf1.FIFOQueue(1, [tf.float32], [[]], shared_name="failing").dequeue()
    bad = tf1.add(x, two, name="bad")
    session = w.session(operation_timeout_in_ms=1000)
    found = outcome(lambda: session.run([got, bad], {x: [1.0, 2.0, 3.0], two: [1.0, 2.0]}))
    return found, session.run(bad, {x: [1.0, 2.0], two: [1.0, 2.0]})


@_promise
def time_limits_end_steps(w: World) -> Any:
    with tf1.device(w.far):
        queue = tf1.FIFOQueue(1, [tf.float32], [[]], shared_name="limited")
    got, put, size = queue.dequeue(), queue.enqueue(1.0), queue.size()
    session, limited = w.session(), w.session(operation_timeout_in_ms=_SHORT_MS)
    options = tf1.RunOptions(timeout_in_ms=_SHORT_MS)
    session.run(size)
    found = [outcome(lambda: session.run(got, options=options)), outcome(lambda: limited.run(got))]
    time.sleep(0.1)
    session.run(put)
    time.sleep(0.1)
    return [*found, session.run(size), session.run(got)]


# errors, devices, metadata


@_promise
def errors_of_kernels(w: World) -> Any:
    x = tf1.placeholder(tf.float32, name="x")
    y = tf1.placeholder(tf.float32, name="y")
    i = tf1.placeholder(tf.int32, name="i")
    faulty = [
        tf1.add(x, y, name="sum"),
        tf1.gather([1.0, 2.0], i, name="rows"),
        tf1.check_numerics(x / 0.0, "not finite", name="finite"),
        tf1.read_file("/no such file", name="file"),
        _variable("errors/empty", 1.0).read_value(),
        tf1.reshape(x, [2, 2], name="reshaped"),
    ]
    session = w.session()
    fed = {x: [1, 2, 3], y: [1, 2], i: 9}
    found = [outcome(lambda one=one: session.run(one, fed)) for one in faulty]
    found.append(outcome(lambda: session.run("sum:0", {y: [1, 2]})))
    return [*found, session.run("sum:0", {x: [1, 2], y: [3, 4]})]


@_promise
def errors_on_the_last_task(w: World) -> Any:
    x, two = tf1.placeholder(tf.float32, name="x"), tf1.placeholder(tf.float32, name="z")
    with tf1.device(w.far):
        bad = tf1.add(x, two, name="far_bad")
        missing = _variable("errors/far", 1.0)
    read = missing.read_value()
    session = w.session()
    return [
        outcome(lambda: session.run(bad, {x: [1, 2, 3], two: [1, 2]})),
        outcome(lambda: session.run(read)),
        session.run(bad, {x: [1, 2], two: [1, 2]}),
    ]


@_promise
def names_that_are_not_there(w: World) -> Any:
    x = tf1.placeholder(tf.float32, [2], name="x")
    tf1.identity(x, name="y")
    session = w.session()
    return [
        outcome(lambda: session.run("none:0")),
        outcome(lambda: session.run("y:0", {"none:0": 1})),
        outcome(lambda: session.run("y:0", {x: [1, 2, 3]})),
        outcome(lambda: session.run([])),
        session.run(["y:0", "y:0", x], {x: [1, 2]}),
    ]


@_promise
def devices_and_filters(w: World) -> Any:
    tf1.constant(1.0)
    everything = sorted(device.name for device in w.session().list_devices())
    filtered = w.session(device_filters=["/job:worker/task:0"]).list_devices()
    return everything, sorted(device.name for device in filtered)


@_promise
def metadata_of_a_step(w: World) -> Any:
    x = tf1.placeholder(tf.float32, [], name="x")
    with tf1.device(w.far):
        y = tf1.square(x, name="y")
    z = tf1.add(y, 1.0, name="z")
    session, metadata = w.session(), tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    value = session.run(z, {x: 3.0}, options=options, run_metadata=metadata)
    devices = {stats.device for stats in metadata.step_stats.dev_stats}
    return value, len(metadata.partition_graphs), sorted(devices)


@_promise
def a_closed_session_refuses_calls(w: World) -> Any:
    y = tf1.constant(1.0)
    session = w.session()
    session.run(y)
    session.close()
    session.close()
    return [
        outcome(lambda: session.run(y)),
        outcome(session.list_devices),
        outcome(lambda: session.partial_run_setup([y], [])),
    ]


# exceptions

# Promises whose errors over two tasks have other words about the same cause, the kernel's text and
# the user's node: two tasks report the error, in either order or together.
WORDS: Final = frozenset(
    (
        "an_error_ends_a_partial_run",
        "callables_of_options_run_and_are_released",
        "callables_run_by_position",
        "closing_a_queue_ends_what_waits",
        "errors_on_the_last_task",
        "isolated_sessions_share_nothing",
        "reset_clears_containers_and_ends_sessions",
    )
)
# Promises whose errors have the same classes and other words: the reasons.
CLASSES: Final = {
    "time_limits_end_steps": (
        "TensorFlow's client has its own words for the deadline or gRPC's, whichever come first"
    )
}
# (promise, tasks) whose answers are others: the reasons.
DIFFERENCES: Final = {
    ("an_extension_that_cannot_be_placed_stays", 1): "a node without a place fails its runs alone",
    ("an_extension_that_cannot_be_placed_stays", 2): "a node without a place fails its runs alone",
}
# (promise, tasks) that TensorFlow's servers answer now and then with the time limit, or not at all:
# the reasons. The recorded answers stand for theirs.
LOST: Final = {
    ("a_failure_cancels_what_waits_in_the_step", 2): (
        "its master asks one task after the other; where a node fails before a later request is "
        "under way, the cancellation of that request is lost, and it is not cancelled again"
    ),
}
