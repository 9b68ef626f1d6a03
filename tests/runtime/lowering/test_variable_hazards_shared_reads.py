"""What a read of a reference variable shows of writes: in TensorFlow it shares the variable's
memory, here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


def variable(use_resource: bool = False) -> Any:
    return tf1.get_variable("v", initializer=[1.0, 2.0], use_resource=use_resource)


def after_assign(v: Any) -> Any:
    with tf1.control_dependencies([v.assign([5.0, 6.0])]):
        return v + 0.0


def identity_after_add(v: Any) -> Any:
    with tf1.control_dependencies([v.assign_add([1.0, 1.0])]):
        return tf.identity(v)


def new_minus_read(v: Any) -> Any:
    return v.assign_add([1.0, 1.0]) - v


def own_value_before(v: Any) -> Any:
    old = v * 1.0  # a value of its own, whatever it is multiplied by
    with tf1.control_dependencies([old]):
        change = v.assign_add([1.0, 1.0])
    with tf1.control_dependencies([change]):
        return old + v


def reads_between_writes(v: Any) -> Any:
    with tf1.control_dependencies([v.assign_add([1.0, 1.0])]):
        first = tf.identity(v) * 1.5
    with tf1.control_dependencies([first]):
        change = v.assign_add([10.0, 10.0])
    with tf1.control_dependencies([change]):
        return [first, tf.identity(v)]


def fetched_beside_a_write(v: Any) -> Any:
    return [tf.identity(v), v, v.assign_add([1.0, 1.0])]


def rows_after_scatter(v: Any) -> Any:
    with tf1.control_dependencies([tf1.scatter_add(v, [0], [10.0])]):
        return [tf.gather(v, [1, 0]), tf.reshape(v, [2, 1]) * 2.0]


def written_by_its_read(v: Any) -> Any:
    twice = v * 2.0
    with tf1.control_dependencies([v.assign(twice)]):
        return v * twice


def snapshot_before_a_write(v: Any) -> Any:
    """A Snapshot copies, where the other identities give the variable's memory."""
    reference = v._ref()
    kept = tf.raw_ops.Snapshot(input=reference)
    shown = tf.raw_ops.PreventGradient(input=reference)
    with tf1.control_dependencies([kept, shown]):
        change = v.assign_add([1.0, 1.0])
    with tf1.control_dependencies([change]):
        return [kept + 0.0, shown + 0.0]


PROGRAMS: list[Callable[[Any], Any]] = [
    after_assign,
    identity_after_add,
    new_minus_read,
    own_value_before,
    reads_between_writes,
    fetched_beside_a_write,
    rows_after_scatter,
    written_by_its_read,
    snapshot_before_a_write,
]


@pytest.mark.parametrize("how", ["straight line", "compiled", "dataflow executor"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_reference_variables(
    program: Callable[[Any], Any], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "dataflow executor":
        monkeypatch.setenv("TFJIT_DISABLE", "straight_line")
    if how == "compiled":
        monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = tf1.Graph()
    with graph.as_default():
        fetches = program(variable())
        init = tf1.global_variables_initializer()
    found = []
    for make in (tf1.Session, tfjit.Session):
        with make(graph=graph) as session:
            session.run(init)
            found.append([session.run(fetches) for _ in range(4)])
    for ours, theirs in zip(found[1], found[0], strict=True):
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
        for a, b in pairs:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", ["straight line", "dataflow executor"])
def test_a_read_of_a_resource_variable_is_a_value(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "dataflow executor":
        monkeypatch.setenv("TFJIT_DISABLE", "straight_line")
    graph = tf1.Graph()
    with graph.as_default():
        v = variable(use_resource=True)
        old = v.read_value()
        with tf1.control_dependencies([old]):
            change = v.assign_add([1.0, 1.0], read_value=False)
        with tf1.control_dependencies([change]):
            both = [old + 0.0, v.read_value()]
        init = tf1.global_variables_initializer()
    found = []
    for make in (tf1.Session, tfjit.Session):
        with make(graph=graph) as session:
            session.run(init)
            found.append([session.run(both) for _ in range(3)])
    np.testing.assert_array_equal(found[1], found[0])
