"""Batch norm of narrow floats on a GPU: one program, values of the host's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.protos import ConfigProto

X = np.random.default_rng(3).normal(size=(2, 2, 3, 4)).astype(np.float32)


def results(device: str, training: bool) -> tuple[list[np.ndarray], str]:
    """Return outputs and gradients of a batch norm of halves, and the text of its program."""
    with tf.Graph().as_default() as graph, tf.device(device):
        x = tf.cast(tf.placeholder(tf.float32, X.shape, name="x"), tf.float16)
        scale, offset, mean, variance = (
            tf.constant(np.linspace(k, 2, 4, dtype=np.float32)) for k in (0.5, -1, 0, 0.7)
        )
        given = {} if training else {"mean": mean, "variance": variance}
        y, m, v = tf.nn.fused_batch_norm(x, scale, offset, is_training=training, **given)
        loss = tf.reduce_sum(tf.square(tf.cast(y, tf.float32)))
        made = [y, *tf.gradients(loss, [x, scale, offset])]
        assert made[0].dtype == made[1].dtype == tf.float16
        made += [m, v] if training else []
    config = ConfigProto(allow_soft_placement=True)
    with tf.Session(graph=graph, config=config) as session:
        found = session.run(made, {"x:0": X})
        nodes = session.explain(made, {"x:0": X.shape}).nodes
    return found, "\n".join(node.group for node in nodes if node.op == "_Offload")


@pytest.mark.parametrize("training", [False, True])
def test_one_program_with_the_hosts_values(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    expected, nothing = results("/device:CPU:0", training)
    assert nothing == ""
    monkeypatch.setenv("TFJIT_JIT", "eager")
    with simulated_gpu():
        found, text = results("/device:GPU:0", training)
    assert text.count("launches") == 1 and "by the host" not in text
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one.astype("f8"), other.astype("f8"), rtol=4e-3, atol=4e-3)


def test_the_hosts_stays() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float16, X.shape, name="x")
        one = tf.constant(np.ones(4, np.float32))
        y: Any = tf.nn.fused_batch_norm(x, one, one, is_training=True)[0]
    with tf.Session(graph=graph) as session:
        ops = [node.op for node in session.explain(y, {"x:0": X.shape}).nodes]
    assert any(op.startswith("FusedBatchNorm") for op in ops)
