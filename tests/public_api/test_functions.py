"""Public functions: the same program on tfjit and on TensorFlow's v1 names gives the same outputs,
and mostly the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfjit

tensorflow = pytest.importorskip("tensorflow")
tf1 = tensorflow.compat.v1

A = np.array([[1.5, -2.0, 3.0], [0.25, 4.0, -1.0]], np.float32)
V = np.array([3, 1, 2, 1], np.int32)
B = np.array([[True, False, True], [False, False, True]])
IMAGE = np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3) / 50 - 1

Program = Callable[[Any, Any, Any, Any, Any], Any]

# name -> program of (module, x: float32 [2, 3], v: int32 [4], b: bool [2, 3], image: float32 [2, 5,
# 6, 3])
SAME_NODES: dict[str, Program] = {
    "add": lambda t, x, v, b, m: x + 1,
    "radd": lambda t, x, v, b, m: 1 + x,
    "sub": lambda t, x, v, b, m: x - x,
    "rsub": lambda t, x, v, b, m: 2.5 - x,
    "mul": lambda t, x, v, b, m: x * 2,
    "truediv": lambda t, x, v, b, m: x / 2,
    "int truediv": lambda t, x, v, b, m: v / 2,
    "floordiv": lambda t, x, v, b, m: v // 2,
    "mod": lambda t, x, v, b, m: v % 2,
    "pow": lambda t, x, v, b, m: x**2,
    "rpow": lambda t, x, v, b, m: 2.0**x,
    "matmul operator": lambda t, x, v, b, m: x @ t.transpose(x),
    "neg": lambda t, x, v, b, m: -x,
    "abs": lambda t, x, v, b, m: abs(x),
    "less": lambda t, x, v, b, m: x < 1,
    "greater equal": lambda t, x, v, b, m: x >= x,
    "and": lambda t, x, v, b, m: b & b,
    "or": lambda t, x, v, b, m: b | b,
    "bitwise and": lambda t, x, v, b, m: v & 1,
    "invert": lambda t, x, v, b, m: ~b,
    "slice": lambda t, x, v, b, m: x[:, 1:],
    "index": lambda t, x, v, b, m: x[1, 2],
    "strides": lambda t, x, v, b, m: m[..., ::2, :],
    "new axis": lambda t, x, v, b, m: x[:, None, ::-1],
    "constant": lambda t, x, v, b, m: t.constant([1.0, 2.0]),
    "constant shape": lambda t, x, v, b, m: t.constant(7, shape=[2, 3]),
    "zeros": lambda t, x, v, b, m: t.zeros([2, 3]),
    "ones": lambda t, x, v, b, m: t.ones([2, 3], tf_dtype(t, "int32")),
    "fill": lambda t, x, v, b, m: t.fill([2, 3], 5.0),
    "range": lambda t, x, v, b, m: t.range(5),
    "identity": lambda t, x, v, b, m: t.identity(x),
    "reshape": lambda t, x, v, b, m: t.reshape(x, [3, -1]),
    "expand_dims": lambda t, x, v, b, m: t.expand_dims(x, 1),
    "squeeze": lambda t, x, v, b, m: t.squeeze(x[0:1], axis=[0]),
    "concat": lambda t, x, v, b, m: t.concat([x, x], 1),
    "stack": lambda t, x, v, b, m: t.stack([x, x], axis=1),
    "unstack": lambda t, x, v, b, m: t.unstack(x, axis=1),
    "split": lambda t, x, v, b, m: t.split(x, 3, axis=1),
    "split sizes": lambda t, x, v, b, m: t.split(x, [1, 2], axis=1),
    "transpose perm": lambda t, x, v, b, m: t.transpose(m, [0, 3, 1, 2]),
    "tile": lambda t, x, v, b, m: t.tile(x, [2, 1]),
    "pad": lambda t, x, v, b, m: t.pad(x, [[1, 0], [0, 2]]),
    "pad value": lambda t, x, v, b, m: t.pad(x, [[1, 0], [0, 2]], constant_values=3.0),
    "mirror pad": lambda t, x, v, b, m: t.pad(x, [[1, 0], [0, 2]], mode="REFLECT"),
    "reverse": lambda t, x, v, b, m: t.reverse(x, [1]),
    "gather": lambda t, x, v, b, m: t.gather(x, [1, 0, 1]),
    "gather_nd": lambda t, x, v, b, m: t.gather_nd(x, [[0, 1], [1, 2]]),
    "one_hot": lambda t, x, v, b, m: t.one_hot(v, 4),
    "where": lambda t, x, v, b, m: t.where(b, x, -x),
    "where indices": lambda t, x, v, b, m: t.where(b),
    "unique": lambda t, x, v, b, m: list(t.unique(v)),
    "dynamic_partition": lambda t, x, v, b, m: t.dynamic_partition(v, [0, 1, 0, 1], 2),
    "matmul": lambda t, x, v, b, m: t.matmul(x, x, transpose_b=True),
    "sum": lambda t, x, v, b, m: t.reduce_sum(x),
    "sum axis": lambda t, x, v, b, m: t.reduce_sum(x, axis=1),
    "mean keep": lambda t, x, v, b, m: t.reduce_mean(x, [0], keepdims=True),
    "max": lambda t, x, v, b, m: t.reduce_max(x, axis=-1),
    "all": lambda t, x, v, b, m: t.reduce_all(b, 1),
    "argmax": lambda t, x, v, b, m: t.argmax(x, 1),
    "cumsum": lambda t, x, v, b, m: t.cumsum(x, axis=1, exclusive=True),
    "segment_sum": lambda t, x, v, b, m: t.segment_sum(x, [0, 0]),
    "unsorted_segment_sum": lambda t, x, v, b, m: t.unsorted_segment_sum(x, [1, 0], 3),
    "cast": lambda t, x, v, b, m: t.cast(x, tf_dtype(t, "int32")),
    "tanh": lambda t, x, v, b, m: t.tanh(x),
    "sqrt": lambda t, x, v, b, m: t.sqrt(t.square(x)),
    "maximum": lambda t, x, v, b, m: t.maximum(x, 0.5),
    "squared_difference": lambda t, x, v, b, m: t.squared_difference(x, 1.0),
    "equal": lambda t, x, v, b, m: t.equal(x, 3.0),
    "logical_and": lambda t, x, v, b, m: t.logical_and(b, b),
    "add_n": lambda t, x, v, b, m: t.add_n([x, x, x]),
    "floor": lambda t, x, v, b, m: t.floor(x),
    "pow function": lambda t, x, v, b, m: t.pow(t.abs(x), 0.5),
    "relu": lambda t, x, v, b, m: t.nn.relu(x),
    "sigmoid": lambda t, x, v, b, m: t.nn.sigmoid(x),
    "elu": lambda t, x, v, b, m: t.nn.elu(x),
    "softplus": lambda t, x, v, b, m: t.nn.softplus(x),
    "softmax": lambda t, x, v, b, m: t.nn.softmax(x),
    "log_softmax": lambda t, x, v, b, m: t.nn.log_softmax(x),
    "l2_loss": lambda t, x, v, b, m: t.nn.l2_loss(x),
    "bias_add": lambda t, x, v, b, m: t.nn.bias_add(x, [1.0, 2.0, 3.0]),
    "conv2d": lambda t, x, v, b, m: t.nn.conv2d(
        m, np.ones((2, 2, 3, 4), np.float32), strides=[1, 1, 1, 1], padding="SAME"
    ),
    "max_pool": lambda t, x, v, b, m: t.nn.max_pool(m, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
    "max_pool1d": lambda t, x, v, b, m: t.nn.max_pool1d(m[:, 0], 3, 2, "SAME"),
    "avg_pool1d": lambda t, x, v, b, m: t.nn.avg_pool1d(m[:, 0], [2], [3], "VALID"),
    "avg_pool": lambda t, x, v, b, m: t.nn.avg_pool(m, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
    "top_k": lambda t, x, v, b, m: list(t.nn.top_k(x, 2)),
    "in_top_k": lambda t, x, v, b, m: t.nn.in_top_k(x, [1, 0], 2),
    "lrn": lambda t, x, v, b, m: t.nn.lrn(m),
    "random_uniform": lambda t, x, v, b, m: t.random_uniform([3], seed=5),
    "random_uniform range": lambda t, x, v, b, m: t.random_uniform([3], -1.0, 2.0, seed=5),
    "random_uniform int": lambda t, x, v, b, m: t.random_uniform(
        [3], 0, 9, tf_dtype(t, "int32"), seed=5
    ),
    "random_normal": lambda t, x, v, b, m: t.random_normal([3], 1.0, 2.0, seed=5),
    "truncated_normal": lambda t, x, v, b, m: t.truncated_normal([3], stddev=0.1, seed=5),
    "random_shuffle": lambda t, x, v, b, m: t.random_shuffle(v, seed=5),
    "stop_gradient": lambda t, x, v, b, m: t.stop_gradient(x),
    "placeholder_with_default": lambda t, x, v, b, m: t.placeholder_with_default(x, [None, 3]),
    "group": lambda t, x, v, b, m: [t.identity(x), t.group(x, v)][:1],
    "invert_permutation": lambda t, x, v, b, m: t.invert_permutation([1, 0, 2]),
    "space_to_depth": lambda t, x, v, b, m: t.space_to_depth(m[:, :4], 2),
    "is_nan": lambda t, x, v, b, m: t.is_nan(x),
    "ones_like": lambda t, x, v, b, m: t.ones_like(x),
    "stack numbers": lambda t, x, v, b, m: t.stack([1, v[0]]),
    "sum of a scalar": lambda t, x, v, b, m: t.reduce_sum(x[0, 0]),
    "slice without strides": lambda t, x, v, b, m: t.strided_slice(x, [0, 1], [2, 3]),
    "reciprocal_no_nan": lambda t, x, v, b, m: t.math.reciprocal_no_nan(x * 0.0),
    "polyval": lambda t, x, v, b, m: t.math.polyval([1.0, x, 3.0], x),
    "lbeta": lambda t, x, v, b, m: t.lbeta(x * x),
    "minimum names": lambda t, x, v, b, m: t.minimum(x, x, name="least"),
}

SAME_VALUES: dict[str, Program] = {
    "tensor index": lambda t, x, v, b, m: x[:, v[1] : v[0]],
    "depthwise": lambda t, x, v, b, m: t.nn.depthwise_conv2d(
        m, np.ones((2, 2, 3, 2), np.float32), [1, 1, 1, 1], "VALID"
    ),
    "linspace": lambda t, x, v, b, m: t.linspace(0.0, 1.0, 5),
    "xor": lambda t, x, v, b, m: b ^ True,
    "transpose": lambda t, x, v, b, m: t.transpose(x),
    "boolean_mask": lambda t, x, v, b, m: t.boolean_mask(x, b),
    "confusion_matrix": lambda t, x, v, b, m: t.confusion_matrix(v, v),
    "polyval empty": lambda t, x, v, b, m: t.math.polyval([], x),
    "zeros_like": lambda t, x, v, b, m: t.zeros_like(v),
    "meshgrid": lambda t, x, v, b, m: t.meshgrid([1, 2, 3], [4, 5]),
    "meshgrid ij": lambda t, x, v, b, m: t.meshgrid([1, 2, 3], [4, 5], indexing="ij"),
    "sequence_mask": lambda t, x, v, b, m: t.sequence_mask(v, 5),
    "sequence_mask max": lambda t, x, v, b, m: t.sequence_mask(v),
    "eye": lambda t, x, v, b, m: t.eye(3),
    "einsum": lambda t, x, v, b, m: t.einsum("ij,kj->ik", x, x),
    "tensordot": lambda t, x, v, b, m: t.tensordot(x, x, [[1], [1]]),
    "batched matmul": lambda t, x, v, b, m: t.matmul(m, m, transpose_b=True),
    "reduce_logsumexp": lambda t, x, v, b, m: t.reduce_logsumexp(x, 1),
    "reduce_std": lambda t, x, v, b, m: t.math.reduce_std(x, 1),
    "count_nonzero": lambda t, x, v, b, m: t.count_nonzero(x, 1),
    "clip_by_value": lambda t, x, v, b, m: t.clip_by_value(x, -1.0, 2.0),
    "clip_by_norm": lambda t, x, v, b, m: t.clip_by_norm(x, 1.0),
    "clip_by_global_norm": lambda t, x, v, b, m: t.clip_by_global_norm([x, 2 * x], 1.0)[0],
    "global_norm": lambda t, x, v, b, m: t.global_norm([x, x]),
    "moments": lambda t, x, v, b, m: list(t.nn.moments(x, [0])),
    "batch_normalization": lambda t, x, v, b, m: t.nn.batch_normalization(
        x, A[0], A[0] ** 2, A[1], None, 1e-3
    ),
    "fused_batch_norm": lambda t, x, v, b, m: list(
        t.nn.fused_batch_norm(m, [1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    )[:3],
    "l2_normalize": lambda t, x, v, b, m: t.nn.l2_normalize(x, 1),
    "xent": lambda t, x, v, b, m: t.nn.softmax_cross_entropy_with_logits_v2(
        labels=t.nn.softmax(-x), logits=x
    ),
    "sparse xent": lambda t, x, v, b, m: t.nn.sparse_softmax_cross_entropy_with_logits(
        labels=[1, 0], logits=x
    ),
    "sigmoid xent": lambda t, x, v, b, m: t.nn.sigmoid_cross_entropy_with_logits(
        labels=t.sigmoid(-x), logits=x
    ),
    "weighted xent": lambda t, x, v, b, m: t.nn.weighted_cross_entropy_with_logits(
        labels=t.sigmoid(-x), logits=x, pos_weight=2.0
    ),
    "leaky_relu": lambda t, x, v, b, m: t.nn.leaky_relu(x, 0.3),
    "crelu": lambda t, x, v, b, m: t.nn.crelu(x),
    "log_sigmoid": lambda t, x, v, b, m: t.log_sigmoid(x),
    "swish": lambda t, x, v, b, m: t.nn.swish(x),
    "conv1d": lambda t, x, v, b, m: t.nn.conv1d(m[:, 0], np.ones((2, 3, 4), np.float32), 1, "SAME"),
    "conv1d_transpose": lambda t, x, v, b, m: t.nn.conv1d_transpose(
        m[:, 0], np.ones((2, 4, 3), np.float32), [2, 12, 4], 2
    ),
    "conv1d_transpose channels first": lambda t, x, v, b, m: (
        t.transpose(
            t.nn.conv1d_transpose(
                m[:, 0], np.ones((3, 4, 3), np.float32), [2, 13, 4], [1, 2, 1], "VALID"
            ),
            [0, 2, 1],
        )
        if t is tf1
        else t.nn.conv1d_transpose(
            t.transpose(m[:, 0], [0, 2, 1]),
            np.ones((3, 4, 3), np.float32),
            [2, 4, 13],
            2,
            "VALID",
            "NCW",
        )
    ),
    "conv3d_transpose": lambda t, x, v, b, m: t.nn.conv3d_transpose(
        m[:, None], np.ones((1, 2, 2, 4, 3), np.float32), [2, 1, 10, 12, 4], [1, 1, 2, 2, 1]
    ),
    "fused_batch_norm of a small epsilon": lambda t, x, v, b, m: t.nn.fused_batch_norm(
        m * 0.001, [1.0, 2.0, 3.0], [0.0, 1.0, 2.0], epsilon=1e-7
    )[0],
    "conv2d_transpose": lambda t, x, v, b, m: t.nn.conv2d_transpose(
        m, np.ones((2, 2, 4, 3), np.float32), [2, 10, 12, 4], [1, 2, 2, 1]
    ),
    "separable": lambda t, x, v, b, m: t.nn.separable_conv2d(
        m,
        np.ones((2, 2, 3, 2), np.float32),
        np.ones((1, 1, 6, 4), np.float32),
        [1, 1, 1, 1],
        "SAME",
    ),
    "softmax axis": lambda t, x, v, b, m: t.nn.softmax(m, axis=1),
    "searchsorted": lambda t, x, v, b, m: t.searchsorted([1, 3, 5], [0, 3, 9]),
    "bincount": lambda t, x, v, b, m: t.math.bincount(v, minlength=6),
    "histogram": lambda t, x, v, b, m: t.histogram_fixed_width(x, [-2.0, 4.0], 4),
    "saturate_cast": lambda t, x, v, b, m: t.saturate_cast(x * 200, tf_dtype(t, "uint8")),
    "complex": lambda t, x, v, b, m: t.abs(t.complex(x, x)),
    "div": lambda t, x, v, b, m: t.div(v, 2),
    "truncatediv": lambda t, x, v, b, m: t.truncatediv(-v, 2),
    "div_no_nan": lambda t, x, v, b, m: t.div_no_nan(x, 0.0),
    "broadcast_to": lambda t, x, v, b, m: t.broadcast_to(x, [2, 2, 3]),
    "scatter_nd": lambda t, x, v, b, m: t.scatter_nd([[1], [3]], [5, 6], [5]),
    "tensor_scatter": lambda t, x, v, b, m: t.tensor_scatter_nd_update(v, [[1], [3]], [5, 6]),
    "embedding_lookup": lambda t, x, v, b, m: t.nn.embedding_lookup(x, [1, 0]),
    "list of tensors": lambda t, x, v, b, m: t.convert_to_tensor([x[0, 0], 2.0, x[1, 1]]),
    "nested list": lambda t, x, v, b, m: t.convert_to_tensor([[x[0, 0], 2.0], [3.0, x[1, 1]]]),
    "array times tensor": lambda t, x, v, b, m: np.float32(3) * x,
    "bool mask index": lambda t, x, v, b, m: x[b],
    "unsorted_segment_mean": lambda t, x, v, b, m: t.unsorted_segment_mean(x, [1, 1], 3),
    "stateless": lambda t, x, v, b, m: t.random.stateless_uniform([3], seed=[1, 2]),
    "multinomial": lambda t, x, v, b, m: t.multinomial(x[:1], 5, seed=3),
    "zero_fraction": lambda t, x, v, b, m: t.nn.zero_fraction(t.nn.relu(x)),
    "squeeze all": lambda t, x, v, b, m: t.squeeze(x[:, None]),
    "repeat": lambda t, x, v, b, m: t.repeat(x, 2, axis=1),
    "roll": lambda t, x, v, b, m: t.roll(x, 1, 1),
    "setdiff1d": lambda t, x, v, b, m: list(t.setdiff1d(v, [1])),
    "parallel_stack": lambda t, x, v, b, m: t.parallel_stack([x, x]),
    "bitwise": lambda t, x, v, b, m: t.bitwise.bitwise_xor(v, 3),
    "random_uniform float64": lambda t, x, v, b, m: t.random.uniform(
        [4], seed=9, dtype=tf_dtype(t, "float64")
    ),
}


def tf_dtype(module: Any, name: str) -> Any:
    return module.as_dtype(name)


def build(module: Any, graph: Any, program: Program) -> tuple[list[Any], dict[Any, Any]]:
    with graph.as_default():
        feeds = {}
        for name, value in (("x", A), ("v", V), ("b", B), ("m", IMAGE)):
            feeds[module.placeholder(module.as_dtype(value.dtype), value.shape, name=name)] = value
        out = program(module, *feeds)
    return (list(out) if isinstance(out, (list, tuple)) else [out]), feeds


def describe(graph_def: Any) -> list[str]:
    return [f"{n.name} = {n.op}({', '.join(n.input)})" for n in graph_def.node]


@pytest.mark.parametrize("name", list(SAME_NODES))
def test_same_nodes(name: str) -> None:
    graphs = []
    for module in (tfjit, tf1):
        graph = module.Graph()
        outputs, _ = build(module, graph, SAME_NODES[name])
        graphs.append(
            (
                describe(graph.as_graph_def()),
                [
                    (o.name, o.shape.as_list() if o.shape.rank is not None else None)
                    for o in outputs
                ],
            )
        )
    assert graphs[0] == graphs[1]


@pytest.mark.parametrize("name", [*SAME_NODES, *SAME_VALUES])
def test_same_values(name: str) -> None:
    program = {**SAME_NODES, **SAME_VALUES}[name]
    theirs = tf1.Graph()
    fetches, feeds = build(tf1, theirs, program)
    with tf1.Session(graph=theirs) as session:
        expected = session.run(fetches, feeds)
    graph = tfjit.Graph()
    fetches, feeds = build(tfjit, graph, program)
    with tfjit.Session(graph=graph) as session:
        found = session.run(fetches, feeds)
    for mine, wanted in zip(found, expected, strict=True):
        assert np.asarray(mine).dtype == np.asarray(wanted).dtype
        assert np.asarray(mine).shape == np.asarray(wanted).shape
        np.testing.assert_allclose(mine, wanted, rtol=2e-5, atol=2e-6)
