"""Define transformers.

An encoder that learns masked words, a decoder that scores and samples text.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.programs.models.layers import clipped, dense, generator, layer_norm, session


def _gelu(tf: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + tf.erf(x / math.sqrt(2.0)))


def _gelu_tanh(tf: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * tf.pow(x, 3))))


def _heads(tf: Any, x: Any, heads: int) -> Any:
    """Return x [batch, time, width] as [batch, heads, time, width / heads]."""
    width = int(x.shape[-1])
    shape = tf.shape(x)
    split = tf.reshape(x, [shape[0], shape[1], heads, width // heads])
    return tf.transpose(split, [0, 2, 1, 3])


def _merged(tf: Any, x: Any, width: int) -> Any:
    """Return x [batch, heads, time, size] as [batch, time, width]."""
    x = tf.transpose(x, [0, 2, 1, 3])
    shape = tf.shape(x)
    y = tf.reshape(x, [shape[0], shape[1], width])
    y.set_shape([None, None, width])
    return y


def encoder(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    layers: int = 4,
    width: int = 256,
    heads: int = 4,
    vocabulary: int = 4000,
    batch: int = 16,
    length: int = 96,
    masked: int = 14,
) -> None:
    """Train an encoder on masked words and the order of sentences.

    The order is of two sentences.
    """
    words = tf.placeholder(tf.int32, [batch, length], name="words")
    segments = tf.placeholder(tf.int32, [batch, length], name="segments")
    lengths = tf.placeholder(tf.int32, [batch], name="lengths")
    positions = tf.placeholder(tf.int32, [batch, masked], name="positions")
    answers = tf.placeholder(tf.int32, [batch, masked], name="answers")
    order = tf.placeholder(tf.int32, [batch], name="order")
    normal = tf.truncated_normal_initializer(stddev=0.02)
    table = tf.get_variable("words_table", [vocabulary, width], initializer=normal)
    segment_table = tf.get_variable("segment_table", [2, width], initializer=normal)
    place_table = tf.get_variable("place_table", [length, width], initializer=normal)
    # a product, as encoders look up the two rows of segments
    one_hot = tf.one_hot(tf.reshape(segments, [-1]), 2)
    x = tf.nn.embedding_lookup(table, words)
    x += tf.reshape(tf.matmul(one_hot, segment_table), [batch, length, width])
    x += tf.expand_dims(place_table, 0)
    x = tf.nn.dropout(layer_norm(tf, x, "embedded"), rate=0.1)
    mask = tf.sequence_mask(lengths, length, tf.float32)
    penalty = (1.0 - mask[:, tf.newaxis, tf.newaxis, :]) * -10000.0
    for layer in range(layers):
        with tf.variable_scope(f"layer_{layer}"):
            query, key, value = (
                _heads(tf, dense(tf, x, width, name), heads) for name in ("query", "key", "value")
            )
            scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(width / heads) + penalty
            shares = tf.nn.dropout(tf.nn.softmax(scores), rate=0.1)
            attended = dense(tf, _merged(tf, tf.matmul(shares, value), width), width, "output")
            x = layer_norm(tf, x + tf.nn.dropout(attended, rate=0.1), "attention_norm")
            inner = dense(tf, x, 4 * width, "inner", lambda y: _gelu(tf, y))
            x = layer_norm(
                tf, x + tf.nn.dropout(dense(tf, inner, width, "outer"), rate=0.1), "norm"
            )
    offsets = tf.expand_dims(tf.range(batch) * length, 1)
    chosen = tf.gather(tf.reshape(x, [-1, width]), tf.reshape(positions + offsets, [-1]))
    chosen.set_shape([batch * masked, width])
    chosen = layer_norm(tf, dense(tf, chosen, width, "transform", lambda y: _gelu(tf, y)), "last")
    bias = tf.get_variable("words_bias", [vocabulary], initializer=tf.zeros_initializer())
    logits = tf.matmul(chosen, table, transpose_b=True) + bias
    log_shares = tf.nn.log_softmax(logits)
    picked = tf.reduce_sum(log_shares * tf.one_hot(tf.reshape(answers, [-1]), vocabulary), axis=1)
    words_loss = -tf.reduce_mean(picked)
    pooled = dense(tf, tf.squeeze(x[:, 0:1, :], axis=1), width, "pooler", tf.tanh)
    pooled.set_shape([batch, width])
    order_loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=order, logits=dense(tf, pooled, 2, "order")
        )
    )
    loss = words_loss + order_loss
    step = tf.cast(tf.train.get_or_create_global_step(), tf.float32)
    rate = 1e-3 * tf.minimum(1.0, (step + 1.0) / 20.0) * tf.maximum(0.1, 1.0 - step / 2000.0)
    train = clipped(tf, tf.train.AdamOptimizer(rate), loss, 1.0)
    rng = generator(1)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for _ in recorder.steps():
            text = (rng.zipf(1.3, [batch, length]) % vocabulary).astype(np.int32)
            places = np.argsort(rng.random([batch, length]), 1)[:, :masked].astype(np.int32)
            hidden = text.copy()
            np.put_along_axis(hidden, places, 3, 1)
            half = np.int32(np.arange(length) >= length // 2)
            feed = {
                words: hidden,
                segments: np.tile(half, [batch, 1]),
                lengths: rng.integers(length // 2, length + 1, batch),
                positions: places,
                answers: np.take_along_axis(text, places, 1),
                order: rng.integers(0, 2, batch),
            }
            _, total, first = run.run([train, loss, words_loss], feed)
            recorder.output(total, first)


class _Decoder:
    """A decoder with keys and values of earlier words."""

    def __init__(self, tf: Any, layers: int, width: int, heads: int, words: int) -> None:
        self.tf, self.layers, self.width, self.heads, self.words = tf, layers, width, heads, words

    def past_shape(self, batch: Any, time: Any) -> list[Any]:
        """Return the shape of the keys and values of earlier words."""
        return [batch, self.layers, 2, self.heads, time, self.width // self.heads]

    def _attention(self, x: Any, past: Any) -> tuple[Any, Any]:
        tf, width = self.tf, self.width
        joint = dense(tf, x, 3 * width, "joint")
        query, key, value = (_heads(tf, part, self.heads) for part in tf.split(joint, 3, axis=2))
        present = tf.stack([key, value], axis=1)
        if past is not None:
            past_key, past_value = tf.unstack(past, axis=1)
            key = tf.concat([past_key, key], axis=-2)
            value = tf.concat([past_value, value], axis=-2)
        scores = tf.matmul(query, key, transpose_b=True) * (self.heads / width) ** 0.5
        rows, columns = tf.shape(scores)[2], tf.shape(scores)[3]
        i = tf.range(rows)[:, None]
        j = tf.range(columns)
        seen = tf.reshape(tf.cast(i >= j - columns + rows, tf.float32), [1, 1, rows, columns])
        scores = scores * seen - 1e10 * (1 - seen)
        merged = _merged(tf, tf.matmul(tf.nn.softmax(scores), value), width)
        return dense(tf, merged, width, "output"), present

    def __call__(self, tokens: Any, past: Any = None) -> tuple[Any, Any]:
        """Return (logits [batch, time, words], keys and values of these words)."""
        tf, width = self.tf, self.width
        with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
            normal = tf.random_normal_initializer(stddev=0.02)
            wide = tf.random_normal_initializer(stddev=0.3)
            table = tf.get_variable("words", [self.words, width], initializer=wide)
            places = tf.get_variable("places", [512, width], initializer=normal)
            before = 0 if past is None else tf.shape(past)[-2]
            where = before + tf.range(tf.shape(tokens)[1])
            x = tf.gather(table, tokens) + tf.gather(places, where)
            x.set_shape([None, None, width])
            presents = []
            pasts = [None] * self.layers if past is None else tf.unstack(past, axis=1)
            for layer, earlier in enumerate(pasts):
                with tf.variable_scope(f"layer_{layer}"):
                    attended, present = self._attention(layer_norm(tf, x, "norm_1"), earlier)
                    presents.append(present)
                    x = x + attended
                    inner = dense(
                        tf,
                        layer_norm(tf, x, "norm_2"),
                        4 * width,
                        "inner",
                        lambda y: _gelu_tanh(tf, y),
                    )
                    x = x + dense(tf, inner, width, "outer")
            x = layer_norm(tf, x, "norm")
            logits = tf.matmul(tf.reshape(x, [-1, width]), table, transpose_b=True)
            shape = tf.shape(tokens)
            logits = tf.reshape(logits, [shape[0], shape[1], self.words])
            return logits, tf.stack(presents, axis=1)


def scoring(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    layers: int = 4,
    width: int = 256,
    heads: int = 4,
    words: int = 5000,
    batch: int = 4,
    lengths: tuple[int, ...] = (16, 32, 48, 64, 96, 128),
) -> None:
    """Score texts of six lengths in turn.

    The loss, and the five likeliest next words.
    """
    tokens = tf.placeholder(tf.int32, [None, None], name="tokens")
    logits, _ = _Decoder(tf, layers, width, heads, words)(tokens)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 1:], logits=logits[:, :-1])
    )
    best = tf.nn.top_k(tf.nn.softmax(logits[:, -1, :]), 5)
    rng = generator(2)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for step in recorder.steps():
            text = rng.integers(0, words, [batch, lengths[step % len(lengths)]])
            value, shares = run.run([loss, best.values], {tokens: text})
            recorder.output(value, shares)


def sampling(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    layers: int = 4,
    width: int = 256,
    heads: int = 4,
    words: int = 5000,
    batch: int = 2,
    prompt: int = 12,
    length: int = 40,
    kept: int = 40,
) -> None:
    """Sample texts word by word in a loop of the graph.

    The loop's keys and values grow. The choice of a word is the largest score with noise that is
    fed, so that it depends on no generator of the library.
    """
    context = tf.placeholder(tf.int32, [batch, None], name="context")
    noise = tf.placeholder(tf.float32, [length, batch, words], name="noise")
    decoder = _Decoder(tf, layers, width, heads, words)

    def choose(logits: Any, count: Any) -> Any:
        last = logits[:, -1, :]
        values, _ = tf.nn.top_k(last, k=kept)
        low = values[:, -1, tf.newaxis]
        last = tf.where(last < low, tf.ones_like(last) * -1e10, last)
        return tf.cast(tf.argmax(last + noise[count], axis=1), tf.int32)

    logits, past = decoder(context)
    first = choose(logits, 0)

    def body(count: Any, past: Any, last: Any, text: Any) -> list[Any]:
        logits, present = decoder(last[:, tf.newaxis], past)
        grown = tf.concat([past, present], axis=-2)
        word = choose(logits, count)
        return [count + 1, grown, word, tf.concat([text, word[:, tf.newaxis]], axis=1)]

    start = [tf.constant(1), past, first, tf.concat([context, first[:, tf.newaxis]], axis=1)]
    _, _, _, text = tf.while_loop(
        lambda count, *_: count < length,
        body,
        start,
        shape_invariants=[
            tf.TensorShape([]),
            tf.TensorShape(decoder.past_shape(batch, None)),
            tf.TensorShape([batch]),
            tf.TensorShape([batch, None]),
        ],
        back_prop=False,
    )
    rng = generator(3)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for step in recorder.steps():
            feed = {
                context: rng.integers(0, words, [batch, prompt + step % 5]),
                noise: rng.gumbel(size=[length, batch, words]).astype(np.float32),
            }
            recorder.output(run.run(text, feed))
