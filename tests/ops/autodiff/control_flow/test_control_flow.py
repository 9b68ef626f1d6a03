"""Gradients through tfjit's own conditionals and loops: the same program built with TensorFlow
gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.ops.differentiable_programs import PROGRAMS, Program, loop, trained

tf1 = tf.compat.v1


@pytest.fixture(scope="module", autouse=True)
def references() -> Iterator[None]:
    """Loops of the front end and their gradients are compiled in client/rnn/test_rnn.py: here the
    compiler would only work behind runs that do not wait for it.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        yield


@pytest.fixture(autouse=True)
def old_control_flow() -> Iterator[None]:
    tf1.disable_control_flow_v2()
    yield
    tf1.enable_control_flow_v2()


def run(m: Any, program: Program, unknown: bool) -> list[np.ndarray]:
    """The value and the gradients by both inputs, for a predicate that holds and one
    that does not.
    """
    graph = m.Graph()
    with graph.as_default():
        shape = [None] if unknown else [3]
        x, p = m.placeholder(m.float32, shape), m.placeholder(m.float32, shape)
        y = program(m, x, p)
        found = m.gradients(y, [x, p])
        fetches = [y, *(m.constant(-77.0) if g is None else m.convert_to_tensor(g) for g in found)]
        with m.Session(graph=graph) as session:
            runs = [
                session.run(fetches, {x: [0.4, 0.6, 0.8], p: values})
                for values in ([0.3, 0.5, 0.7], [-0.3, -0.5, -0.7])
            ]
    return [value for values in runs for value in values]


@pytest.mark.parametrize("unknown", [False, True], ids=["known shapes", "unknown shapes"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients(name: str, unknown: bool) -> None:
    expected = run(tf1, PROGRAMS[name], unknown)
    for ours, theirs in zip(run(tfjit, PROGRAMS[name], unknown), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_dataflow_executor_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stacks, frames and dead values themselves, not what the passes make of them."""
    monkeypatch.setenv("TFJIT_DISABLE", "functionalize,straight_line")
    for name in ("conditional in a loop", "loop in a loop", "loop in a conditional", "scan"):
        expected = run(tf1, PROGRAMS[name], True)
        for ours, theirs in zip(run(tfjit, PROGRAMS[name], True), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=name)


def test_training_through_a_loop() -> None:
    """A recurrent network's weights: three steps leave the same in both."""
    rng = np.random.default_rng(5)
    data, start = (
        rng.normal(size=(6, 4, 3)).astype("f4"),
        rng.normal(size=(5, 2)).astype("f4") * 0.5,
    )
    np.testing.assert_allclose(
        trained(tfjit, data, start), trained(tf1, data, start), rtol=1e-4, atol=1e-6
    )


def test_second_derivatives_of_a_loop_are_refused() -> None:
    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.float32, [3])
        first = tfjit.gradients(loop(tfjit, 3, lambda i, h: [h * x], x)[0], x)
        with pytest.raises(TypeError, match="Second-order gradient for while loops not supported"):
            tfjit.gradients(first, x)


VARIABLES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "both branches": lambda m, p, v, w: m.cond(p, lambda: v * 2.0 * w, lambda: v * 3.0),
    "one branch": lambda m, p, v, w: m.cond(p, lambda: m.reduce_sum(v * w), lambda: 3.0),
    "rows": lambda m, p, v, w: m.cond(
        p, lambda: m.gather(v, [0, 1]), lambda: m.gather(v, [2, 2]) * w
    ),
    "in a branch": lambda m, p, v, w: m.cond(
        p, lambda: m.cond(m.logical_not(p), lambda: v * 2.0, lambda: v * v * w), lambda: v * 3.0
    ),
    "in a loop": lambda m, p, v, w: loop(
        m,
        3,
        lambda i, h: [m.cond(m.equal(i, 1), lambda: h * v * w, lambda: h + v)],
        m.ones([3, 2]),
    )[0],
}


@pytest.mark.parametrize("name", VARIABLES)
def test_resource_variables_that_a_branch_reads(name: str) -> None:
    def run(m: Any) -> list[np.ndarray]:
        with m.Graph().as_default():
            v, w = (
                m.Variable(value, use_resource=True)
                for value in ([[2.0, 3.0], [4.0, 5.0], [1.0, 2.0]], [1.5, -2.0])
            )
            p = m.placeholder_with_default(True, [])
            y = VARIABLES[name](m, p, v, w)
            found = [
                m.constant(-77.0) if g is None else m.convert_to_tensor(g)
                for g in m.gradients(y, [v, w])
            ]
            with m.Session() as session:
                session.run(m.global_variables_initializer())
                runs = [session.run([y, *found], {p: taken}) for taken in (True, False)]
        return [value for values in runs for value in values]

    for ours, theirs in zip(run(tfjit), run(tf1), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
