"""Gradients of functions that call others, several times, in branches and loops, to any order,
against TensorFlow.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1

import tfjit


@pytest.fixture(autouse=True)
def control_flow_v2() -> Iterator[None]:
    on = tf1.control_flow_v2_enabled()
    for api in (tf1, tfjit):
        api.enable_control_flow_v2()
    yield
    tfjit.disable_control_flow_v2()
    if not on:
        tf1.disable_control_flow_v2()


def function(api: Any) -> Callable[[Any], Any]:
    return tfjit.function if api is tfjit else (lambda body: tf.function(body, autograph=False))


def twice(api: Any) -> Any:
    inner = function(api)(lambda x: api.sin(x) * x)
    return function(api)(lambda x: inner(x) + inner(x * 2.0))


def of_itself(api: Any) -> Any:
    inner = function(api)(lambda x: api.sin(x) * x)
    return function(api)(lambda x: inner(inner(x)) * inner(x))


def three_deep(api: Any) -> Any:
    inner = function(api)(lambda x: api.sin(x) * x)
    middle = function(api)(lambda x: inner(x) * inner(x + 1.0))
    return function(api)(lambda x: middle(x) + middle(x * x) + inner(x))


def in_branches(api: Any) -> Any:
    inner = function(api)(lambda x: x * x * x)
    return function(api)(
        lambda x: api.cond(x > 1.0, lambda: inner(x) + inner(x + 1.0), lambda: inner(2.0 * x))
    )


def in_a_loop(api: Any) -> Any:
    inner = function(api)(lambda x: x * api.cos(x))

    def outer(x: Any) -> Any:
        return api.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, inner(a) + inner(a * 0.5)), [0, x]
        )[1]

    return function(api)(outer)


def with_a_variable(api: Any) -> Any:
    v = api.get_variable("v", initializer=2.0, use_resource=True)
    inner = function(api)(lambda x: x * x * v * v)
    return function(api)(lambda x: inner(x) + inner(x * x))


def with_a_captured_tensor(api: Any) -> Any:
    w = api.constant(3.0) * 0.5
    inner = function(api)(lambda x: x * x * w)
    return function(api)(lambda x: inner(x) * inner(x * x))


PROGRAMS = (
    twice,
    of_itself,
    three_deep,
    in_branches,
    in_a_loop,
    with_a_variable,
    with_a_captured_tensor,
)


def derivatives(api: Any, program: Callable[[Any], Any]) -> Any:
    """The value, and the first two derivatives."""
    with api.Graph().as_default():
        outer = program(api)
        x = api.constant(1.5)
        values = [outer(x)]
        for _ in range(2):
            values += api.gradients(values[-1], x)
        with api.Session() as session:
            session.run(api.global_variables_initializer())
            return session.run(values)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_two_derivatives(program: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(derivatives(tfjit, program), derivatives(tf1, program), rtol=1e-4)
