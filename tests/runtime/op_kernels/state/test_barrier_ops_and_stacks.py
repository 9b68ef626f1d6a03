"""Barriers and stacks beside TensorFlow's. Every run has a time limit: what would wait for ever
shows as DeadlineExceeded in both.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import data_flow_ops, gen_data_flow_ops

import tfjit
from tests.waiting import is_blocked

tf1 = tf.compat.v1
WAIT = tf1.RunOptions(timeout_in_ms=300)


class Barrier:
    """A graph with a barrier of (float32 [], int32 [2]), and both runtimes' sessions over it."""

    def __init__(self) -> None:
        with tf1.Graph().as_default() as self.graph:
            barrier = data_flow_ops.Barrier((tf.float32, tf.int32), shapes=((), (2,)), name="B")
            self.keys = tf1.placeholder(tf.string, [None])
            self.floats, self.ints = tf1.placeholder(tf.float32), tf1.placeholder(tf.int32)
            self.count = tf1.placeholder(tf.int32, [])
            self.insert = [
                barrier.insert_many(0, self.keys, self.floats),
                barrier.insert_many(1, self.keys, self.ints),
            ]
            self.takes = {
                small: list(barrier.take_many(self.count, allow_small_batch=small))
                for small in (False, True)
            }
            self.sizes = [barrier.ready_size(), barrier.incomplete_size()]
            self.closes = {
                cancel: barrier.close(cancel_pending_enqueues=cancel) for cancel in (False, True)
            }

    def put(self, session: Any, component: int, keys: str, *values: Any) -> Any:
        feeds = {self.keys: list(keys), (self.ints if component else self.floats): list(values)}
        return session.run(self.insert[component], feeds)

    def take(self, session: Any, count: int, small: bool = False) -> Any:
        """Take elements; one that may have to wait does so for a while."""
        ready = session.run(self.sizes[0])
        options = WAIT if ready < (1 if small else count) else None
        return session.run(self.takes[small], {self.count: count}, options=options)


def told(call: Callable[[], Any]) -> Any:
    """A result, or the class and message of an error, without the number in a resource's name."""
    try:
        return repr(call())
    except tf.errors.OpError as error:
        lines = str(error).splitlines()
        at = next((i + 1 for i, line in enumerate(lines) if line.startswith("Node:")), 0)
        kind = next(
            k.__name__ for k in type(error).__mro__ if k.__module__.startswith("tensorflow")
        )
        return kind, re.sub(r"_\d+_B|_B", "B", lines[at])


def scripts() -> dict[str, Callable[[Barrier, Any], list[Callable[[], Any]]]]:
    def whole(b: Barrier, s: Any) -> list[Callable[[], Any]]:
        return [
            lambda: b.put(s, 0, "ab", 1, 2),
            lambda: s.run(b.sizes),
            lambda: b.put(s, 1, "b", [1, 2]),
            lambda: s.run(b.sizes),
            lambda: b.put(s, 0, "a", 1),
            lambda: b.put(s, 1, "a", [3, 4]),
            lambda: b.take(s, 2),
            lambda: b.put(s, 0, "mn", 1, 2),
            lambda: b.put(s, 0, "o", 1),
            lambda: b.put(s, 1, "onm", [1, 2], [3, 4], [5, 6]),
            lambda: b.take(s, 3),
            lambda: b.take(s, 0),
            lambda: b.take(s, 1),
        ]

    def closed(b: Barrier, s: Any) -> list[Callable[[], Any]]:
        return [
            lambda: b.put(s, 0, "cdz", 1, 2, 3),
            lambda: b.put(s, 1, "d", [5, 6]),
            lambda: s.run(b.closes[False]),
            lambda: b.put(s, 0, "e", 1),
            lambda: b.take(s, 3),
            lambda: b.take(s, 1, small=True),
            lambda: b.put(s, 1, "c", [7, 8]),
            lambda: b.take(s, 5, small=True),
            lambda: b.take(s, 5, small=True),
            lambda: b.put(s, 1, "z", [7, 8]),
            lambda: b.take(s, 2),
            lambda: b.take(s, 1),
            lambda: b.take(s, 1),
            lambda: s.run(b.sizes),
            lambda: s.run(b.closes[False]),
            lambda: s.run(b.closes[True]),
            lambda: s.run(b.closes[True]),
        ]

    def cancelled(b: Barrier, s: Any) -> list[Callable[[], Any]]:
        return [
            lambda: b.put(s, 0, "cd", 1, 2),
            lambda: b.put(s, 1, "d", [5, 6]),
            lambda: s.run(b.closes[True]),
            lambda: s.run(b.sizes),
            lambda: b.put(s, 1, "c", [7, 8]),
            lambda: b.take(s, 1),
            lambda: b.take(s, 1),
        ]

    return {"whole": whole, "closed": closed, "cancelled": cancelled}


@pytest.mark.parametrize("name", scripts())
def test_a_barrier(name: str) -> None:
    barrier = Barrier()
    results = []
    for kind in (tf1.Session, tfjit.Session):
        with kind(graph=barrier.graph) as session:
            results.append([told(call) for call in scripts()[name](barrier, session)])
    assert results[1] == results[0]


def test_a_waiting_take_gets_what_comes() -> None:
    barrier = Barrier()
    with tfjit.Session(graph=barrier.graph) as session:
        taken: list[Any] = []
        thread = threading.Thread(
            target=lambda: taken.append(session.run(barrier.takes[False], {barrier.count: 2}))
        )
        thread.start()
        barrier.put(session, 0, "xy", 1, 2)
        barrier.put(session, 1, "y", [5, 6])
        assert is_blocked(thread)
        barrier.put(session, 1, "x", [7, 8])
        thread.join(60)
        assert [a.tolist() for a in (taken[0][1], *taken[0][2])] == [
            [b"y", b"x"],
            [2, 1],
            [[5, 6], [7, 8]],
        ]


def test_closing_the_session_ends_a_waiting_take() -> None:
    barrier = Barrier()
    session = tfjit.Session(graph=barrier.graph)
    ended: list[Any] = []

    def wait() -> None:
        try:
            session.run(barrier.takes[False], {barrier.count: 2})
        except (tf.errors.CancelledError, tf.errors.OutOfRangeError) as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert is_blocked(thread)
    session.close()
    thread.join(60)
    assert len(ended) == 1


def test_what_does_not_fit_is_refused_and_leaves_no_trace() -> None:
    barrier = Barrier()
    with tfjit.Session(graph=barrier.graph) as session:
        for component, keys, values in (
            (1, "q", [[1, 2, 3]]),
            (1, "qr", [[1, 2]]),
            (0, "qq", [1, 2]),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError):
                barrier.put(session, component, keys, *values)
        assert session.run(barrier.sizes) == [0, 0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="nonnegative"):
            barrier.take(session, -1)


def test_stacks() -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32)
        stack = gen_data_flow_ops.stack_v2(max_size=2, elem_type=tf.float32, stack_name="s")
        first = gen_data_flow_ops.stack_push_v2(stack, x)
        with tf.control_dependencies([first]):
            second = gen_data_flow_ops.stack_push_v2(stack, x + 1)
        with tf.control_dependencies([second]):
            top = gen_data_flow_ops.stack_pop_v2(stack, tf.float32)
            third = gen_data_flow_ops.stack_push_v2(stack, x)
        empty = gen_data_flow_ops.stack_pop_v2(stack, tf.float32)
        with tf.control_dependencies([gen_data_flow_ops.stack_close_v2(stack)]):
            closed = gen_data_flow_ops.stack_pop_v2(stack, tf.float32)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        assert ours.run([first, top], {x: 3.0}) == theirs.run([first, top], {x: 3.0}) == [3, 4]
        assert ours.run([first, top], {x: 5.0}) == [5, 6]  # a new stack each step
        np.testing.assert_array_equal(ours.run(top, {x: np.ones(3)}), [2, 2, 2])
        for fetch in (empty, closed):
            texts = []
            for session in (theirs, ours):
                with pytest.raises(tf.errors.InvalidArgumentError) as info:
                    session.run(fetch)
                texts.append(re.search(r"Stack\[s_\d+\] (.*)", str(info.value)))
            assert texts[0] is not None and texts[1] is not None
            assert texts[0][1] == texts[1][1]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"overflowed its max_size \(2\)"):
            ours.run(third, {x: 3.0})
