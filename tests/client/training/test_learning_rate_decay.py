"""Learning rates against TensorFlow's: the same nodes, the same rates at each step."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import nodes, same_graph, switches_and_merges

tf1 = tensorflow.compat.v1

STEPS = (0, 1, 4, 5, 6, 12, 31)


def schedules(tf: Any, step: Any) -> dict[str, Any]:
    """Return rates of each schedule with several arguments, noise left out."""
    train = tf.train
    made = {}
    for name in ("exponential", "natural_exp", "inverse_time"):
        decay = getattr(train, f"{name}_decay")
        made[name] = decay(0.5, step, 5, 0.8)
        made[name + " stairs"] = decay(0.5, step, 5, 0.8, staircase=True, name="stairs")
    made["exponential tensor"] = train.exponential_decay(
        tf.constant(0.5, tf.float64), step, tf.constant(5), tf.constant(0.8, tf.float64)
    )
    made["polynomial"] = train.polynomial_decay(0.5, step, 10)
    made["polynomial 2"] = train.polynomial_decay(0.5, step, 10, 0.01, power=0.5)
    made["polynomial cycle"] = train.polynomial_decay(0.5, step, 5, 0.1, 2.0, cycle=True)
    made["cosine"] = train.cosine_decay(0.5, step, 10)
    made["cosine alpha"] = train.cosine_decay(0.5, step, 10, alpha=0.1, name="alpha")
    made["restarts"] = train.cosine_decay_restarts(0.5, step, 5)
    made["restarts even"] = train.cosine_decay_restarts(0.5, step, 5, 1.0, 0.7, 0.1)
    made["linear cosine"] = train.linear_cosine_decay(0.5, step, 10, 0.75, 0.1, 0.01)
    return made


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_rates(resource: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    rates, graphs = [], []
    for tf in (tf1, tfjit):
        graph = tf.Graph()
        with graph.as_default(), tf.Session(graph=graph) as session, switches_and_merges():
            step = tf.Variable(
                0, trainable=False, name="step", dtype=tf.int64, use_resource=resource
            )
            made = schedules(tf, step)
            made["pieces"] = tf.train.piecewise_constant(step, [4, 6], [1.0, 0.5, 0.1])
            made["pieces int"] = tf.train.piecewise_constant_decay(step, [5], [3, 2], name="int")
            rates.append([])
            for value in STEPS:
                step.load(value, session)
                rates[-1].append(session.run(made))
        graphs.append(nodes(graph))
    assert graphs[1] == graphs[0]
    for expected, got in zip(*rates, strict=True):
        for name, value in expected.items():
            assert got[name].dtype == value.dtype, name
            np.testing.assert_allclose(got[name], value, rtol=3e-6, atol=1e-7, err_msg=name)


def test_noise() -> None:
    """The values are those of another generator."""

    def program(tf: Any) -> None:
        tf.set_random_seed(3)
        tf.train.noisy_linear_cosine_decay(0.5, tf.placeholder(tf.float32, ()), 10, alpha=0.1)

    same_graph(program)
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        step = tfjit.placeholder(tfjit.int32, ())
        rate = tfjit.train.noisy_linear_cosine_decay(0.5, step, 10, variance_decay=20.0)
        plain = tfjit.train.linear_cosine_decay(0.5, step, 10)
        first = {float(session.run(rate, {step: 0})) for _ in range(3)}
        assert len(first) == 3
        late = session.run([rate, plain], {step: 9})
        np.testing.assert_allclose(late[0], late[1], atol=1e-6)


def test_errors_of_pieces() -> None:
    messages = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            pieces = functools.partial(tf.train.piecewise_constant, tf.constant(1))
            raised = []
            for arguments in (([1.5], [1.0, 2.0]), ([1], [1.0, 2]), ([1, 2], [1.0, 2.0])):
                with pytest.raises(ValueError) as error:
                    pieces(*arguments)
                raised.append(str(error.value))
            messages.append(raised)
    assert messages[1] == messages[0]
