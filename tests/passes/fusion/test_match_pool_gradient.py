"""The gradient of maximum pooling with those of the ReLU and the bias before it: where they are one
group, and TensorFlow's values.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.kernels.nn_cases import ask_onednn
from tests.passes.fusing import fused, groups
from tfjit.kernels.ir.fused_group import FusedGroup

tf1 = tf.compat.v1

TEXT = """
    x    = Placeholder(shape=<2,6,6,5>)
    y    = Placeholder(shape=<2,3,3,5>)
    dy   = Placeholder(shape=<2,3,3,5>)
    pool = MaxPoolGrad(x, y, dy, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding=b'VALID')
    relu = ReluGrad(pool, x)
    bias = BiasAddGrad(relu)
    dx   = _Retval(relu)
    db   = _Retval(bias)
"""


def found(text: str) -> list[FusedGroup]:
    return [group for group in groups(fused(text)[0]).values() if group.kind == "pool_gradient"]


def test_all_three_become_one_group() -> None:
    (group,) = found(TEXT)
    assert group.names == ("pool", "relu", "bias")
    assert "in the same pass" in group.reason


def test_two_of_them_too() -> None:
    without_bias = TEXT.replace("    bias = BiasAddGrad(relu)\n", "").replace(
        "    db   = _Retval(bias)\n", ""
    )
    assert found(without_bias)[0].names == ("pool", "relu")
    without_relu = TEXT.replace("    relu = ReluGrad(pool, x)\n", "").replace("(relu)", "(pool)")
    assert found(without_relu)[0].names == ("pool", "bias")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ReluGrad(pool, x)", "ReluGrad(pool, pool)"),
        ("ReluGrad(pool, x)", "ReluGrad(x, pool)"),
        ("ReluGrad(pool, x)", "Relu6Grad(pool, x)"),
        # the gradient between is fetched
        ("dx   = _Retval(relu)", "dx   = _Retval(relu)\n    more = _Retval(pool)"),
        ("dx   = _Retval(relu)\n", ""),  # nobody wants the gradient itself
        ("ksize=[1, 2, 2, 1]", "ksize=[1, 3, 3, 1]"),  # windows overlap
        ("<2,6,6,5>", "<?,6,6,5>"),
    ],
)
def test_what_the_pass_over_windows_cannot_do_stays_apart(old: str, new: str) -> None:
    assert not any("relu" in group.names for group in found(TEXT.replace(old, new)))


def test_a_wait_keeps_the_sum_apart() -> None:
    (group,) = found(
        TEXT.replace("BiasAddGrad(relu)", "BiasAddGrad(relu, ^late)").replace(
            "    relu =", "    late = NoOp(^dy)\n    relu ="
        )
    )
    assert group.names == ("pool", "relu")


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(
    ("shape", "window", "stride", "padding", "dtype"),
    [
        ((3, 7, 9, 5), 2, 2, "SAME", np.float32),
        ((2, 8, 6, 33), 2, 2, "VALID", np.float32),
        ((1, 9, 9, 16), 3, 3, "SAME", np.float64),
        ((40, 28, 28, 16), 2, 2, "SAME", np.float32),
        ((2, 11, 7, 3), 2, 3, "VALID", np.float32),  # inputs that no window reads
        ((2, 11, 7, 3), 3, 2, "SAME", np.float32),  # windows that overlap
    ],
)
def test_values_are_tensorflows(
    shape: tuple[int, ...],
    window: int,
    stride: int,
    padding: str,
    dtype: type,
    relu: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(dtype, shape, name="x")
        bias = tf1.placeholder(dtype, shape[-1:], name="bias")
        hidden = tf.nn.bias_add(x, bias)
        pooled = tf.nn.max_pool2d(tf.nn.relu(hidden) if relu else hidden, window, stride, padding)
        weights = tf1.placeholder(dtype, pooled.shape, name="weights")
        dx, db = tf1.gradients([tf.reduce_sum(pooled * weights)], [x, bias])
    rng = np.random.default_rng(5)
    values = rng.standard_normal(shape).astype(dtype)
    if dtype is np.float32:  # TensorFlow's float64 pooling chooses otherwise beside NaN
        for special in (-np.inf, np.inf, np.nan):
            values[rng.random(shape) < 0.05] = special
    given = rng.standard_normal(weights.shape).astype(dtype)
    given[..., 0].flat[0] = np.nan
    feeds = {x: values, bias: np.arange(shape[-1]).astype(dtype) / 9, weights: given}
    wanted = ask_onednn(graph, [dx, db], feeds)
    exact = wanted[0].sum(axis=(0, 1, 2), dtype=np.float64)
    scale = np.abs(wanted[0]).sum(axis=(0, 1, 2), dtype=np.float64)
    fed = {tensor.name: value for tensor, value in feeds.items()}
    for threads in (1, 2, 8):
        config = tf1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1
        )
        with tfjit.Session(graph=graph, config=config) as ours:
            answer = ours.run([dx, db], fed)
            kinds = [
                node.op
                for node in ours.explain(
                    [dx, db], {name: value.shape for name, value in fed.items()}
                ).nodes
            ]
            assert ("MaxPoolGrad" in kinds) == (window > stride)
        # sums of overlapping windows
        np.testing.assert_allclose(
            answer[0], wanted[0], rtol=0, atol=0 if window <= stride else 1e-6
        )
        error = np.abs(answer[1] - exact)[1:]
        assert np.all(error <= 4 * np.finfo(dtype).eps * scale[1:] + np.finfo(dtype).tiny)
        assert np.isnan(answer[1][0]) and np.isnan(wanted[1][0])
