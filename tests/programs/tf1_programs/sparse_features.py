"""Sparse placeholders and embeddings of sparse features, trained with several optimizers.

`python sparse_features.py FOLDER` writes into FOLDER and prints one line for each section.
"""

import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)

WORDS, SIZE = 20, 4


def documents(count, seed):
    """Word numbers of each document, of different lengths, one of them empty; and labels."""
    rng = np.random.RandomState(seed)
    rows = [rng.randint(0, WORDS, rng.randint(1, 6)) for _ in range(count)]
    rows[count // 2] = np.zeros(0, np.int64)
    labels = np.array([float((row < WORDS // 2).sum() * 2 > len(row)) for row in rows], np.float32)
    indices = [(i, k) for i, row in enumerate(rows) for k in range(len(row))]
    values = np.concatenate(rows).astype(np.int64)
    shape = (count, max(map(len, rows)))
    return tf.SparseTensorValue(np.array(indices, np.int64).reshape(-1, 2), values, shape), labels


def words_embedded(folder, combiner="mean", optimizer=None):
    words = tf.sparse_placeholder(tf.int64, [None, None], name="words")
    labels = tf.placeholder(tf.float32, [None])
    embedding = tf.get_variable(
        "embedding", [WORDS, SIZE], initializer=tf.random_normal_initializer(stddev=0.1, seed=2)
    )
    w = tf.get_variable("w", [SIZE, 1], initializer=tf.constant_initializer(0.3))
    filled, empty = tf.sparse_fill_empty_rows(words, 0)
    vectors = tf.nn.embedding_lookup_sparse(embedding, filled, None, combiner=combiner)
    vectors = tf.where(empty, tf.zeros_like(vectors), vectors)
    logits = tf.matmul(vectors, w)[:, 0]
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    (gradient,) = tf.gradients(loss, [embedding])
    train = (optimizer or tf.train.AdagradOptimizer(0.5)).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = []
        for step in range(20):
            given, wanted = documents(8 + step % 3, step)
            _, value, sparse = session.run([train, loss, gradient], {words: given, labels: wanted})
            losses.append(value)
        kinds = type(sparse).__name__, sparse.values.shape[1], sparse.dense_shape.tolist()
        return (
            kinds,
            np.round(losses[::5], 4).tolist(),
            np.round(session.run(embedding)[3], 3).tolist(),
        )


def other_optimizers(folder):
    results = []
    for make in (
        lambda: tf.train.GradientDescentOptimizer(0.5),
        lambda: tf.train.AdamOptimizer(0.05),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.FtrlOptimizer(0.3, l1_regularization_strength=0.01),
        lambda: tf.train.RMSPropOptimizer(0.01),
    ):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        results.append(words_embedded(folder, "sqrtn", make())[1][-1])
    return results


def weighted_lookup(folder):
    ids, weights = tf.sparse_placeholder(tf.int64), tf.sparse_placeholder(tf.float32)
    table = tf.constant(np.arange(WORDS * 2, dtype=np.float32).reshape(WORDS, 2))
    summed = tf.nn.embedding_lookup_sparse(table, ids, weights, combiner="sum")
    given, _ = documents(6, 5)
    keep = given.indices[:, 0] != 3  # no empty row is left
    rows = np.unique(given.indices[keep, 0], return_inverse=True)[1]
    indices = np.stack([rows, given.indices[keep, 1]], 1)
    values = given.values[keep]
    shape = (rows.max() + 1, given.dense_shape[1])
    with tf.Session() as session:
        feeds = {
            ids: (indices, values, shape),
            weights: (indices, np.linspace(0, 1, len(values)), shape),
        }
        return session.run(summed, feeds).round(3).tolist()


def linear_model_of_sparse_rows(folder):
    x = tf.sparse_placeholder(tf.float32, [None, 12], name="x")
    y = tf.placeholder(tf.float32, [None, 1])
    w = tf.get_variable("w", [12, 1], initializer=tf.zeros_initializer())
    product = tf.sparse_tensor_dense_matmul(x, w)
    loss = tf.reduce_mean(tf.square(product - y))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    rng = np.random.RandomState(0)
    true = rng.randn(12, 1).astype(np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(30):
            dense = (rng.rand(16, 12) < 0.3) * rng.randn(16, 12).astype(np.float32)
            indices = np.argwhere(dense)
            sparse = tf.SparseTensorValue(indices, dense[tuple(indices.T)], dense.shape)
            _, last = session.run([train, loss], {x: sparse, y: dense @ true})
        again, totals = session.run([x, tf.sparse_reduce_sum(x, 1)], {x: sparse})
        same = np.array_equal(again.indices, sparse.indices) and np.allclose(
            totals, dense.sum(1), atol=1e-5
        )
        return round(float(last), 4), bool(same), np.round(session.run(w)[:3, 0], 3).tolist()


def examples_with_lists(folder):
    serialized = tf.placeholder(tf.string, [None])
    features = {
        "words": tf.VarLenFeature(tf.string),
        "counts": tf.VarLenFeature(tf.int64),
        "age": tf.FixedLenFeature([], tf.float32, default_value=-1.0),
    }
    parsed = tf.parse_example(serialized, features)
    buckets = tf.SparseTensor(
        parsed["words"].indices,
        tf.string_to_hash_bucket_fast(parsed["words"].values, 7),
        parsed["words"].dense_shape,
    )
    indicator = tf.sparse_to_indicator(buckets, 7)
    dense = tf.sparse_tensor_to_dense(parsed["counts"], default_value=-5)
    records = []
    for k in range(4):
        example = tf.train.Example()
        example.features.feature["words"].bytes_list.value.extend(b"word%d" % i for i in range(k))
        example.features.feature["counts"].int64_list.value.extend(range(3 - k))
        if k % 2:
            example.features.feature["age"].float_list.value.append(k)
        records.append(example.SerializeToString())
    with tf.Session() as session:
        found = session.run([parsed, indicator, dense], {serialized: records})
        words = found[0]["words"]
        return (
            words.values.tolist(),
            found[0]["age"].tolist(),
            found[1].sum(1).tolist(),
            found[2].tolist(),
        )


def saved_and_restored(folder):
    path = os.path.join(folder, "model")
    ids = tf.sparse_placeholder(tf.int64, name="ids")
    embedding = tf.get_variable(
        "embedding", [WORDS, 2], initializer=tf.random_uniform_initializer(seed=4)
    )
    vectors = tf.nn.embedding_lookup_sparse(embedding, ids, None, combiner="mean", name="vectors")
    given = tf.SparseTensorValue([[0, 0], [0, 1], [1, 0]], [1, 2, 3], [2, 2])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(vectors, {ids: given})
        tf.train.Saver().save(session, path)
    tf.reset_default_graph()
    with tf.Session() as session:
        tf.train.import_meta_graph(path + ".meta").restore(session, path)
        names = ("ids/indices:0", "ids/values:0", "ids/shape:0")
        after = session.run(vectors.name, dict(zip(names, given)))
    return bool(np.array_equal(before, after))


def main(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    sections = (words_embedded, other_optimizers, weighted_lookup, linear_model_of_sparse_rows)
    for section in (*sections, examples_with_lists, saved_and_restored):
        tf.reset_default_graph()
        tf.set_random_seed(1)
        print(section.__name__, section(folder), flush=True)
    print("sessions of", tf.Session.__module__.partition(".")[0], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
