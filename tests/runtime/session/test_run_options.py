"""Thread pools, time limits, traces and partition graphs: what ConfigProto and
RunOptions ask for.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.waiting import wait_until
from tfjit.protos import CallableOptions
from tfjit.runtime.host import inter_op_pool

tf1 = tf.compat.v1


class Graph:
    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, 3], name="x")
            self.h = tf.tanh(self.x, name="h")
            self.y = tf.add(
                tf.matmul(self.h, tf.constant(np.eye(3, dtype="f4"), name="w")), 1.0, name="y"
            )
            queue = tf1.FIFOQueue(1, [tf.float32], shapes=[[]], name="queue")
            self.take = queue.dequeue(name="take")
            self.put = queue.enqueue(1.0, name="put")
            self.size = queue.size()


@pytest.fixture(scope="module")
def world() -> Graph:
    return Graph()


X = np.linspace(-1, 1, 6, dtype="f4").reshape(2, 3)
EXPECTED = np.tanh(X) + 1


# pools


def test_pools_by_index(world: Graph) -> None:
    config = tf1.ConfigProto()
    config.session_inter_op_thread_pool.add(num_threads=1)
    config.session_inter_op_thread_pool.add(num_threads=3)
    config.session_inter_op_thread_pool.add()
    with tfjit.Session(graph=world.graph, config=config) as session:
        pools = session._runtime_session._pools.pools
        assert [p.num_threads for p in pools[:2]] == [1, 3]
        assert pools[2].num_threads >= 1
        for index in (0, 1, 2, -1):
            options = tf1.RunOptions(inter_op_thread_pool=index)
            np.testing.assert_allclose(
                session.run(world.y, {world.x: X}, options), EXPECTED, rtol=1e-6
            )
            assert session.run([world.put, world.take], options=options) == [None, 1]
        for index in (3, -2, 77):
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match=f"Invalid inter_op_thread_pool: {index}"
            ):
                session.run(world.y, {world.x: X}, tf1.RunOptions(inter_op_thread_pool=index))
        np.testing.assert_allclose(session.run(world.y, {world.x: X}), EXPECTED, rtol=1e-6)


def test_without_pools_there_is_one(world: Graph) -> None:
    with tfjit.Session(graph=world.graph) as session, tf1.Session(graph=world.graph) as theirs:
        for s, errors in ((session, tfjit.errors), (theirs, tf.errors)):
            for index in (0, -1):
                np.testing.assert_allclose(
                    s.run(world.y, {world.x: X}, tf1.RunOptions(inter_op_thread_pool=index)),
                    EXPECTED,
                    rtol=1e-5,
                )
            with pytest.raises(
                errors.InvalidArgumentError, match="Invalid inter_op_thread_pool: 1"
            ):
                s.run(world.y, {world.x: X}, tf1.RunOptions(inter_op_thread_pool=1))


def test_named_pools_are_shared_and_keep_their_size(world: Graph) -> None:
    def config(threads: int, name: str) -> Any:
        made = tf1.ConfigProto()
        made.session_inter_op_thread_pool.add(num_threads=threads, global_name=name)
        return made

    with (
        tfjit.Session(graph=world.graph, config=config(2, "mine")) as a,
        tfjit.Session(graph=world.graph, config=config(2, "mine")) as b,
    ):
        assert a._runtime_session._pools.pools[0] is b._runtime_session._pools.pools[0]
        text = (
            r"Pool mine configured previously with num_threads=2; cannot re-configure with "
            r"num_threads=5"
        )
        with pytest.raises(tfjit.errors.InvalidArgumentError, match=text):
            tfjit.Session(graph=world.graph, config=config(5, "mine"))
        a.close()
        assert b.run([world.put, world.take]) == [None, 1]
    with tfjit.Session(graph=world.graph, config=config(2, "mine")) as again:
        assert again.run([world.put, world.take]) == [None, 1]


def test_own_pools_and_the_callers_thread(world: Graph) -> None:
    with (
        tfjit.Session(graph=world.graph) as shared,
        tfjit.Session(
            graph=world.graph,
            config=tf1.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=2),
        ) as own,
        tfjit.Session(
            graph=world.graph, config=tf1.ConfigProto(inter_op_parallelism_threads=-1)
        ) as caller,
    ):
        assert shared._runtime_session._pools.pools[0] is inter_op_pool.global_pool(None)
        assert own._runtime_session._pools.pools[0] is not inter_op_pool.global_pool(None)
        assert own._runtime_session._pools.pools[0].num_threads == 2
        assert caller._runtime_session._pools.pools[0].num_threads == 0
        for session in (shared, own, caller):
            assert session.run([world.put, world.take]) == [None, 1]


def test_a_pool_runs_jobs_in_order_on_no_more_threads_than_it_has() -> None:
    made = inter_op_pool.ThreadPool(2)
    seen: set[int] = set()
    done = threading.Semaphore(0)

    def job() -> None:
        seen.add(threading.get_ident())
        time.sleep(0.002)
        done.release()

    for _ in range(20):
        made.schedule(job)
    for _ in range(20):
        assert done.acquire(timeout=60)
    assert 1 <= len(seen) <= 2
    made.close()
    here: list[int] = []
    inter_op_pool.ThreadPool(0).schedule(lambda: here.append(threading.get_ident()))
    assert here == [threading.get_ident()]


def test_a_closed_session_ends_its_own_threads(world: Graph) -> None:
    before = {*threading.enumerate()}
    for _ in range(5):
        config = tf1.ConfigProto(
            use_per_session_threads=True, inter_op_parallelism_threads=3, device_count={"CPU": 2}
        )
        with tfjit.Session(graph=world.graph, config=config) as session:
            session.run([world.put, world.take])
    wait_until(
        lambda: (
            not any(
                thread.name.startswith("tfjit-inter-op")
                for thread in {*threading.enumerate()} - before
            )
        )
    )


# time limits


def test_a_time_limit_of_a_run(world: Graph) -> None:
    with tfjit.Session(graph=world.graph) as session:
        session.run([world.put, world.take])
        began = time.perf_counter()
        with pytest.raises(
            tfjit.errors.DeadlineExceededError, match="Timed out waiting for notification"
        ):
            session.run(world.take, options=tf1.RunOptions(timeout_in_ms=150))
        assert 0.14 < time.perf_counter() - began < 60
        # nothing of the cancelled step is left behind
        assert session.run([world.put, world.take]) == [None, 1]
        np.testing.assert_allclose(
            session.run(world.y, {world.x: X}, tf1.RunOptions(timeout_in_ms=60_000)),
            EXPECTED,
            rtol=1e-6,
        )
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="You must feed"):
            session.run(world.y, options=tf1.RunOptions(timeout_in_ms=60_000))


def test_a_time_limit_of_a_session(world: Graph) -> None:
    with tfjit.Session(
        graph=world.graph, config=tf1.ConfigProto(operation_timeout_in_ms=150)
    ) as session:
        for _ in range(2):
            with pytest.raises(
                tfjit.errors.DeadlineExceededError, match="Timed out waiting for notification"
            ):
                session.run(world.take)
        # the run's own limit wins
        options = tf1.RunOptions(timeout_in_ms=60_000)
        np.testing.assert_allclose(session.run(world.y, {world.x: X}, options), EXPECTED, rtol=1e-6)
        function = session.make_callable(world.take)
        with pytest.raises(
            tfjit.errors.DeadlineExceededError, match="Timed out waiting for notification"
        ):
            function()
        waiting = threading.Thread(
            target=lambda: (time.sleep(0.4), session.run(world.put, options=options))
        )
        waiting.start()
        assert session.run(world.take, options=options) == 1
        waiting.join()


def test_an_endless_loop_ends_at_its_time_limit() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        tf1.disable_control_flow_v2()
        try:
            end = tf1.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 1000, [tf.constant(0)])
        finally:
            tf1.enable_control_flow_v2()
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(tfjit.errors.DeadlineExceededError, match="Timed out waiting"),
    ):
        session.run(end, options=tf1.RunOptions(timeout_in_ms=200))


# traces


def run_traced(session: Any, world: Graph, level: int = 3) -> Any:
    metadata = tf1.RunMetadata()
    np.testing.assert_allclose(
        session.run(world.y, {world.x: X}, tf1.RunOptions(trace_level=level), metadata),
        EXPECTED,
        rtol=1e-5,
    )
    return metadata


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_trace_names_what_ran(world: Graph, level: int) -> None:
    with tfjit.Session(graph=world.graph) as session:
        for _ in range(2):  # fresh, and with the plan at hand
            before_us = time.time_ns() // 1000
            metadata = run_traced(session, world, level)
            after_us = time.time_ns() // 1000
            (device,) = metadata.step_stats.dev_stats
            assert device.device == "/job:localhost/replica:0/task:0/device:CPU:0"
            names = [stats.node_name for stats in device.node_stats]
            assert "_arg_x_0_0" in names
            assert "_retval_y_0_0" in names
            assert "y" in names
            for stats in device.node_stats:
                assert before_us - 1000 <= stats.all_start_micros <= after_us + 1000
                assert stats.all_end_rel_micros >= stats.op_end_rel_micros >= 0
                assert stats.timeline_label.startswith(f"{stats.node_name} = ")
            out = next(stats for stats in device.node_stats if stats.node_name == "y")
            description = out.output[0].tensor_description
            assert description.dtype == 1
            assert [d.size for d in description.shape.dim] == [2, 3]


def test_no_trace_is_asked_for(world: Graph) -> None:
    with tfjit.Session(graph=world.graph) as session:
        assert not run_traced(session, world, level=0).step_stats.dev_stats
        metadata = tf1.RunMetadata()
        session.run(world.y, {world.x: X}, run_metadata=metadata)
        assert not metadata.step_stats.dev_stats
        assert not metadata.partition_graphs
        session.run(world.y, {world.x: X}, tf1.RunOptions(trace_level=3))  # no metadata to fill
        ours = tfjit.RunMetadata()
        session.run(world.y, {world.x: X}, tfjit.RunOptions(trace_level=3), ours)
        assert ours.step_stats.dev_stats
        with pytest.raises(TypeError, match="run_metadata must be a RunMetadata"):
            session.run(world.y, {world.x: X}, None, tf1.RunOptions())
        with pytest.raises(TypeError, match="Argument `options` must be a tf.RunOptions"):
            session.run(world.y, {world.x: X}, tf1.RunMetadata())


def test_metadata_is_filled_anew(world: Graph) -> None:
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=3, output_partition_graphs=True)
    with tfjit.Session(graph=world.graph) as session:
        session.run(world.y, {world.x: X}, options, metadata)
        first = len(metadata.step_stats.dev_stats[0].node_stats), len(metadata.partition_graphs)
        session.run(world.y, {world.x: X}, options, metadata)
        assert (
            len(metadata.step_stats.dev_stats[0].node_stats),
            len(metadata.partition_graphs),
        ) == first
        session.run(world.y, {world.x: X}, tf1.RunOptions(), metadata)
        assert not metadata.step_stats.dev_stats
        assert not metadata.partition_graphs


def test_partition_graphs_of_one_device(world: Graph) -> None:
    metadata = tf1.RunMetadata()
    with tfjit.Session(graph=world.graph) as session:
        session.run(world.y, {world.x: X}, tf1.RunOptions(output_partition_graphs=True), metadata)
    (graph_def,) = metadata.partition_graphs
    ops = {node.name: node.op for node in graph_def.node}
    assert ops["_arg_x_0_0"] == "_Arg"
    assert ops["_retval_y_0_0"] == "_Retval"
    assert not {"_Send", "_Recv"} & set(ops.values())
    assert all(
        node.device == "/job:localhost/replica:0/task:0/device:CPU:0" for node in graph_def.node
    )


def test_a_callable_with_options(world: Graph) -> None:
    with tfjit.Session(graph=world.graph) as session:
        function = session.make_callable(world.y, [world.x], accept_options=True)
        metadata = tf1.RunMetadata()
        np.testing.assert_allclose(
            function(X, options=tf1.RunOptions(trace_level=3), run_metadata=metadata),
            EXPECTED,
            rtol=1e-6,
        )
        assert metadata.step_stats.dev_stats
        np.testing.assert_allclose(function(X), EXPECTED, rtol=1e-6)
        options = CallableOptions(feed=["x:0"], fetch=["y:0"])
        options.run_options.timeout_in_ms = 10_000
        handle = session._runtime_session.make_callable(options)
        np.testing.assert_allclose(
            session._runtime_session.run_callable(handle, [X])[0], EXPECTED, rtol=1e-6
        )
        with pytest.raises(
            tfjit.errors.InvalidArgumentError, match="Expected 1 feed tensors, but got 2"
        ):
            session._runtime_session.run_callable(handle, [X, X])
        session._runtime_session.release_callable(handle)
        with pytest.raises(
            tfjit.errors.InvalidArgumentError,
            match=f"Attempted to run callable after handle was released: {handle}",
        ):
            session._runtime_session.run_callable(handle, [X])
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="No such callable handle: 77"):
            session._runtime_session.run_callable(77, [X])


def test_a_timeline_of_a_run(world: Graph) -> None:
    """The trace is TensorFlow's message: TensorFlow's own tool reads it."""
    from tensorflow.python.client import timeline

    with tfjit.Session(graph=world.graph) as session:
        metadata = run_traced(session, world)
    assert '"y"' in timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
