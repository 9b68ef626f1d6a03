"""Functions of tf.nn of several ops against TensorFlow: nodes, values, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensorflow.python.ops import rnn_cell_impl

import tfjit
from tests.client.composites.side_by_side import Program, differences

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6, 5, 3)).astype(np.float32)
TABLE = RNG.standard_normal((7, 3)).astype(np.float32)
PLACES = [[0, 0], [0, 1], [2, 0], [2, 1], [2, 3], [3, 0]]
WEIGHTS = RNG.random(6).astype(np.float32)
LABELS = np.array([[1, 1, 3, 0], [4, 0, 0, 0], [2, 3, 4, 1]], np.int32)
COUNTS = np.array([3, 1, 4], np.int32)
STEPS = np.array([6, 3, 5], np.int32)
VECTORS = ([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [0.0, 1.0, 2.0], [3.0, 2.0, 1.0])


def ids(t: Any) -> Any:
    return t.SparseTensor(PLACES, t.constant([1, 3, 0, -1, 3, 5], t.int64), [5, 4])


def valid_ids(t: Any) -> Any:
    return t.SparseTensor(PLACES, t.constant([1, 3, 0, 3, 3, 5], t.int64), [5, 4])


def weights(t: Any, less: float = 0.0) -> Any:
    return t.SparseTensor(PLACES, t.constant(WEIGHTS - np.float32(less)), [5, 4])


def table(t: Any, x: Any) -> Any:
    """Return a table [7, 3] that depends on x."""
    return t.reshape(x[:1], [-1, 3])[:7]


def partitions(t: Any, x: Any, strategy: str) -> list[Any]:
    rows = table(t, x)
    return [rows[i::3] for i in range(3)] if strategy == "mod" else [rows[:3], rows[3:5], rows[5:]]


def logits(t: Any, x: Any) -> Any:
    """Return [steps, batch, classes] = [6, 3, 5]."""
    return t.reshape(x[:2, :, :, :], [6, 3, 10])[:, :, :5] * 2.0


def labels(t: Any) -> Any:
    places = [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]]
    return t.SparseTensor(places, t.constant([1, 3, 3, 2, 2], t.int32), [3, 4])


class Cell:
    """A cell of size 5 for either library's base class."""

    state_size = output_size = 5

    def __init__(self, t: Any) -> None:
        self.t = t

    def __call__(self, x: Any, state: Any, scope: Any = None) -> Any:
        t = self.t
        return t.tanh(t.pad(x, [[0, 0], [0, 2]]) + state), t.sin(state)


def cell(t: Any) -> Any:
    base = t.nn.rnn_cell.RNNCell if t is tfjit else rnn_cell_impl.RNNCell
    return type("OwnCell", (Cell, base), {"__init__": Cell.__init__, "__call__": Cell.__call__})(t)


class Saver:
    def __init__(self, t: Any) -> None:
        self.t = t

    def state(self, name: str) -> Any:
        return self.t.fill([4, 5], 0.5)

    def save_state(self, name: str, value: Any) -> Any:
        return self.t.identity(value, name="saved")


def decoded(found: Any) -> list[Any]:
    paths, scores = found
    return [part for p in paths for part in (p.indices, p.values, p.dense_shape)] + [scores]


def dilated(t: Any, x: Any) -> Any:
    def convolved(value: Any, axes: int, padding: str) -> Any:
        return t.nn.conv2d(value, np.ones((2, 2, 3, 4), np.float32), [1, 1, 1, 1], padding)

    return t.nn.with_space_to_batch(x, [2, 2], "SAME", convolved, filter_shape=[2, 2])


PROGRAMS: dict[str, Program] = {
    "weighted_moments": lambda t, x: t.nn.weighted_moments(x, [0, 1], np.abs(X)),
    "no_weight": lambda t, x: t.nn.weighted_moments(x, [0, 1], X[:1, :1] * 0, keep_dims=True),
    "statistics": lambda t, x: t.nn.sufficient_statistics(x, [0, 2], shift=0.5),
    "normalized": lambda t, x: t.nn.normalize_moments(*t.nn.sufficient_statistics(x, [0, 2])),
    "unknown_count": lambda t, x: t.nn.sufficient_statistics(
        t.placeholder_with_default(x, [None, None, 5, 3]), [0, -2]
    )[:3],
    "global_normalization": lambda t, x: t.nn.batch_norm_with_global_normalization(
        x, *map(t.constant, VECTORS), 1e-3, True
    ),
    "poisson": lambda t, x: t.nn.log_poisson_loss(t.abs(x) * 3.0, x, True),
    "regularization": lambda t, x: t.nn.scale_regularization_loss(x),
    "average": lambda t, x: t.nn.compute_average_loss(x[:, 0, 0], x[:, 0, 0, :1], t.constant(7)),
    "average_of_rows": lambda t, x: t.nn.compute_average_loss(x[:, 0, 0, 0]),
    "lookup_mod": lambda t, x: t.nn.embedding_lookup(partitions(t, x, "mod"), [[1, 2], [5, 6]]),
    "lookup_div": lambda t, x: t.nn.embedding_lookup(
        partitions(t, x, "div"), [[1, 2], [5, 6]], "div"
    ),
    "lookup_norm": lambda t, x: t.nn.embedding_lookup(table(t, x), [[1, 2]], max_norm=1.0),
    **{
        f"sparse_{combiner}_{weighted}": lambda t, x, c=combiner, w=weighted: (
            t.nn.embedding_lookup_sparse(
                table(t, x), valid_ids(t), weights(t) if w else None, combiner=c
            )
        )
        for combiner in ("sum", "mean", "sqrtn")
        for weighted in (0, 1)
    },
    "sparse_partitions": lambda t, x: t.nn.embedding_lookup_sparse(
        partitions(t, x, "mod"), valid_ids(t), None, combiner="sum"
    ),
    "safe": lambda t, x: t.nn.safe_embedding_lookup_sparse(table(t, x), ids(t)),
    "safe_default": lambda t, x: t.nn.safe_embedding_lookup_sparse(
        table(t, x), ids(t), combiner="sum", default_id=2
    ),
    "safe_weights": lambda t, x: t.nn.safe_embedding_lookup_sparse(
        table(t, x), ids(t), weights(t, 0.4)
    ),
    "pool_1": lambda t, x: t.nn.pool(x[:, 0], [2], "MAX", "SAME"),
    "pool_2": lambda t, x: t.nn.pool(x, [2, 3], "AVG", "VALID", dilation_rate=[2, 1]),
    "pool_strides": lambda t, x: t.nn.pool(x, [2, 3], "MAX", "SAME", strides=[2, 1]),
    "pool_3": lambda t, x: t.nn.pool(x[:, :, None], [2, 1, 2], "AVG", "VALID"),
    "pool_unknown": lambda t, x: t.nn.pool(
        t.placeholder_with_default(x, [None, None, None, 3]),
        [2, 2],
        "MAX",
        "VALID",
        dilation_rate=[2, 2],
    ),
    "space_to_batch": dilated,
    "space_to_batch_1": lambda t, x: t.nn.with_space_to_batch(
        x,
        [2],
        "VALID",
        lambda v, axes, p: t.nn.max_pool(v, [1, 1, 2, 1], [1, 1, 1, 1], p),
        spatial_dims=[2],
    ),
    "max_1": lambda t, x: t.nn.max_pool_v2(x[:, 0], 2, 1, "SAME"),
    "max_2": lambda t, x: t.nn.max_pool_v2(x, [2, 3], 1, "SAME"),
    "max_3": lambda t, x: t.nn.max_pool_v2(x[:, :, None], [2, 1, 2], 1, "SAME"),
    "mean_1": lambda t, x: t.nn.avg_pool_v2(x[:, 0], 2, 1, "SAME"),
    "mean_2": lambda t, x: t.nn.avg_pool_v2(x, [2, 3], 1, "SAME"),
    "mean_3": lambda t, x: t.nn.avg_pool_v2(x[:, :, None], [2, 1, 2], 1, "SAME"),
    "transpose_1": lambda t, x: t.nn.conv_transpose(
        x[:, 0], np.ones((2, 4, 3), np.float32), [4, 10, 4], 2
    ),
    "transpose_2": lambda t, x: t.nn.conv_transpose(
        x, np.ones((2, 2, 4, 3), np.float32), [4, 12, 10, 4], 2
    ),
    "transpose_3": lambda t, x: t.nn.conv_transpose(
        x[:, :, None], np.ones((2, 1, 2, 4, 3), np.float32), [4, 12, 1, 10, 4], [2, 1, 2]
    ),
    "atrous_1": lambda t, x: t.nn.atrous_conv2d_transpose(
        x, np.ones((2, 3, 4, 3), np.float32), [4, 6, 5, 4], 1, "SAME"
    ),
    "atrous_same": lambda t, x: t.nn.atrous_conv2d_transpose(
        x, np.ones((2, 3, 4, 3), np.float32), [4, 6, 5, 4], 2, "SAME"
    ),
    "atrous_valid": lambda t, x: t.nn.atrous_conv2d_transpose(
        x, np.ones((2, 3, 4, 3), np.float32), [4, 8, 9, 4], 2, "VALID"
    ),
    "depthwise_input": lambda t, x: t.nn.depthwise_conv2d_backprop_input(
        [4, 6, 5, 3], np.ones((2, 2, 3, 1), np.float32), x, [1, 1, 1, 1], "SAME"
    ),
    "depthwise_filter": lambda t, x: t.nn.depthwise_conv2d_native_backprop_filter(
        x, [2, 2, 3, 1], x, [1, 1, 1, 1], "SAME"
    ),
    "conv3d_filter": lambda t, x: t.nn.conv3d_backprop_filter(
        x[:, :, None], [2, 1, 2, 3, 3], x[:, :, None], [1] * 5, "SAME"
    ),
    "fractional_max": lambda t, x: t.nn.fractional_max_pool(
        x, [1.0, 1.5, 1.2, 1.0], deterministic=True, seed=3, seed2=4
    ),
    "fractional_mean": lambda t, x: t.nn.fractional_avg_pool(
        x, [1.0, 1.5, 1.2, 1.0], True, True, deterministic=True, seed=3, seed2=4
    ),
    "approximate": lambda t, x: t.nn.approx_max_k(x[0, 0], 2),
    "approximate_columns": lambda t, x: t.nn.approx_max_k(x[0], 2, aggregate_to_topk=False)[1][
        :, :1
    ],
    "ctc": lambda t, x: t.nn.ctc_loss(labels(t), logits(t, x), STEPS),
    "ctc_batch_major": lambda t, x: t.nn.ctc_loss(
        labels(t), t.transpose(logits(t, x), [1, 0, 2]), STEPS, time_major=False
    ),
    "ctc_v2": lambda t, x: t.nn.ctc_loss_v2(labels(t), logits(t, x), None, STEPS, blank_index=0),
    **{
        f"dense_ctc_{blank}_{unique}": lambda t, x, b=blank, u=unique: t.nn.ctc_loss_v2(
            LABELS,
            logits(t, x),
            COUNTS,
            STEPS,
            blank_index=None if b == "none" else int(b),
            unique=t.nn.ctc_unique_labels(LABELS) if u else None,
        )
        for blank, unique in (("none", 0), ("2", 1), ("-1", 0))
    },
    "greedy": lambda t, x: decoded(t.nn.ctc_greedy_decoder(logits(t, x), STEPS)),
    "beams": lambda t, x: decoded(t.nn.ctc_beam_search_decoder(logits(t, x), STEPS, 10, 3)),
    "beams_v2": lambda t, x: decoded(t.nn.ctc_beam_search_decoder_v2(logits(t, x), STEPS, 10, 3)),
    "unique": lambda t, x: t.nn.ctc_unique_labels(LABELS),
    "collapsed": lambda t, x: t.nn.collapse_repeated(LABELS, COUNTS),
    "saved_states": lambda t, x: t.nn.static_state_saving_rnn(
        cell(t), [x[:, 0, 0], x[:, 1, 0]], Saver(t), "a"
    )[0],
}
# Programs with other nodes than TensorFlow's: loops, functions, clipping, masks, static sizes.
OTHER_NODES = frozenset(
    [
        "lookup_norm",
        "safe",
        "safe_weights",
        "pool_unknown",
        "transpose_1",
        "fractional_max",
        "fractional_mean",
        "unique",
        "collapsed",
        "dense_ctc_none_0",
        "dense_ctc_2_1",
        "dense_ctc_-1_0",
    ]
)
# TensorFlow gives the borders of n windows the static shape [n], but a run makes n + 1 of them; a
# maximum of constants is not known here while a graph is built.
OTHER_SHAPES = frozenset({"fractional_max", "fractional_mean", "collapsed"})


def test_equal_tensorflow() -> None:
    assert not differences(PROGRAMS, X, OTHER_NODES, OTHER_SHAPES)


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x: t.nn.pool(x, [2, 3], "MAX", "SAME", dilation_rate=[2, 2]),
        lambda t, x: t.nn.pool(x, [2, 3], "MAX", "SAME", strides=[3, 1]),
        lambda t, x: t.nn.pool(x, [2, 3], "SUM", "SAME"),
        lambda t, x: t.nn.pool(x, [2, 3], "MAX", "VALID", strides=[2, 2], dilation_rate=[2, 1]),
        lambda t, x: t.nn.conv_transpose(x, x, [1, 2], 1),
        lambda t, x: t.nn.atrous_conv2d_transpose(x, x, [4, 6, 5, 4], 0, "SAME"),
        lambda t, x: t.nn.embedding_lookup([], [1]),
        lambda t, x: t.nn.embedding_lookup([x, x], [1], "other"),
        lambda t, x: t.nn.embedding_lookup_sparse(x, [1], None),
        lambda t, x: t.nn.ctc_loss_v2(labels(t), x[0], None, STEPS),
        lambda t, x: t.nn.compute_average_loss(x[0, 0, 0, 0]),
        lambda t, x: t.nn.log_poisson_loss(x, x[:3]),
    ],
)
def test_errors(program: Program) -> None:
    import tensorflow

    found = []
    for module in (tensorflow.compat.v1, tfjit):
        with module.Graph().as_default():
            x = module.placeholder(module.float32, X.shape)
            with pytest.raises((ValueError, TypeError)) as caught:
                program(module, x)
            found.append(
                (type(caught.value), str(caught.value).split("<", 1)[0].split(" Tensor(")[0])
            )
    assert found[0] == found[1]
