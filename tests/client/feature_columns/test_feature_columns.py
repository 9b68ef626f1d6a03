"""Columns give TensorFlow's graphs, values, training steps and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import same_graph, switches_and_merges

tf1 = tensorflow.compat.v1
# TensorFlow names a table by a random text; ours is shared by its node's name.
TABLES = {"shared_name", "use_node_name_sharing"}


@pytest.fixture(autouse=True, scope="module")
def tensorflow_1() -> Iterator[None]:
    """TensorFlow makes reference variables and conditionals of switches, as tfjit does."""
    had_resources = tf1.resource_variables_enabled()
    tf1.disable_resource_variables()
    with switches_and_merges():
        yield
    if had_resources:
        tf1.enable_resource_variables()


@pytest.fixture
def words(tmp_path: Path) -> str:
    path = tmp_path / "words.txt"
    path.write_text("red\ngreen\nblue\n")
    return str(path)


def features(tf: Any) -> dict[str, Any]:
    dense = {
        "price": (tf.float32, [None]),
        "sizes": (tf.int32, [None, 3]),
        "colors": (tf.string, [None, 2]),
        "numbers": (tf.int64, [None, 2]),
        "codes": (tf.int32, [4, 2]),
        "any_rank": (tf.float32, None),
    }
    sparse = {"words": tf.string, "ids": tf.int64, "weights": tf.float32}
    found = {key: tf.placeholder(dtype, shape, key) for key, (dtype, shape) in dense.items()}
    for key, dtype in sparse.items():
        found[key] = tf.sparse_placeholder(dtype, [None, None], key)
    found["steps"] = tf.sparse_placeholder(tf.int64, [None, None, None], "steps")
    return found


def feeds() -> dict[str, Any]:
    """Values with rows without ids, ids out of range and values that mean none."""
    places = np.array([[0, 0], [0, 1], [2, 0], [3, 1]], np.int64)
    return {
        "price": [0.5, -1.0, 3.0, 1.0],
        "sizes": [[1, 5, -3], [0, 9, 9], [5, 5, 5], [-7, 4, 2]],
        "colors": [["red", "?"], ["", ""], ["blue", "green"], ["", "red"]],
        "numbers": [[3, 9], [-1, 5], [5, 5], [-1, -1]],
        "codes": [[3, 4], [-1, 9], [5, -1], [12, 13]],
        "any_rank": [2.0, 3.0, 4.0, 5.0],
        "words": (places, ["a", "b", "a", "ccc"], [4, 2]),
        "ids": (places, [1, 4, 9, 2], [4, 2]),
        "weights": (places, [0.5, -2.0, 3.0, 0.25], [4, 2]),
        "steps": ([[0, 0, 0], [0, 1, 1], [3, 0, 1]], [1, 2, 2], [4, 2, 2]),
    }


def columns(tf: Any, words: str) -> tuple[list[Any], list[Any]]:
    """Return dense and categorical columns."""
    c = tf.feature_column
    small = tf.random_normal_initializer(seed=3)
    price, sizes = c.numeric_column("price"), c.numeric_column("sizes", 3, dtype=tf.int32)
    levels, size_levels = c.bucketized_column(price, [0, 1]), c.bucketized_column(sizes, [0, 5])
    hashed = c.categorical_column_with_hash_bucket("words", 7)
    codes = c.categorical_column_with_hash_bucket("codes", 5, tf.int32)
    ids = c.categorical_column_with_identity("ids", 5, default_value=0)
    colors = c.categorical_column_with_vocabulary_file("colors", words, num_oov_buckets=2)
    listed = c.categorical_column_with_vocabulary_list("numbers", [3, 5, 9])
    short = c.categorical_column_with_vocabulary_list("codes", [3, 5], tf.int32, num_oov_buckets=2)
    weighted = c.weighted_categorical_column(ids, "weights")
    inner = c.crossed_column([listed, "colors"], 9)
    crossed = c.crossed_column(["words", levels, inner], 11)
    steps = c.sequence_categorical_column_with_identity("steps", 4)
    dense = [
        c.numeric_column("any_rank", normalizer_fn=lambda x: x * 2),
        *(price, sizes, levels, size_levels),
        *(c.indicator_column(hashed), c.indicator_column(weighted), c.indicator_column(codes)),
        c.embedding_column(colors, 3, initializer=small),
        c.embedding_column(weighted, 2, "sqrtn", initializer=small, max_norm=0.5),
        c.embedding_column(crossed, 2, "sum", initializer=small, trainable=False),
        c.embedding_column(short, 2, initializer=small, use_safe_embedding_lookup=False),
        *c.shared_embedding_columns(
            [ids, c.categorical_column_with_identity("steps", 5)], 2, initializer=small
        )[:1],
    ]
    return dense, [hashed, ids, weighted, levels, colors, listed, short, crossed, steps]


def models(tf: Any, words: str) -> list[Any]:
    given = features(tf)
    dense, categorical = columns(tf, words)
    c = tf.feature_column
    variables: dict[Any, Any] = {}
    parts: dict[Any, Any] = {}
    layer = c.input_layer(
        given, dense, ["mine"], cols_to_vars=variables, cols_to_output_tensors=parts
    )
    sums = c.linear_model(given, [*categorical, dense[0]], 2, "mean", ["mine"])
    with tf.variable_scope("outer"):
        more = c.linear_model(given, categorical[:3], trainable=False, cols_to_vars=variables)
    known = sorted(
        (getattr(key, "name", key), [variable.name for variable in found])
        for key, found in variables.items()
    )
    places = sorted((key.name, part.name) for key, part in parts.items())
    return [layer, sums, more, known, places]


def test_the_same_graph(words: str) -> None:
    same_graph(lambda tf: models(tf, words)[3:], TABLES)


def trained(tf: Any, words: str) -> list[Any]:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(5)
        outputs = models(tf, words)[:3]
        loss = tf.add_n([tf.reduce_sum(tf.square(output)) for output in outputs])
        step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        fed = {}
        for key, value in feeds().items():
            if isinstance(value, tuple):
                for part, array in zip(("indices", "values", "shape"), value, strict=True):
                    fed[graph.get_tensor_by_name(f"{key}/{part}:0")] = array
            else:
                fed[graph.get_tensor_by_name(f"{key}:0")] = value
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            first = session.run([*outputs, loss, step], fed)[:-1]
            return [*first, *session.run(tf.global_variables())]


def test_the_same_values_and_training_steps(words: str) -> None:
    theirs, ours = trained(tf1, words), trained(tfjit, words)
    for expected, found in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def spec(tf: Any, words: str) -> Any:
    dense, categorical = columns(tf, words)
    found = tf.feature_column.make_parse_example_spec([*dense, *categorical])
    numbers = tf.feature_column.sequence_numeric_column("x", 2)
    found.update(numbers.parse_example_spec)
    return {key: repr(tuple(value)) for key, value in found.items()}


def test_the_same_parsing_and_texts(words: str) -> None:
    with tf1.Graph().as_default():
        assert spec(tfjit, words) == spec(tf1, words)
        ours, theirs = (repr(columns(tf, words)[1]) for tf in (tfjit, tf1))
    assert ours == theirs
    price = [tfjit.feature_column.numeric_column("price") for _ in range(2)]
    assert price[0] == price[1] and len(set(price)) == 1


WRONG: list[Callable[[Any, Any, Any], Any]] = [
    lambda tf, c, x: c.numeric_column(3),
    lambda tf, c, x: c.numeric_column("x", [1.5]),
    lambda tf, c, x: c.numeric_column("x", 0),
    lambda tf, c, x: c.numeric_column("x", 2, [1, 2, 3]),
    lambda tf, c, x: c.numeric_column("x", 2, "1"),
    lambda tf, c, x: c.numeric_column("x", dtype=tf.string),
    lambda tf, c, x: c.bucketized_column(c.numeric_column("x"), [2, 1]),
    lambda tf, c, x: c.bucketized_column(c.numeric_column("x", [2, 2]), [1, 2]),
    lambda tf, c, x: c.categorical_column_with_hash_bucket("x", 0),
    lambda tf, c, x: c.categorical_column_with_hash_bucket("x", 3, tf.float32),
    lambda tf, c, x: c.categorical_column_with_identity("x", 3, 3),
    lambda tf, c, x: c.categorical_column_with_vocabulary_list("x", [1, 1]),
    lambda tf, c, x: c.categorical_column_with_vocabulary_list(
        "x", [1], default_value=0, num_oov_buckets=1
    ),
    lambda tf, c, x: c.categorical_column_with_vocabulary_file("x", "/missing"),
    lambda tf, c, x: c.crossed_column(["x"], 3),
    lambda tf, c, x: c.crossed_column(["x", c.categorical_column_with_hash_bucket("y", 2)], 3),
    lambda tf, c, x: c.embedding_column(c.categorical_column_with_identity("x", 3), 0),
    lambda tf, c, x: c.shared_embedding_columns(
        [c.categorical_column_with_identity(key, len(key)) for key in ("x", "yy")], 2
    ),
    lambda tf, c, x: c.input_layer({}, []),
    lambda tf, c, x: c.input_layer({}, c.numeric_column("x")),
    lambda tf, c, x: c.input_layer({}, c.categorical_column_with_identity("x", 3)),
    lambda tf, c, x: c.input_layer({}, [c.numeric_column("x"), c.numeric_column("x")]),
    lambda tf, c, x: c.input_layer({"x": x[0, 0]}, c.numeric_column("x")),
    lambda tf, c, x: c.input_layer(
        {"x": x, "y": x[1:]}, [c.numeric_column("x"), c.numeric_column("y")]
    ),
    lambda tf, c, x: c.linear_model({"x": x}, c.categorical_column_with_identity("x", 3)),
    lambda tf, c, x: c.linear_model({"x": x}, c.categorical_column_with_hash_bucket("x", 3)),
    lambda tf, c, x: c.make_parse_example_spec(
        [c.numeric_column("x"), c.categorical_column_with_identity("x", 3)]
    ),
]


def refusal(tf: Any, build: Callable[[Any, Any, Any], Any]) -> tuple[str, str]:
    with tf.Graph().as_default(), pytest.raises((TypeError, ValueError)) as caught:
        build(tf, tf.feature_column, tf.placeholder(tf.float32, [3, 1]))
    return type(caught.value).__name__, str(caught.value)


def test_the_same_errors() -> None:
    for build in WRONG:
        assert refusal(tfjit, build) == refusal(tf1, build)
