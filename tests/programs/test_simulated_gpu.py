"""Real graphs on a simulated GPU:0 give TensorFlow's values."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit as tf
from tests.kernels.cuda.linked import resources
from tests.kernels.cuda.texts import need_numba_cuda
from tests.programs.graphs_on_gpu import SOFT, mobilenet, on_gpu, programs
from tests.simulated_gpu import simulated_gpu
from tfjit.demo.digits import IMAGES, LOGITS, PROBS, load_data, load_graph
from tfjit.kernels.registry import Unsupported
from tfjit.protos import GraphDef, SavedModel
from tfjit.runtime.offload import graph_form
from tfjit.runtime.offload.device_program import DeviceProgram


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def test_digits() -> None:
    """Convolutions, pooling, products and softmax are one program."""
    data = load_data()
    images = data["test_images"][:2]
    with tf.Session(graph=on_gpu(load_graph()), config=SOFT) as session:
        for _ in range(2):
            logits, probs = session.run([LOGITS, PROBS], {IMAGES: images})
            np.testing.assert_allclose(logits, data["test_logits"][:2], atol=1e-4)
            np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-5)
            assert session.wait_until_compiled(300)
        text = programs(session, [LOGITS, PROBS], {IMAGES: images.shape})
    assert text.count("launches") == 1 and "by the host" not in text


def test_lstm_of_a_v1_loop(data_dir: Path) -> None:
    """The loop of three iterations is one program with the transposes around it."""
    graph = GraphDef.FromString((data_dir / "lstm_v1_loop.pb").read_bytes())
    with np.load(data_dir / "lstm_v1_loop.npz") as file:
        x, expected = file["x"][:2, :3], file["y"][:2, :3]
    with tf.Session(graph=on_gpu(graph, ("Placeholder", "Const")), config=SOFT) as session:
        for _ in range(2):
            np.testing.assert_allclose(session.run("y:0", {"x:0": x}), expected, atol=1e-5)
            assert session.wait_until_compiled(300)
        text = programs(session, "y:0", {"x:0": x.shape})
    assert text.count("launches") == 1 and "14 launches" in text
    assert "MatMul: product 16x32x16 float32, 3 times" in text


def test_mobilenet(data_dir: Path) -> None:
    """All 53 convolutions with their epilogues, the mean and the classifier are one program."""
    graph, feed, fetch = mobilenet(data_dir, 32)
    with np.load(data_dir / "mobilenet_v2.npz") as file:
        images = file["images"][:1, :32, :32]
    theirs = tensorflow.Graph()
    with theirs.as_default():
        known = tensorflow.compat.v1.GraphDef.FromString(graph.SerializeToString())
        tensorflow.import_graph_def(known, name="")
    with tensorflow.compat.v1.Session(graph=theirs) as session:
        expected = session.run(fetch, {feed: images})
    with tf.Session(graph=on_gpu(graph), config=SOFT) as session:
        for _ in range(2):
            found = session.run(fetch, {feed: images})
            np.testing.assert_allclose(found, expected, rtol=1e-5)
            assert session.wait_until_compiled(300)
        text = programs(session, fetch, {feed: images.shape})
    assert text.count("launches") == 1 and "by the host" not in text
    assert "58 launches" in text


def test_mobilenet_at_full_size_compiles(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node at 224 x 224 has a kernel; sm_90 takes one of each kind without spilling."""
    need_numba_cuda()
    made = []

    class Lowered(DeviceProgram):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append((self.launches, self.sources))
            raise Unsupported("it is only lowered")

    monkeypatch.setattr(graph_form, "DeviceProgram", Lowered)
    graph, feed, fetch = mobilenet(data_dir, 224)
    with tf.Session(graph=on_gpu(graph), config=SOFT) as session:
        session.run(fetch, {feed: np.zeros((1, 224, 224, 3), np.float32)})
        text = programs(session, fetch, {feed: (1, 224, 224, 3)})
    assert text.count("it is only lowered") == 1
    ((launches, sources),) = made
    assert launches >= 55 > len(sources)
    kinds = {source.title.split()[0]: source for source in sources}
    assert set(kinds) == {"product", "fma", "vector", "reduce", "rows", "sum"}
    assert all(found.local_bytes == 0 for found in resources(list(kinds.values())))


def test_lstm_saved_model(data_dir: Path, tmp_path: Path) -> None:
    """Two loops of functions and the layers around them are one program."""
    folder = shutil.copytree(data_dir / "lstm_saved_model", tmp_path / "model")
    model = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    for function in model.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if node.op != "Const":
                node.device = "/device:GPU:0"
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    with np.load(data_dir / "lstm_saved_model.npz") as file:
        x, expected = file["inputs"][:2], file["outputs"][:2]
    with tf.Graph().as_default(), tf.Session(config=SOFT) as session:
        with tf.device("/device:GPU:0"):
            loaded = tf.saved_model.load(session, ["serve"], str(folder))
        signature = loaded.signature_def["serving_default"]
        (feed,), (fetch,) = signature.inputs.values(), signature.outputs.values()
        for _ in range(2):
            np.testing.assert_allclose(session.run(fetch.name, {feed.name: x}), expected, rtol=1e-4)
            assert session.wait_until_compiled(300)
        text = programs(session, fetch.name, {feed.name: x.shape})
    assert text.count("launches") == 1 and "by the host" not in text and "Softmax 1" in text
    assert text.count("product 16x32x16 float32, 20 times") == 2  # the cells of LSTM and GRU


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
                assert session.wait_until_compiled(300)
        if "GPU" in device:
            text = programs(session, [loss, train], {x: x_value.shape, t: labels.shape})
            assert text.count("launches") == 1 and "15 launches" in text
            assert text.count("Adam update f32, in one launch with 2 more") == 3
        found.append(session.run(w1))  # the device's newest value
    return found


def test_a_training_step_is_one_program() -> None:
    expected, found = training("/device:CPU:0"), training("/device:GPU:0")
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


def embedding_training(device: str) -> list[np.ndarray]:
    """Return the losses of three steps of Adagrad, and the table."""
    ids_value = np.array([[1, 4, 1], [0, 6, 4]])
    with tf.Graph().as_default() as graph:
        ids = tf.placeholder(tf.int64, [2, 3])
        with tf.device(device):
            start = np.random.default_rng(3).normal(size=(7, 4)).astype(np.float32)
            table = tf.get_variable("table", initializer=start, use_resource=True)
            loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))
            train = tf.train.AdagradOptimizer(0.1).minimize(loss)
        init = tf.global_variables_initializer()
    found = []
    with tf.Session(graph=graph, config=SOFT) as session:
        session.run(init)
        for _ in range(3):
            found.append(session.run([loss, train], {ids: ids_value})[0])
            assert session.wait_until_compiled(300)
        if "GPU" in device:
            text = programs(session, [loss, train], {ids: ids_value.shape})
            assert "sparse Adagrad update" in text and "by the host" not in text
        found.append(session.run(table))
    return found


def test_training_of_an_embedding() -> None:
    found = embedding_training("/device:GPU:0")
    for one, other in zip(embedding_training("/device:CPU:0"), found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def indexed(device: str, resource: bool) -> list[np.ndarray]:
    """Return what ops by index vectors and orders give, and a variable behind its updates."""
    x_value = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 6])
        with tf.device(device):
            v = tf.get_variable("v", initializer=np.ones((5, 6), "f4"), use_resource=resource)
            picked = tf.gather_nd(x, tf.constant([[0, 1], [3, 5], [2, 2]], tf.int64))
            results = [
                *tf.nn.top_k(tf.tanh(x), 2),
                tf.scatter_nd(tf.constant([[1], [1], [0]], tf.int64), picked, [3]),
                tf.nn.in_top_k(x, tf.constant([0, 1, 2, 3]), 2),
            ]
            update = tf.scatter_mul(v, tf.constant([1, 1, 4, 0], tf.int64), x)
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph, config=SOFT) as session:
        session.run(init)
        for _ in range(3):
            found = session.run([*results, update.op], {x: x_value})[:-1]
            assert session.wait_until_compiled(300)
        if "GPU" in device:
            text = programs(session, [*results, update.op], {x: x_value.shape})
            assert text.count("launches") == 1 and "by the host" not in text
        return [*found, session.run(v)]


@pytest.mark.parametrize("resource", [False, True])
def test_ops_by_index_are_one_program(resource: bool) -> None:
    expected, found = (indexed(f"/device:{kind}:0", resource) for kind in ("CPU", "GPU"))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


def lstm_training(device: str) -> list[np.ndarray]:
    """Return losses and states of steps that train an LSTM, and a weight."""
    rng = np.random.default_rng(3)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3, 4])
        with tf.device(device):
            cell = tf.nn.rnn_cell.LSTMCell(16, initializer=tf.constant_initializer(0.1))
            outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
            loss = tf.reduce_sum(tf.square(outputs))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf.global_variables_initializer()
    found = []
    with tf.Session(graph=graph, config=SOFT) as session:
        session.run(init)
        for step in range(3):
            feeds = {x: rng.normal(size=(2, 3, 4)).astype(np.float32)}
            found += session.run([loss, outputs, train], feeds)[:2]
            if step == 0:
                assert session.wait_until_compiled(300)
        if "GPU" in device:
            text = programs(session, [loss, outputs, train], {x: (2, 3, 4)})
            assert text.count("launches") == 1 and "While 2" in text
        return [*found, session.run(cell.trainable_weights[0])]


def test_a_training_step_through_time_is_one_program() -> None:
    """The loop, its gradient's loop and the updates are one program."""
    expected, found = lstm_training("/device:CPU:0"), lstm_training("/device:GPU:0")
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


def neighbouring_attentions(device: str) -> list[np.ndarray]:
    """Return a chain of products and softmaxes, and attention of attention.

    A product of the chain could end one attention and begin the next; so could the transpose.
    """
    rng = np.random.default_rng(3)
    x_value = rng.normal(size=(9, 16)).astype(np.float32)
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, x_value.shape)
        with tf.device(device):
            chain = x
            for _ in range(5):
                weights = tf.constant(rng.normal(size=(16, 16)).astype(np.float32))
                chain = tf.nn.softmax(tf.matmul(chain, weights))
            scores = tf.matmul(x, x, transpose_b=True) * 0.3
            inner = tf.transpose(tf.matmul(tf.nn.softmax(scores), x))
            outer = tf.matmul(tf.nn.softmax(tf.matmul(inner, x)), x, transpose_b=True)
    with tf.Session(graph=graph, config=SOFT) as session:
        for _ in range(2):
            found = session.run([chain, outer], {x: x_value})
            assert session.wait_until_compiled(300)
        if "GPU" in device:
            text = programs(session, [chain, outer], {x: x_value.shape})
            assert text.count("launches") == 1 and "by the host" not in text
            assert text.count(": attention") == 4
    return list(found)


def test_attentions_that_could_share_a_node() -> None:
    expected, found = (neighbouring_attentions(f"/device:{kind}:0") for kind in ("CPU", "GPU"))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
