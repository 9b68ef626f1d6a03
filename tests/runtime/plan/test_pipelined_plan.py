"""Runs in stages: what a queue gives goes through compiled steps, and nothing else changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tensorflow
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tfjit
from tests.waiting import once_blocked
from tfjit.runtime.plan.pipelined_plan import MAX_SHAPES, StagedPlan

tf1 = tensorflow.compat.v1


@contextmanager
def session(tf: Any = tfjit, **more: Any) -> Iterator[Any]:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph, **more) as made:
        yield made


def staged(made: Any) -> list[StagedPlan]:
    return [
        plan for plan in made._runtime_session.plan_cache.plans() if isinstance(plan, StagedPlan)
    ]


def test_values_and_their_types() -> None:
    def run(tf: Any) -> list[Any]:
        with session(tf) as s:
            q = tf.FIFOQueue(20, [tf.float32, tf.string], shapes=[[2], []])
            s.run(q.enqueue_many([np.arange(12).reshape(6, 2), list("abcdef")]))
            x, word = q.dequeue()
            y = tf.reduce_sum(x * 2.0 + 1.0)
            joined = (
                tf.strings.join([word, "!"])
                if tf is tf1
                else tf.raw_ops.StringJoin(inputs=[word, tf.constant("!")])
            )
            found = [*s.run([x, word, y, joined]), s.run({"size": q.size()})]
            if tf is tfjit:
                assert staged(s)
            return found

    ours, theirs = run(tfjit), run(tf1)
    for a, b in zip(ours[:4], theirs[:4], strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
    assert ours[4]["size"] == 5


def test_a_training_step_is_compiled() -> None:
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((200, 8)).astype("f4"), rng.integers(0, 3, 200)

    def run(tf: Any) -> list[float]:
        with session(tf) as s:
            q = tf.FIFOQueue(500, [tf.float32, tf.int64], shapes=[[8], []])
            x, y = q.dequeue_many(10)
            w = tf.get_variable("w", [8, 3], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, w))
            )
            step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
            s.run(tf.global_variables_initializer())
            s.run(q.enqueue_many([data, labels]))
            found = [s.run([loss, step])[0] for _ in range(20)]
            if tf is tfjit:
                (plan,) = (plan for plan in staged(s) if plan.fetches == (loss.name,))
                (variant,) = plan.stages.largest.variants.values()
                variant.upgrade()
                assert (
                    variant.compile_done.wait(300)
                    and variant.step is not None
                    and variant.step.native
                )
                assert "stage 2 of 2, behind" in s.explain([loss, step]).details()
            return found

    np.testing.assert_allclose(run(tfjit), run(tf1), rtol=1e-4)


def test_batches_of_any_size() -> None:
    """Beyond so many shapes no more steps are made, and the answers stay right."""
    with session() as s:
        q = tfjit.FIFOQueue(10_000, [tfjit.float32], shapes=[[]])
        n = tfjit.placeholder(tfjit.int32, [])
        x = q.dequeue_up_to(n)
        y = tfjit.reduce_sum(x) * 2.0
        s.run(q.enqueue_many(np.ones(2000, "f4")))
        for size in [*range(1, MAX_SHAPES + 10), 3, MAX_SHAPES + 5]:
            assert s.run(y, {n: size}) == 2.0 * size
        (plan,) = staged(s)
        assert len(plan.stages.largest.variants) <= MAX_SHAPES + 1


def test_put_and_take_in_one_run_still_end() -> None:
    with session() as s:
        q = tfjit.FIFOQueue(1, [tfjit.float32], shapes=[[]])
        x = tfjit.placeholder(tfjit.float32, [])
        value = x
        for _ in range(10):
            value = value + 1.0
        y = tfjit.tanh(q.dequeue()) + 1.0
        taken, _ = s.run([y, q.enqueue(value)], {x: 0.0})
        assert taken == pytest.approx(np.tanh(10.0) + 1)


def test_errors_are_those_of_the_node() -> None:
    with session() as s:
        q = tfjit.FIFOQueue(5, [tfjit.int32], shapes=[[]])
        x = q.dequeue(name="take")
        y = tfjit.gather(tfjit.constant([1.0, 2.0]), x, name="look_up") * 2.0
        s.run(q.enqueue_many([[1, 7]]))
        assert s.run(y) == 4.0
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="look_up"):
            s.run(y)
        s.run(q.close())
        with pytest.raises(
            tfjit.errors.OutOfRangeError, match=r"(?s)take.*is closed and has insufficient elements"
        ):
            s.run(y)


@pytest.mark.parametrize("way", ["close", "timeout"])
def test_a_run_that_waits_ends(way: str) -> None:
    with session() as s:
        q = tfjit.FIFOQueue(5, [tfjit.float32], shapes=[[]])
        y = tfjit.tanh(q.dequeue())
        if way == "timeout":
            with pytest.raises(tfjit.errors.DeadlineExceededError):
                s.run(y, options=tfjit.RunOptions(timeout_in_ms=30))
            s.run(q.enqueue(0.0))
            assert s.run(y) == 0
            return
        closing = once_blocked(s.close)
        with pytest.raises(tfjit.errors.CancelledError):
            s.run(y)
        closing.join()


def test_a_variable_without_a_value_is_an_error_while_the_queue_is_empty() -> None:
    with session() as s:
        q = tfjit.FIFOQueue(5, [tfjit.float32], shapes=[[]])
        v = tfjit.Variable(2.0, name="v")
        y = q.dequeue() * v
        with pytest.raises(tfjit.errors.FailedPreconditionError, match="uninitialized value v"):
            s.run(y)
        s.run(v.initializer)
        s.run(q.enqueue(3.0))
        assert s.run(y) == 6.0 and staged(s)


def test_options_callables_and_metadata() -> None:
    with session() as s:
        q = tfjit.FIFOQueue(50, [tfjit.float32], shapes=[[2]])
        x = tfjit.placeholder(tfjit.float32, [2])
        y = q.dequeue() * x
        s.run(q.enqueue_many(np.ones((20, 2), "f4")))
        call = s.make_callable(y, [x])
        np.testing.assert_array_equal(call(np.float32([2, 3])), [2, 3])
        metadata = tfjit.RunMetadata()
        options = tfjit.RunOptions(trace_level=3, output_partition_graphs=True)
        np.testing.assert_array_equal(s.run(y, {x: [4, 5]}, options, metadata), [4, 5])
        names = {
            stats.node_name
            for device in metadata.step_stats.dev_stats
            for stats in device.node_stats
        }
        assert {"fifo_queue_Dequeue"} <= names
        assert s.run(q.size()) == 18


def test_a_fetched_batch_is_the_callers() -> None:
    with session() as s:
        q = tfjit.FIFOQueue(5, [tfjit.float32], shapes=[[2]])
        v = tfjit.Variable([1.0, 2.0])
        put = q.enqueue(v)
        x = q.dequeue()
        y = x + 1.0
        s.run(tfjit.global_variables_initializer())
        s.run([put])
        first, second = s.run([x, y])
        first[:] = 50
        np.testing.assert_array_equal(second, [2, 3])
        np.testing.assert_array_equal(s.run(v), [1, 2])


def test_threads_share_the_stages() -> None:
    with session() as s:
        q = tfjit.FIFOQueue(5000, [tfjit.float32], shapes=[[]])
        y = q.dequeue() * 2.0
        s.run(q.enqueue_many(np.arange(800, dtype="f4")))
        found: list[list[float]] = [[] for _ in range(4)]

        def take(out: list[float]) -> None:
            out.extend(float(s.run(y)) for _ in range(200))

        threads = [threading.Thread(target=take, args=(out,)) for out in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(value for out in found for value in out) == [2.0 * i for i in range(800)]


def test_a_queue_runner_feeds_training() -> None:
    """A producer in another thread, a consumer that waits for it: the whole course, and its end."""
    with session() as s:
        q = tfjit.RandomShuffleQueue(50, 5, [tfjit.float32], shapes=[[]])
        total = tfjit.Variable(0.0)
        add = total.assign_add(q.dequeue() * 1.0)
        put = q.enqueue(1.0)
        s.run(tfjit.global_variables_initializer())
        coordinator = tfjit.train.Coordinator()
        runner = tfjit.train.QueueRunner(q, [put] * 2)
        threads = runner.create_threads(s, coordinator, start=True)
        began = time.monotonic()
        for _ in range(100):
            s.run(add)
        assert s.run(total) == 100 and time.monotonic() - began < 60
        coordinator.request_stop()
        s.run(q.close(cancel_pending_enqueues=True))
        coordinator.join(threads)


Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def programs(draw: Draw) -> list[tuple[str, int, int]]:
    """Operations on what came before: (kind, operand, operand)."""
    count = draw(st.integers(3, 14))
    kinds = st.sampled_from(
        [
            "dequeue a",
            "dequeue b",
            "add",
            "mul",
            "after",
            "read",
            "assign",
            "enqueue b",
            "tanh",
            "feed",
        ]
    )
    return [(draw(kinds), draw(st.integers(0, 30)), draw(st.integers(0, 30))) for _ in range(count)]


def _build(tf: Any, program: list[tuple[str, int, int]]) -> tuple[Any, Any, Any, Any, list[Any]]:
    a, b = (tf.FIFOQueue(500, [tf.float32], shapes=[[]], name=name) for name in "ab")
    x = tf.placeholder(tf.float32, [], name="x")
    v = tf.Variable(1.0, name="v", use_resource=True)
    values: list[Any] = [x, tf.constant(0.5)]
    last: list[Any] = []
    for kind, i, j in program:
        left, right = values[i % len(values)], values[j % len(values)]
        with tf.control_dependencies(
            last[-1:] if kind in ("read", "assign", "dequeue a", "dequeue b", "enqueue b") else []
        ):
            if kind.startswith("dequeue"):
                made = (a if kind.endswith("a") else b).dequeue()
            elif kind == "enqueue b":
                with tf.control_dependencies([b.enqueue(left)]):
                    made = tf.identity(right)
            elif kind == "read":
                made = v.read_value()
            elif kind == "assign":
                with tf.control_dependencies([v.assign_add(left)]):
                    made = tf.identity(right)
            elif kind == "after":
                with tf.control_dependencies([left]):
                    made = tf.identity(right)
            elif kind == "tanh":
                made = tf.tanh(left)
            elif kind == "feed":
                made = x * left
            else:
                made = left + right if kind == "add" else left * right
        if kind in ("read", "assign", "dequeue a", "dequeue b", "enqueue b"):
            last.append(made)  # stateful operations in their order, so that there is one answer
        values.append(made)
    return a, b, x, v, values


@given(programs())
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.generate],
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_random_programs_equal_tensorflow(program: list[tuple[str, int, int]]) -> None:
    results = []
    for tf in (tf1, tfjit):
        with session(tf) as s:
            a, b, x, v, values = _build(tf, program)
            s.run(tf.global_variables_initializer())
            for queue in (a, b):
                s.run(queue.enqueue_many(np.arange(1, 201, dtype="f4") % 13 / 8))
            found = []
            for fed in (0.25, -1.0):
                found.append(s.run(values[1:], {x: fed}))
                found.append([s.run(values[-1], {x: fed}), s.run(v), *s.run([a.size(), b.size()])])
            results.append(found)
    for theirs, ours in zip(*results, strict=True):
        for expected, got in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
