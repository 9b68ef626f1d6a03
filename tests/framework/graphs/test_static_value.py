"""Values known while a graph is built, against TensorFlow's."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import tensor_util

from tests.framework.fresh_graphs import Ours, fresh_graph
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_def import import_graph_def
from tfjit.framework.graphs.static_value import constant_value, constant_value_as_shape
from tfjit.framework.types import dtypes

tf1 = tf.compat.v1


def expressions() -> dict[str, Any]:
    """Shape arithmetic as programs write it."""
    x = tf1.placeholder(tf.float32, [None, 3, 4], name="x")
    y = tf1.placeholder(tf.float32, [2, 3], name="y")
    z = tf1.placeholder(tf.int32, [], name="z")
    shape, known = tf.raw_ops.Shape(input=x), tf.raw_ops.Shape(input=y)
    return {
        "const": tf.constant([1, 2, 3]),
        "shape": known,
        "partial shape": shape,
        "size": tf.raw_ops.Size(input=y),
        "rank": tf.raw_ops.Rank(input=x),
        "unknown size": tf.raw_ops.Size(input=x),
        "range": tf.range(2, 11, 3),
        "fill": tf.fill([2, 2], 7),
        "cast": tf.cast(known, tf.int64),
        "pack": tf.stack([1, 2, 3]),
        "partial pack": tf.raw_ops.Pack(values=[2, z, 4]),
        "pack of slices": tf.raw_ops.Pack(values=[shape[0], shape[1], 5]),
        "concat": tf.concat([known, [5]], 0),
        "partial concat": tf.concat([shape, [5], [z]], 0),
        "slice": shape[1:],
        "slice back": shape[:-1],
        "element": known[1],
        "unknown element": shape[0],
        "stride": tf.range(10)[8:1:-3],
        "identity": tf.identity(shape),
        "stop": tf.stop_gradient(known),
        "add": known[0] + known[1] * 2,
        "floordiv": known[1] // 2,
        "by zero": known[1] // 0,
        "mod": tf.math.floormod(known[1], 2),
        "prod": tf.reduce_prod(known),
        "maximum": tf.maximum(known[0], 3),
        "reshape": tf.reshape(known, [2, 1]),
        "expand": tf.expand_dims(known[0], 0),
        "squeeze": tf.squeeze(tf.constant([[3]])),
        "gather": tf.gather(known, [1, 0]),
        "equal": tf.raw_ops.Equal(x=known[0], y=2, incompatible_shape_error=True),
        "unpack": tf.unstack(tf.constant([[1, 2], [3, 4]]))[1],
        "placeholder": z,
        "vector of unknown": tf1.placeholder(tf.int32, [3]),
        "negative": tf.constant([2, -1]),
    }


@pytest.fixture(scope="module")
def graphs() -> tuple[Graph, dict[str, Any], dict[str, Any]]:
    with tf.Graph().as_default() as theirs:
        found = expressions()
        message = theirs.as_graph_def()
        graph = Graph()
        import_graph_def(message, name="", graph=graph)
        with tf1.Session() as session:
            values = {}
            for name, tensor in found.items():
                try:
                    values[name] = session.run(
                        tensor, {"x:0": np.zeros([5, 3, 4]), "y:0": np.zeros([2, 3]), "z:0": 3}
                    )
                except Exception:
                    values[name] = None
        names = {name: tensor.name for name, tensor in found.items()}
        partial = {
            name: tensor_util.constant_value_as_shape(tensor)
            for name, tensor in found.items()
            if tensor.shape.rank == 1
        }
    return (
        graph,
        {name: (graph.get_tensor_by_name(tensor), values[name]) for name, tensor in names.items()},
        partial,
    )


UNKNOWN = (
    "partial shape",
    "unknown size",
    "partial pack",
    "pack of slices",
    "partial concat",
    "slice back",
    "unknown element",
    "identity",
    "by zero",
    "placeholder",
    "vector of unknown",
)


def test_values(graphs: Any) -> None:
    _, tensors, _ = graphs
    for name, (tensor, expected) in tensors.items():
        found = constant_value(tensor)
        if name in UNKNOWN:
            assert found is None, name
        else:
            assert found is not None, name
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == tensor.dtype.as_numpy_dtype, name


def test_partial_shapes(graphs: Any) -> None:
    """What is known is at least what TensorFlow's Python side knows, and never contradicts it."""
    _, tensors, partial = graphs
    for name, expected in partial.items():
        found = constant_value_as_shape(tensors[name][0])
        if expected.rank is not None:
            assert found is not None and len(found) == expected.rank, name
            for mine, theirs in zip(found, expected.as_list()):
                assert theirs is None or mine == theirs, name


def test_known_partial_shapes(graphs: Any) -> None:
    _, tensors, _ = graphs

    def known(name: str) -> Any:
        return constant_value_as_shape(tensors[name][0])

    assert known("partial shape") == known("identity") == (None, 3, 4)
    assert known("pack of slices") == (None, 3, 5)
    assert known("partial concat") == (None, 3, 4, 5, None)
    assert known("slice") == (3, 4)
    assert known("slice back") == (None, 3)
    assert known("vector of unknown") == (None, None, None)
    assert known("negative") == (2, None)


def test_long_chains_stay_linear() -> None:
    """A shape that hangs on a long chain is looked for a bounded way back."""
    with fresh_graph(Ours) as graph:
        x = graph.create_op(
            "Const", attrs={"value": np.array([2, 3], np.int32), "dtype": dtypes.int32}
        ).outputs[0]
        data = Ours.placeholder("data")
        start = time.thread_time()
        for _ in range(3000):
            x = Ours.identity(x)
            graph.create_op("Reshape", [data, x])
        elapsed = time.thread_time() - start
    assert constant_value(x) is None
    assert elapsed < 20
