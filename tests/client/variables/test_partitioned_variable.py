"""Partitioned variables against TensorFlow's: the same nodes, slices in checkpoints, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import collections, nodes, resource_variables, shapes

tf1 = tensorflow.compat.v1


def program(tf: Any) -> Any:
    """Make partitioned variables of all kinds; return their values and facts."""
    cut = tf.fixed_size_partitioner
    a = tf.get_variable("a", [5, 2], partitioner=cut(3))
    with tf.variable_scope("s", partitioner=cut(2, axis=1)) as scope:
        b = tf.get_variable("b", initializer=tf.ones([2, 3]))
        c = tf.get_variable("c", [4, 3], tf.float64, initializer=tf.initializers.identity())
        d = tf.get_variable("d", [], initializer=tf.zeros_initializer())
        scope.set_partitioner(None)
        assert scope.partitioner is None
        e = tf.get_variable("e", [2])
    with tf.variable_scope("s", reuse=True):
        assert tf.get_variable("b", partitioner=cut(2, axis=1), shape=[2, 3]) is b
        assert tf.get_variable("c", dtype=tf.float64) is c
    by_bytes = tf.variable_axis_size_partitioner(16, axis=1, max_shards=3)
    f = tf.get_variable(
        "f", [2, 6], initializer=tf.uniform_unit_scaling_initializer, partitioner=by_bytes
    )
    least = tf.min_max_variable_partitioner(4, min_slice_size=8)
    g = tf.get_variable("g", [3], tf.int32, partitioner=least)
    whole = tf.get_variable("whole", [4], partitioner=cut(1))
    parts = tf.create_partitioned_variables([4, 2], [2, 1], tf.zeros_initializer(), name="parts")
    more = tf.create_partitioned_variables([4], [2], np.float32([1, 2, 3, 4]))
    total = tf.matmul(a, b) + tf.cast(tf.reduce_sum(c), tf.float32) + d
    sums = [tf.reduce_sum(tf.convert_to_tensor(x)) for x in (whole, e)]
    updates = [
        a.assign(tf.ones([5, 2])),
        f.assign_add(tf.ones([2, 6])),
        g.assign_sub([[1, 1], [2]]),
    ]
    facts = [(len(x), x.name, x.shape.as_list(), x.dtype.name) for x in (a, b, c, f, g, whole)]
    facts += [v.name for v in (*a, *parts, *more)]
    facts += [v._get_save_slice_info().spec for v in (*a, *b, *parts)]
    facts += [v.to_proto().SerializeToString(deterministic=True) for v in (*a, *parts, e)]
    partitioner = tf.variable_axis_size_partitioner(64, bytes_per_string_element=4)
    facts.append(partitioner(shape=tf.TensorShape([64, 1]), dtype=tf.string))
    return facts, (total, sums, updates)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_same_graphs(resource: bool) -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default() as graph, resource_variables(resource):
            facts, _ = program(tf)
        found.append((nodes(graph), collections(graph), shapes(graph), facts))
    assert found[1][0].keys() == found[0][0].keys()
    for name, node in found[0][0].items():
        assert found[1][0][name] == node
    assert found[1][1:] == found[0][1:]


def test_checkpoints_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One library restores what the other one saved in other slices."""
    monkeypatch.setenv("TFJIT_JIT", "off")
    value = np.arange(10, dtype=np.float32).reshape(5, 2)
    for source, reader in ((tf1, tfjit), (tfjit, tf1)):
        path = str(tmp_path / source.__name__)
        with source.Graph().as_default(), source.Session() as session:
            v = source.get_variable(
                "v",
                initializer=source.constant(value),
                partitioner=source.fixed_size_partitioner(3),
            )
            source.get_variable("w", initializer=value)
            session.run(source.global_variables_initializer())
            source.train.Saver().save(session, path)
        assert reader.train.list_variables(path) == [("v", [5, 2]), ("w", [5, 2])]
        np.testing.assert_array_equal(reader.train.load_variable(path, "v"), value)
        with reader.Graph().as_default(), reader.Session() as session:
            cut = reader.fixed_size_partitioner(2)
            v = reader.get_variable("v", [5, 2], partitioner=cut)
            w = reader.get_variable("w", [5, 2], partitioner=cut)
            saver = reader.train.Saver()
            saver.restore(session, path)
            np.testing.assert_array_equal(session.run(v.as_tensor()), value)
            np.testing.assert_array_equal(session.run(list(w)[1]), value[3:])
            meta = saver.export_meta_graph()
        with reader.Graph().as_default(), reader.Session() as session:
            again = reader.train.import_meta_graph(meta)
            again.restore(session, path)
            part = reader.global_variables()[1]
            assert part._get_save_slice_info().spec == "5 2 3,2:0,2"


def errors(tf: Any) -> list[tuple[str, str]]:
    """Return classes and texts of errors."""
    cut, get = tf.fixed_size_partitioner, tf.get_variable
    get("a", [4], partitioner=cut(2))
    get("b", [4])
    get("c/part_0", [2])

    def again(**arguments: Any) -> None:
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            get("a", **arguments)

    cases = [
        lambda: get("a", [4]),
        lambda: get("a", [4], partitioner=cut(2)),
        lambda: get("b", [4], partitioner=cut(2)),
        lambda: get("c", [4], partitioner=cut(2)),
        lambda: get("d", [None], partitioner=cut(2)),
        lambda: get("e", [4], partitioner=3),
        lambda: get("f", [4, 4], partitioner=lambda shape, dtype: [2, 2]),
        lambda: get("g", [4, 4], partitioner=lambda shape, dtype: [2]),
        lambda: get("h", [4, 4], partitioner=lambda shape, dtype: [0, 1]),
        lambda: get("i", [4, 4], partitioner=lambda shape, dtype: 2),
        lambda: get("j", tf.TensorShape([]), partitioner=cut(2)),
        lambda: again(shape=[5], partitioner=cut(2)),
        lambda: again(shape=[4], dtype=tf.int32, partitioner=cut(2)),
        lambda: again(shape=[4], partitioner=cut(3)),
        lambda: tf.create_partitioned_variables([4], [2, 1], tf.zeros_initializer()),
        lambda: tf.create_partitioned_variables([], [], tf.zeros_initializer()),
        lambda: tf.variable_axis_size_partitioner(0),
        lambda: tf.train.Saver({"x": tf.global_variables()[:3]}),
    ]
    found = []
    for case in cases:
        with pytest.raises(Exception) as error:
            case()
        found.append((type(error.value).__name__, str(error.value)))
    return found


def test_errors() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), resource_variables(True):
            found.append(errors(tf))
    for expected, got in zip(*found, strict=True):
        assert got == expected
