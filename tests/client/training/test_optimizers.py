"""Optimizers against TensorFlow's: the same few steps with both modules leave the same variables
and slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1

OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "gradient descent": lambda t, step: t.GradientDescentOptimizer(0.1),
    "momentum": lambda t, step: t.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda t, step: t.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda t, step: t.AdagradOptimizer(0.1),
    "adadelta": lambda t, step: t.AdadeltaOptimizer(1.0),
    "rmsprop": lambda t, step: t.RMSPropOptimizer(0.01, momentum=0.5),
    "centered rmsprop": lambda t, step: t.RMSPropOptimizer(0.01, centered=True),
    "adam": lambda t, step: t.AdamOptimizer(0.01),
    "ftrl": lambda t, step: t.FtrlOptimizer(
        0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01
    ),
    "proximal gradient descent": lambda t, step: t.ProximalGradientDescentOptimizer(
        0.1, l1_regularization_strength=0.01
    ),
    "proximal adagrad": lambda t, step: t.ProximalAdagradOptimizer(
        0.1, l2_regularization_strength=0.01
    ),
    "adagrad da": lambda t, step: t.AdagradDAOptimizer(0.1, step, l1_regularization_strength=0.01),
}


def trained(
    m: Any, make: Callable[[Any, Any], Any], resource: bool, sparse: bool
) -> dict[str, np.ndarray]:
    """All variables after three steps, by name."""
    graph = m.Graph()
    with graph.as_default():
        table = m.get_variable(
            "table",
            initializer=np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3),
            use_resource=resource,
        )
        bias = m.get_variable(
            "bias", initializer=np.array([0.1, -0.2, 0.3], "f4"), use_resource=resource
        )
        rows = m.gather(table, [1, 3, 1]) if sparse else table
        loss = m.reduce_mean(m.square(m.tanh(rows + bias) - 0.3))
        step = m.train.get_or_create_global_step()
        optimizer = make(m.train, step)
        train = optimizer.minimize(loss, global_step=step)
        assert train in graph.get_collection(m.GraphKeys.TRAIN_OP)
        slots = sorted(optimizer.get_slot_names())
        variables = m.global_variables()
        with m.Session(graph=graph) as session:
            session.run(m.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            values = dict(zip([v.name for v in variables], session.run(variables), strict=True))
    values["slots"] = np.array(slots)
    return values


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_three_steps(
    name: str, resource: bool, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By references: programs/test_training.py has the same updates compiled."""
    monkeypatch.setenv("TFJIT_JIT", "off")
    expected = trained(tf1, OPTIMIZERS[name], resource, sparse)
    got = trained(tfjit, OPTIMIZERS[name], resource, sparse)
    assert sorted(got) == sorted(expected)
    for key, value in expected.items():
        if value.dtype.kind == "U":
            np.testing.assert_array_equal(got[key], value)
        else:
            np.testing.assert_allclose(got[key], value, rtol=2e-4, atol=2e-6, err_msg=key)


def test_compute_then_apply() -> None:
    with tfjit.Graph().as_default():
        v, w = tfjit.get_variable("v", initializer=2.0), tfjit.get_variable("w", initializer=3.0)
        optimizer = tfjit.train.GradientDescentOptimizer(1.0)
        pairs = optimizer.compute_gradients(v * v, [v, w])
        assert pairs[1] == (None, w)
        train = optimizer.apply_gradients(
            [(tfjit.clip_by_value(g, -1.0, 1.0), x) for g, x in pairs if g is not None]
        )
        with tfjit.Session() as session:
            session.run(tfjit.global_variables_initializer())
            session.run(train)
            assert session.run([v, w]) == [1.0, 3.0]


def test_constraint_and_slots() -> None:
    with tfjit.Graph().as_default():
        v = tfjit.get_variable(
            "v",
            initializer=np.ones(2, "f4"),
            constraint=lambda x: tfjit.clip_by_value(x, 0.9, 1.0),
            use_resource=True,
        )
        optimizer = tfjit.train.MomentumOptimizer(1.0, 0.5)
        train = optimizer.minimize(tfjit.reduce_sum(v))
        assert optimizer.get_slot(v, "momentum").op.name == "v/Momentum"
        assert optimizer.get_slot(v, "nothing") is None
        assert [x.op.name for x in optimizer.variables()] == ["v/Momentum"]
        with tfjit.Session() as session:
            session.run(tfjit.global_variables_initializer())
            session.run(train)
            np.testing.assert_allclose(session.run(v), [0.9, 0.9])


def test_gates_give_the_same() -> None:
    for gate in (0, 1, 2):
        with tfjit.Graph().as_default():
            v = tfjit.get_variable("v", initializer=2.0)
            train = tfjit.train.GradientDescentOptimizer(0.5).minimize(v * v, gate_gradients=gate)
            with tfjit.Session() as session:
                session.run(tfjit.global_variables_initializer())
                session.run(train)
                assert session.run(v) == 0.0


def test_errors() -> None:
    with tfjit.Graph().as_default():
        optimizer = tfjit.train.GradientDescentOptimizer(1.0)
        with pytest.raises(ValueError, match="No variables to optimize"):
            optimizer.minimize(tfjit.constant(1.0))
        v = tfjit.get_variable("v", initializer=2.0)
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            optimizer.minimize(tfjit.constant(1.0), var_list=[v])
        with pytest.raises(ValueError, match="No variables provided"):
            optimizer.apply_gradients([])
        with pytest.raises(TypeError, match="Gradient must be a Tensor"):
            optimizer.apply_gradients([(1.0, v)])
        with pytest.raises(ValueError, match="gate_gradients must be one of"):
            optimizer.compute_gradients(v * v, gate_gradients=7)
        with pytest.raises(ValueError, match="Invalid type"):
            optimizer.compute_gradients(tfjit.constant(1), var_list=[v])
        with pytest.raises(ValueError, match="initial_accumulator_value must be positive"):
            tfjit.train.AdagradOptimizer(0.1, initial_accumulator_value=0.0)
