"""Section 2.2: what of the direct session shows in options, callables and growing graphs."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

import tfjit
from tests.contract.worlds import both, ours, shared_world, theirs, world
from tfjit.runtime.factory import SessionOptions, new_session

tf1 = tf.compat.v1
X = np.ones(2, "f4")
THREE = pytest.mark.parametrize("front", ["tfjit", "tf", "oracle"])


def build(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None], name="x")
    queue = api.FIFOQueue(1, [api.float32], shapes=[[]], name="queue")
    return {
        "x": x,
        "y": api.add(x, 1.0, name="y"),
        "op": api.group(api.identity(x), name="op"),
        "v": api.get_variable("v", initializer=np.float32(1), use_resource=False),
        "init": api.global_variables_initializer(),
        "take": queue.dequeue(name="take"),
    }


def place(front: str, config: Any = None) -> tuple[Any, SimpleNamespace]:
    w = shared_world("tf" if front == "oracle" else front, build)
    return (theirs if front == "oracle" else ours)(w, config), w


def options(
    feed: list[str], fetch: list[str], target: list[str] | None = None, **run_options: Any
) -> Any:
    made = config_pb2.CallableOptions(feed=feed, fetch=fetch, target=target or [])
    if run_options:
        made.run_options.CopyFrom(config_pb2.RunOptions(**run_options))
    return made


@THREE
def test_pool_indices(front: str) -> None:
    session, w = place(front)
    with session:
        for index in (0, -1):
            np.testing.assert_array_equal(
                session.run(w.y, {w.x: X}, tf1.RunOptions(inter_op_thread_pool=index)), X + 1
            )
        for index in (1, -2, 77):
            with pytest.raises(
                tf.errors.InvalidArgumentError, match=f"Invalid inter_op_thread_pool: {index}"
            ):
                session.run(w.y, {w.x: X}, tf1.RunOptions(inter_op_thread_pool=index))


def test_a_closed_back_end() -> None:
    session = new_session(SessionOptions())
    session.extend(tfjit.GraphDef.FromString(tf1.Graph().as_graph_def().SerializeToString()))
    session.close()
    for call in (
        lambda: session.run([], ["x:0"], []),
        session.list_devices,
        lambda: session.partial_run_setup([], ["x:0"], []),
    ):
        with pytest.raises(
            tfjit.errors.CancelledError, match=r"Session has been closed\.|Run call was cancelled"
        ):
            call()
    session.destroy()


@THREE
def test_the_run_s_time_limit_counts_first(front: str) -> None:
    session, w = place(front, tf1.ConfigProto(operation_timeout_in_ms=60_000))
    with session:
        began = time.perf_counter()
        with pytest.raises(
            tf.errors.DeadlineExceededError, match="Timed out waiting for notification"
        ):
            session.run(w.take, options=tf1.RunOptions(timeout_in_ms=50))
        assert time.perf_counter() - began < 30


@THREE
def test_callables_from_options(front: str) -> None:
    session, _ = place(front)
    with session:
        function = session._make_callable_from_options(options(["x:0"], ["y:0"]))
        (value,) = function(X)
        np.testing.assert_array_equal(value, X + 1)
        for values in ((), (X, X)):
            with pytest.raises(
                tf.errors.InvalidArgumentError,
                match=f"Expected 1 feed tensors, but got {len(values)}",
            ):
                function(*values)
        assert session._make_callable_from_options(options(["x:0"], [], ["op"]))(X) == []
        np.testing.assert_array_equal(
            session._make_callable_from_options(options(["x"], ["y"]))(X)[0], X + 1
        )
        twice = session._make_callable_from_options(options(["x:0"], ["y:0", "y:0"]))(X)
        np.testing.assert_array_equal(twice[0], twice[1])
        for wrong, text in (
            (options(["x:0"], []), "Must specify at least one target to fetch or execute."),
            (options(["x:0", "x:0"], ["y:0"]), 'Endpoint "x:0" fed more than once.'),
            (options(["x:0"], ["x:0"]), "x:0 is both fed and fetched."),
            (options(["x:0"], ["y:0"], inter_op_thread_pool=5), "Invalid inter_op_thread_pool: 5"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                session._make_callable_from_options(wrong)(X)
        for wrong in (options(["nope:0"], ["y:0"]), options(["x:0"], ["nope:0"])):
            with pytest.raises(
                (tf.errors.InvalidArgumentError, tf.errors.NotFoundError), match="nope:0"
            ):
                session._make_callable_from_options(wrong)
    with pytest.raises((RuntimeError, tf.errors.CancelledError), match="closed"):
        function(X)


@THREE
def test_growth(front: str) -> None:
    """What is added is sent with the next run, in any way to run; what was there keeps its values
    and plans.
    """
    w = world("tf" if front == "oracle" else front, build)
    with (theirs if front == "oracle" else ours)(w) as session:
        session.run(w.init)
        function = session.make_callable(w.y, [w.x])
        function(X)
        for step in range(3):
            with w.graph.as_default():
                more = w.api.multiply(w.y, float(step), name=f"more{step}")
                update = w.api.assign_add(w.v, 1.0)
                near = None
                with w.api.colocate_with(w.v.op):
                    near = w.api.identity(w.y)
            np.testing.assert_array_equal(session.run(more, {w.x: X}), (X + 1) * step)
            assert session.run(update) == step + 2
            np.testing.assert_array_equal(session.make_callable(near, [w.x])(X), X + 1)
            np.testing.assert_array_equal(function(X), X + 1)
            handle = session.partial_run_setup(near, [w.x])
            np.testing.assert_array_equal(session.partial_run(handle, near, {w.x: X}), X + 1)


NO_EFFECT = {
    "isolate_session_state": tf1.ConfigProto(isolate_session_state=True),
    "share_cluster_devices_in_session": tf1.ConfigProto(share_cluster_devices_in_session=True),
    "device_filters": tf1.ConfigProto(device_filters=["/job:nowhere"]),
    "gpu_options": tf1.ConfigProto(gpu_options=tf1.GPUOptions(allow_growth=True)),
    "log_device_placement off": tf1.ConfigProto(log_device_placement=False),
}


@both
@pytest.mark.parametrize("name", NO_EFFECT)
def test_options_without_effect_on_values(front: str, name: str) -> None:
    session, w = place(front, NO_EFFECT[name])
    with session:
        session.run(w.init)
        np.testing.assert_array_equal(session.run(w.y, {w.x: X}), X + 1)
        assert session.run("v:0") == 1
        assert session.list_devices()[0].name == "/job:localhost/replica:0/task:0/device:CPU:0"
