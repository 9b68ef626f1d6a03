"""Iterators: how they are made, named, initialized and shared."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tfjit
from tests.client.datasets.pipelines import tf1

Dataset, Iterator = tfjit.data.Dataset, tfjit.data.Iterator


def in_tensorflow(graph: Any) -> Any:
    """Return a session of TensorFlow's over a graph of tfjit's."""
    with tf1.Graph().as_default() as theirs:
        tf1.import_graph_def(
            tf1.GraphDef.FromString(graph.as_graph_def().SerializeToString()), name=""
        )
    return tf1.Session(graph=theirs)


def test_a_one_shot_iterator_copies_its_dataset() -> None:
    with tfjit.Graph().as_default() as graph:
        shift = tfjit.constant(10, tfjit.int64)
        dataset = Dataset.range(3).map(lambda x: x + shift).shuffle(2, seed=1).batch(2)
        element = tfjit.data.make_one_shot_iterator(dataset).get_next()
    assert element.shape.as_list() == [None]
    with in_tensorflow(graph) as session:
        found = [session.run(element.name) for _ in range(2)]
        assert sorted(value for batch in found for value in batch) == [10, 11, 12]
        with pytest.raises(tf1.errors.OutOfRangeError):
            session.run(element.name)


@pytest.mark.parametrize("tf", [tf1, tfjit], ids=["oracle", "tfjit"])
def test_a_one_shot_iterator_refuses_state(tf: Any) -> None:
    with tf.Graph().as_default():
        limit = tf.placeholder(tf.int64, [])
        with pytest.raises(ValueError, match="Cannot capture a placeholder"):
            tf.data.make_one_shot_iterator(tf.data.Dataset.range(limit))
        variable = tf.Variable(3, dtype=tf.int64, use_resource=True)
        dataset = tf.data.Dataset.range(3).map(lambda x: x + variable)
        with pytest.raises(ValueError, match="Cannot capture a stateful node"):
            tf.data.make_one_shot_iterator(dataset)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="graph"):
        tf.data.make_one_shot_iterator(dataset)


def test_datasets_that_take_turns() -> None:
    with tfjit.Graph().as_default() as graph:
        limit = tfjit.placeholder(tfjit.int64, [], name="limit")
        iterator = Iterator.from_structure(tfjit.int64, [])
        element = iterator.get_next()
        first = iterator.make_initializer(Dataset.range(limit))
        second = iterator.make_initializer(Dataset.range(10, 12), name="second")
        with pytest.raises(ValueError, match="does not have an initializer"):
            iterator.initializer  # noqa: B018
        with pytest.raises(TypeError, match="output types"):
            iterator.make_initializer(Dataset.from_tensors(1.0))
        with pytest.raises(TypeError, match="output shapes"):
            iterator.make_initializer(Dataset.range(3).batch(2))
    assert second.name == "second"
    with in_tensorflow(graph) as session:
        for chosen, expected in ((first, [0, 1]), (second, [10, 11]), (first, [0, 1])):
            session.run(chosen.name, {"limit:0": 2})
            assert [session.run(element.name) for _ in range(2)] == expected


def test_iterators_by_handle() -> None:
    with tfjit.Graph().as_default() as graph:
        ours = tfjit.data.make_initializable_iterator(Dataset.range(3))
        others = tfjit.data.make_initializable_iterator(Dataset.range(10, 13))
        handle = tfjit.placeholder(tfjit.string, [], name="handle")
        element = Iterator.from_string_handle(
            handle, ours.output_types, ours.output_shapes
        ).get_next()
        names = [iterator.string_handle().name for iterator in (ours, others)]
    with in_tensorflow(graph) as session:
        session.run([ours.initializer.name, others.initializer.name])
        a, b = session.run(names)
        assert [session.run(element.name, {"handle:0": name}) for name in (a, b, a)] == [0, 10, 1]


def test_optional_elements() -> None:
    with tfjit.Graph().as_default() as graph:
        iterator = tfjit.data.make_initializable_iterator(Dataset.from_tensor_slices({"a": [5]}))
        found = tfjit.data.experimental.get_next_as_optional(iterator)
        has, value = found.has_value(), found.get_value()["a"]
    with in_tensorflow(graph) as session:
        session.run(iterator.initializer.name)
        assert session.run([has.name, value.name]) == [True, 5]
        assert not session.run(has.name)


def test_structures_of_elements() -> None:
    types, shapes = (tfjit.int32, {"a": tfjit.float32}), ((2,), {"a": None})
    with tfjit.Graph().as_default():
        iterator = Iterator.from_structure(types, shapes)
        assert iterator.output_types == types
        assert iterator.output_shapes[0].as_list() == [2]
        assert iterator.output_shapes[1]["a"].rank is None
        assert iterator.output_classes == (tfjit.Tensor, {"a": tfjit.Tensor})
        first, rest = iterator.get_next()
        assert first.dtype is tfjit.int32 and rest["a"].dtype is tfjit.float32
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(32):
                iterator.get_next()
        assert "unusually high number" in str(said[-1].message)
