"""Measure loops as users write them, each in one form.

Numerical iterations, scans, decoding, dynamic programming, growing states.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.scripts.control_flow import Build, graph
from benchmarks.workload import Workload, feeds_of, integers, uniform


def _matrix(tf: Any, name: str = "a") -> Any:
    return tf.placeholder(tf.float32, [None, None], name=name)


def _power_iteration(tf: Any) -> Any:
    """50 products of a matrix with a vector, normalised."""
    a = _matrix(tf)

    def step(i: Any, v: Any) -> list[Any]:
        w = tf.matmul(a, v)
        return [i + 1, w / tf.norm(w)]

    return tf.while_loop(
        lambda i, v: i < 50,
        step,
        [0, tf.ones([128, 1])],
        [tf.TensorShape([]), tf.TensorShape([None, 1])],
    )[1]


def _least_squares(tf: Any) -> Any:
    """100 steps of gradient descent."""
    a, wanted = _matrix(tf), _matrix(tf, "b")

    def step(i: Any, w: Any) -> list[Any]:
        return [i + 1, w - 0.001 * tf.matmul(a, tf.matmul(a, w) - wanted, transpose_a=True)]

    return tf.while_loop(
        lambda i, w: i < 100,
        step,
        [0, tf.zeros([64, 1])],
        [tf.TensorShape([]), tf.TensorShape([None, None])],
    )[1]


def _floyd_warshall(tf: Any) -> Any:
    """Compute shortest paths between all nodes.

    Each iteration reads a row and a column of the matrix.
    """
    return tf.while_loop(
        lambda k, d: k < 48,
        lambda k, d: [k + 1, tf.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])],
        [0, _matrix(tf)],
    )[1]


def _game_of_life(tf: Any) -> Any:
    """40 generations on a torus."""
    board = tf.placeholder(tf.int32, [None, None], name="a")

    def step(i: Any, board: Any) -> list[Any]:
        around = tf.add_n(
            [tf.roll(board, [a, b], [0, 1]) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
        )
        alive = tf.logical_or(
            tf.equal(around, 3), tf.logical_and(tf.equal(board, 1), tf.equal(around, 2))
        )
        return [i + 1, tf.cast(alive, tf.int32)]

    return tf.while_loop(lambda i, _: i < 40, step, [0, board])[1]


def _k_means(tf: Any) -> Any:
    """20 rounds over 1024 points of the plane, 4 centers."""
    points, centers = _matrix(tf), _matrix(tf, "c")

    def step(i: Any, c: Any) -> list[Any]:
        apart = tf.reduce_sum(tf.square(tf.expand_dims(points, 1) - tf.expand_dims(c, 0)), 2)
        nearest = tf.argmin(apart, 1, output_type=tf.int32)
        count = tf.math.unsorted_segment_sum(tf.ones_like(points[:, :1]), nearest, 4)
        return [i + 1, tf.math.unsorted_segment_sum(points, nearest, 4) / tf.maximum(count, 1.0)]

    return tf.while_loop(
        lambda i, _: i < 20, step, [0, centers], [tf.TensorShape([]), tf.TensorShape([None, None])]
    )[1]


def _scan(tf: Any) -> Any:
    """An exponential average of 500 rows."""
    return tf.scan(lambda s, row: 0.9 * s + 0.1 * row, _matrix(tf))


def _map(tf: Any) -> Any:
    """A softmax of each of 200 rows."""
    return tf.map_fn(lambda row: tf.nn.softmax(row * 2.0), _matrix(tf))


def _viterbi(tf: Any) -> Any:
    """The best path through 100 steps of 8 states, there and back."""
    emissions, moves = (
        tf.placeholder(tf.float32, [100, 8], name="a"),
        tf.placeholder(tf.float32, [8, 8], name="m"),
    )

    def forward(t: Any, score: Any, back: Any) -> list[Any]:
        paths = tf.expand_dims(score, 1) + moves
        return [
            t + 1,
            tf.reduce_max(paths, 0) + emissions[t],
            back.write(t, tf.argmax(paths, 0, output_type=tf.int32)),
        ]

    pointers = tf.TensorArray(tf.int32, 100, clear_after_read=False, element_shape=[8])
    _, score, back = tf.while_loop(lambda t, *_: t < 100, forward, [0, tf.zeros([8]), pointers])
    start = [
        99,
        tf.argmax(score, output_type=tf.int32),
        tf.TensorArray(tf.int32, 100, element_shape=[]),
    ]
    return tf.while_loop(
        lambda t, *_: t >= 0,
        lambda t, at, path: [t - 1, back.read(t)[at], path.write(t, at)],
        start,
    )[2].stack()


def _greedy_decoding(tf: Any) -> Any:
    """Decode 40 steps of a cell fed with its own choices.

    For 3 sequences, until all have ended.
    """
    table, w, out = (
        tf.placeholder(tf.float32, shape, name=name)
        for name, shape in (("a", [32, 16]), ("w", [16, 16]), ("o", [16, 32]))
    )

    def step(t: Any, token: Any, h: Any, tokens: Any, done: Any) -> list[Any]:
        h = tf.tanh(tf.matmul(tf.gather(table, token), w) + h)
        token = tf.argmax(tf.matmul(h, out), 1, output_type=tf.int32)
        return [t + 1, token, h, tokens.write(t, token), tf.logical_or(done, tf.equal(token, 0))]

    start = [
        0,
        tf.ones([3], tf.int32),
        tf.zeros([3, 16]),
        tf.TensorArray(tf.int32, 40, element_shape=[3]),
        tf.zeros([3], tf.bool),
    ]

    def goes_on(t, token, h, tokens, done):
        return tf.logical_and(t < 40, tf.logical_not(tf.reduce_all(done)))

    return tf.while_loop(goes_on, step, start)[3].stack()


def _random_walk(tf: Any) -> Any:
    """Walk 300 steps of 8 walkers, each step with its own seed."""
    seed = tf.placeholder(tf.int32, [2], name="a")
    draw = tf.random.stateless_normal
    return tf.while_loop(
        lambda i, _: i < 300, lambda i, at: [i + 1, at + draw([8], seed + i)], [0, tf.zeros([8])]
    )[1]


def _growing_states(tf: Any) -> Any:
    """Compute 64 steps of attention over a growing state.

    Each step attends to all states so far and adds one. The steps for its 64 shapes are made while
    it runs.
    """
    first, w = (
        tf.placeholder(tf.float32, [2, 1, 16], name="a"),
        tf.placeholder(tf.float32, [16, 16], name="w"),
    )

    def step(t: Any, states: Any) -> list[Any]:
        q = tf.matmul(states[:, -1], w)
        weights = tf.nn.softmax(tf.squeeze(tf.matmul(states, tf.expand_dims(q, 2)), 2))
        new = tf.tanh(tf.reduce_sum(tf.expand_dims(weights, 2) * states, 1) + q)
        return [t + 1, tf.concat([states, tf.expand_dims(new, 1)], 1)]

    return tf.while_loop(
        lambda t, _: t < 64, step, [0, first], [tf.TensorShape([]), tf.TensorShape([2, None, 16])]
    )[1]


def _list_that_grows(tf: Any) -> Any:
    """A tensor array of a length that comes at run time."""
    n = tf.placeholder(tf.int32, [], name="a")
    found = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    return tf.while_loop(
        lambda i, *_: i < n, lambda i, a, f: [i + 1, a * 0.9 + 0.3, f.write(i, a)], [0, 1.0, found]
    )[2].stack()


def workloads() -> list[Workload]:
    """Return each loop in one form.

    TensorFlow 1 programs have v1; v2 has functions.
    """
    rows: list[tuple[str, str, Build, dict[str, Any]]] = [
        (
            "power iteration, 128x128, 50 iterations",
            "v2",
            _power_iteration,
            {"a": uniform([128, 128], 0.1, 1)},
        ),
        (
            "least squares 256x64, 100 steps",
            "v1",
            _least_squares,
            {"a": uniform([256, 64]), "b": uniform([256, 1])},
        ),
        ("Floyd-Warshall, 48 nodes", "v2", _floyd_warshall, {"a": uniform([48, 48], 0, 1)}),
        ("Game of Life 64x64, 40 generations", "v1", _game_of_life, {"a": integers([64, 64], 2)}),
        (
            "k-means, 1024 points, 20 rounds",
            "v2",
            _k_means,
            {"a": uniform([1024, 2]), "c": uniform([4, 2])},
        ),
        ("tf.scan over 500 rows", "v1", _scan, {"a": uniform([500, 4])}),
        ("tf.map_fn over 200 rows", "v1", _map, {"a": uniform([200, 5])}),
        (
            "Viterbi, 100 steps of 8 states",
            "v1",
            _viterbi,
            {"a": uniform([100, 8]), "m": uniform([8, 8])},
        ),
        (
            "greedy decoding, 40 steps",
            "v1",
            _greedy_decoding,
            {"a": uniform([32, 16]), "w": uniform([16, 16]), "o": uniform([16, 32])},
        ),
        ("random walk without state, 300 steps", "v2", _random_walk, {"a": integers([2], 1000)}),
        (
            "attention over growing states, 64 steps",
            "v2",
            _growing_states,
            {"a": uniform([2, 1, 16]), "w": uniform([16, 16], -0.1, 0.1)},
        ),
        ("list that grows, 100 elements", "v1", _list_that_grows, {"a": lambda rng: np.int32(100)}),
    ]
    return [
        Workload(
            f"{name}, {form}",
            ["y:0"],
            feeds_of(**makers),
            graph_def=functools.partial(graph, build, form == "v2"),
            needs_tensorflow=True,
            rtol=1e-3,
        )
        for name, form, build, makers in rows
    ]
