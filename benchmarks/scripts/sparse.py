"""Measure sparse products and sums, embedding look-ups, and summaries.

The shapes are those of a graph convolution (2708 nodes, 13,264 links, 49,000 features), of wide
features, of word vectors, and of tutorials that log each variable. Outputs whose shape depends on
values come from reference kernels, so these rows have nodes that are not compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from benchmarks.workload import Feeds, Workload, feeds_of, integers, uniform

NODES, LINKS, FEATURES, FEATURE_VALUES, HIDDEN = 2708, 13264, 1433, 49000, 16


def _places(rows: int, columns: int, count: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Return a maker of sorted, different places int64 [count, 2]."""

    def make(rng: np.random.Generator) -> np.ndarray:
        flat = np.sort(rng.choice(rows * columns, count, replace=False))
        return np.stack([flat // columns, flat % columns], 1)

    return make


def _sparse(tf: Any, rows: int, columns: int, count: int) -> Any:
    return tf.SparseTensor(
        tf.placeholder(tf.int64, [count, 2], name="places"),
        tf.placeholder(tf.float32, [count], name="values"),
        tf.constant([rows, columns], tf.int64),
    )


def _product(
    rows: int, columns: int, count: int, adjoint: bool = False
) -> tuple[Callable[[Any], None], Callable[[np.random.Generator], Feeds]]:
    def build(tf: Any) -> None:
        dense = tf.placeholder(tf.float32, [rows if adjoint else columns, HIDDEN], name="dense")
        matrix = _sparse(tf, rows, columns, count)
        tf.sparse_tensor_dense_matmul(matrix, dense, adjoint_a=adjoint, name="y")

    return build, feeds_of(
        places=_places(rows, columns, count),
        values=uniform([count]),
        dense=uniform([rows if adjoint else columns, HIDDEN]),
    )


def _rows_of_a_sparse_tensor(apply: Callable[[Any, Any], Any]) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        tf.identity(apply(tf, _sparse(tf, NODES, FEATURES, FEATURE_VALUES)), name="y")

    return build


def _lookup(tf: Any) -> None:
    """Ten sparse features of a batch of 256, three ids each, and the gradient of the tables."""
    ids = tf.placeholder(tf.int64, [10, 768], name="ids")
    rows = np.stack([np.arange(768) // 3, np.arange(768) % 3], 1).astype(np.int64)
    tables = [tf.get_variable(f"table{k}", [1000, 8]) for k in range(10)]
    sums = [
        tf.nn.embedding_lookup_sparse(
            table, tf.SparseTensor(rows, ids[k], [256, 3]), None, combiner="mean"
        )
        for k, table in enumerate(tables)
    ]
    loss = tf.reduce_sum(tf.square(tf.add_n(sums)))
    tf.identity(loss, name="loss")
    tf.train.GradientDescentOptimizer(1e-3).minimize(loss, name="train")
    tf.group(
        *(table.assign(tf.fill([1000, 8], 0.01 * (k + 1))) for k, table in enumerate(tables)),
        name="start",
    )


def _word_vectors(tf: Any) -> None:
    """Noise-contrastive estimation with 64 given negatives, a batch of 128 words."""
    words, vectors = 50000, 128
    inputs = tf.placeholder(tf.int32, [128], name="inputs")
    labels = tf.placeholder(tf.int64, [128], name="labels")
    negatives = tf.placeholder(tf.int64, [64], name="negatives")
    embeddings = tf.get_variable("embeddings", [words, vectors])
    weights = tf.get_variable("weights", [words, vectors])
    biases = tf.get_variable("biases", [words])
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights,
            biases,
            labels[:, None],
            tf.nn.embedding_lookup(embeddings, inputs),
            num_sampled=64,
            num_classes=words,
            sampled_values=(negatives, tf.fill([128, 1], 0.01), tf.fill([64], 0.01)),
        )
    )
    tf.identity(loss, name="loss")
    tf.train.GradientDescentOptimizer(1.0).minimize(loss, name="train")
    column = tf.cast(tf.range(words), tf.float32)[:, None] * 1e-6
    row = tf.cast(tf.range(vectors), tf.float32) * 1e-3
    tf.group(
        embeddings.assign(column + row), weights.assign(column - row), biases.assign(column[:, 0]),
        name="start",
    )  # fmt: skip


def _row_updates(shape: list[int], optimizer: bool) -> Callable[[Any], None]:
    """Add 6,000 rows to a variable, or update it by Adagrad's rule."""

    def build(tf: Any) -> None:
        ids = tf.placeholder(tf.int32, [6000], name="ids")
        rows = tf.placeholder(tf.float32, [6000, *shape[1:]], name="rows")
        table = tf.get_variable("table", shape, use_resource=True)
        if optimizer:
            squares = tf.get_variable("squares", shape, use_resource=True)
            slots = {"var": table.handle, "accum": squares.handle, "lr": tf.constant(0.1)}
            done = tf.raw_ops.ResourceSparseApplyAdagrad(**slots, grad=rows, indices=ids)
        else:
            done = tf.scatter_add(table, ids, rows)
        with tf.control_dependencies([done]):
            tf.identity(table[:4], name="y")
        tf.group(*(v.assign(tf.fill(shape, 0.5)) for v in tf.global_variables()), name="start")

    return build


_SUMMARISED: Mapping[str, int] = {
    f"x{k}": size for k, size in enumerate([10_000] * 12 + [100_000] * 6 + [1_000_000] * 2)
}


def _histograms(tf: Any) -> None:
    for name, size in _SUMMARISED.items():
        x = tf.placeholder(tf.float32, [size], name=name)
        tf.summary.histogram(f"histogram/{name}", x)
        tf.summary.scalar(f"first/{name}", x[0])
    tf.decode_raw(tf.summary.merge_all(), tf.uint8, name="y")


def _sixteenths(size: int) -> Callable[[np.random.Generator], np.ndarray]:
    """Return a maker of numbers whose sums are exact in any order, so that summaries are equal."""
    return lambda rng: (rng.integers(-64, 64, size) / 16).astype(np.float32)


def _indices(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 40000, 6000).astype(np.int32)


def _unique(tf: Any) -> None:
    numbers, places = tf.unique(tf.placeholder(tf.int32, [10000], name="ids"))
    tf.identity(numbers, name="y")
    tf.identity(places, name="places")


def workloads() -> list[Workload]:
    """Graph convolution, wide features, word vectors, summaries."""
    features = feeds_of(
        places=_places(NODES, FEATURES, FEATURE_VALUES), values=uniform([FEATURE_VALUES])
    )
    found = [
        Workload(f"{name} x {HIDDEN}", ["y/SparseTensorDenseMatMul:0"], feeds, build)
        for name, (build, feeds) in (
            ("sparse product, 49,000 features", _product(NODES, FEATURES, FEATURE_VALUES)),
            ("its adjoint", _product(NODES, FEATURES, FEATURE_VALUES, adjoint=True)),
            ("sparse product, 13,264 links", _product(NODES, NODES, LINKS)),
        )
    ]
    found += [
        Workload(name, ["y:0"], features, _rows_of_a_sparse_tensor(apply))
        for name, apply in (
            ("sparse sums of rows", lambda tf, x: tf.sparse_reduce_sum(x, 1)),
            ("sparse sums of columns", lambda tf, x: tf.sparse_reduce_sum(x, 0)),
            ("sparse softmax", lambda tf, x: tf.sparse_softmax(x).values),
        )
    ]
    found += [
        Workload(
            "embedding look-ups of 10 sparse features",
            ["loss:0"],
            lambda rng: {"ids:0": rng.integers(0, 1000, (10, 768))},
            _lookup,
            targets=["train"],
            setup=["start"],
            steps=3,
        ),
        Workload(
            "word vectors by noise contrast",
            ["loss:0"],
            lambda rng: {
                "inputs:0": rng.integers(0, 50000, 128).astype(np.int32),
                "labels:0": rng.integers(0, 50000, 128),
                "negatives:0": rng.choice(50000, 64, replace=False),
            },
            _word_vectors,
            targets=["train"],
            setup=["start"],
            steps=3,
        ),
        Workload(
            "unique of 10,000 ids", ["y:0", "places:0"], feeds_of(ids=integers([10000], 5000)),
            _unique,
        ),
        Workload(
            "20 histograms, 2.72 million values",
            ["y:0"],
            feeds_of(**{name: _sixteenths(size) for name, size in _SUMMARISED.items()}),
            _histograms,
        ),
    ]  # fmt: skip
    found += [
        Workload(
            f"6,000 rows of {prod(shape[1:])}: {'Adagrad' if optimizer else 'scatter_add'}",
            ["y:0"],
            feeds_of(ids=_indices, rows=uniform([6000, *shape[1:]])),
            _row_updates(shape, optimizer),
            setup=["start"],
            steps=3,
        )
        for shape in ([40000, 8], [40000])
        for optimizer in (False, True)
    ]
    return found
