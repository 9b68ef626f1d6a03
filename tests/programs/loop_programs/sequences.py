"""Loops over time: scans, recurrent cells, decoding, dynamic programming."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.programs.loop_programs.program import Inputs, program

tf1 = tf.compat.v1
loop = tf1.while_loop
EXACT = {"rtol": 0, "atol": 0}


@program(10, 1000, "kernel")
def _running_sums(x: Inputs, n: int) -> Any:
    rows = x.uniform(n, 3)
    count = tf.shape(rows)[0]
    given, sums = tf.TensorArray(tf.float32, count).unstack(rows), tf.TensorArray(tf.float32, count)

    def body(i: Any, s: Any, found: Any) -> Any:
        s = s + given.read(i)
        return i + 1, s, found.write(i, s)

    return loop(lambda i, *_: i < count, body, [0, tf.zeros([3]), sums])[2].stack()


@program(10, 200)
def _products_of_small_matrices(x: Inputs, n: int) -> Any:
    turns = x.uniform(n, 4, 4, static=True)

    def body(i: Any, p: Any, found: Any) -> Any:
        p = tf.matmul(p, turns[i]) / 2.0
        return i + 1, p, found.write(i, p)

    return loop(lambda i, *_: i < n, body, [0, tf.eye(4), tf.TensorArray(tf.float32, n)])[2].stack()


@program(4, 64)
def _batches_of_small_matrices(x: Inputs, n: int) -> Any:
    m = x.uniform(n, 4, 4) / 2.0

    def body(i: Any, p: Any) -> Any:
        return i + 1, tf.matmul(p, m) + tf.linalg.matrix_transpose(p) * 0.1

    return loop(lambda i, p: i < 40, body, [0, tf.eye(4, batch_shape=[n])])[1]


@program(6, 200)
def _map_of_elementwise(x: Inputs, n: int) -> Any:
    return tf.map_fn(lambda row: tf.nn.softmax(row * 2.0), x.uniform(n, 5))


@program(6, 100)
def _map_of_products(x: Inputs, n: int) -> Any:
    w = x.uniform(8, 8)
    return tf.map_fn(lambda m: tf.matmul(tf.matmul(m, w), m, transpose_b=True), x.uniform(n, 3, 8))


@program(10, 500, "kernel")
def _scan_of_a_filter(x: Inputs, n: int) -> Any:
    return tf.scan(lambda a, v: 0.9 * a + 0.1 * v, x.uniform(n, 4))


@program(10, 500, "kernel")
def _fold(x: Inputs, n: int) -> Any:
    return tf.foldl(lambda a, v: tf.maximum(a * 0.5, v), x.uniform(n, 4))


@program(8, 100)
def _recurrent_cell(x: Inputs, n: int) -> Any:
    rows, w, u = (
        x.uniform(n, 2, 8),
        x.uniform(8, 16, static=True),
        x.uniform(16, 16, static=True) / 8.0,
    )
    given, states = tf.TensorArray(tf.float32, n).unstack(rows), tf.TensorArray(tf.float32, n)

    def body(t: Any, h: Any, states: Any) -> Any:
        h = tf.tanh(tf.matmul(given.read(t), w) + tf.matmul(h, u))
        return t + 1, h, states.write(t, h)

    return loop(lambda t, *_: t < n, body, [0, tf.zeros([2, 16]), states])[2].stack()


@program(8, 100)
def _gated_recurrent_unit(x: Inputs, n: int) -> Any:
    rows, gates, candidate = x.uniform(n, 4, 16), x.uniform(48, 64) / 8.0, x.uniform(48, 32) / 8.0

    def body(t: Any, h: Any) -> Any:
        row = rows[t]
        z, r = tf.split(tf.sigmoid(tf.matmul(tf.concat([row, h], 1), gates)), 2, 1)
        c = tf.tanh(tf.matmul(tf.concat([row, r * h], 1), candidate))
        return t + 1, z * h + (1.0 - z) * c

    return loop(lambda t, h: t < n, body, [0, tf.zeros([4, 32])])[1]


@program(8, 50)
def _lstm_of_sequences_of_different_length(x: Inputs, n: int) -> Any:
    rows, kernel, lengths = x.uniform(n, 4, 8), x.uniform(24, 64), x.integers(n, 4)
    given, states = tf.TensorArray(tf.float32, n).unstack(rows), tf.TensorArray(tf.float32, n)

    def body(t: Any, c: Any, h: Any, states: Any) -> Any:
        i, j, f, o = tf.split(tf.matmul(tf.concat([given.read(t), h], 1), kernel), 4, 1)
        new = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        out = tf.sigmoid(o) * tf.tanh(new)
        alive = (t < lengths)[:, None]
        alive = tf.logical_and(alive, tf.ones_like(c, tf.bool))
        return (
            t + 1,
            tf.where(alive, new, c),
            tf.where(alive, out, h),
            states.write(t, tf.where(alive, out, tf.zeros_like(out))),
        )

    zeros = tf.zeros([4, 16])
    found = loop(lambda t, *_: t < n, body, [0, zeros, zeros, states])
    return found[1], found[3].stack()


@program(8, 60)
def _attention_over_a_memory(x: Inputs, n: int) -> Any:
    memory, w = x.uniform(2, 12, 16), x.uniform(16, 16)

    def body(t: Any, q: Any) -> Any:
        weights = tf.nn.softmax(tf.squeeze(tf.matmul(memory, q[:, :, None]), 2))
        return t + 1, tf.tanh(tf.matmul(tf.reduce_sum(weights[:, :, None] * memory, 1), w) + q)

    return loop(lambda t, q: t < n, body, [0, tf.ones([2, 16])])[1]


@program(6, 64, "python")
def _attention_over_growing_states(x: Inputs, n: int) -> Any:
    w = x.uniform(16, 16) / 8.0

    def body(t: Any, states: Any) -> Any:
        q = tf.matmul(states[:, -1], w)
        weights = tf.nn.softmax(tf.squeeze(tf.matmul(states, q[:, :, None]), 2))
        new = tf.tanh(tf.reduce_sum(weights[:, :, None] * states, 1) + q)
        return t + 1, tf.concat([states, new[:, None]], 1)

    start = [0, x.uniform(2, 1, 16, static=True)]
    return loop(
        lambda t, _: t < n,
        body,
        start,
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, None, 16])],
    )[1]


@program(6, 40, **EXACT)
def _greedy_decoding(x: Inputs, n: int) -> Any:
    embedding, w, out = x.uniform(32, 16), x.uniform(16, 16), x.uniform(16, 32)

    def body(t: Any, token: Any, h: Any, tokens: Any, done: Any) -> Any:
        h = tf.tanh(tf.matmul(tf.gather(embedding, token), w) + h)
        token = tf.argmax(tf.matmul(h, out), 1, output_type=tf.int32)
        return t + 1, token, h, tokens.write(t, token), tf.logical_or(done, tf.equal(token, 0))

    def more(t: Any, token: Any, h: Any, tokens: Any, done: Any) -> Any:
        return tf.logical_and(t < n, tf.logical_not(tf.reduce_all(done)))

    start = [
        0,
        x.integers(32, 3),
        tf.zeros([3, 16]),
        tf.TensorArray(tf.int32, n, element_shape=[3]),
        tf.zeros([3], tf.bool),
    ]
    return loop(more, body, start)[3].stack()


@program(6, 40, **EXACT)
def _beam_search(x: Inputs, n: int) -> Any:
    beams, words = 4, 16
    step, w = x.uniform(words, words), x.uniform(words, words)

    def body(t: Any, tokens: Any, scores: Any, h: Any, history: Any) -> Any:
        h = tf.tanh(tf.gather(w, tokens) + 0.5 * h)
        logits = tf.nn.log_softmax(tf.matmul(h, step))
        best, at = tf.nn.top_k(tf.reshape(scores[:, None] + logits, [-1]), beams)
        parents, tokens = at // words, at % words
        history = tf.gather(history, parents)
        history = tf.concat([history[:, 1:], tokens[:, None]], 1)
        return t + 1, tokens, best, tf.gather(h, parents), history

    start = [
        0,
        tf.zeros([beams], tf.int32),
        x.uniform(beams),
        tf.zeros([beams, words]),
        tf.zeros([beams, n], tf.int32),
    ]
    return loop(lambda t, *_: t < n, body, start)[4]


@program(6, 40, "kernel", v1="jumps", **EXACT)
def _edit_distance(x: Inputs, n: int) -> Any:
    a, b = x.integers(4, n), x.integers(4, n)

    def column(j: Any, i: Any, row: Any, new: Any, left: Any) -> Any:
        change = row[j] + tf.cast(tf.not_equal(a[i], b[j]), tf.int32)
        least = tf.minimum(tf.minimum(left, row[j + 1]) + 1, change)
        return j + 1, i, row, new.write(j + 1, least), least

    def line(i: Any, row: Any) -> Any:
        new = tf.TensorArray(tf.int32, n + 1).write(0, i + 1)
        return i + 1, loop(lambda j, *_: j < n, column, [0, i, row, new, i + 1])[3].stack()

    return loop(lambda i, _: i < n, line, [0, tf.range(n + 1)])[1]


@program(6, 100, **EXACT)
def _viterbi(x: Inputs, n: int) -> Any:
    states = 8
    emissions, moves = x.uniform(n, states), x.uniform(states, states, static=True)

    def forward(t: Any, score: Any, back: Any) -> Any:
        paths = score[:, None] + moves
        best = tf.argmax(paths, 0, output_type=tf.int32)
        return t + 1, tf.reduce_max(paths, 0) + emissions[t], back.write(t, best)

    pointers = tf.TensorArray(tf.int32, n, clear_after_read=False, element_shape=[states])
    _, score, back = loop(lambda t, *_: t < n, forward, [0, tf.zeros([states]), pointers])

    def backward(t: Any, at: Any, path: Any) -> Any:
        return t - 1, back.read(t)[at], path.write(t, at)

    start = [
        n - 1,
        tf.argmax(score, output_type=tf.int32),
        tf.TensorArray(tf.int32, n, element_shape=[]),
    ]
    return loop(lambda t, *_: t >= 0, backward, start)[2].stack()


@program(6, 100)
def _forward_of_a_markov_chain(x: Inputs, n: int) -> Any:
    states = 8
    emissions, moves = x.uniform(n, states), x.uniform(states, states, static=True)

    def body(t: Any, a: Any) -> Any:
        return t + 1, tf.reduce_logsumexp(a[:, None] + moves, 0) + emissions[t]

    return loop(lambda t, _: t < n, body, [0, tf.zeros([states])])[1]


@program(6, 100)
def _connectionist_forward(x: Inputs, n: int) -> Any:
    labels = 9
    logits = tf.nn.log_softmax(x.uniform(n, 4, labels))
    low = tf.fill([4, 1], -1e30)

    def body(t: Any, a: Any) -> Any:
        one = tf.concat([low, a[:, :-1]], 1)
        two = tf.concat([low, low, a[:, :-2]], 1)
        return t + 1, tf.reduce_logsumexp(tf.stack([a, one, two]), 0) + logits[t]

    first = tf.concat([tf.zeros([4, 1]), tf.fill([4, labels - 1], -1e30)], 1)
    return loop(lambda t, _: t < n, body, [0, first])[1]


@program(10, 300)
def _exponential_average_of_columns(x: Inputs, n: int) -> Any:
    rows = x.uniform(n, 16)

    def body(t: Any, m: Any, found: Any) -> Any:
        m = 0.9 * m + 0.1 * tf.gather(rows, t)
        return t + 1, m, tf.tensor_scatter_nd_update(found, [[t]], [m])

    return loop(lambda t, *_: t < n, body, [0, tf.zeros([16]), tf.zeros([n, 16])])[2]


@program(5, 30)
def _convolution_in_a_loop(x: Inputs, n: int) -> Any:
    kernel = x.uniform(3, 3, 4, 4) / 12.0

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.nn.relu(tf.nn.conv2d(a, kernel, 1, "SAME")) + 0.1 * a

    return loop(lambda i, a: i < n, body, [0, x.uniform(1, 8, 8, 4, static=True)])[1]


@program(8, 64)
def _top_of_a_moving_list(x: Inputs, n: int) -> Any:
    def body(i: Any, v: Any) -> Any:
        best, _ = tf.nn.top_k(v, n)
        return i + 1, best * 0.9 + tf.reverse(best, [0]) * 0.2

    return loop(lambda i, v: i < 30, body, [0, x.uniform(n, static=True)])[1]


@program(8, 64)
def _sort_in_a_loop(x: Inputs, n: int) -> Any:
    return loop(
        lambda i, v: i < 30,
        lambda i, v: (i + 1, tf.sin(tf.sort(v) * 1.5)),
        [0, x.uniform(n, static=True)],
    )[1]


@program(8, 64)
def _one_hot_counts(x: Inputs, n: int) -> Any:
    rows = x.integers(6, n, 4)

    def body(i: Any, s: Any) -> Any:
        return i + 1, s * 0.9 + tf.one_hot(rows[i], 6)

    return loop(lambda i, s: i < n, body, [0, tf.zeros([4, 6])])[1]


@program(8, 256)
def _running_sum_in_a_loop(x: Inputs, n: int) -> Any:
    return loop(
        lambda i, v: i < 30, lambda i, v: (i + 1, tf.cumsum(v) / (1.0 + n)), [0, x.uniform(n)]
    )[1]


@program(4, 32)
def _layer_norm_in_a_loop(x: Inputs, n: int) -> Any:
    w = x.uniform(16, 16)

    def body(i: Any, h: Any) -> Any:
        h = h + tf.nn.relu(tf.matmul(h, w))
        mean, variance = tf.nn.moments(h, [1], keepdims=True)
        return i + 1, (h - mean) * tf.math.rsqrt(variance + 1e-5)

    return loop(lambda i, h: i < n, body, [0, x.uniform(4, 16)])[1]


@program(5, 100, "python")
def _list_that_grows(x: Inputs, n: int) -> Any:
    count = x.take(np.int32(n))
    found = tf.TensorArray(tf.float32, 0, dynamic_size=True)

    def body(i: Any, a: Any, found: Any) -> Any:
        return i + 1, a * 0.9 + 0.3, found.write(i, a)

    return loop(lambda i, a, _: tf.logical_and(i < count, a < 100.0), body, [0, 1.0, found])[
        2
    ].stack()


@program(5, 60, "python")
def _vector_that_grows(x: Inputs, n: int) -> Any:
    def body(i: Any, v: Any) -> Any:
        return i + 1, tf.concat([v, v[-1:] + v[-2:-1]], 0)

    return loop(
        lambda i, v: i < n,
        body,
        [0, x.uniform(2)],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )[1]
