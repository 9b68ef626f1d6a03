"""Python functions of one run that overlap on the inter-op pool, or must not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tfjit as tf

PATIENCE_S = 20  # for a meeting that takes place
BRIEF_S = 0.05  # for one that does not


def run(
    build: Callable[[Any], Any], inter: int = 2, times: int = 1, intra: int = 1, **options: Any
) -> Any:
    """Run a graph over the placeholder x, fed with [1, 2]; return the last result."""
    config = tf.ConfigProto(
        intra_op_parallelism_threads=intra,
        inter_op_parallelism_threads=inter,
        use_per_session_threads=True,
        **options,
    )
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2])
        fetches = build(x)
        with tf.Session(graph=graph, config=config) as session:
            for _ in range(times):
                result = session.run(fetches, {x: np.array([1, 2], np.float32)})
    return result


def call(
    function: Callable[..., Any], *inputs: Any, shape: Sequence[int] | None = None, name: str = "f"
) -> Any:
    made = tf.py_func(function, inputs, tf.float32, name=name)
    if shape is not None:
        made.set_shape(shape)
    return made


class Meeting:
    """A function that returns 1 where `parties` calls run at the same time, else 0."""

    def __init__(self, parties: int, timeout: float) -> None:
        self._barrier = threading.Barrier(parties)
        self._timeout = timeout

    def __call__(self, x: Any) -> Any:
        try:
            self._barrier.wait(self._timeout)
        except threading.BrokenBarrierError:
            return np.float32(0)
        return np.float32(1)


@pytest.mark.parametrize("shape", [None, []])
def test_functions_meet(shape: list[int] | None) -> None:
    meet = Meeting(2, PATIENCE_S)
    results = run(
        lambda x: [call(meet, x + float(i), shape=shape) for i in range(2)], inter=2, times=6
    )
    assert results == [1, 1]


@pytest.mark.parametrize(("inter", "parties"), [(1, 2), (2, 3), (-1, 2)])
def test_no_more_functions_at_once_than_threads(inter: int, parties: int) -> None:
    meet = Meeting(parties, BRIEF_S)
    results = run(lambda x: [call(meet, x + float(i)) for i in range(parties)], inter)
    assert results == [0] * parties


def test_a_session_with_several_devices_overlaps_too() -> None:
    meet = Meeting(2, PATIENCE_S)

    def build(x: Any) -> Any:
        with tf.device("/cpu:1"):
            one = call(meet, x + 1.0)
        with tf.device("/cpu:0"):
            return [one, call(meet, x)]

    assert run(build, device_count={"CPU": 2}) == [1, 1]


def test_what_follows_a_function_does_not_wait_for_the_other() -> None:
    """The first function waits for a node behind the second."""
    done = threading.Event()

    def finish(x: Any) -> Any:
        done.set()
        return x

    def build(x: Any) -> Any:
        waiting = call(lambda x: np.float32(done.wait(PATIENCE_S)), x, name="waiting")
        second = call(lambda x: x + 1, x + 1.0, name="second")
        return waiting, call(finish, tf.tanh(second * 0.0), name="third")

    waited, third = run(build)
    assert waited == 1
    np.testing.assert_array_equal(third, [0, 0])


def test_control_edges_keep_their_order() -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[Any], Any]:
        return lambda x: order.append(name) or x

    def build(x: Any) -> Any:
        first = call(note("first"), x)
        with tf.control_dependencies([first]):
            second = call(note("second"), x)
        with tf.control_dependencies([second]):
            return [call(note("third"), x), call(note("third"), x + 1.0)]

    run(build, inter=4, times=3)
    assert order == ["first", "second", "third", "third"] * 3


def test_an_error_waits_for_the_other_function() -> None:
    started, ended = threading.Event(), threading.Event()

    def slow(x: Any) -> Any:
        started.set()
        threading.Event().wait(BRIEF_S)
        ended.set()
        return x

    def failing(x: Any) -> Any:
        started.wait(PATIENCE_S)
        raise ValueError("no good")

    with pytest.raises(tf.errors.InvalidArgumentError, match="no good"):
        run(lambda x: [call(slow, x), call(failing, x + 1.0, name="failing")])
    assert ended.is_set()  # no kernel outlives its run


def test_the_rest_behind_a_function_is_compiled_for_its_shapes() -> None:
    def build(x: Any) -> Any:
        y = call(lambda x: np.stack([x, x]), x, name="stack")
        for i in range(12):
            y = tf.add(tf.tanh(y), float(i))
        return y

    expected = np.array([[1, 2], [1, 2]], np.float32)
    for i in range(12):
        expected = np.tanh(expected) + np.float32(i)
    np.testing.assert_allclose(run(build, times=3), expected, rtol=1e-5)


def test_many_functions_and_their_sum() -> None:
    result = run(
        lambda x: tf.add_n([call(lambda x: x * 2, x + float(i), shape=[2]) for i in range(20)]),
        inter=3,
        times=5,
    )
    np.testing.assert_array_equal(result, [2 * (20 + 190), 2 * (40 + 190)])
