"""Training steps beside TensorFlow: every optimizer on reference and on resource variables, what
serves them, and concurrent updates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
BATCH = 17

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda lr: tf1.train.GradientDescentOptimizer(lr),
    "momentum": lambda lr: tf1.train.MomentumOptimizer(lr, 0.9),
    "nesterov": lambda lr: tf1.train.MomentumOptimizer(lr, 0.9, use_nesterov=True),
    "adam": lambda lr: tf1.train.AdamOptimizer(0.1 * lr),
    "rmsprop": lambda lr: tf1.train.RMSPropOptimizer(0.1 * lr, momentum=0.5),
    "centred rmsprop": lambda lr: tf1.train.RMSPropOptimizer(0.1 * lr, momentum=0.5, centered=True),
    "adagrad": lambda lr: tf1.train.AdagradOptimizer(lr),
    "adadelta": lambda lr: tf1.train.AdadeltaOptimizer(20 * lr),
    "ftrl": lambda lr: tf1.train.FtrlOptimizer(
        lr, l1_regularization_strength=0.001, l2_regularization_strength=0.01
    ),
    "ftrl with another power": lambda lr: tf1.train.FtrlOptimizer(lr, learning_rate_power=-0.6),
}


def make_graph(optimizer: str, resource: bool) -> tf.Graph:
    """x [17, 12], labels [17] -> loss; two dense layers, a learning rate that decays with the step,
    weights of several sizes.
    """
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [BATCH, 12], name="x")
        labels = tf1.placeholder(tf.int32, [BATCH], name="labels")
        rng = np.random.default_rng(1)

        def variable(name: str, *shape: int) -> Any:
            value = (rng.standard_normal(shape) / 4).astype(np.float32)
            return tf1.get_variable(name, initializer=value, use_resource=resource)

        hidden = tf.nn.relu(tf.matmul(x, variable("w0", 12, 33)) + variable("b0", 33))
        logits = tf.matmul(hidden, variable("w1", 33, 5)) + variable("b1", 5)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            name="loss",
        )
        step = tf1.get_variable(
            "step", initializer=np.int64(0), trainable=False, use_resource=resource
        )
        rate = tf1.train.exponential_decay(0.1, step, 10, 0.9)
        OPTIMIZERS[optimizer](rate).minimize(loss, global_step=step, name="train")
        tf1.global_variables_initializer()
    return graph


def feeds(rng: np.random.Generator) -> dict[str, np.ndarray]:
    labels = rng.integers(0, 5, BATCH).astype(np.int32)
    x = rng.standard_normal((BATCH, 12)).astype(np.float32)
    x[np.arange(BATCH), labels] += 2
    return {"x:0": x, "labels:0": labels}


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize(
    "optimizer", OPTIMIZERS, ids=[name.replace(" ", "_") for name in OPTIMIZERS]
)
def test_fifty_steps_beside_tensorflow(
    optimizer: str, resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    graph = make_graph(optimizer, resource)
    variables = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    rng = np.random.default_rng(3)
    losses = []
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        theirs.run("init")
        ours.run("init")
        for _ in range(50):
            batch = feeds(rng)
            wanted, _ = theirs.run(["loss:0", "train"], batch)
            found, _ = ours.run(["loss:0", "train"], batch)
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-6)
            losses.append(wanted)
        for variable in variables:
            np.testing.assert_allclose(
                ours.run(variable),
                theirs.run(variable),
                rtol=1e-3,
                atol=2e-5,
                err_msg=variable.name,
            )
        explanation = ours.explain(
            ["loss:0", "train"], {name: value.shape for name, value in batch.items()}
        )
        assert [
            (n.name, n.op, n.reason)
            for n in explanation.nodes
            if n.serving in ("reference", "runtime", "copy", "dataflow") and n.op != "_Offload"
        ] == []
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


ROWS_ALONE = {
    **{name: make for name, make in OPTIMIZERS.items() if name != "ftrl with another power"},
    "proximal descent": lambda lr: tf1.train.ProximalGradientDescentOptimizer(lr, 0.01, 0.02),
    "proximal adagrad": lambda lr: tf1.train.ProximalAdagradOptimizer(
        lr, l1_regularization_strength=0.01
    ),
    "adagrad da": lambda lr: tf1.train.AdagradDAOptimizer(
        lr, tf1.train.get_or_create_global_step(), l1_regularization_strength=0.01
    ),
}


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize(
    "optimizer", ROWS_ALONE, ids=[name.replace(" ", "_") for name in ROWS_ALONE]
)
def test_embeddings_beside_tensorflow(
    optimizer: str, resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are updated as they come, repeated ones too, by compiled code alone."""
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = tf.Graph()
    with graph.as_default():
        words = tf1.placeholder(tf.int64, [BATCH], name="words")
        users = tf1.placeholder(tf.int32, [BATCH], name="users")
        rng = np.random.default_rng(1)
        variables = [
            tf1.get_variable(
                name, initializer=rng.standard_normal(shape).astype("f4"), use_resource=resource
            )
            for name, shape in (("wide", (11, 6)), ("bias", (9,)))
        ]
        rows, bias = tf.gather(variables[0], words), tf.gather(variables[1], users)
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) + bias - 1.0), name="loss")
        rule = ROWS_ALONE[optimizer](0.1)
        # Without the sums over repeated rows, whose number no graph knows.
        rule._create_slots(variables)
        rule._prepare()
        gradients = tf.gradients(loss, variables)
        suffix = "_duplicate_indices" if optimizer == "sgd" else ""
        apply = getattr(rule, f"{'_resource' if resource else ''}_apply_sparse{suffix}")
        updates = [
            apply(found.values, variable, found.indices) if resource else apply(found, variable)
            for found, variable in zip(gradients, variables)
        ]
        tf.group(*updates, name="train")
        tf1.global_variables_initializer()
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        theirs.run("init")
        ours.run("init")
        rng = np.random.default_rng(2)
        for _ in range(6):
            batch = {"words:0": rng.integers(0, 11, BATCH), "users:0": rng.integers(0, 9, BATCH)}
            found, wanted = (s.run(["loss:0", "train"], batch)[0] for s in (ours, theirs))
            np.testing.assert_allclose(found, wanted, rtol=1e-4)
        for found, wanted in zip(ours.run(variables), theirs.run(variables)):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        shapes = {name: value.shape for name, value in batch.items()}
        assert [
            (n.name, n.op, n.reason)
            for n in ours.explain(["loss:0", "train"], shapes).nodes
            if n.serving in ("reference", "runtime", "copy", "dataflow") and n.op != "_Offload"
        ] == []


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_a_read_that_an_update_must_follow_or_precede(
    resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control edges decide what a read sees, compiled or not; nothing is copied where nothing needs
    the old value.
    """
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = tf.Graph()
    with graph.as_default():
        v = tf1.get_variable(
            "v", initializer=np.arange(40, dtype=np.float32), use_resource=resource
        )
        before = tf.identity(v.read_value() * 1.0, name="before")
        with tf.control_dependencies([before]):
            update = tf1.assign_add(v, np.full(40, 2, np.float32))
        with tf.control_dependencies([update]):
            after = tf.identity(v.read_value() * 1.0, name="after")
        with tf.control_dependencies([after]):
            last = tf1.assign_sub(v, after * 0.5)
        with tf.control_dependencies([last]):
            tf.identity(v.read_value() + 0.0, name="end")
        tf1.global_variables_initializer()
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        theirs.run("init")
        ours.run("init")
        for _ in range(3):
            for found, wanted in zip(
                ours.run(["before:0", "after:0", "end:0"]),
                theirs.run(["before:0", "after:0", "end:0"]),
            ):
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("mode", ["eager", "off"])
def test_no_increment_is_lost_between_threads(
    resource: bool, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", mode)
    graph = tf.Graph()
    with graph.as_default():
        step = tf1.get_variable("step", initializer=np.int64(0), use_resource=resource)
        wide = tf1.get_variable(
            "wide", initializer=np.zeros(5000, np.float32), use_resource=resource
        )
        x = tf1.placeholder(tf.float32, [5000], name="x")
        tf.group(
            tf1.assign_add(step, np.int64(1), use_locking=True),
            tf1.assign_add(wide, x, use_locking=True),
            name="add",
        )
        tf1.global_variables_initializer()
    with tfjit.Session(graph=graph) as session:
        session.run("init")
        ones = np.ones(5000, np.float32)

        def work() -> None:
            for _ in range(200):
                session.run("add", {"x:0": ones})

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run("step:0") == 800
        np.testing.assert_array_equal(session.run("wide:0"), np.full(5000, 800, np.float32))


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_training_from_two_threads_stays_valid(
    resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = make_graph("adam", resource)
    with tfjit.Session(graph=graph) as session:
        session.run("init")
        losses: list[float] = []

        def work(seed: int) -> None:
            rng = np.random.default_rng(seed)
            losses.extend(session.run(["loss:0", "train"], feeds(rng))[0] for _ in range(100))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(losses) == 200
        assert np.isfinite(losses).all()
        assert np.mean(losses[-20:]) < np.mean(losses[:20])
        assert session.run("step:0") == 200
