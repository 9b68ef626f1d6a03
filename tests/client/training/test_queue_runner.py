"""Coordinator, queue runners and input queues of the front end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit


def test_a_coordinator_stops_threads_and_raises_the_first_error() -> None:
    coordinator = tfjit.train.Coordinator()
    seen: list[int] = []

    def work(k: int) -> None:
        with coordinator.stop_on_exception():
            while not coordinator.wait_for_stop(0.001):
                seen.append(k)
                if k == 1 and len(seen) > 5:
                    raise KeyError("mine")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    with pytest.raises(KeyError, match="mine"):
        coordinator.join(threads, stop_grace_period_secs=60)
    assert coordinator.joined and coordinator.should_stop()
    with pytest.raises(ValueError, match="late"):
        coordinator.request_stop(ValueError("late"))
    coordinator.clear_stop()
    coordinator.request_stop(tfjit.errors.OutOfRangeError(None, None, "the end"))
    coordinator.join()
    assert not coordinator.joined or coordinator.should_stop()


def test_a_thread_that_does_not_stop_is_named() -> None:
    coordinator, stop = tfjit.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=stop.wait, name="stubborn", daemon=True)
    thread.start()
    coordinator.register_thread(thread)
    coordinator.request_stop()
    with pytest.raises(
        RuntimeError, match="Coordinator stopped with threads still running: stubborn"
    ):
        coordinator.join(stop_grace_period_secs=0.05)
    stop.set()


def test_looper() -> None:
    coordinator = tfjit.train.Coordinator()
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        if len(calls) == 3:
            coordinator.request_stop()

    tfjit.train.LooperThread.loop(coordinator, 0.001, call)
    coordinator.join(stop_grace_period_secs=60)
    assert len(calls) == 3


def run_all(fetch: Any) -> list[Any]:
    """What runs of `fetch` give until the input ends."""
    found = []
    with tfjit.Session() as session:
        session.run([tfjit.global_variables_initializer(), tfjit.local_variables_initializer()])
        coordinator = tfjit.train.Coordinator()
        threads = tfjit.train.start_queue_runners(session, coordinator)
        assert threads
        try:
            while not coordinator.should_stop():
                found.append(session.run(fetch))
        except tfjit.errors.OutOfRangeError:
            pass
        finally:
            coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
        assert not any(thread.is_alive() for thread in threads)
    return found


def test_batches_of_rows() -> None:
    with tfjit.Graph().as_default():
        rows = np.arange(20, dtype=np.float32).reshape(10, 2)
        x, y = tfjit.train.slice_input_producer([rows, np.arange(10)], num_epochs=2, shuffle=False)
        xs, ys = tfjit.train.batch([x, y], 6, allow_smaller_final_batch=True)
        assert xs.shape.as_list() == [None, 2]
        found = run_all([xs, ys])
    assert [len(x) for x, _ in found] == [6, 6, 6, 2]
    np.testing.assert_array_equal(
        np.concatenate([x for x, _ in found]), np.concatenate([rows, rows])
    )
    assert np.concatenate([y for _, y in found]).tolist() == [*range(10), *range(10)]


def test_shuffled_batches_of_a_dictionary() -> None:
    with tfjit.Graph().as_default():
        tfjit.set_random_seed(1)
        name = tfjit.train.string_input_producer(
            [f"n{k}" for k in range(12)], num_epochs=1, seed=3
        ).dequeue()
        batch = tfjit.train.shuffle_batch(
            {"name": name}, 4, capacity=12, min_after_dequeue=4, num_threads=2
        )
        assert batch["name"].shape.as_list() == [4]
        found = [value for run in run_all(batch) for value in run["name"].tolist()]
    assert sorted(found) == sorted(f"n{k}".encode() for k in range(12)) and found != sorted(found)


def test_padded_joined_and_filtered_batches() -> None:
    with tfjit.Graph().as_default():
        n = tfjit.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
        padded = tfjit.train.batch([tfjit.range(n)], 5, dynamic_pad=True)
        assert padded.shape.as_list() == [5, None]
        (found,) = run_all(padded)
    np.testing.assert_array_equal(
        found, np.tril(np.ones((5, 5), np.int32), -1)[:, :4] * np.arange(4)
    )
    with tfjit.Graph().as_default():
        queues = [
            tfjit.train.range_input_producer(6, num_epochs=1, shuffle=False) for _ in range(2)
        ]
        joined = tfjit.train.batch_join([[queue.dequeue()] for queue in queues], 4)
        found = np.concatenate(run_all(joined)).tolist()
        assert sorted(found) == sorted([*range(6), *range(6)])
    with tfjit.Graph().as_default():
        n = tfjit.train.range_input_producer(9, num_epochs=1, shuffle=False).dequeue()
        odd = tfjit.train.maybe_batch([n], tfjit.equal(n % 2, 1), 2)
        assert np.concatenate(run_all(odd)).tolist() == [1, 3, 5, 7]


def test_a_failing_runner() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        queue = tfjit.FIFOQueue(3, tfjit.float32)
        bad = tfjit.check_numerics(tfjit.constant(np.nan), "bad")
        runner = tfjit.train.QueueRunner(queue, [queue.enqueue(bad)] * 2)
        tfjit.train.add_queue_runner(runner)
        coordinator = tfjit.train.Coordinator()
        threads = tfjit.train.start_queue_runners(session, coordinator)
        with pytest.raises(tfjit.errors.OutOfRangeError):
            session.run(queue.dequeue())
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="bad : Tensor had NaN values"):
            coordinator.join(threads, stop_grace_period_secs=60)


def test_threads_that_run_are_not_made_again() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        queue = tfjit.FIFOQueue(3, tfjit.float32)
        runner = tfjit.train.QueueRunner(queue, [queue.enqueue(1.0)])
        coordinator = tfjit.train.Coordinator()
        threads = runner.create_threads(session, coordinator, start=True)
        assert len(threads) == 2 and runner.create_threads(session, coordinator) == []
        assert session.run(queue.dequeue()) == 1
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
        assert runner.exceptions_raised == []


def test_runners_travel_in_meta_graphs(tmp_path: Path) -> None:
    import tensorflow as tf

    tf1 = tf.compat.v1
    with tfjit.Graph().as_default():
        n = tfjit.train.range_input_producer(6, num_epochs=1, shuffle=False).dequeue(name="n")
        v = tfjit.Variable(1, name="v")
        assert n.name == "n:0" and v.name == "v:0"
        tfjit.train.export_meta_graph(str(tmp_path / "m.meta"))
    with tfjit.Graph().as_default():
        tfjit.train.import_meta_graph(str(tmp_path / "m.meta"))
        (runner,) = tfjit.get_collection(tfjit.GraphKeys.QUEUE_RUNNERS)
        assert runner.queue_closed_exception_types == (tfjit.errors.OutOfRangeError,)
        assert run_all("n:0") == list(range(6))
    with tf1.Graph().as_default() as graph, tfjit.Session(graph=graph) as session:
        tf1.train.import_meta_graph(str(tmp_path / "m.meta"))
        session.run(tf1.local_variables_initializer())
        coordinator = tf1.train.Coordinator()
        threads = tf1.train.start_queue_runners(session, coordinator)
        assert [session.run("n:0") for _ in range(6)] == list(range(6))
        coordinator.request_stop()
        coordinator.join(threads)


def test_arguments_that_do_not_fit() -> None:
    with tfjit.Graph().as_default():
        with pytest.raises(ValueError, match="No default session is registered"):
            tfjit.train.start_queue_runners()
        with pytest.raises(TypeError, match="sess must be a `tf.Session` object"):
            tfjit.train.start_queue_runners(3)
        with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
            tfjit.train.QueueRunner(None, [])
        with pytest.raises(ValueError, match="requires a non-null input tensor"):
            tfjit.train.string_input_producer([])
        with pytest.raises(ValueError, match="num_epochs must be > 0 not 0"):
            tfjit.train.limit_epochs(1.0, 0)
        with pytest.raises(
            ValueError, match="Either `input_tensor` must have a fully defined shape"
        ):
            tfjit.train.input_producer(tfjit.placeholder(tfjit.float32))
