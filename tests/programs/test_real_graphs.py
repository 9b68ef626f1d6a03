"""The real graphs, made by TensorFlow, through the whole of tfjit: values, what was fused, and
which kernels serve them.

Every graph runs in every mode: compiled, by the dataflow executor, without compilation, without
fusion, on one thread and on several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware

tf1 = tf.compat.v1

BATCH = 50
TRAIN_IMAGES = 1500


@dataclass(frozen=True)
class Mode:
    """How a graph is run: TFJIT_* variables and the steps of training that the mode is given.

    verify: whether the graph is checked after each pass, which takes longer than the passes. One of
    the modes with the same passes does.
    """

    environment: dict[str, str]
    steps: int = 20
    verify: bool = False


MODES = {
    "eager": Mode({"TFJIT_JIT": "eager"}, verify=True),
    "lazy": Mode({"TFJIT_JIT": "lazy"}, steps=100),
    "reference": Mode({"TFJIT_JIT": "off"}),
    "unfused": Mode({"TFJIT_JIT": "eager", "TFJIT_DISABLE": "fuse"}, verify=True),
    "unoptimised": Mode(
        {
            "TFJIT_JIT": "eager",
            "TFJIT_DISABLE": "fuse,fold_constants,simplify,eliminate_common_subexpressions",
        },
        verify=True,
    ),
    "dataflow": Mode({"TFJIT_JIT": "lazy", "TFJIT_DISABLE": "straight_line"}, verify=True),
    "dataflow reference": Mode({"TFJIT_JIT": "off", "TFJIT_DISABLE": "straight_line"}),
    "one thread": Mode({"TFJIT_JIT": "eager", "TFJIT_THREADS": "1"}),
    "four threads": Mode({"TFJIT_JIT": "eager", "TFJIT_THREADS": "4"}, verify=True),
    "dataflow on four threads": Mode(
        {"TFJIT_JIT": "lazy", "TFJIT_THREADS": "4", "TFJIT_DISABLE": "straight_line"}
    ),
}


@pytest.fixture(params=MODES, ids=[name.replace(" ", "_") for name in MODES])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Mode:
    chosen = MODES[request.param]
    verify = {"TFJIT_VERIFY": "1" if chosen.verify else "0"}
    for name, value in {**verify, **chosen.environment}.items():
        monkeypatch.setenv(name, value)
    return chosen


@pytest.fixture(scope="module")
def digits(demo_dir: Path) -> dict[str, np.ndarray]:
    with np.load(demo_dir / "digits.npz") as file:
        return dict(file)


def batches(digits: dict[str, np.ndarray], steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The batches of make_digits.py."""
    for i in range(steps):
        chosen = np.arange(i * BATCH, i * BATCH + BATCH) % TRAIN_IMAGES
        yield digits["train_images"][chosen], digits["train_labels"][chosen]


def assert_all_compiled(explanation: Any) -> None:
    """Every node has compiled code of the host; on a GPU, no kernel is refused."""
    if hardware.gpu_count():
        assert explanation.refused == ()
        return
    assert [(node.name, node.op, node.reason) for node in explanation.reference_nodes] == []
    assert explanation.refused == ()
    assert "straight-line" in explanation.executor


# the frozen digits CNN


def test_digits_cnn(mode: Mode, demo_dir: Path, digits: dict[str, np.ndarray]) -> None:
    with tfjit.Session(graph=demo_dir / "digits_cnn.pb") as session:
        for _ in range(3):
            logits, probs = session.run(
                ["logits:0", "probs:0"], {"images:0": digits["test_images"]}
            )
            np.testing.assert_allclose(logits, digits["test_logits"], rtol=0, atol=1e-4)
            np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-6)
            assert abs((logits.argmax(axis=1) == digits["test_labels"]).mean() - 0.9933) < 1e-4
        for batch in (1, 2, 7, 0):
            some = session.run("logits:0", {"images:0": digits["test_images"][:batch]})
            assert some.shape == (batch, 10)
            np.testing.assert_allclose(some, digits["test_logits"][:batch], rtol=0, atol=1e-4)


@pytest.mark.host
def test_digits_cnn_is_compiled_and_fused(demo_dir: Path) -> None:
    with tfjit.Session(graph=demo_dir / "digits_cnn.pb") as session:
        for batch in (1, 256):
            explanation = session.explain(["logits:0", "probs:0"], {"images:0": (batch, 8, 8, 1)})
            assert_all_compiled(explanation)
            computed = [node for node in explanation.nodes if node.serving == "native"]
            # 2 convolutions, 2 poolings, 2 dense layers, a softmax
            assert len(computed) <= 7, [node.name for node in computed]
            assert not any(
                node.op in ("Relu", "BiasAdd", "Tanh", "Add", "AddV2") for node in computed
            )


# MobileNetV2


def test_mobilenet_v2(mode: Mode, data_dir: Path) -> None:
    with (
        np.load(data_dir / "mobilenet_v2.npz") as file,
        tfjit.Session(graph=data_dir / "mobilenet_v2.pb") as session,
    ):
        feed, fetch, images, outputs = (
            str(file["feed"]),
            str(file["fetch"]),
            file["images"],
            file["outputs"],
        )
        for _ in range(2):
            np.testing.assert_allclose(
                session.run(fetch, {feed: images}), outputs, rtol=1e-4, atol=1e-6
            )
        np.testing.assert_allclose(
            session.run(fetch, {feed: images[:1]}), outputs[:1], rtol=1e-4, atol=1e-6
        )


@pytest.mark.host
def test_mobilenet_v2_is_compiled_and_fused(data_dir: Path) -> None:
    with (
        np.load(data_dir / "mobilenet_v2.npz") as file,
        tfjit.Session(graph=data_dir / "mobilenet_v2.pb") as session,
    ):
        feed, fetch, shape = str(file["feed"]), str(file["fetch"]), file["images"].shape
        explanation = session.explain(fetch, {feed: shape})
    assert_all_compiled(explanation)
    assert explanation.kernel_count <= 20
    where = {member: node for node in explanation.nodes for member in node.members}
    convolutions = [
        op
        for op in tfjit_graph(data_dir / "mobilenet_v2.pb").get_operations()
        if op.type in CONVOLUTIONS
    ]
    assert len(convolutions) == 52
    relu6 = residual = 0
    for op in convolutions:
        group = where[op.name]
        assert group.op == "_Fused", f"{op.name} stands alone"
        # the batch norm is frozen into y * scale + offset
        scale = only_consumer(op)
        offset = only_consumer(scale)
        assert (scale.type, offset.type) == ("Mul", "AddV2")
        assert where[scale.name] is group and where[offset.name] is group, (
            f"the batch norm of {op.name} is not in its kernel"
        )
        following = offset.outputs[0].consumers()
        if [o.type for o in following] == ["Relu6"]:
            relu6 += 1
            assert where[following[0].name] is group, f"{following[0].name} is no epilogue"
        elif len(following) == 1 and following[0].type == "AddV2":
            residual += 1
            assert where[following[0].name] is group, (
                f"the residual add {following[0].name} is no epilogue"
            )
    assert relu6 == 35
    assert residual == 10
    left = {node.op for node in explanation.nodes if node.serving == "native"}
    assert left <= {"_Fused", "Pad", "Mean", "Softmax"}


CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")


def only_consumer(op: Any) -> Any:
    (consumer,) = op.outputs[0].consumers()
    return consumer


def tfjit_graph(path: Path) -> tfjit.Graph:
    """The graph in a file, as the user built it."""
    with tfjit.Session(graph=path) as session:
        return session.graph  # type: ignore[no-any-return]


# training


def test_digits_train(mode: Mode, data_dir: Path, digits: dict[str, np.ndarray]) -> None:
    with tfjit.Session(graph=data_dir / "digits_train.pb") as session:
        session.run("init")
        losses = []
        for images, labels in batches(digits, mode.steps):
            loss, _ = session.run(["loss:0", "train"], {"images:0": images, "labels:0": labels})
            losses.append(loss)
        expected = digits["train_losses"][: mode.steps]
        np.testing.assert_allclose(losses[:20], expected[:20], rtol=2e-5)
        np.testing.assert_allclose(losses, expected, rtol=1e-3)
        assert session.run("global_step:0") == mode.steps


def test_digits_train_to_the_end(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path, digits: dict[str, np.ndarray]
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    with tfjit.Session(graph=data_dir / "digits_train.pb") as session:
        session.run("init")
        losses = [
            session.run(["loss:0", "train"], {"images:0": images, "labels:0": labels})[0]
            for images, labels in batches(digits, 600)
        ]
        np.testing.assert_allclose(losses[:20], digits["train_losses"][:20], rtol=2e-5)
        np.testing.assert_allclose(losses, digits["train_losses"], rtol=1e-3)
        accuracy = session.run(
            "accuracy:0", {"images:0": digits["test_images"], "labels:0": digits["test_labels"]}
        )
        assert abs(accuracy - 0.9933) <= 0.0034


@pytest.mark.host
def test_digits_train_is_compiled(data_dir: Path) -> None:
    with tfjit.Session(graph=data_dir / "digits_train.pb") as session:
        assert_all_compiled(session.explain("init"))
        assert_all_compiled(
            session.explain(
                ["loss:0", "train"], {"images:0": (BATCH, 8, 8, 1), "labels:0": (BATCH,)}
            )
        )
        assert_all_compiled(
            session.explain("accuracy:0", {"images:0": (297, 8, 8, 1), "labels:0": (297,)})
        )


@dataclass(frozen=True)
class Network:
    """The network of make_digits.py built here, with its variables of one kind."""

    graph: Any
    images: Any
    labels: Any
    loss: Any
    train: Any
    accuracy: Any
    init: Any
    variables: list[Any]


def build_network(use_resource: bool) -> Network:
    graph = tf1.Graph()
    with graph.as_default():
        images = tf1.placeholder(tf.float32, [None, 8, 8, 1], name="images")
        labels = tf1.placeholder(tf.int32, [None], name="labels")
        h = images

        def variable(name: str, shape: list[int], initializer: Any) -> Any:
            return tf1.get_variable(name, shape, initializer=initializer, use_resource=use_resource)

        for i, (inputs, outputs) in enumerate([(1, 16), (16, 32)], 1):
            w = variable(
                f"conv{i}/w", [3, 3, inputs, outputs], tf1.glorot_uniform_initializer(seed=1)
            )
            b = variable(f"conv{i}/b", [outputs], tf1.zeros_initializer())
            h = tf.nn.max_pool2d(
                tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(h, w, strides=1, padding="SAME"), b)),
                2,
                2,
                "SAME",
            )
        h = tf.reshape(h, [-1, 128])
        w = variable("fc/w", [128, 64], tf1.truncated_normal_initializer(stddev=0.1, seed=2))
        b = variable("fc/b", [64], tf1.random_normal_initializer(stddev=0.01, seed=5))
        h = tf.tanh(tf.matmul(h, w) + b)
        w = variable("out/w", [64, 10], tf1.random_uniform_initializer(-0.2, 0.2, seed=3))
        b = variable("out/b", [10], tf1.zeros_initializer())
        logits = tf.add(tf.matmul(h, w), b, name="logits")
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits),
            name="loss",
        )
        train = tf1.train.AdamOptimizer(1e-3).minimize(loss)
        correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
        return Network(
            graph,
            images,
            labels,
            loss,
            train,
            accuracy,
            tf1.global_variables_initializer(),
            tf1.global_variables(),
        )


def values_of(network: Network) -> list[Any]:
    return [v.read_value() if hasattr(v, "handle") else v.value() for v in network.variables]


@pytest.fixture(scope="module")
def networks() -> dict[str, Network]:
    """The network with resource and with reference variables, each with its reads made once."""
    return {"resource": build_network(True), "ref": build_network(False)}


@pytest.fixture(scope="module")
def trained_by_tensorflow(
    networks: dict[str, Network], digits: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Initial values, losses, final accuracy and final values of TensorFlow's own session."""
    results = {}
    for kind, network in networks.items():
        with network.graph.as_default():
            reads = values_of(network)
        with tf1.Session(graph=network.graph) as session:
            session.run(network.init)
            initial = session.run(reads)
            losses = [
                session.run(
                    [network.loss, network.train], {network.images: images, network.labels: labels}
                )[0]
                for images, labels in batches(digits, 300)
            ]
            feeds = {network.images: digits["test_images"], network.labels: digits["test_labels"]}
            results[kind] = (reads, initial, losses, session.run(network.accuracy, feeds))
    return results


@pytest.mark.parametrize("kind", ["resource", "ref"])
def test_training_beside_tensorflow(
    mode: Mode,
    kind: str,
    networks: dict[str, Network],
    trained_by_tensorflow: dict[str, Any],
    digits: dict[str, np.ndarray],
) -> None:
    network = networks[kind]
    reads, initial, losses, _ = trained_by_tensorflow[kind]
    with tfjit.Session(graph=network.graph) as session:
        session.run(network.init)
        for variable, ours, theirs in zip(
            network.variables, session.run(reads), initial, strict=True
        ):
            assert ours.dtype == theirs.dtype
            if hardware.gpu_count():  # a GPU's logarithm, sine and cosine have other last bits
                rtol = hardware.rtol(ours.dtype)
                np.testing.assert_allclose(ours, theirs, rtol, err_msg=variable.name)
                continue
            np.testing.assert_array_equal(
                ours.view(f"u{ours.dtype.itemsize}"),
                theirs.view(f"u{ours.dtype.itemsize}"),
                variable.name,
            )
        ours = [
            session.run(
                [network.loss, network.train], {network.images: images, network.labels: labels}
            )[0]
            for images, labels in batches(digits, mode.steps)
        ]
        np.testing.assert_allclose(ours[:20], losses[:20], rtol=2e-5)
        np.testing.assert_allclose(ours, losses[: mode.steps], rtol=1e-3)


@pytest.mark.parametrize("kind", ["resource", "ref"])
def test_training_beside_tensorflow_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    networks: dict[str, Network],
    trained_by_tensorflow: dict[str, Any],
    digits: dict[str, np.ndarray],
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    network = networks[kind]
    _, _, losses, accuracy = trained_by_tensorflow[kind]
    with tfjit.Session(graph=network.graph) as session:
        assert_all_compiled(session.explain(network.init))
        assert_all_compiled(
            session.explain(
                [network.loss, network.train],
                {network.images: (BATCH, 8, 8, 1), network.labels: (BATCH,)},
            )
        )
        session.run(network.init)
        ours = [
            session.run(
                [network.loss, network.train], {network.images: images, network.labels: labels}
            )[0]
            for images, labels in batches(digits, 300)
        ]
        np.testing.assert_allclose(ours[:20], losses[:20], rtol=2e-5)
        np.testing.assert_allclose(ours, losses, rtol=1e-3)
        feeds = {network.images: digits["test_images"], network.labels: digits["test_labels"]}
        assert abs(session.run(network.accuracy, feeds) - accuracy) <= 0.0034


# loops: the dataflow executor


def test_mandelbrot_loop(data_dir: Path) -> None:
    with (
        np.load(data_dir / "mandelbrot_v1_loop.npz") as file,
        tfjit.Session(graph=data_dir / "mandelbrot_v1_loop.pb") as session,
    ):
        names = {name: file[name] for name in file.files}
        feeds = {f"{name}:0": names[name] for name in ("re", "im", "iterations")}
        for _ in range(2):
            np.testing.assert_array_equal(session.run("escape:0", feeds), names["escape"])


def test_lstm_loop(data_dir: Path) -> None:
    with (
        np.load(data_dir / "lstm_v1_loop.npz") as file,
        tfjit.Session(graph=data_dir / "lstm_v1_loop.pb") as session,
    ):
        names = {name: file[name] for name in file.files}
        for _ in range(3):  # by reference kernels, then by compiled ones
            np.testing.assert_allclose(
                session.run("y:0", {"x:0": names["x"]}), names["y"], rtol=1e-5, atol=1e-6
            )
