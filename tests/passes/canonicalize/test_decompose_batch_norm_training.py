"""Batch norm by a batch's own statistics, and its gradient, against TensorFlow's: compiled, fused
or not, 1, 2 and 8 threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit

tf = pytest.importorskip("tensorflow")
v1 = tf.compat.v1


def build(
    shape: tuple[int, ...], layout: str, factor: float, training: bool
) -> tuple[Any, list[str], dict[str, np.ndarray]]:
    """Graph, fetches and feeds of a batch norm with relu behind it, all its statistics and its
    gradients.
    """
    rng = np.random.default_rng(sum(shape))
    channels = shape[-1] if layout == "NHWC" else shape[1]
    vectors = ("scale", "offset", "mean", "variance")
    feeds = {f"{name}:0": rng.uniform(0.5, 2, channels).astype(np.float32) for name in vectors}
    feeds |= {
        "x:0": (rng.standard_normal(shape) * 2 + 3).astype(np.float32),
        "dy:0": rng.standard_normal(shape).astype(np.float32),
    }
    graph = v1.Graph()
    with graph.as_default():
        x, dy = (v1.placeholder(tf.float32, (None, *shape[1:]), name=name) for name in ("x", "dy"))
        scale, offset, mean, variance = (
            v1.placeholder(tf.float32, (channels,), name=name) for name in vectors
        )
        made = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=1e-3,
            exponential_avg_factor=factor, data_format=layout, is_training=training,
        )  # fmt: skip
        y = tf.nn.relu(made[0])
        fetches = [t.name for t in (y, made[1], made[2], *v1.gradients(y, [x, scale, offset], dy))]
    return graph, fetches, feeds


def ours(
    graph: Any, fetches: list[str], feeds: dict[str, np.ndarray], threads: int, fuse: bool
) -> list[np.ndarray]:
    config = tfjit.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    if not fuse:
        config.graph_options.rewrite_options.remapping = 2
    with tfjit.Session(graph=graph.as_graph_def(), config=config) as session:
        session.run(fetches, feeds)
        return list(session.run(fetches, feeds))


@pytest.mark.parametrize(
    ("shape", "factor"),
    [
        *(((4, 5, 6, 7), factor) for factor in (1.0, 0.25)),
        ((1, 1, 1, 3), 1.0),
        ((2, 1, 1, 1), 0.25),
        ((8, 14, 14, 65), 1.0),
    ],
    ids=str,
)
def test_training(shape: tuple[int, ...], factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph, fetches, feeds = build(shape, "NHWC", factor, training=True)
    with v1.Session(graph=graph) as session:
        wanted = session.run(fetches, feeds)
    for threads, fuse in ((1, True), (2, True), (8, True), (2, False)):
        for got, want in zip(ours(graph, fetches, feeds, threads, fuse), wanted, strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(
                got, want, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(want).max()))
            )


def test_gradient_by_given_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph, fetches, feeds = build((4, 5, 6, 7), "NHWC", 1.0, training=False)
    with v1.Session(graph=graph) as session:
        wanted = session.run(fetches, feeds)
    for got, want in zip(ours(graph, fetches, feeds, 2, True), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_channels_first_gives_what_channels_last_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow has no kernels for it on CPUs."""
    monkeypatch.setenv("TFJIT_JIT", "eager")
    last, fetches, feeds = build((4, 5, 6, 7), "NHWC", 0.5, training=True)
    first, moved_fetches, _ = build((4, 7, 5, 6), "NCHW", 0.5, training=True)
    moved_feeds = {
        name: value.transpose(0, 3, 1, 2).copy() if value.ndim == 4 else value
        for name, value in feeds.items()
    }
    with v1.Session(graph=last) as session:
        wanted = session.run(fetches, feeds)
    for got, want in zip(ours(first, moved_fetches, moved_feeds, 2, True), wanted, strict=True):
        np.testing.assert_allclose(
            got, want.transpose(0, 3, 1, 2) if want.ndim == 4 else want, rtol=1e-4, atol=1e-4
        )


def test_what_is_not_finite_stays_in_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph, fetches, feeds = build((3, 4, 4, 5), "NHWC", 1.0, training=True)
    feeds["x:0"][0, 0, 0, 1] = np.nan
    feeds["x:0"][1, 2, 3, 3] = np.inf
    with v1.Session(graph=graph) as session:
        wanted = session.run(fetches, feeds)
    for got, want in zip(ours(graph, fetches, feeds, 2, True)[1:3], wanted[1:3], strict=True):
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        np.testing.assert_allclose(got[[0, 2, 4]], want[[0, 2, 4]], rtol=1e-5, atol=1e-5)


def test_it_becomes_fused_kernels() -> None:
    graph, fetches, feeds = build((8, 14, 14, 64), "NHWC", 1.0, training=True)
    with tfjit.Session(graph=graph.as_graph_def()) as session:
        explanation = session.explain(fetches, {name: value.shape for name, value in feeds.items()})
    assert not explanation.reference_nodes
    assert not [node.op for node in explanation.nodes if node.op.startswith("FusedBatchNorm")]


def test_the_gradient_of_a_residual_block_becomes_fused_kernels() -> None:
    """Gates, as of an optimizer, let the batch norm wait for the gradient of the shortcut."""
    rng = np.random.default_rng(4)
    vectors = {f"{name}:0": rng.uniform(0.5, 2, 6).astype("f4") for name in ("scale", "offset")}
    feeds = {"x:0": rng.standard_normal((4, 5, 5, 6)).astype("f4")} | vectors
    graph = v1.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, (4, 5, 5, 6), name="x")
        scale, offset = (
            v1.placeholder(tf.float32, (6,), name=name) for name in ("scale", "offset")
        )
        made, *_ = v1.nn.fused_batch_norm(tf.tanh(x), scale, offset)
        loss = tf.reduce_sum(tf.square(tf.nn.relu(made + tf.nn.sigmoid(x))))
        tied = v1.gradients(loss, [x, scale, offset], gate_gradients=True)
        fetches = [t.name for t in tied]
        with v1.Session() as oracle:
            expected = oracle.run(fetches, feeds)
    for got, value in zip(ours(graph, fetches, feeds, 2, True), expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-4)
    with tfjit.Session(graph=graph.as_graph_def()) as session:
        explanation = session.explain(fetches, {name: value.shape for name, value in feeds.items()})
    assert not [node.op for node in explanation.nodes if node.op.startswith("FusedBatchNorm")]
