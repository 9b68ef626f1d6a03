"""Run the same losses or metrics with both libraries, over the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow

tf1 = tensorflow.compat.v1

# name -> function of (module, placeholders by name) that returns fetches
Cases = dict[str, Callable[[Any, dict[str, Any]], Any]]
Results = dict[str, list[Any]]


@contextmanager
def tensorflow_one() -> Iterator[None]:
    """Let TensorFlow be as version 1 was: reference variables, Switch and Merge."""
    tf1.disable_control_flow_v2()
    tf1.disable_resource_variables()
    try:
        yield
    finally:
        tf1.enable_control_flow_v2()
        tf1.enable_resource_variables()


def run_all(
    tf: Any, cases: Cases, shapes: dict[str, tuple[str, Any]], batches: list[dict[str, Any]]
) -> Results:
    """Return the results of all cases, of one graph, batch by batch.

    A case that gives a pair of a metric's value and update gives two results a batch: of the
    update, and of the value behind it. shapes: dtype and shape of each placeholder by name.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = {
            name: tf.placeholder(tf.as_dtype(dtype), shape, name=name)
            for name, (dtype, shape) in shapes.items()
        }
        made = {name: case(tf, feeds) for name, case in cases.items()}
        results: Results = {name: [] for name in cases}
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for batch in batches:
            fed = {feeds[name]: value for name, value in batch.items()}
            pairs = {name: pair for name, pair in made.items() if isinstance(pair, tuple)}
            first = session.run(
                {name: pairs[name][1] if name in pairs else made[name] for name in cases}, fed
            )
            then = session.run({name: pair[0] for name, pair in pairs.items()})
            for found in (first, then):
                for name, value in found.items():
                    results[name].append(value)
    return results


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    """Check dtypes, shapes and values of one case's results."""
    for one, other in zip(ours, theirs, strict=True):
        pairs = zip(one, other, strict=True) if isinstance(other, list) else [(one, other)]
        for mine, wanted in pairs:
            assert np.asarray(mine).dtype == np.asarray(wanted).dtype
            assert np.shape(mine) == np.shape(wanted)
            np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=1e-6)


def error_of(tf: Any, program: Callable[[Any], Any]) -> tuple[str, str]:
    """Return class and text of the error that a program raises, with its graph or its runs.

    program: builds a graph, and may return (fetches, feeds by placeholder). Of a failed check, the
    text is the line that TensorFlow's kernel writes.
    """
    try:
        with tf.Graph().as_default(), tf.Session() as session:
            made = program(tf)
            if made is not None:
                session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
                session.run(*made)
    except Exception as error:
        lines = str(error).splitlines()
        failed = [line for line in lines if line.startswith("assertion failed")]
        return type(error).__name__, failed[0] if failed else str(error)
    return "", ""
