"""Queues: the same course of runs on TensorFlow's session and on tfjit's; and operations that wait,
on one thread and across threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.waiting import is_blocked

tf1 = tf.compat.v1

Step = tuple[Any, dict[Any, Any]]
COURSES: dict[str, Callable[[], list[Step]]] = {}


def course(make: Callable[[], list[Step]]) -> Callable[[], list[Step]]:
    COURSES[make.__name__] = make
    return make


@course
def fifo() -> list[Step]:
    queue = tf1.FIFOQueue(4, [tf.float32, tf.int32], shapes=[[2], []])
    a, b = tf1.placeholder(tf.float32, [None, 2]), tf1.placeholder(tf.int32, [None])
    put, put_many = queue.enqueue([a[0], b[0]]), queue.enqueue_many([a, b])
    n = tf1.placeholder(tf.int32, [])
    take, take_many, up_to = queue.dequeue(), queue.dequeue_many(n), queue.dequeue_up_to(n)
    size, closed, close = queue.size(), queue.is_closed(), queue.close()
    feeds = {a: np.arange(6).reshape(3, 2), b: [10, 11, 12]}
    return [
        (size, {}),
        (put, feeds),
        (put_many, feeds),
        (size, {}),
        (take, {}),
        (take_many, {n: 0}),
        (take_many, {n: 2}),
        (up_to, {n: 1}),
        (size, {}),
        (take_many, {n: -1}),
        (put_many, {a: np.zeros((0, 2)), b: []}),
        (put_many, {a: np.zeros((2, 2)), b: [1]}),
        (size, {}),
        (put_many, feeds),
        (closed, {}),
        (close, {}),
        (closed, {}),
        (put, feeds),
        (put_many, feeds),
        (up_to, {n: 2}),
        (up_to, {n: 5}),
        (up_to, {n: 5}),
        (take, {}),
        (take_many, {n: 1}),
        (take_many, {n: 0}),
        (close, {}),
        (size, {}),
    ]


@course
def fifo_of_any_shape() -> list[Step]:
    queue = tf1.FIFOQueue(10, [tf.float32])
    x = tf1.placeholder(tf.float32, None)
    put, take = queue.enqueue(x), queue.dequeue()
    return [
        (put, {x: 1.0}),
        (put, {x: np.ones((2, 3))}),
        (put, {x: []}),
        (take, {}),
        (take, {}),
        (take, {}),
        (queue.size(), {}),
    ]


@course
def too_few_for_a_batch() -> list[Step]:
    queue = tf1.FIFOQueue(10, [tf.int64], shapes=[[]])
    x = tf1.placeholder(tf.int64, [None])
    return [
        (queue.enqueue_many(x), {x: [1, 2, 3]}),
        (queue.close(), {}),
        (queue.dequeue_many(5), {}),
        (queue.size(), {}),
        (queue.dequeue_many(2), {}),
        (queue.dequeue_many(2), {}),
        (queue.dequeue(), {}),
    ]


@course
def closed_and_cancelled() -> list[Step]:
    queue = tf1.FIFOQueue(2, [tf.float32], shapes=[[]], name="named")
    return [
        (queue.enqueue(1.0), {}),
        (queue.close(cancel_pending_enqueues=True), {}),
        (queue.enqueue(2.0), {}),
        (queue.dequeue(), {}),
        (queue.dequeue(), {}),
    ]


@course
def wrong_elements() -> list[Step]:
    queue = tf1.FIFOQueue(4, [tf.float32], shapes=[[2]])
    x = tf1.placeholder(tf.float32, None)
    handle = queue.queue_ref
    return [
        (tf.raw_ops.QueueEnqueueV2(handle=handle, components=[x]), {x: np.ones(3)}),
        (tf.raw_ops.QueueEnqueueManyV2(handle=handle, components=[x]), {x: np.ones((2, 3))}),
        (tf.raw_ops.QueueEnqueueManyV2(handle=handle, components=[x]), {x: np.ones((2, 2))}),
        (queue.size(), {}),
    ]


@course
def padding() -> list[Step]:
    queue = tf1.PaddingFIFOQueue(10, [tf.float32, tf.string], shapes=[[None, 2], [None]])
    a, b = tf1.placeholder(tf.float32, [None, 2]), tf1.placeholder(tf.string, [None])
    put = queue.enqueue([a, b])
    return [
        (put, {a: np.ones((1, 2)), b: ["x"]}),
        (put, {a: np.ones((3, 2)), b: []}),
        (put, {a: np.ones((0, 2)), b: ["y", "zz"]}),
        (queue.dequeue_many(3), {}),
        (put, {a: np.ones((2, 2)), b: ["q"]}),
        (queue.dequeue(), {}),
        (put, {a: np.ones((2, 2)), b: ["q"]}),
        (queue.close(), {}),
        (queue.dequeue_up_to(4), {}),
    ]


@course
def priority() -> list[Step]:
    queue = tf1.PriorityQueue(10, [tf.string], shapes=[[]])
    p, x = tf1.placeholder(tf.int64, [None]), tf1.placeholder(tf.string, [None])
    put = queue.enqueue_many([p, x])
    return [
        (put, {p: [5, 1, 3], x: ["five", "one", "three"]}),
        (queue.dequeue(), {}),
        (put, {p: [2, 9], x: ["two", "nine"]}),
        (queue.dequeue_many(3), {}),
        (queue.size(), {}),
        (queue.dequeue(), {}),
    ]


@course
def two_queues_of_one_name() -> list[Step]:
    a = tf1.FIFOQueue(5, [tf.float32], shapes=[[]], shared_name="shared")
    b = tf1.FIFOQueue(5, [tf.float32], shapes=[[]], shared_name="shared")
    other = tf1.FIFOQueue(5, [tf.int32], shapes=[[]], shared_name="shared")
    return [
        (a.enqueue(3.0), {}),
        (b.size(), {}),
        (b.dequeue(), {}),
        (other.size(), {}),
        (a.size(), {}),
    ]


def outcome(session: Any, step: Step) -> tuple[str, Any]:
    try:
        return "values", session.run(*step)
    except Exception as error:
        return "error", error


def built(name: str) -> tuple[Any, list[Step]]:
    graph = tf1.Graph()
    with graph.as_default():
        return graph, COURSES[name]()


def cause(error: BaseException) -> str:
    text = str(error).split("\n\nOriginal stack")[0]
    return [line for line in text.splitlines() if line.strip() and "[[" not in line][-1]


@pytest.mark.parametrize("name", COURSES)
@pytest.mark.parametrize("threads", [1, 3, -1])
def test_a_course_of_runs(name: str, threads: int) -> None:
    graph, steps = built(name)
    config = tf1.ConfigProto(inter_op_parallelism_threads=threads, use_per_session_threads=True)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph, config=config) as ours:
        for i, step in enumerate(steps):
            kind, want = outcome(theirs, step)
            ours_kind, got = outcome(ours, step)
            assert ours_kind == kind, f"step {i}: {got!r}, TensorFlow {want!r}"
            if kind == "error":
                assert type(got).__name__ == type(want).__name__, (
                    f"step {i}: {got}, TensorFlow {want}"
                )
                assert cause(want).partition("'")[0] == cause(got).partition("'")[0], f"step {i}"
                assert cause(want).rpartition("'")[2] == cause(got).rpartition("'")[2], f"step {i}"
                continue
            for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(want), strict=True):
                if b is None:
                    assert a is None
                else:
                    np.testing.assert_array_equal(a, b, f"step {i}")
                    assert np.asarray(a).dtype == np.asarray(b).dtype


def test_shuffling_keeps_every_element_and_its_minimum() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.RandomShuffleQueue(
            100, min_after_dequeue=10, dtypes=[tf.int32, tf.float32], shapes=[[], [2]], seed=3
        )
        x = tf1.placeholder(tf.int32, [None])
        put = queue.enqueue_many([x, tf.stack([tf.cast(x, tf.float32)] * 2, axis=1)])
        n = tf1.placeholder(tf.int32, [])
        take, size, close = queue.dequeue_many(n), queue.size(), queue.close()
    with tfjit.Session(graph=graph) as session:
        session.run(put, {x: np.arange(50)})
        first, rows = session.run(take, {n: 40})
        np.testing.assert_array_equal(rows, np.stack([first, first], 1))
        assert list(first) != sorted(first)
        assert session.run(size) == 10
        # the last ten stay while the queue is open
        with pytest.raises(tfjit.errors.DeadlineExceededError):
            session.run(take, {n: 1}, tf1.RunOptions(timeout_in_ms=100))
        session.run(close)
        rest, _ = session.run(take, {n: 10})
        assert sorted([*first, *rest]) == list(range(50))
        with pytest.raises(tfjit.errors.OutOfRangeError):
            session.run(take, {n: 1})


@pytest.mark.parametrize("threads", [1, -1, 4])
def test_put_and_take_in_one_run(threads: int) -> None:
    """On one thread as well: what waits holds no thread."""
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(1, [tf.float32], shapes=[[]])
        x = tf1.placeholder(tf.float32, [3])
        put_many = queue.enqueue_many(x)  # more than the queue holds: it goes on as the others take
        takes = [queue.dequeue() for _ in range(3)]
        double = tf.add_n(takes) * 2.0
        back = tf1.FIFOQueue(1, [tf.float32], shapes=[[]])
        chain = back.enqueue(queue.dequeue() + 1.0)
        end = back.dequeue()
        one = queue.enqueue(x[0])
    config = tf1.ConfigProto(inter_op_parallelism_threads=threads, use_per_session_threads=True)
    with tfjit.Session(graph=graph, config=config) as session:
        for _ in range(3):
            values = session.run([*takes, double, put_many], {x: [1, 2, 3]})
            assert sorted(values[:3]) == [1, 2, 3]
            assert values[3] == 12
            assert session.run([end, chain, one], {x: [5, 0, 0]})[0] == 6
            assert session.run([end, one, chain], {x: [6, 0, 0]})[0] == 7


class Waiting:
    """A run in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.outcome: tuple[str, Any] | None = None
        self._thread = threading.Thread(target=self._run, args=(call,))
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self.outcome = "value", call()
        except Exception as error:
            self.outcome = "error", error

    def waits(self) -> bool:
        return is_blocked(self._thread)

    def end(self) -> tuple[str, Any]:
        self._thread.join(60)
        assert self.outcome is not None, "still waiting"
        return self.outcome


class Pipe:
    """A queue of two floats with all its operations, run once so that later runs wait for the queue
    alone.
    """

    def __init__(self, make: Any = tfjit.Session) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            queue = tf1.FIFOQueue(2, [tf.float32], shapes=[[]], name="pipe")
            self.x = tf1.placeholder(tf.float32, [None])
            self.put, self.put_many = queue.enqueue(self.x[0]), queue.enqueue_many(self.x)
            self.take, self.take_3, self.up_to_3 = (
                queue.dequeue(),
                queue.dequeue_many(3),
                queue.dequeue_up_to(3),
            )
            self.size, self.close, self.cancel = (
                queue.size(),
                queue.close(),
                queue.close(cancel_pending_enqueues=True),
            )
        self.session = make(graph=self.graph)
        self.session.run(self.put, {self.x: [1]})
        self.session.run(self.take)
        self.session.run(self.size)


def test_a_waiting_dequeue_gets_what_another_thread_puts() -> None:
    pipe = Pipe()
    takers = [Waiting(lambda: pipe.session.run(pipe.take)) for _ in range(3)]
    assert all(taker.waits() for taker in takers)
    pipe.session.run(pipe.put_many, {pipe.x: [1, 2, 3]})
    assert sorted(taker.end()[1] for taker in takers) == [1, 2, 3]
    batch = Waiting(lambda: pipe.session.run(pipe.take_3))
    assert batch.waits()
    for i in range(3):
        assert batch.waits()
        pipe.session.run(pipe.put, {pipe.x: [i]})
    np.testing.assert_array_equal(batch.end()[1], [0, 1, 2])
    pipe.session.close()


def test_a_full_queue_holds_its_enqueues() -> None:
    pipe = Pipe()
    put = Waiting(lambda: pipe.session.run(pipe.put_many, {pipe.x: np.arange(5)}))
    assert put.waits()
    assert pipe.session.run(pipe.size) == 2
    assert [pipe.session.run(pipe.take) for _ in range(3)] == [0, 1, 2]
    assert put.end() == ("value", None)
    assert [pipe.session.run(pipe.take) for _ in range(2)] == [3, 4]
    pipe.session.close()


@pytest.mark.parametrize("make", [tf1.Session, tfjit.Session], ids=["tensorflow", "tfjit"])
def test_closing_ends_what_waits(make: Any) -> None:
    """The same story told of both: pending enqueues go on after a plain close, and end with a
    cancelling one.
    """
    pipe = Pipe(make)
    batch = Waiting(lambda: pipe.session.run(pipe.take_3))
    assert batch.waits()
    pipe.session.run(pipe.put, {pipe.x: [7]})
    pipe.session.run(pipe.close)
    kind, error = batch.end()
    assert (kind, type(error).__name__) == ("error", "OutOfRangeError")
    assert "is closed and has insufficient elements (requested 2, current size 0)" in str(error)
    assert pipe.session.run(pipe.up_to_3).tolist() == [7]  # what the batch had taken was put back
    pipe.session.close()

    pipe = Pipe(make)
    pipe.session.run(pipe.put_many, {pipe.x: [1, 2]})
    waiting = Waiting(lambda: pipe.session.run(pipe.put_many, {pipe.x: [3, 4]}))
    assert waiting.waits()
    closing = Waiting(lambda: pipe.session.run(pipe.close))
    assert closing.waits()  # behind the enqueue that waits
    assert waiting.waits()
    assert pipe.session.run(pipe.take) == 1
    assert pipe.session.run(pipe.take_3).tolist() == [2, 3, 4]
    assert waiting.end() == ("value", None)
    assert closing.end() == ("value", None)
    with pytest.raises(Exception, match="is closed and has insufficient elements"):
        pipe.session.run(pipe.take)
    pipe.session.close()

    pipe = Pipe(make)
    pipe.session.run(pipe.put_many, {pipe.x: [1, 2]})
    waiting = Waiting(lambda: pipe.session.run(pipe.put_many, {pipe.x: [3, 4]}))
    assert waiting.waits()
    pipe.session.run(pipe.cancel)
    kind, error = waiting.end()
    assert (kind, type(error).__name__) == ("error", "CancelledError")
    assert "Enqueue operation was cancelled" in str(error)
    assert pipe.session.run(pipe.up_to_3).tolist() == [1, 2]
    pipe.session.close()


def test_a_cancelled_dequeue_loses_no_element() -> None:
    """TensorFlow drops what a cancelled batch had taken."""
    pipe = Pipe()
    pipe.session.run(pipe.put_many, {pipe.x: [1, 2]})
    with pytest.raises(
        tfjit.errors.DeadlineExceededError, match="Timed out waiting for notification"
    ):
        pipe.session.run(pipe.take_3, options=tf1.RunOptions(timeout_in_ms=100))
    assert pipe.session.run(pipe.size) == 2
    assert [pipe.session.run(pipe.take) for _ in range(2)] == [1, 2]
    pipe.session.close()


def test_an_error_beside_a_waiting_dequeue_ends_the_step() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(1, [tf.float32], shapes=[[]])
        zero = tf1.placeholder(tf.int32, [])
        bad = tf1.floordiv(tf.constant(1), zero, name="bad")
        take = queue.dequeue()
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(tfjit.errors.InvalidArgumentError, match="Integer division by zero"),
    ):
        session.run([bad, take], {zero: 0})


def test_many_producers_and_consumers() -> None:
    pipe = Pipe()
    seen: list[float] = []
    lock = threading.Lock()

    def produce(i: int) -> None:
        for j in range(20):
            pipe.session.run(pipe.put, {pipe.x: [100 * i + j]})

    def consume() -> None:
        for _ in range(20):
            value = pipe.session.run(pipe.take)
            with lock:
                seen.append(float(value))

    threads = [threading.Thread(target=produce, args=(i,)) for i in range(4)] + [
        threading.Thread(target=consume) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(seen) == sorted(float(100 * i + j) for i in range(4) for j in range(20))
    pipe.session.close()


def test_queues_that_share_a_name_must_agree() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        queues = [
            tf1.FIFOQueue(3, [tf.float32], shapes=[[]], shared_name="shared"),
            tf1.FIFOQueue(4, [tf.float32], shapes=[[]], shared_name="shared"),
            tf1.FIFOQueue(3, [tf.float32], shapes=[[2]], shared_name="shared"),
            tf1.FIFOQueue(3, [tf.int32], shapes=[[]], shared_name="shared"),
            tf1.RandomShuffleQueue(3, 1, [tf.float32], shapes=[[]], shared_name="shared"),
        ]
        sizes = [queue.size() for queue in queues]
        unshaped = tf1.FIFOQueue(3, [tf.float32])
        calls = [*sizes, unshaped.dequeue_many(2)]
    texts = []
    for make in (tf1.Session, tfjit.Session):
        with make(graph=graph) as session:
            assert session.run(sizes[0]) == 0
            found = []
            for call in calls[1:]:
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    session.run(call)
                starts = ("Shared queue", "Expected FIFOQueue", "FIFOQueue's")
                found.append(
                    next(
                        line
                        for line in caught.value.message.splitlines()
                        if line.startswith(starts)
                    )
                )
            texts.append(found)
    assert texts[1] == texts[0]


def test_bytes_keep_the_zeros_at_their_end() -> None:
    words = np.array([b"a\0", b"\0\0", b""], object)
    with tfjit.Graph().as_default() as graph, tfjit.Session(graph=graph) as session:
        queue = tfjit.FIFOQueue(20, [tfjit.string], shapes=[[]])
        session.run(queue.enqueue_many([words]))
        assert [session.run(queue.dequeue()) for _ in words] == list(words)
