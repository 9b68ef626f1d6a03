"""Test the config fields of threads, pools and time limits."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.covering import covers
from tests.runtime.session.configs import CPU, World, X, config, tf1
from tests.waiting import is_blocked
from tfjit.runtime.host import io_pool
from tfjit.runtime.host.inter_op_pool import Slots
from tfjit.runtime.kernel_api.op_kernel import OpContext


@covers(
    "ConfigProto.intra_op_parallelism_threads", "ConfigProto.Experimental.disable_thread_spinning"
)
def test_threads_of_a_kernel(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFJIT_THREADS", raising=False)
    for asked in (1, 3):
        with tfjit.Session(
            graph=world.graph, config=config(intra_op_parallelism_threads=asked)
        ) as session:
            assert session._runtime_session.environments.threads == asked
            world.check(session)
    spins = []
    for text in ("", "experimental { disable_thread_spinning: true }"):
        with tfjit.Session(
            graph=world.graph, config=config(text, intra_op_parallelism_threads=2)
        ) as session:
            pool = session._runtime_session.step_environment(f"{CPU}0").pool()
            spins.append(pool.spin_us if pool is not None else None)
            for _ in range(5):
                world.check(session)
    assert spins[0] and spins[1] == 0


@covers(
    "ConfigProto.session_inter_op_thread_pool",
    "ThreadPoolOptionProto.num_threads",
    "ThreadPoolOptionProto.global_name",
    "RunOptions.inter_op_thread_pool",
)
def test_a_big_pool_beside_one_thread_for_low_priority() -> None:
    """Runs of the small pool never take more than its thread, those of the big one never wait for
    them.
    """
    busy, most, lock, hold = [0], [0], threading.Lock(), threading.Event()

    def create(node_def: Any) -> Any:
        if node_def.op != "Sin":
            return None

        def slow(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
            with lock:
                busy[0] += 1
                most[0] = max(most[0], busy[0])
            hold.wait(60)
            with lock:
                busy[0] -= 1
            return [np.sin(inputs[0])]

        return slow

    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        slow = tf.sin(x) + tf.sin(x + 1.0)
        quick = tf.tanh(x)
        waits = tf1.FIFOQueue(1, [tf.float32], shapes=[[]], name="queue")
        take, put = waits.dequeue(), waits.enqueue(4.0)
    chosen = config(
        "session_inter_op_thread_pool { num_threads: 4 } session_inter_op_thread_pool { "
        "num_threads: 1 global_name: 'low' }"
    )
    low = tfjit.RunOptions(inter_op_thread_pool=1)
    with tfjit.Session(
        graph=graph, config=chosen, options=tfjit.SessionOptions(custom_kernel_creator=create)
    ) as session:
        results: list[Any] = []
        feed = {x: [0.0, 1.0, 2.0]}
        threads = [
            threading.Thread(target=lambda: results.append(session.run(slow, feed, low)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        while not busy[0]:
            time.sleep(0.001)
        for _ in range(20):  # while the small pool is full
            np.testing.assert_allclose(session.run(quick, feed), np.tanh([0, 1, 2]), rtol=1e-6)
        assert most[0] == 1
        hold.set()
        for thread in threads:
            thread.join(60)
        assert (len(results), most[0]) == (4, 1)
        np.testing.assert_allclose(results[0], np.sin([0, 1, 2]) + np.sin([1, 2, 3]), rtol=1e-6)
        # a run that only waits gives its thread to the one that it waits for
        waiter = threading.Thread(target=lambda: results.append(session.run(take, options=low)))
        waiter.start()
        assert is_blocked(waiter)
        session.run(put, options=low)
        waiter.join(60)
        assert results[-1] == 4


def test_slots_come_by_priority_and_survive_interrupts() -> None:
    slots, order = Slots(1), []

    def work(priority: int) -> None:
        slots.take(priority)
        order.append(priority)
        slots.give()

    slots.take()
    threads = []
    for priority in (0, 5, 1, 5):
        thread = threading.Thread(target=work, args=(priority,))
        threads.append(thread)
        thread.start()
        while len(slots._waiting) < len(threads):
            time.sleep(0.001)
    assert not slots.take_free()
    slots.give()
    for thread in threads:
        thread.join(60)
    assert order == [5, 5, 1, 0]
    assert slots.take_free()


@covers(
    "RunOptions.Experimental.use_run_handler_pool",
    "RunOptions.Experimental.RunHandlerPoolOptions.priority",
)
def test_the_pool_of_run_handlers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfjit.runtime.host import inter_op_pool as pool

    taken: list[int] = []
    slots = pool.run_handler_pool().slots
    assert slots is not None
    take = slots.take
    monkeypatch.setattr(slots, "take", lambda priority=0: (taken.append(priority), take(priority)))
    options = tfjit.RunOptions()
    options.experimental.use_run_handler_pool = True
    options.experimental.run_handler_pool_options.priority = 7
    with tfjit.Session(graph=world.graph) as session:
        for _ in range(3):
            world.check(session, options=options)
        world.check(session)
    assert taken == [7, 7, 7]


@covers(
    "ConfigProto.use_per_session_threads",
    "ConfigProto.inter_op_parallelism_threads",
    "ConfigProto.Experimental.executor_type",
)
def test_where_nodes_run(world: World) -> None:
    def pool(text: str) -> Any:
        with tfjit.Session(graph=world.graph, config=config(text)) as session:
            world.check(session)
            return session._runtime_session.pool(0)

    own = pool("use_per_session_threads: true inter_op_parallelism_threads: 3")
    assert (own.num_threads, own is pool("")) == (3, False)
    assert pool("") is pool("experimental { executor_type: 'DEFAULT' }")
    assert pool("inter_op_parallelism_threads: -1").num_threads == 0
    assert pool("experimental { executor_type: 'SINGLE_THREADED_EXECUTOR' }").num_threads == 0
    text = (
        "No executor factory registered for the given executor type: FOO "
        r"Registered factories are {DEFAULT, , SINGLE_THREADED_EXECUTOR}\."
    )
    unknown = tf1.ConfigProto(experimental=tf1.ConfigProto.Experimental(executor_type="FOO"))
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        with (
            make(graph=world.graph, config=unknown) as session,
            pytest.raises(errors.NotFoundError, match=text),
        ):
            session.run(world.y, {world.x: X})


@covers("ConfigProto.global_io_parallelism_threads")
def test_file_work_has_threads_of_its_own(tmp_path: Path) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        parts = [tf.constant(np.full((3, i + 1), i, "f4")) for i in range(5)]
        prefixes = [str(tmp_path / f"part{i}" / "ck") for i in range(5)]
        save = [
            tf.raw_ops.SaveV2(prefix=p, tensor_names=[f"t{i}"], shape_and_slices=[""], tensors=[v])
            for i, (p, v) in enumerate(zip(prefixes, parts))
        ]
        merge = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=prefixes,
            destination_prefix=str(tmp_path / "all"),
            delete_old_dirs=True,
        )
        back = tf.raw_ops.RestoreV2(
            prefix=str(tmp_path / "all"),
            tensor_names=[f"t{i}" for i in range(5)],
            shape_and_slices=[""] * 5,
            dtypes=[tf.float32] * 5,
        )
    with tfjit.Session(graph=graph, config=config(global_io_parallelism_threads=3)) as session:
        assert session._runtime_session.state.io is io_pool.io_pool(3)
        assert io_pool.io_pool(3).num_threads == 3
        assert io_pool.io_pool(0).num_threads == io_pool.DEFAULT_THREADS
        session.run(save)
        session.run(merge)
        for i, value in enumerate(session.run(back)):
            np.testing.assert_array_equal(value, np.full((3, i + 1), i, "f4"))
    with tf1.Session(graph=graph) as theirs:
        assert len(theirs.run(back)) == 5
    assert any(t.name.startswith("tfjit-io") for t in threading.enumerate())


def test_work_on_files_is_shared_and_fails_in_order() -> None:
    pool = io_pool.IoPool(3, "test-io")
    assert pool.map(lambda i: i * i, range(50)) == [i * i for i in range(50)]
    assert pool.map(lambda i: i, []) == []
    # jobs of a full pool may share out work
    done = threading.Semaphore(0)
    answers: list[list[int]] = []
    for _ in range(6):
        pool.schedule(lambda: (answers.append(pool.map(lambda i: i + 1, range(5))), done.release()))
    for _ in range(6):
        assert done.acquire(timeout=60)
    assert answers == [[1, 2, 3, 4, 5]] * 6

    def fails(i: int) -> int:
        if i >= 2:
            raise ValueError(str(i))
        return i

    with pytest.raises(ValueError, match="2"):
        pool.map(fails, range(6))
    pool.close()


@covers("ConfigProto.operation_timeout_in_ms", "RunOptions.timeout_in_ms")
def test_time_limits_below_zero_are_none(world: World) -> None:
    """Limits that run out are in test_run_options.py."""
    for make in (tfjit.Session, tf1.Session):
        with make(graph=world.graph, config=tf1.ConfigProto(operation_timeout_in_ms=-5)) as session:
            world.check(session)
            world.check(session, options=tf1.RunOptions(timeout_in_ms=-5))
        with make(
            graph=world.graph, config=tf1.ConfigProto(operation_timeout_in_ms=60_000)
        ) as session:
            world.check(session)
