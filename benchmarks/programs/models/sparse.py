"""Define programs on sparse features: graph convolution, word vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs.models.layers import generator, session


def graph_convolution(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    nodes: int = 2708,
    features: int = 1433,
    per_node: int = 18,
    links: int = 5400,
    hidden: int = 16,
    classes: int = 7,
) -> None:
    """Train a two-layer graph convolution; evaluate it after each step."""
    rng = generator(9)
    kind = rng.integers(0, classes, nodes)
    flat = np.unique(
        np.repeat(np.arange(nodes), per_node) * features
        + (kind[:, None] * 150 + rng.integers(0, 400, [nodes, per_node])).ravel() % features
    )
    feature_places = np.stack([flat // features, flat % features], 1)
    ends = rng.integers(0, nodes, [links, 2])
    ends = np.concatenate([ends, ends[:, ::-1], np.arange(nodes)[:, None].repeat(2, 1)])
    flat = np.unique(ends[:, 0] * nodes + ends[:, 1])
    link_places = np.stack([flat // nodes, flat % nodes], 1)
    degree = np.bincount(link_places[:, 0], minlength=nodes)
    link_values = (degree[link_places[:, 0]] * degree[link_places[:, 1]]) ** -0.5
    feature_values = np.full(len(feature_places), 1 / per_node)

    x = tf.sparse_placeholder(tf.float32, [nodes, features], name="features")
    support = tf.sparse_placeholder(tf.float32, [nodes, nodes], name="support")
    labels = tf.placeholder(tf.int32, [nodes], name="labels")
    mask = tf.placeholder(tf.float32, [nodes], name="mask")
    keep = tf.placeholder_with_default(1.0, [], name="keep")
    count = tf.placeholder(tf.int32, [], name="count")

    def sparse_dropout(values: Any) -> Any:
        kept = tf.cast(tf.floor(keep + tf.random_uniform([count])), tf.bool)
        return tf.sparse_retain(values, kept) * (1.0 / keep)

    def layer(inputs: Any, width: int, units: int, sparse: bool, name: str) -> Any:
        with tf.variable_scope(name):
            weights = tf.get_variable("weights", [width, units])
            if sparse:
                product = tf.sparse_tensor_dense_matmul(sparse_dropout(inputs), weights)
            else:
                product = tf.matmul(tf.nn.dropout(inputs, rate=1 - keep), weights)
            return tf.sparse_tensor_dense_matmul(support, product)

    inner = tf.nn.relu(layer(x, features, hidden, True, "first"))
    logits = layer(inner, hidden, classes, False, "second")
    shares = mask / tf.reduce_mean(mask)
    decay = 5e-4 * tf.nn.l2_loss(tf.trainable_variables()[0])
    loss = decay + tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits) * shares
    )
    right = tf.cast(tf.equal(tf.cast(tf.argmax(logits, 1), tf.int32), labels), tf.float32)
    accuracy = tf.reduce_mean(right * shares)
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    chosen = (np.arange(nodes) % 10 == 0).astype(np.float32)
    held = (np.arange(nodes) % 10 == 1).astype(np.float32)
    feed = {
        x: (feature_places, feature_values, (nodes, features)),
        support: (link_places, link_values, (nodes, nodes)),
        labels: kind,
        count: len(feature_places),
    }
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for _ in recorder.steps():
            _, value = run.run([train, loss], feed | {mask: chosen, keep: 0.5})
            held_loss, held_right = run.run([loss, accuracy], feed | {mask: held})
            recorder.output(value, held_loss, held_right)


def word_vectors(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    words: int = 20000,
    width: int = 128,
    batch: int = 128,
    negatives: int = 64,
) -> None:
    """Train word vectors by noise-contrastive estimation; look up neighbours now and then."""
    inputs = tf.placeholder(tf.int32, [batch], name="inputs")
    labels = tf.placeholder(tf.int32, [batch, 1], name="labels")
    table = tf.Variable(tf.random_uniform([words, width], -1.0, 1.0))
    weights = tf.Variable(tf.truncated_normal([words, width], stddev=width**-0.5))
    biases = tf.Variable(tf.zeros([words]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=weights,
            biases=biases,
            labels=labels,
            inputs=tf.nn.embedding_lookup(table, inputs),
            num_sampled=negatives,
            num_classes=words,
        )
    )
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    normal = table / tf.sqrt(tf.reduce_sum(tf.square(table), 1, keepdims=True))
    asked = tf.constant(np.arange(16, dtype=np.int32))
    near = tf.matmul(tf.nn.embedding_lookup(normal, asked), normal, transpose_b=True)
    rng = generator(10)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for step in recorder.steps():
            centre = rng.zipf(1.4, batch) % words
            feed = {
                inputs: centre,
                labels: ((centre + rng.integers(1, 4, batch)) % words)[:, None],
            }
            _, value = run.run([train, loss], feed)
            recorder.output(value)
            if step % 500 == 499:
                recorder.output(np.sort(run.run(near), 1)[:, -5:])
