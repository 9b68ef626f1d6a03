"""Steps of common models are one program of a simulated GPU, with the host's values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.demo.digits import load_data
from tfjit.kernels.registry import Unsupported
from tfjit.protos import ConfigProto
from tfjit.runtime.offload import graph_form
from tfjit.runtime.offload.device_program import DeviceProgram

SOFT = ConfigProto(allow_soft_placement=True)
Feeds = Mapping[Any, Any]
Model = Callable[[], tuple[Any, Any, Feeds]]
"""Returns a loss, the step that trains it, and the feeds of each step."""


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def variable(name: str, *shape: int) -> Any:
    start = 0.5 * values(*shape, seed=len(name) + sum(shape))
    return tf.get_variable(name, initializer=start)


def trained(device: str, model: Model, mode: str) -> list[np.ndarray]:
    """Return the loss of a step on a device, and the variables behind it.

    mode: TFJIT_JIT. On a GPU, the step is one program without a part of the host.
    """
    with tf.Graph().as_default() as graph:
        with tf.device(device):
            loss, train, feeds = model()
            kept = tf.global_variables()
        init = tf.global_variables_initializer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFJIT_JIT", mode)
        session = tf.Session(graph=graph, config=SOFT)
    with session:
        session.run(init)
        found = [session.run([loss, train], feeds)[0]]
        if "GPU" in device:
            shapes = {tensor: np.shape(value) for tensor, value in feeds.items()}
            nodes = session.explain([loss, train], shapes).nodes
            (program,) = [node.group for node in nodes if node.op == "_Offload"]
            assert program.count("launches") == 1 and "by the host" not in program
        return [*found, *session.run(kept)]


def check(model: Model, rtol: float = 2e-4) -> None:
    """Compare with the host's reference kernels."""
    expected = trained("/device:CPU:0", model, "off")
    found = trained("/device:GPU:0", model, "eager")
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("form", ["NHWC", "NCHW"])
def test_convolutions_with_batch_norm(form: str) -> None:
    last = form == "NHWC"

    def places(*sizes: int) -> list[int]:
        return [1, *sizes, 1] if last else [1, 1, *sizes]

    def model() -> tuple[Any, Any, Feeds]:
        x = tf.placeholder(tf.float32, [2, 4, 4, 2] if last else [2, 2, 4, 4])
        t = tf.placeholder(tf.int64, [2])
        y = tf.nn.conv2d(x, variable("w1", 3, 3, 2, 4), places(1, 1), "SAME", data_format=form)
        mean, var = variable("mean", 4), variable("var", 4)
        y, m, v = tf.nn.fused_batch_norm(
            y, variable("scale", 4), variable("offset", 4), data_format=form, is_training=True
        )
        moved = [tf.assign_sub(a, 0.1 * (a - b)).op for a, b in ((mean, m), (var, v))]
        y = tf.nn.max_pool(tf.nn.relu(y), places(2, 2), places(2, 2), "VALID", data_format=form)
        y = tf.nn.conv2d(y, variable("w2", 3, 3, 4, 4), places(2, 2), "SAME", data_format=form)
        y = tf.nn.bias_add(y, variable("b2", 4), data_format=form)
        y = tf.matmul(tf.reduce_mean(y, [1, 2] if last else [2, 3]), variable("w3", 4, 3))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=t, logits=y)
        loss = tf.reduce_mean(losses)
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        images = values(2, 4, 4, 2, seed=3)
        fed = images if last else images.transpose(0, 3, 1, 2)
        return loss, tf.group(train, *moved), {x: fed, t: [0, 2]}

    check(model, 2e-3)


def test_an_embedding_trained_by_adam() -> None:
    """The indices come from the device; the sparse update is of distinct ones."""

    def model() -> tuple[Any, Any, Feeds]:
        ids = tf.placeholder(tf.int64, [2, 3])
        rows = tf.nn.embedding_lookup(variable("table", 7, 4), ids)
        loss = tf.reduce_sum(tf.square(rows))
        return loss, tf.train.AdamOptimizer(0.1).minimize(loss), {ids: [[1, 2, 1], [3, 6, 6]]}

    check(model)


def test_a_layer_of_attention() -> None:
    def model() -> tuple[Any, Any, Feeds]:
        ids = tf.placeholder(tf.int64, [2, 3])
        targets = tf.placeholder(tf.int64, [6])
        table = variable("table", 5, 4)
        h = tf.reshape(tf.nn.embedding_lookup(table, ids) + variable("places", 3, 4), [-1, 4])

        def heads(name: str) -> Any:
            made = tf.matmul(h, variable(name, 4, 4)) + variable(f"b{name}", 4)
            return tf.transpose(tf.reshape(made, [2, 3, 2, 2]), [0, 2, 1, 3])

        scores = 0.7 * tf.matmul(heads("q"), heads("k"), transpose_b=True)
        weights = tf.nn.softmax(tf.matrix_band_part(scores, -1, 0))
        mixed = tf.reshape(tf.transpose(tf.matmul(weights, heads("v")), [0, 2, 1, 3]), [-1, 4])
        h += tf.matmul(mixed, variable("out", 4, 4))
        mean, var = tf.nn.moments(h, [-1], keepdims=True)
        h = tf.nn.batch_normalization(h, mean, var, variable("off", 4), variable("sc", 4), 1e-3)
        h += tf.matmul(tf.nn.relu(tf.matmul(h, variable("up", 4, 8))), variable("down", 8, 4))
        logits = tf.matmul(h, table, transpose_b=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        loss = tf.reduce_mean(losses)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return loss, train, {ids: [[0, 1, 4], [2, 2, 3]], targets: [1, 2, 3, 4, 0, 1]}

    check(model, 2e-3)


def test_images_down_and_up() -> None:
    """Pooling with places, resizing, local normalization, with their gradients."""

    def model() -> tuple[Any, Any, Feeds]:
        x = tf.placeholder(tf.float32, [1, 4, 4, 2])
        y = tf.nn.conv2d(x, variable("w", 3, 3, 2, 4), [1, 1, 1, 1], "SAME")
        y = tf.nn.local_response_normalization(y, 1, alpha=0.1)
        small, _ = tf.nn.max_pool_with_argmax(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        large = tf.image.resize_nearest_neighbor(small, [4, 4])
        larger = tf.image.resize_bilinear(tf.concat([large, y], -1), [5, 6])
        loss = tf.reduce_mean(tf.square(larger))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return loss, train, {x: values(1, 4, 4, 2, seed=3)}

    check(model)


def test_the_graph_that_trains_the_digits(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's own graph: initialisers, convolutions and Adam, a program each."""
    made = []

    class Lowered(DeviceProgram):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            made.append(self.launches)
            raise Unsupported("it is only lowered")

    monkeypatch.setattr(graph_form, "DeviceProgram", Lowered)
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        tf.train.import_meta_graph(str(data_dir / "digits_train.meta"))
    feeds = {"images:0": load_data()["test_images"][:2], "labels:0": [3, 5]}
    with tf.Session(graph=graph, config=SOFT) as session:
        session.run("init")
        session.run(["loss:0", "train"], feeds)
        shapes = {name: np.shape(value) for name, value in feeds.items()}
        nodes = session.explain(["loss:0", "train"], shapes).nodes
    (program,) = [node.group for node in nodes if node.op == "_Offload"]
    assert program.endswith("it is only lowered")
    assert len(made) == 2 and made[1] > 25
