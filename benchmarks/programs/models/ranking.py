"""Recommenders: click-through with attention over a history, DeepFM, wide and deep."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs.models.layers import dense, generator, session


def click_through(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    items: int = 8000,
    categories: int = 300,
    users: int = 5000,
    width: int = 32,
    batch: int = 64,
    lengths: tuple[int, ...] = (5, 8, 11, 14, 17, 20, 24, 28, 33, 38, 44, 50, 57),
) -> None:
    """Train a click-through model on batches of 13 different history lengths."""
    user = tf.placeholder(tf.int32, [None], name="user")
    item = tf.placeholder(tf.int32, [None], name="item")
    history = tf.placeholder(tf.int32, [None, None], name="history")
    sizes = tf.placeholder(tf.int32, [None], name="sizes")
    label = tf.placeholder(tf.float32, [None], name="label")
    category_of = tf.constant(np.arange(items, dtype=np.int32) * 7 % categories)
    item_table = tf.get_variable("items", [items, width])
    category_table = tf.get_variable("categories", [categories, width])
    user_table = tf.get_variable("users", [users, width])
    item_bias = tf.get_variable("item_bias", [items], initializer=tf.zeros_initializer())

    def embedded(ids: Any) -> Any:
        parts = [
            tf.nn.embedding_lookup(item_table, ids),
            tf.nn.embedding_lookup(category_table, tf.gather(category_of, ids)),
        ]
        return tf.concat(parts, axis=-1)

    query, keys = embedded(item), embedded(history)
    queries = tf.reshape(tf.tile(query, [1, tf.shape(keys)[1]]), tf.shape(keys))
    joint = tf.concat([queries, keys, queries - keys, queries * keys], axis=-1)
    joint.set_shape([None, None, 8 * width])
    hidden = dense(tf, joint, 40, "attention_1", tf.sigmoid)
    scores = tf.squeeze(dense(tf, hidden, 1, "attention_2"), axis=-1) / (2 * width) ** 0.5
    mask = tf.sequence_mask(sizes, tf.shape(keys)[1])
    scores = tf.where(mask, scores, tf.ones_like(scores) * float(-(2**32) + 1))
    shares = tf.expand_dims(tf.nn.softmax(scores), 1)
    interest = tf.squeeze(tf.matmul(shares, keys), axis=1)
    x = tf.concat(
        [tf.nn.embedding_lookup(user_table, user), query, interest, query * interest], axis=-1
    )
    x.set_shape([None, 7 * width])
    for layer, units in enumerate((80, 40)):
        x = dense(tf, x, units, f"layer_{layer}")
        alpha = tf.get_variable(
            f"alpha_{layer}", [units], initializer=tf.constant_initializer(0.25)
        )
        x = tf.maximum(x, 0.0) + alpha * tf.minimum(x, 0.0)
    logits = tf.squeeze(dense(tf, x, 1, "logits"), 1) + tf.gather(item_bias, item)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    rng = generator(4)
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for step in recorder.steps():
            longest = lengths[step % len(lengths)]
            count = rng.integers(1, longest + 1, batch)
            count[0] = longest
            past = rng.integers(1, items, [batch, longest])
            past[np.arange(longest) >= count[:, None]] = 0
            wanted = rng.integers(0, items, batch)
            feed = {
                user: rng.integers(0, users, batch),
                item: wanted,
                history: past,
                sizes: count,
                label: ((wanted + past[:, 0]) % 3 == 0).astype(np.float32),
            }
            recorder.output(run.run([loss, train], feed)[0])


def deep_fm(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    fields: int = 26,
    numeric: int = 13,
    values: int = 40000,
    width: int = 8,
    batch: int = 256,
    units: tuple[int, ...] = (128, 64),
) -> None:
    """Train a factorisation machine beside a deep network; Adam on the embeddings."""
    ids = tf.placeholder(tf.int32, [None, fields], name="ids")
    dense_values = tf.placeholder(tf.float32, [None, numeric], name="numeric")
    label = tf.placeholder(tf.float32, [None], name="label")
    small = tf.random_normal_initializer(stddev=0.01)
    table = tf.get_variable("factors", [values, width], initializer=small)
    first = tf.get_variable("first_order", [values], initializer=small)
    factors = tf.nn.embedding_lookup(table, ids)
    linear = tf.reduce_sum(tf.nn.embedding_lookup(first, ids), 1)
    linear += tf.squeeze(dense(tf, dense_values, 1, "numeric_linear"), 1)
    summed = tf.reduce_sum(factors, 1)
    pairs = 0.5 * tf.reduce_sum(tf.square(summed) - tf.reduce_sum(tf.square(factors), 1), 1)
    deep = tf.concat([tf.reshape(factors, [-1, fields * width]), dense_values], 1)
    for layer, count in enumerate(units):
        deep = tf.nn.dropout(dense(tf, deep, count, f"deep_{layer}", tf.nn.relu), rate=0.2)
    logits = linear + pairs + tf.squeeze(dense(tf, deep, 1, "deep_out"), 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
    loss += 1e-4 * tf.add_n([tf.nn.l2_loss(factors), tf.nn.l2_loss(linear)])
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    rng = generator(5)
    per_field = values // fields
    with session(tf, recorder, threads) as run:
        run.run(tf.global_variables_initializer())
        for _ in recorder.steps():
            picks = rng.zipf(1.5, [batch, fields]) % per_field
            feed = {
                ids: picks + np.arange(fields) * per_field,
                dense_values: rng.standard_normal([batch, numeric], np.float32),
                label: (picks.sum(1) % 2).astype(np.float32),
            }
            recorder.output(run.run([loss, train], feed)[0])


def wide_and_deep(
    tf: Any,
    recorder: Any,
    threads: int,
    *,
    examples: int = 4096,
    buckets: int = 10000,
    batch: int = 128,
    units: tuple[int, ...] = (100, 50),
) -> None:
    """Train a wide and a deep model, each with its optimizer.

    Threads fill the queues of examples.
    """
    rng = generator(6)
    age = rng.uniform(17, 80, examples).astype(np.float32)
    hours = rng.uniform(1, 80, examples).astype(np.float32)
    names = ("work", "school", "status", "country")
    sizes = (9, 16, 7, 42)
    categorical = [rng.integers(0, size, examples) for size in sizes]
    answer = ((categorical[1] > 8) & (hours > 35)).astype(np.float32)
    with tf.device("/cpu:0"), tf.name_scope("input"):
        inputs = [age, hours, *categorical, answer]
        one = tf.train.slice_input_producer(
            [tf.constant(values) for values in inputs], shuffle=True, seed=7, capacity=64
        )
        batched = tf.train.batch(one, batch, num_threads=1, capacity=4 * batch)
    batch_age, batch_hours, *ids, label = batched
    edges = [18.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0]
    age_bucket = tf.reduce_sum(
        tf.cast(tf.expand_dims(batch_age, 1) >= tf.constant(edges), tf.int64), 1
    )
    crosses = [
        (ids[0] * 131 + ids[1]) % buckets,
        (ids[1] * 131 + age_bucket) % buckets,
        (ids[3] * 131 + ids[0] * 17 + age_bucket) % buckets,
    ]
    columns = [*zip(names, ids, sizes), ("age", age_bucket, len(edges) + 1)]
    columns += [(f"cross_{k}", cross, buckets) for k, cross in enumerate(crosses)]
    with tf.variable_scope("wide"):
        wide = []
        for name, column, size in columns:
            weights = tf.get_variable(name, [size, 1], initializer=tf.zeros_initializer())
            rows = tf.range(tf.cast(tf.shape(column)[0], tf.int64))
            sparse = tf.SparseTensor(
                tf.stack([rows, tf.zeros_like(rows)], 1),
                column,
                [tf.cast(tf.shape(column)[0], tf.int64), 1],
            )
            wide.append(tf.nn.embedding_lookup_sparse(weights, sparse, None, combiner="sum"))
        wide_logits = tf.add_n(wide)
    with tf.variable_scope("deep"):
        deep = [tf.stack([batch_age / 80.0, batch_hours / 80.0], 1)]
        for name, column, size in columns:
            table = tf.get_variable(name, [size, 8])
            deep.append(tf.nn.embedding_lookup(table, column))
        x = tf.concat(deep, 1)
        for layer, count in enumerate(units):
            x = dense(tf, x, count, f"layer_{layer}", tf.nn.relu)
        deep_logits = dense(tf, x, 1, "logits")
    logits = tf.squeeze(wide_logits + deep_logits, 1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
    share = tf.reduce_mean(tf.cast(tf.equal(logits > 0, label > 0.5), tf.float32))
    train = tf.group(
        tf.train.FtrlOptimizer(0.1, l1_regularization_strength=1e-3).minimize(
            loss, var_list=tf.trainable_variables("wide")
        ),
        tf.train.AdagradOptimizer(0.05).minimize(loss, var_list=tf.trainable_variables("deep")),
    )
    with session(tf, recorder, threads) as run:
        run.run(tf.group(tf.global_variables_initializer(), tf.local_variables_initializer()))
        coordinator = tf.train.Coordinator()
        runners = tf.train.start_queue_runners(run, coordinator)
        for _ in recorder.steps():
            _, value, right = run.run([train, loss, share])
            recorder.output(value, right)
        coordinator.request_stop()
        coordinator.join(runners, stop_grace_period_secs=10)
