"""Checks of numbers on a GPU: parts of programs, with TensorFlow's errors and order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.contract.worlds import essence
from tests.simulated_gpu import simulated_gpu

v1 = tf.compat.v1
SOFT = v1.ConfigProto(allow_soft_placement=True)
GOOD = np.linspace(0.5, 2, 6, dtype=np.float32).reshape(2, 3)
BAD = {
    "NaN": np.array([[1, 2, 3], [4, -1, 6]], np.float32),
    "Inf": np.array([[1, 0, 3], [4, 5, 6]], np.float32),
    "both": np.array([[1, 0, -3], [4, 5, 6]], np.float32),
}


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def outcome(session: Any, fetches: Any, feeds: Any) -> tuple[str, Any]:
    try:
        return "value", session.run(fetches, feeds)
    except (tf.errors.OpError, tfjit.errors.OpError) as error:
        return type(error).__name__, essence(error)


@pytest.mark.parametrize("op", ["CheckNumerics", "CheckNumericsV2"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_a_program_with_a_check(op: str, dtype: Any) -> None:
    """The check and all that depends on it are in the program of the value."""
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 3])
        with tf.device("/GPU:0"):
            value = tf.math.log(tf.cast(x, dtype))
            y = tf.exp(getattr(tf.raw_ops, op)(tensor=value, message="bad logarithm"))
            with tf.control_dependencies([y]):
                z = tf.reduce_sum(value * 2)
    with (
        v1.Session(graph=graph, config=SOFT) as theirs,
        tfjit.Session(graph=graph, config=SOFT) as ours,
    ):
        for feed in (GOOD, GOOD, *BAD.values(), GOOD):
            wanted, found = (outcome(s, [y, z], {x: feed}) for s in (theirs, ours))
            assert found[0] == wanted[0]
            if wanted[0] == "value":
                for a, b in zip(found[1], wanted[1], strict=True):
                    np.testing.assert_allclose(a, b, rtol=3e-3)
            elif op == "CheckNumerics":  # the other one's words are tfjit's
                assert found[1] == wanted[1]
            assert ours.wait_until_compiled(300)
        nodes = ours.explain([y, z], {x: (2, 3)}).nodes
    (program,) = (node.group for node in nodes if node.op == "_Offload")
    assert "by the host" not in program


def test_updates_wait_for_the_checks_before_them() -> None:
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 3])
        with tf.device("/GPU:0"):
            v = v1.get_variable("v", initializer=np.ones((2, 3), np.float32), use_resource=True)
            checked = tf.debugging.check_numerics(tf.math.log(x), "log")
            by_value = v1.assign_add(v, tf.exp(checked))
            with tf.control_dependencies([tf.debugging.check_numerics(x / x, "ratio").op]):
                by_order = v1.assign_add(v, x)
            free = v1.assign_add(v, x * 0 + 1)
        init = v1.global_variables_initializer()
    infinite = np.full((2, 3), np.inf, np.float32)
    with tfjit.Session(graph=graph, config=SOFT) as session:
        session.run(init)
        for fetch, feed in ((by_value, BAD["NaN"]), (by_order, infinite)) * 3:
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(fetch.op, {x: feed})
            assert session.wait_until_compiled(300)
            np.testing.assert_array_equal(session.run(v), 1)
        session.run([by_order, free], {x: GOOD})
        np.testing.assert_allclose(session.run(v), 2 + GOOD)


def test_checks_of_a_whole_graph() -> None:
    """Each check of `add_check_numerics_ops` waits for the one before it."""
    with v1.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 3])
        with tf.device("/GPU:0"):
            y = tf.reduce_sum(tf.sqrt(tf.math.log(x)) * 2.0)
            done = v1.add_check_numerics_ops()
    with tfjit.Session(graph=graph, config=SOFT) as session:
        for _ in range(2):
            session.run([y, done], {x: GOOD + 1})
            assert session.wait_until_compiled(300)
            with pytest.raises(tf.errors.InvalidArgumentError, match="Log:0"):
                session.run([y, done], {x: BAD["NaN"]})
        nodes = session.explain([y, done], {x: (2, 3)}).nodes
        assert sum(node.op == "_Offload" for node in nodes) == 1
