"""Real graphs on a simulated GPU:0 give TensorFlow's values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.simulated_gpu import simulated_gpu

import tfjit as tf
from tfjit.demo.digits import IMAGES, LOGITS, PROBS, load_data, load_graph
from tfjit.protos import ConfigProto, GraphDef

SOFT = ConfigProto(allow_soft_placement=True)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def on_gpu(graph: GraphDef, host: tuple[str, ...] = ("Placeholder",)) -> GraphDef:
    for node in graph.node:
        if node.op not in host:
            node.device = "/device:GPU:0"
    return graph


def programs(session: Any, fetches: Any, shapes: Any) -> str:
    """Return the paragraphs of a run's offloaded graphs."""
    nodes = session.explain(fetches, shapes).nodes
    return "\n".join(node.group for node in nodes if node.op == "_Offload")


def test_digits() -> None:
    """Convolutions, pooling, products and softmax are one program."""
    data = load_data()
    images = data["test_images"][:2]
    with tf.Session(graph=on_gpu(load_graph()), config=SOFT) as session:
        for _ in range(2):
            logits, probs = session.run([LOGITS, PROBS], {IMAGES: images})
            np.testing.assert_allclose(logits, data["test_logits"][:2], atol=1e-4)
            np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-5)
            assert session.wait_until_compiled(60)
        text = programs(session, [LOGITS, PROBS], {IMAGES: images.shape})
    assert text.count("launches") == 1 and "by the host" not in text


def test_lstm_of_a_v1_loop(data_dir: Path) -> None:
    """The loop is the host's, each iteration a program."""
    graph = GraphDef.FromString((data_dir / "lstm_v1_loop.pb").read_bytes())
    with np.load(data_dir / "lstm_v1_loop.npz") as file:
        x, expected = file["x"][:2, :3], file["y"][:2, :3]
    with tf.Session(graph=on_gpu(graph, ("Placeholder", "Const")), config=SOFT) as session:
        for _ in range(2):
            np.testing.assert_allclose(session.run("y:0", {"x:0": x}), expected, atol=1e-5)
            assert session.wait_until_compiled(60)
        text = programs(session, "y:0", {"x:0": x.shape})
    assert "MatMul" in text and "launches" in text


def training(device: str) -> list[np.ndarray]:
    """Return the losses of ten steps of Adam."""
    rng = np.random.default_rng(3)
    x_value = rng.normal(size=(6, 8)).astype(np.float32)
    labels = rng.integers(0, 3, 6)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [6, 8])
        t = tf.placeholder(tf.int64, [6])
        with tf.device(device):
            w1 = tf.get_variable("w1", initializer=rng.normal(size=(8, 5)).astype(np.float32))
            b1 = tf.get_variable("b1", initializer=np.zeros(5, np.float32))
            w2 = tf.get_variable("w2", initializer=rng.normal(size=(5, 3)).astype(np.float32))
            logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=logits)
            loss = tf.reduce_mean(losses)
            train = tf.train.AdamOptimizer(0.1).minimize(loss)
        init = tf.global_variables_initializer()
    found = []
    with tf.Session(graph=graph, config=SOFT) as session:
        session.run(init)
        for step in range(10):
            found.append(session.run([loss, train], {x: x_value, t: labels})[0])
            if step == 2:
                assert session.wait_until_compiled(60)
        if "GPU" in device:
            text = programs(session, [loss, train], {x: x_value.shape, t: labels.shape})
            assert text.count("launches") == 1 and "Adam update" in text
        found.append(session.run(w1))  # the device's newest value
    return found


def test_a_training_step_is_one_program() -> None:
    expected, found = training("/device:CPU:0"), training("/device:GPU:0")
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
