"""Checks of tensors: graphs, values and errors are TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.evaluation.batches import error_of, tensorflow_one, tf1
from tests.client.variables.same_graphs import nodes

RELATIONS = ("equal", "greater", "greater_equal", "less", "less_equal", "near", "none_equal")
SIGNS = ("negative", "positive", "non_negative", "non_positive")


@pytest.fixture(scope="module", autouse=True)
def as_in_version_one() -> Iterator[None]:
    with tensorflow_one():
        yield


def relations(tf: Any) -> list[Any]:
    x, y = tf.placeholder(tf.float32, [3], "x"), tf.placeholder(tf.float32, [None], "y")
    made = []
    for name in RELATIONS:
        check = getattr(tf.debugging, f"assert_{name}")
        made += [check(x, y), check(x, y, message="why", summarize=2, name="mine")]
        made.append(check(x, y, data=[x, "why"], name="data"))
    for name in SIGNS:
        check = getattr(tf, f"assert_{name}")
        made += [check(x), check(x, message="why", summarize=2, name="mine"), check(y, data=[y])]
    made += [tf.assert_equal(x, x), tf.assert_less([1, 2], [2, 3])]
    made += [tf.assert_near([1.0], [1.0], 1e-3, 1e-4), tf.Assert(x[0] > 0, ["text"], 1, "here")]
    return made


def kinds(tf: Any) -> list[Any]:
    x, r = tf.placeholder(tf.float32, [3], "x"), tf.placeholder(tf.int32, [], "r")
    y, s = tf.placeholder(tf.int32, None, "y"), tf.SparseTensor([[0, 1]], [1.0], [3, 4])
    made = [tf.assert_rank(x, 1), tf.assert_rank(y, 2, message="why"), tf.assert_rank(s, 2)]
    made += [tf.assert_rank(y, r, summarize=1, name="mine"), tf.assert_rank(x, r, data=["why"])]
    made += [tf.assert_rank_at_least(x, 1), tf.assert_rank_at_least(y, 2, message="why")]
    made += [tf.assert_rank_at_least(y, r, summarize=1, name="mine")]
    made += [tf.assert_rank_in(x, [0, 1]), tf.assert_rank_in(y, [2, r], message="why")]
    made += [tf.assert_rank_in(y, (1, 2, 3), summarize=1, name="mine"), tf.assert_rank_in(s, [2])]
    made += [tf.assert_scalar(r), tf.assert_scalar(3.0, message="why"), tf.assert_integer(y)]
    made += [tf.assert_type(x, tf.float32), tf.assert_type(s, tf.float32, name="mine")]
    made += [tf.verify_tensor_all_finite(x, "why"), tf.debugging.assert_all_finite(x, message="m")]
    made += [tf.is_non_decreasing(y), tf.math.is_strictly_increasing(y, name="mine")]
    return made


def sizes(tf: Any) -> list[Any]:
    x, y = tf.placeholder(tf.float32, [3, None], "x"), tf.placeholder(tf.float32, None, "y")
    z, s = tf.placeholder(tf.int32, [None, 3], "z"), tf.SparseTensor([[0, 1]], [1.0], [3, 2])
    check = tf.debugging.assert_shapes
    made = [check([(x, ("a", "b")), (y, ("b", "a"))]), check([(x, (3, None)), (z, (".", 3))])]
    made += [check([(x, ("*", "b")), (z, (..., "b", 3)), (y, (..., "b"))], message="why")]
    made += [check([(x, None), (y, ()), (s, ("a", 2))], name="mine"), check([(z, "ab"), (y, "ba")])]
    return made


def confusion(tf: Any) -> list[Any]:
    x, y = tf.placeholder(tf.float32, [3, 1], "x"), tf.placeholder(tf.int32, None, "y")
    r = tf.placeholder(tf.int32, [3], "r")
    made = [tf.confusion_matrix(r, x), tf.confusion_matrix(y, x, 4)]
    weights = [1.0, 2.0, 3.0]
    made.append(tf.math.confusion_matrix(r, y, 5, tf.float32, "mine", weights))
    return made


@pytest.mark.parametrize("program", [relations, kinds, sizes, confusion])
def test_graphs(program: Callable[[Any], list[Any]]) -> None:
    found, names = [], []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default() as graph:
            names.append([made.name for made in program(tf)])
        found.append(nodes(graph))
    assert names[0] == names[1]
    assert found[0] == found[1]


def test_dtypes() -> None:
    for tf in (tfjit, tf1):
        with tf.Graph().as_default():
            x, text = tf.zeros([2], tf.float64), tf.constant("a")
            assert tf.assert_same_float_dtype([x, None]) == tf.float64
            assert tf.assert_same_float_dtype([], tf.float16) == tf.float16
            assert tf.assert_same_float_dtype() == tf.float32
            assert tf.is_numeric_tensor(x)
            assert not any(map(tf.is_numeric_tensor, (text, text != "b", 3.0)))
            assert tf.assert_proper_iterable([x]) is None


@pytest.mark.parametrize(
    "value", [[], [1], [1, 1, 2], [1, 2, 2, 1], [3, 2, 1], [[1, 2], [3, 4]], [1.0, np.nan]]
)
def test_orders(value: Any) -> None:
    found = []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32)
            made = [tf.math.is_non_decreasing(x), tf.math.is_strictly_increasing(x)]
            found.append(session.run(made, {x: np.array(value, np.float32)}))
    assert found[0] == found[1]


@pytest.mark.parametrize("classes", [None, 4, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_confusion_matrices(classes: int | None, weighted: bool) -> None:
    rng = np.random.default_rng(1)
    labels, predictions = rng.integers(0, 4, (2, 20))
    weights = rng.uniform(size=20) if weighted else None
    found = []
    for tf in (tfjit, tf1):
        with tf.Graph().as_default(), tf.Session() as session:
            made = tf.confusion_matrix(labels, predictions, classes, tf.float64, None, weights)
            found.append(session.run(made))
    np.testing.assert_allclose(found[0], found[1])


def x23(tf: Any) -> Any:
    return tf.ones([2, 3], name="x")


def in_a_run(check: Callable[[Any, Any], Any], value: Any) -> Callable[[Any], Any]:
    """Return a program that checks a fed value."""

    def program(tf: Any) -> Any:
        x = tf.placeholder(tf.as_dtype(np.asarray(value).dtype), None, "x")
        with tf.control_dependencies([check(tf, x)]):
            return tf.identity(x), {x: value}

    return program


def at_once(check: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return a program that fails while its graph is built."""

    def program(tf: Any) -> None:
        check(tf)

    return program


ERRORS: dict[str, Callable[[Any], Any]] = {
    **{
        name: in_a_run(
            lambda tf, x, name=name, step=step: getattr(tf, f"assert_{name}")(
                x, x + step, message="why"
            ),
            np.array([1.0, 2.0, 3.0, 4.0], np.float32),
        )
        for name, step in (
            *(("equal", 1), ("greater", 1), ("greater_equal", 2), ("less", -1)),
            *(("less_equal", -1), ("near", 1), ("none_equal", 0)),
        )
    },
    **{
        name: in_a_run(
            lambda tf, x, name=name: getattr(tf, f"assert_{name}")(x, summarize=2),
            np.array([-1, 2, 0, 4]),
        )
        for name in SIGNS
    },
    "all": in_a_run(lambda tf, x: tf.assert_less(x, 2, summarize=-1), np.arange(9)),
    "data": in_a_run(lambda tf, x: tf.assert_less(x, 2, data=["is", x * 2]), np.arange(9)),
    "known": at_once(lambda tf: tf.assert_less([1, 3], [2, 2], message="why")),
    "known sign": at_once(lambda tf: tf.assert_positive([1.0, -3.0])),
    "dtypes": at_once(lambda tf: tf.assert_less(x23(tf), tf.constant(1))),
    "rank": at_once(lambda tf: tf.assert_rank(x23(tf), 1, message="why")),
    "rank at least": at_once(lambda tf: tf.assert_rank_at_least(x23(tf), 3)),
    "rank in": at_once(lambda tf: tf.assert_rank_in(x23(tf), [0, 1])),
    "rank of a rank": at_once(lambda tf: tf.assert_rank(x23(tf), [2])),
    "dtype of a rank": at_once(lambda tf: tf.assert_rank(x23(tf), 2.0)),
    "rank in a run": in_a_run(lambda tf, x: tf.assert_rank(x, 1), np.ones((2, 3))),
    "ranks in a run": in_a_run(lambda tf, x: tf.assert_rank_in(x, [0, 1]), np.ones((2, 3))),
    "least rank in a run": in_a_run(
        lambda tf, x: tf.assert_rank_at_least(x, 3, message="why"), np.ones((2, 3))
    ),
    "scalar": at_once(lambda tf: tf.assert_scalar(x23(tf), message="why")),
    "integer": at_once(lambda tf: tf.assert_integer(x23(tf), message="why")),
    "type": at_once(lambda tf: tf.assert_type(x23(tf), tf.int32)),
    "float": at_once(lambda tf: tf.assert_same_float_dtype([tf.constant(1)])),
    "one float": at_once(
        lambda tf: tf.assert_same_float_dtype(
            [tf.ones([2], name="a"), tf.ones([2], tf.float64, name="b")]
        )
    ),
    "iterable": at_once(lambda tf: tf.assert_proper_iterable("text")),
    "no iterable": at_once(lambda tf: tf.assert_proper_iterable(3)),
    "order of texts": at_once(lambda tf: tf.is_non_decreasing(tf.constant(["a"], name="t"))),
    "finite": in_a_run(
        lambda tf, x: tf.verify_tensor_all_finite(x, "why"), np.array([1.0, np.inf])
    ),
    "sizes": at_once(lambda tf: tf.debugging.assert_shapes([(x23(tf), ("a", "a"))])),
    "a size": at_once(lambda tf: tf.debugging.assert_shapes([(x23(tf), (2, 4))], message="why")),
    "rank of sizes": at_once(lambda tf: tf.debugging.assert_shapes([(x23(tf), ("a",))])),
    "symbols": at_once(lambda tf: tf.debugging.assert_shapes([(x23(tf), 3)])),
    "dots": at_once(lambda tf: tf.debugging.assert_shapes([(x23(tf), ("a", ...))])),
    "sizes in a run": in_a_run(
        lambda tf, x: tf.debugging.assert_shapes([(x, ("a", "a"))]), np.ones((2, 3))
    ),
    "a class below zero": in_a_run(lambda tf, x: tf.confusion_matrix(x, [0, 1]), [0, -1]),
    "a class too large": in_a_run(lambda tf, x: tf.confusion_matrix([0, 1], x, 2), [0, 2]),
    "sizes of weights": at_once(lambda tf: tf.confusion_matrix([0, 1], [0, 1], weights=[1.0])),
}
# TensorFlow's kernel adds the values of its CPU's registers
OWN_WORDS = ("finite",)


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    ours, theirs = error_of(tfjit, ERRORS[case]), error_of(tf1, ERRORS[case])
    assert ours[0] == theirs[0] != ""
    if case not in OWN_WORDS:
        assert ours[1].replace("tfjit.", "tf.") == theirs[1]
