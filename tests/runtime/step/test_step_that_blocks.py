"""Steps with blocking kernels: a queue runner's run is one step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.waiting import is_blocked

Moved = tuple[Any, Callable[..., Any]]


@pytest.fixture
def moved() -> Iterator[Moved]:
    """A session with two queues; the run moves an element from one to the other."""
    with tf.Graph().as_default() as graph:
        first = tf.FIFOQueue(2, [tf.int32], shapes=[[]], name="first")
        second = tf.FIFOQueue(2, [tf.float32], shapes=[[2]], name="second")
        table = tf.constant(np.arange(8, dtype="f4").reshape(4, 2))
        second.enqueue(tf.gather(table, first.dequeue()) * 2.0, name="move")
        first.enqueue(tf.placeholder(tf.int32, [], name="x"), name="put")
        second.dequeue(name="take")
        first.close(name="close")
    session = tf.Session(graph=graph)

    def run(name: str, *values: int, **options: Any) -> Any:
        feed = {"x:0": values[0]} if values else None
        fetch = f"{name}:0" if name == "take" else graph.get_operation_by_name(name)
        return session.run(fetch, feed, **options)

    with session:
        yield session, run


def is_step(session: Any) -> bool:
    plans = session._runtime_session.plan_cache.plans()
    (plan,) = (plan for plan in plans if plan.targets == ("move",))
    return all(v.step is not None and v.step.may_block for v in plan.variants.values())


def in_thread(run: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException]]:
    failures: list[BaseException] = []

    def catch() -> None:
        try:
            run()
        except BaseException as error:  # for the test to look at
            failures.append(error)

    thread = threading.Thread(target=catch)
    thread.start()
    return thread, failures


def test_elements_pass_in_order(moved: Moved) -> None:
    session, run = moved
    for value in (3, 1):
        run("put", value)
    for _ in range(2):
        run("move")
    assert session.wait_until_compiled(300) and is_step(session)
    np.testing.assert_array_equal([run("take"), run("take")], [[12, 14], [4, 6]])


def test_a_run_waits_for_an_element(moved: Moved) -> None:
    _, run = moved
    thread, failures = in_thread(lambda: run("move"))
    assert is_blocked(thread)
    run("put", 2)
    thread.join(60)
    assert not failures
    np.testing.assert_array_equal(run("take"), [8, 10])


def test_errors_name_their_node(moved: Moved) -> None:
    session, run = moved
    run("put", 7)
    with pytest.raises(tf.errors.InvalidArgumentError, match="GatherV2"):
        run("move")
    run("close")
    with pytest.raises(tf.errors.OutOfRangeError, match="first_Dequeue"):
        run("move")
    assert is_step(session)


def test_a_closed_session_ends_the_wait(moved: Moved) -> None:
    session, run = moved
    thread, failures = in_thread(lambda: run("move"))
    assert is_blocked(thread)
    session.close()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(failures[0], tf.errors.CancelledError)


def test_a_timeout_takes_no_element(moved: Moved) -> None:
    _, run = moved
    with pytest.raises(tf.errors.DeadlineExceededError):
        run("move", options=tf.RunOptions(timeout_in_ms=20))
    run("put", 1)
    run("move")
    np.testing.assert_array_equal(run("take"), [4, 6])


def test_a_run_of_a_bounded_pool_gives_its_slot_back() -> None:
    """With one slot, the run that waits must not keep the other from running."""
    with tf.Graph().as_default() as graph:
        queue = tf.FIFOQueue(1, [tf.int32], shapes=[[]])
        put, take = queue.enqueue(tf.constant(5)), queue.dequeue()
    config = tf.ConfigProto()
    config.session_inter_op_thread_pool.add(num_threads=1)
    with tf.Session(graph=graph, config=config) as session:
        found: list[Any] = []
        thread, _ = in_thread(lambda: found.append(session.run(take)))
        assert is_blocked(thread)
        session.run(put)
        thread.join(60)
        assert found == [5]
