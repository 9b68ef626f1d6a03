"""Elements that threads compute ahead, against TensorFlow."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.pipelines import D, compare, drained


def _slow(value: np.ndarray) -> np.ndarray:
    time.sleep(0.002 * (value % 3))
    return value * 3


def _python(x: tf.Tensor) -> tf.Tensor:
    return tf.compat.v1.py_func(_slow, [x], tf.int64)


def _checked(x: tf.Tensor) -> tf.Tensor:
    return tf.debugging.check_numerics(1.0 / tf.cast(x - 2, tf.float32), "bad")


def _threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("tfjit-dataset")]


def test_order_and_errors() -> None:
    compare(
        {
            "prefetch": lambda: D.range(9).prefetch(2),
            "prefetch an error": lambda: D.range(4).map(_checked).prefetch(3),
            "no buffer": lambda: D.range(3).prefetch(0),
            "map": lambda: D.range(30).map(lambda x: x + 1, num_parallel_calls=4).batch(7),
            "map in Python": lambda: D.range(12).map(_python, num_parallel_calls=3),
            "map and batch": lambda: D.range(7).apply(
                tf.data.experimental.map_and_batch(lambda x: x * 2, 3, drop_remainder=True)
            ),
            "interleave": lambda: D.range(9).interleave(
                lambda x: D.range(x * 10, x * 10 + 1 + x % 4), 4, 1, num_parallel_calls=2
            ),
            "old interleave": lambda: D.range(6).apply(
                tf.data.experimental.parallel_interleave(lambda x: D.range(x), 2, 2, sloppy=False)
            ),
        }
    )
    assert not _threads()


def test_any_order() -> None:
    with tf.Graph().as_default() as graph:
        options = tf.data.Options()
        options.deterministic = False
        mapped = D.range(20).map(_python, num_parallel_calls=4, deterministic=False)
        sloppy = D.range(5).apply(
            tf.data.experimental.parallel_interleave(
                lambda x: D.range(x * 10, x * 10 + 3).map(_python), 3, sloppy=True
            )
        )
        iterators = [tf.compat.v1.data.make_one_shot_iterator(d) for d in (mapped, sloppy)]
        elements = [iterator.get_next() for iterator in iterators]
    with tfjit.Session(graph=graph) as session:
        found = [drained(session, element)[:-1] for element in elements]
    assert sorted(found[0]) == [3 * i for i in range(20)]
    assert sorted(found[1]) == sorted(3 * (10 * i + j) for i in range(5) for j in range(3))


def test_threads_end() -> None:
    """Those of a dropped pass, of a closed session and of a repeated pass that is not over."""
    with tf.Graph().as_default() as graph:
        endless = D.range(3).repeat().map(_python, num_parallel_calls=2).prefetch(2)
        iterator = tf.compat.v1.data.make_initializable_iterator(endless.take(4).prefetch(1))
        element = iterator.get_next()
    session = tfjit.Session(graph=graph)
    session.run(iterator.initializer)
    session.run(element)
    session.run(iterator.initializer)
    assert session.run(element) == 0
    session.close()
    del session
    assert not _threads()


def test_a_cancelled_wait() -> None:
    """A step that waits for an element ends at its timeout, and the element comes later."""
    gate = threading.Event()

    def waits(value: np.ndarray) -> np.ndarray:
        gate.wait(20)
        return value

    with tf.Graph().as_default() as graph:
        slow = D.range(3).map(lambda x: tf.compat.v1.py_func(waits, [x], tf.int64)).prefetch(1)
        iterator = tf.compat.v1.data.make_initializable_iterator(slow)
        element = iterator.get_next()
    with tfjit.Session(graph=graph) as session:
        session.run(iterator.initializer)
        with pytest.raises(tfjit.errors.DeadlineExceededError):
            session.run(element, options=tfjit.RunOptions(timeout_in_ms=50))
        opening = threading.Timer(0.1, gate.set)  # behind the beginning of the next step
        opening.start()
        assert session.run(element) == 0
        opening.join()
