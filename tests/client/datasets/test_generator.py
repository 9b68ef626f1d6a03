"""Datasets of Python generators."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.datasets.pipelines import check_equal, drain, tf1

from_generator = tfjit.data.Dataset.from_generator


def rows(limit: int = 3) -> Iterator[tuple[int, dict[str, Any]]]:
    for i in range(limit):
        yield i, {"a": [float(i)] * i, "b": b"x" * i}


def pipelines(tf: Any) -> dict[str, Any]:
    types = (tf.int64, {"a": tf.float32, "b": tf.string})
    shapes = ([], {"a": [None], "b": []})
    dataset = tf.data.Dataset.from_generator(rows, types, shapes)
    return {
        "elements": dataset,
        "twice": dataset.repeat(2).map(lambda i, row: (i + 1, row["a"] * 2)),
        "arguments": tf.data.Dataset.from_generator(
            lambda limit: ([i, i] for i in range(int(limit))), tf.int32, [2], args=(4,)
        ),
        "signature": tf.data.Dataset.from_generator(
            lambda: iter([1, 2]), output_signature=tf.TensorSpec([], tf.float64)
        ),
    }


def test_elements_are_tensorflows() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default() as graph:
            datasets = pipelines(tf)
            iterators = {
                name: tf.data.make_initializable_iterator(dataset)
                for name, dataset in datasets.items()
            }
            elements = {name: iterator.get_next() for name, iterator in iterators.items()}
        with tf.Session(graph=graph) as session:
            found.append(
                {
                    name: drain(session, iterators[name].initializer, elements[name])
                    for name in iterators
                }
            )
    check_equal(*found)


def test_a_one_shot_iterator_goes_through_a_generator() -> None:
    with tfjit.Graph().as_default() as graph:
        dataset = from_generator(lambda: iter([1, 2]), tfjit.int32, []).batch(2)
        element = tfjit.data.make_one_shot_iterator(dataset).get_next()
    del dataset
    gc.collect()  # the graph alone keeps the generator
    with tfjit.Session(graph=graph) as session:
        np.testing.assert_array_equal(session.run(element), [1, 2])
        with pytest.raises(tfjit.errors.OutOfRangeError):
            session.run(element)


@pytest.mark.parametrize(
    ("yielded", "text"),
    [
        ("no number", "could not be converted to the expected type"),
        ([1.0, 2.0], r"element of shape \(2,\) where an element of shape \(3,\) was expected"),
        ((1.0, 2.0, 3.0), None),
    ],
)
def test_elements_that_do_not_fit(yielded: Any, text: str | None) -> None:
    with tfjit.Graph().as_default() as graph:
        dataset = from_generator(lambda: iter([yielded]), tfjit.float32, [3])
        element = tfjit.data.make_one_shot_iterator(dataset).get_next()
    with tfjit.Session(graph=graph) as session:
        if text is None:  # a tuple is a value like a list where no structure is expected
            np.testing.assert_array_equal(session.run(element), [1, 2, 3])
        else:
            with pytest.raises(tfjit.errors.InvalidArgumentError, match=text):
                session.run(element)


def test_other_structures_are_refused() -> None:
    with tfjit.Graph().as_default() as graph:
        dataset = from_generator(lambda: iter([{"b": 1}]), {"a": tfjit.float32})
        element = tfjit.data.make_one_shot_iterator(dataset).get_next()
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(tfjit.errors.InvalidArgumentError, match="expected structure"),
    ):
        session.run(element)


def test_faulty_arguments() -> None:
    with tfjit.Graph().as_default():
        with pytest.raises(TypeError, match="must be a Python callable"):
            from_generator([1, 2], tfjit.int32)
        with pytest.raises(TypeError, match="output signature"):
            from_generator(rows)
        with pytest.raises(TypeError, match="can not be used together"):
            from_generator(rows, tfjit.int32, output_signature=tfjit.TensorSpec([]))
        with pytest.raises(TypeError, match="must contain TensorSpecs"):
            from_generator(rows, output_signature=3)
